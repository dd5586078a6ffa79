//! A node as a client sees it: an identity, an address, and a bounded number of connections.
//!
//! A node that could not be reached is down: callers are told so at once, and one of them tries
//! again each second. Connections are made when they are needed and lent to one caller at a time.
//! Whoever needs several nodes at once holds no connection while he waits for another one.
//!
//! A connection that is given up may have requests on their way, which the network or the node may hold
//! back for any time. So nothing more is sent to the node before it has ended that connection on its side:
//! a request that was given up is carried out before the next one, or never.

mod lease;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tidefs_model::{ByteSize, NodeClass, NodeId};
use tidefs_store::StoreError;

use crate::awake::{Awake, LOOK_EVERY, Last};
use crate::connection::Connection;
use crate::down::{DOWN_FOR, Down};
use crate::endpoint::{Endpoint, Timeouts};
use crate::fault::Fault;
use crate::guard::Guard;
use crate::login::Login;
use crate::wire::{Reply, Request};

pub use lease::Lease;

/// How soon a crowded node is asked again by who has no connection.
const CROWDED_LOOK_EVERY: Duration = Duration::from_millis(50);

/// A process that hung up may take a moment until it has ended.
const ENDING_LOOKS: u32 = 5;
const ENDING_LOOK_EVERY: Duration = Duration::from_millis(20);

/// The directory with the node's socket was moved; the node may live.
const SOCKET_AWAY: Fault = Fault::Unreachable(Errno::NOENT);

/// What all nodes of a client have in common.
#[derive(Debug)]
pub struct Access {
    pub login: Login,
    pub timeouts: Timeouts,
    pub connections_per_node: usize,
    pub guard: Guard,
}

pub struct Node {
    pub id: NodeId,
    pub class: NodeClass,
    pub endpoint: Endpoint,
    /// What it may hold, as far as that is known without asking it.
    pub capacity: ByteSize,
    access: Arc<Access>,
    gate: Mutex<Gate>,
    freed: Condvar,
    /// When anything got through to it, or from it, over a network.
    heard: Last,
}

#[derive(Default)]
struct Gate {
    idle: Vec<Connection>,
    /// Connections that exist or are being made.
    open: usize,
    /// Connections that were given up, by the node's numbers, and that it may not have ended yet. No more
    /// than there were at a time, since those that only end others are not among them.
    given_up: Vec<u64>,
    /// Nothing is to be carried out any more of what was ordered by those that this client has taken over from.
    has_succeeded: bool,
    /// Callers that wait for a connection.
    waiting: usize,
    /// Why the node could not be reached, and until when nobody needs to try again.
    down: Option<Down>,
    /// Grows when all connections made so far are to be dropped.
    generation: u64,
    /// It took no connection more; until then one that there is does for all.
    crowded_until: Option<Instant>,
    /// When it last had no room.
    full: Option<Instant>,
}

impl Node {
    pub fn new(
        id: NodeId,
        class: NodeClass,
        endpoint: Endpoint,
        capacity: ByteSize,
        access: Arc<Access>,
    ) -> Arc<Node> {
        let has_succeeded = access.login.account().successor.is_none();
        let gate = Mutex::new(Gate { has_succeeded, ..Gate::default() });
        let (freed, heard) = (Condvar::new(), Last::default());
        Arc::new(Node { id, class, endpoint, capacity, access, gate, freed, heard })
    }

    pub fn name(&self) -> Box<str> {
        self.endpoint.to_string().into()
    }

    pub fn store_error(&self, fault: Fault) -> StoreError {
        fault.into_store_error(self.name())
    }

    /// Lends a connection; waits for one when all are in use, at most for the reply time-out, or, of a
    /// node on a slow link, for as long as the others get through. Nothing of what was given up before
    /// can be carried out any more.
    pub fn lease(self: &Arc<Node>) -> Result<Lease, Fault> {
        self.lease_until(Awake::now() + self.access.timeouts.reply)
    }

    /// The same for as long as nobody waits: a connection that is there, is free, and has nothing before it.
    pub fn lease_free(self: &Arc<Node>) -> Option<Lease> {
        let mut gate = self.gate();
        if !gate.given_up.is_empty() || !gate.has_succeeded {
            return None;
        }
        let lease = self.free_connection(&mut gate).ok()??;
        drop(gate);
        if self.access.guard.permits() {
            return Some(lease);
        }
        lease.release();
        None
    }

    /// What is of another term uses none. It is looked for that under the gate, each time: a thread that looked
    /// before may wait there until a term has begun, and find connections that were made in it.
    fn free_connection(self: &Arc<Node>, gate: &mut Gate) -> Result<Option<Lease>, Fault> {
        self.access.login.for_this_work()?;
        while let Some(connection) = gate.idle.pop() {
            if connection.is_quiet() {
                return Ok(Some(Lease::new(self, Some(connection), gate.generation)));
            }
            gate.open -= 1;
        }
        Ok(None)
    }

