//! What a service says that there is: its servers, and its buckets with where they lie.
//!
//! Names are the service's own and mean nothing here. An inventory was true while it was taken.

use std::collections::HashSet;

/// What holds buckets.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub name: String,
    /// Servers of a kind; a bucket may need one. Empty where all are alike.
    pub class: String,
    /// How much it should hold beside the others, in any unit.
    pub weight: f64,
    /// Bytes a second that it can send, and receive at the same time.
    pub bandwidth: f64,
    /// Bytes of buckets that it can hold.
    pub capacity_bytes: u64,
}

impl Server {
    /// A server like any other, without a limit, on a link of 10 Gbit/s.
    pub fn new(name: impl Into<String>) -> Server {
        Server {
            name: name.into(),
            class: String::new(),
            weight: 1.0,
            bandwidth: 1.25e9,
            capacity_bytes: u64::MAX,
        }
    }
}

/// What is placed and moved as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    pub name: String,
    /// The server that it lies on.
    pub server: String,
    pub bytes: u64,
    /// What it is asked for, in any unit that can be summed; 0 for all balances their numbers.
    pub load: f64,
    /// The class of the servers that it may lie on; none where it may lie on any.
    pub class: Option<String>,
}

impl Bucket {
    /// A bucket without a load that may lie on any server.
    pub fn new(name: impl Into<String>, server: impl Into<String>, bytes: u64) -> Bucket {
        Bucket { name: name.into(), server: server.into(), bytes, load: 0.0, class: None }
    }
}

/// All servers and all buckets at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    pub servers: Vec<Server>,
    pub buckets: Vec<Bucket>,
}

/// The inventory contradicts itself, or says what cannot be planned with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    #[error("a server has no name")]
    NamelessServer,
    #[error("a bucket on server {server:?} has no name")]
    NamelessBucket { server: String },
    #[error("server {server:?} is listed twice")]
    ServerTwice { server: String },
    #[error("bucket {bucket:?} lies on {server:?}, which is not among the servers")]
    UnknownServer { bucket: String, server: String },
    #[error("the weight of server {server:?} is not a positive number")]
    Weight { server: String },
    #[error("the bandwidth of server {server:?} is not a positive number of bytes a second")]
    Bandwidth { server: String },
    #[error("the load of bucket {bucket:?} is negative or not a number")]
    Load { bucket: String },
}

impl Inventory {
    /// Finds what is wrong with it. A bucket that is listed on two servers is not: that is how a service
    /// looks that has copied it and not removed it yet.
    pub fn check(&self) -> Result<(), InventoryError> {
        let mut names = HashSet::new();
        for server in &self.servers {
            check_server(server)?;
            if !names.insert(server.name.as_str()) {
                return Err(InventoryError::ServerTwice { server: server.name.clone() });
            }
        }
        for bucket in &self.buckets {
            let (name, server) = (&bucket.name, &bucket.server);
            if name.is_empty() {
                return Err(InventoryError::NamelessBucket { server: server.clone() });
            }
            if !names.contains(server.as_str()) {
                let (bucket, server) = (name.clone(), server.clone());
                return Err(InventoryError::UnknownServer { bucket, server });
            }
            if !bucket.load.is_finite() || bucket.load < 0.0 {
                return Err(InventoryError::Load { bucket: name.clone() });
            }
        }
        Ok(())
    }
}

pub(crate) fn check_server(server: &Server) -> Result<(), InventoryError> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    let name = || server.name.clone();
    if server.name.is_empty() {
        Err(InventoryError::NamelessServer)
    } else if !positive(server.weight) {
        Err(InventoryError::Weight { server: name() })
    } else if !positive(server.bandwidth) {
        Err(InventoryError::Bandwidth { server: name() })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let sound = || Inventory {
            servers: vec![Server::new("a"), Server::new("b")],
            buckets: vec![Bucket::new("x", "a", 1)],
        };
        assert_eq!(sound().check(), Ok(()));
        let wrong = |change: fn(&mut Inventory), says: &str| {
            let mut inventory = sound();
            change(&mut inventory);
            let message = inventory.check().unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
        };
        wrong(|it| it.servers[0].name.clear(), "a server has no name");
        wrong(|it| it.buckets[0].name.clear(), "a bucket on server \"a\" has no name");
        wrong(|it| it.servers[1].name = "a".into(), "server \"a\" is listed twice");
        wrong(|it| it.buckets[0].server = "z".into(), "lies on \"z\"");
        wrong(|it| it.servers[1].weight = 0.0, "weight of server \"b\"");
        wrong(|it| it.servers[1].bandwidth = f64::NAN, "bandwidth of server \"b\"");
        wrong(|it| it.buckets[0].load = -1.0, "load of bucket \"x\"");
    }
}
