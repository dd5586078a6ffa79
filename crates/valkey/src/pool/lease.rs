//! A connection that is lent to one caller.

use std::sync::Arc;

use super::Node;
use crate::awake::Awake;
use crate::connection::Connection;
use crate::fault::Fault;
use crate::inbound::Inbound;

/// A connection in use, to be released when all its requests are answered.
pub struct Lease {
    node: Arc<Node>,
    connection: Option<Connection>,
    generation: u64,
    /// Nothing was sent on it that changes anything.
    pub(super) carries_nothing: bool,
}

impl Lease {
    pub(super) fn new(node: &Arc<Node>, connection: Option<Connection>, generation: u64) -> Lease {
        Lease { node: Arc::clone(node), connection, generation, carries_nothing: false }
    }

    pub fn is_over_a_network(&self) -> bool {
        self.node.is_over_a_network()
    }

    pub fn hear(&self, now: Awake) {
        self.node.heard.note(now);
    }

    /// The node has answered, or got, something of anybody's in this process.
    pub fn was_heard(&self, now: Awake) -> bool {
        self.node.is_heard(now)
    }

    pub fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("a lease in use has its connection")
    }

    pub fn connection_mut(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("a lease in use has its connection")
    }

    pub fn inbound(&mut self) -> &mut Inbound {
        &mut self.connection_mut().inbound
    }

    /// Receives into the connection's own bytes, or into `buffer` where a reply is to land; when nothing is
    /// there, waits until the next look at the time unless `at_once`.
    pub fn fill(&mut self, buffer: &mut [u8], at_once: bool) -> Result<Option<usize>, Fault> {
        let Connection { inbound, stream, .. } = self.connection_mut();
        inbound.fill(stream, buffer, at_once)
    }

    /// Gives the connection back: nothing is under way on it.
    pub fn release(mut self) {
        let Some(connection) = self.connection.take() else { return };
        if self.is_over_a_network() {
            self.hear(Awake::now());
        }
        let mut gate = self.node.gate();
        if let Some(down) = &mut gate.down {
            down.since = None;
        }
        if gate.generation == self.generation {
            gate.idle.push(connection);
        } else {
            gate.open -= 1;
        }
        self.node.tell_a_waiter(gate);
    }

    /// Drops the connection. After a silence the others are dropped too: on each of them somebody
    /// would wait as long again, while a new one finds out soon.
    pub fn discard(self, fault: &Fault) {
        if *fault == Fault::TimedOut {
            let mut gate = self.node.gate();
            gate.generation += 1;
            gate.open -= gate.idle.len();
            gate.idle.clear();
        }
    }
}

/// A connection that was not released may have requests under way, or replies; it is closed, and to be
/// ended by the node.
impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let mut gate = self.node.gate();
            gate.open -= 1;
            if !self.carries_nothing {
                gate.given_up.push(connection.number());
            }
            self.node.tell_a_waiter(gate);
        }
    }
}