    /// As [`Node::lease`], with another end of the wait.
    pub fn lease_until(self: &Arc<Node>, until: Awake) -> Result<Lease, Fault> {
        let lease = self.any_connection(until, true)?;
        self.end_given_up(lease)
    }

    /// The same, for a caller who looks elsewhere after a moment in which none was free: `None`.
    pub fn lease_within(
        self: &Arc<Node>,
        moment: Duration,
        until: Awake,
    ) -> Result<Option<Lease>, Fault> {
        match self.any_connection(Awake::now() + moment, false) {
            Err(fault) if self.is_worth_waiting(&fault, until) => Ok(None),
            Err(fault) => Err(fault),
            Ok(lease) => self.end_given_up(lease).map(Some),
        }
    }

    /// No connection was free, and there is time left, or others get through on a slow link.
    fn is_worth_waiting(&self, fault: &Fault, until: Awake) -> bool {
        let (now, is_busy) = (Awake::now(), *fault == Fault::Busy);
        is_busy && self.is_heard(now) || now < until && (is_busy || self.is_crowded(fault))
    }

    /// Has nothing of what was given up carried out any more before anything is sent.
    fn end_given_up(self: &Arc<Node>, mut lease: Lease) -> Result<Lease, Fault> {
        if !self.access.guard.permits() {
            lease.carries_nothing = true;
            return Err(Fault::Barred);
        }
        let (given_up, has_succeeded) = {
            let gate = self.gate();
            (gate.given_up.clone(), gate.has_succeeded)
        };
        if given_up.is_empty() && has_succeeded {
            return Ok(lease);
        }
        // Others who come meanwhile end them, too, and wait for that themselves.
        let succeeded = match &self.access.login.account().successor {
            Some(successor) if !has_succeeded => lease.connection_mut().end_those_before(successor),
            _ => Ok(()),
        };
        match succeeded.and_then(|()| lease.connection_mut().end_others(&given_up)) {
            Ok(()) => {
                let mut gate = self.gate();
                gate.has_succeeded = true;
                gate.given_up.retain(|number| !given_up.contains(number));
                drop(gate);
                Ok(lease)
            }
            Err(fault) => {
                lease.carries_nothing = true;
                lease.discard(&fault);
                Err(fault)
            }
        }
    }

    /// Returns when nothing of what was given up can be carried out any more.
    pub fn fence(self: &Arc<Node>) -> Result<(), Fault> {
        if !self.gate().given_up.is_empty() {
            self.lease()?.release();
        }
        Ok(())
    }

    /// The client logs in with another account from now on. Connections of before are not used again.
    pub fn begin_anew(&self) {
        let mut gate = self.gate();
        gate.generation += 1;
        gate.open -= gate.idle.len();
        gate.idle.clear();
        gate.down = None;
        drop(gate);
        // Also those whose work is of the term before.
        self.freed.notify_all();
    }

    /// `or_heard`: longer as well, as long as others get through on a slow link.
    fn any_connection(self: &Arc<Node>, deadline: Awake, or_heard: bool) -> Result<Lease, Fault> {
        let mut gate = self.gate();
        loop {
            match self.free_connection(&mut gate) {
                Ok(Some(lease)) => return Ok(lease),
                Ok(None) => {}
                Err(fault) => {
                    // Somebody else may use what this one was woken for.
                    self.tell_a_waiter(gate);
                    return Err(fault);
                }
            }
            if gate.may_open(self.access.connections_per_node) {
                match self.connect(gate) {
                    Err(fault) if Awake::now() < deadline && self.is_crowded(&fault) => {
                        gate = self.until_one_is_free(CROWDED_LOOK_EVERY);
                    }
                    connected => return connected,
                }
                continue;
            }
            let now = Awake::now();
            let left = now.until(deadline);
            let left = if or_heard && self.is_heard(now) { LOOK_EVERY } else { left };
            if left.is_zero() {
                return Err(Fault::Busy);
            }
            gate = self.wait_in(gate, left);
        }
    }

    /// Sends one request and waits for its reply; an error reply is a fault.
    pub fn ask(self: &Arc<Node>, request: &Request<'_>) -> Result<Reply, Fault> {
        self.converse(|connection| connection.ask(request))
    }

