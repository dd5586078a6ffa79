//! Connections of which nobody has shown yet that he may make them. They are bounded, of one address and in all, and
//! the oldest gives way to a newcomer: whoever knows the secret shows it within moments, and whoever says nothing
//! keeps nobody out.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of all addresses.
pub const STRANGERS_MOST: usize = 64;
/// Of one address. What one of them opens takes no place from others.
pub const OF_ONE_MOST: usize = 32;

#[derive(Default)]
pub struct Strangers(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// Numbers rise, so the first is the oldest.
    next: u64,
    connections: BTreeMap<u64, Connection>,
}

struct Connection {
    from: IpAddr,
    /// The same socket as that of whoever serves it.
    socket: TcpStream,
}

/// A connection that is waited for; no stranger any more, or gone, when it is dropped.
pub struct Stranger {
    number: u64,
    among: Arc<Strangers>,
}

impl Strangers {
    /// Lets a connection in, and ends the one that it takes the place of.
    ///
    /// # Errors
    /// When the connection has gone already, or this process may open no more files.
    pub fn enter(self: &Arc<Self>, stream: &TcpStream) -> io::Result<Stranger> {
        let from = stream.peer_addr()?.ip().to_canonical();
        let socket = stream.try_clone()?;
        let mut waiting = self.waiting();
        if let Some(gone) = waiting.gives_way(from) {
            // Whoever serves it reads the end, and leaves.
            let _ = gone.socket.shutdown(Shutdown::Both);
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.connections.insert(number, Connection { from, socket });
        Ok(Stranger { number, among: Arc::clone(self) })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Takes out the one that has to go before one more comes from an address: the oldest of that address where it has
    /// its share, and of whichever has most where all places are taken.
    fn gives_way(&mut self, from: IpAddr) -> Option<Connection> {
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        self.connections.values().for_each(|it| *counts.entry(it.from).or_default() += 1);
        let of = match counts.get(&from) {
            Some(&count) if count >= OF_ONE_MOST => from,
            _ if self.connections.len() < STRANGERS_MOST => return None,
            _ => *counts.iter().max_by_key(|(_, count)| **count)?.0,
        };
        let oldest = self.connections.iter().find(|(_, it)| it.from == of).map(|(&at, _)| at)?;
        self.connections.remove(&oldest)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.among.waiting().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    /// A connection from an address of this machine, and its other end.
    fn pair(from: &str) -> (TcpStream, TcpStream) {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&caller, &SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
        connect(&caller, &listener.local_addr().unwrap()).unwrap();
        (TcpStream::from(caller), listener.accept().unwrap().0)
    }

    fn has_ended(mut caller: &TcpStream) -> bool {
        caller.set_nonblocking(true).unwrap();
        matches!(caller.read(&mut [0]), Ok(0))
    }

    #[test]
    fn the_oldest_of_whoever_has_most_gives_way() {
        let strangers = Arc::new(Strangers::default());
        let mut kept = Vec::new();
        let mut enter = |from: &str| {
            let (caller, served) = pair(from);
            let stranger = strangers.enter(&served).unwrap();
            kept.push((served, stranger));
            caller
        };
        let mut many: Vec<_> = (0..OF_ONE_MOST).map(|_| enter("127.0.0.2")).collect();
        assert!(!many.iter().any(has_ended), "there is room for these");
        many.push(enter("127.0.0.2"));
        assert!(has_ended(&many.remove(0)), "the oldest");
        let few = enter("127.0.0.3");
        let others: Vec<_> = (0..STRANGERS_MOST - OF_ONE_MOST - 1)
            .map(|number| enter(&format!("127.0.1.{}", 1 + number / 8)))
            .collect();
        assert!(
            !many.iter().chain(&others).chain([&few]).any(has_ended),
            "the last place is taken"
        );
        let newcomer = enter("127.0.0.4");
        assert!(has_ended(&many.remove(0)), "of whoever has most");
        assert!(!many.iter().chain(&others).chain([&few, &newcomer]).any(has_ended));
    }

    #[test]
    fn who_is_known_or_gone_takes_no_place() {
        let strangers = Arc::new(Strangers::default());
        let mut known = Vec::new();
        for _ in 0..2 * OF_ONE_MOST {
            let (caller, served) = pair("127.0.0.1");
            drop(strangers.enter(&served).unwrap());
            known.push((caller, served));
        }
        assert!(!known.iter().any(|(caller, _)| has_ended(caller)));
    }
}