    /// Sends short requests together; some of the replies may be errors.
    pub fn ask_all(self: &Arc<Node>, requests: &[Request<'_>]) -> Result<Vec<Reply>, Fault> {
        self.converse(|connection| connection.ask_all(requests))
    }

    fn converse<T>(
        self: &Arc<Node>,
        talk: impl FnOnce(&mut Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut lease = self.lease()?;
        match talk(lease.connection_mut()) {
            Err(
                fault @ (Fault::TimedOut
                | Fault::Broken
                | Fault::Untrusted(_)
                | Fault::Malformed(_)),
            ) => {
                lease.discard(&fault);
                Err(fault)
            }
            answer => {
                lease.release();
                answer
            }
        }
    }

    fn connect(self: &Arc<Node>, mut gate: MutexGuard<'_, Gate>) -> Result<Lease, Fault> {
        let Timeouts { connect, reply, .. } = self.access.timeouts;
        if let Some(down) = &mut gate.down
            && !down.is_tried(Instant::now(), connect, reply)
        {
            return Err(down.fault.clone());
        }
        gate.open += 1;
        let generation = gate.generation;
        drop(gate);
        let opened = self.open();
        let mut gate = self.gate();
        match opened {
            Ok(connection) => {
                gate.down = None;
                Ok(Lease::new(self, Some(connection), generation))
            }
            Err(fault) => {
                gate.open -= 1;
                let is_of_a_term = matches!(fault, Fault::Expelled | Fault::Outside);
                // Where others get through, there was no room on the link; a crowded node is there.
                let others_do = match fault {
                    Fault::Crowded => true,
                    SOCKET_AWAY => gate.open > 0,
                    _ => fault.is_of_a_busy_node() && self.is_heard(Awake::now()),
                };
                if !(is_of_a_term || others_do) {
                    gate.down = Some(Down::new(fault.clone(), gate.down.as_ref()));
                }
                self.tell_a_waiter(gate);
                tracing::debug!(node = %self.id, endpoint = %self.endpoint, %fault, "cannot connect");
                Err(fault)
            }
        }
    }

    /// One that hangs up on a newcomer, and not on those that it has let in, has no place either: by TLS it
    /// cannot say so. One whose socket is not found for a moment serves those that it has let in.
    fn is_crowded(&self, fault: &Fault) -> bool {
        match *fault {
            Fault::Crowded => true,
            Fault::Broken | SOCKET_AWAY => self.gate().open > 0,
            _ => false,
        }
    }

    /// The node takes no connection more for a while; those that there are do for all.
    fn until_one_is_free(&self, at_most: Duration) -> MutexGuard<'_, Gate> {
        let mut gate = self.gate();
        gate.crowded_until = Some(Instant::now() + DOWN_FOR);
        self.wait_in(gate, at_most)
    }

    fn wait_in<'g>(
        &self,
        mut gate: MutexGuard<'g, Gate>,
        at_most: Duration,
    ) -> MutexGuard<'g, Gate> {
        gate.waiting += 1;
        let woken = self.freed.wait_timeout(gate, at_most);
        let mut gate = woken.unwrap_or_else(PoisonError::into_inner).0;
        gate.waiting -= 1;
        gate
    }

    fn open(&self) -> Result<Connection, Fault> {
        let Access { login, timeouts, .. } = &*self.access;
        let account = login.for_this_work()?;
        let mut timeouts = *timeouts;
        if self.is_heard(Awake::now()) {
            // What others send is ahead of it on the link.
            timeouts.connect = timeouts.connect.max(timeouts.reply);
        }
        let (connection, id) = Connection::open(&self.endpoint, &account, timeouts)
            .map_err(|fault| login.refused(fault))?;
        if id.parse() == Ok(self.id) { Ok(connection) } else { Err(Fault::Stranger) }
    }

    /// Nobody listens where the node did. Waits a little for one that is about to end: it may let a
    /// caller in and hang up.
    pub fn has_ended(&self) -> bool {
        for _ in 0..ENDING_LOOKS {
            match self.open() {
                Err(Fault::Unreachable(Errno::CONNREFUSED | Errno::NOENT)) => return true,
                Err(Fault::Broken) => sleep(ENDING_LOOK_EVERY),
                _ => return false,
            }
        }
        false
    }

    fn is_over_a_network(&self) -> bool {
        self.endpoint.socket().is_none()
    }

    /// Something got through to it or from it lately; never of one that is reached by a socket.
    fn is_heard(&self, now: Awake) -> bool {
        self.heard.is_within(self.access.timeouts.reply, now)
    }

    /// Since when the node cannot be reached and answers nobody.
    pub fn down_since(&self) -> Option<Awake> {
        self.gate().down.as_ref().and_then(|down| down.since)
    }

    /// Somebody was not let in, and nobody has been since, though it may answer others.
    pub fn is_down(&self) -> bool {
        self.gate().down.is_some()
    }

    /// It had no room for something just now.
    pub fn note_full(&self) {
        self.gate().full = Some(Instant::now());
    }

    /// Whether it had no room a moment ago.
    pub fn was_full_within(&self, time: Duration) -> bool {
        self.gate().full.is_some_and(|at| at.elapsed() < time)
    }

    /// A connection is free, or may be made again. Waking nobody would cost a system call too.
    fn tell_a_waiter(&self, gate: MutexGuard<'_, Gate>) {
        let any = gate.waiting > 0;
        drop(gate);
        if any {
            self.freed.notify_one();
        }
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    fn may_open(&self, most: usize) -> bool {
        let is_crowded = self.crowded_until.is_some_and(|until| Instant::now() < until);
        self.open == 0 || self.open < most && !is_crowded
    }
}

#[cfg(test)]
mod tests;
