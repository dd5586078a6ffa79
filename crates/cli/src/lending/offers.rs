//! Nodes that lenders have offered, and how it stands with each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::{NodeClass, NodeId};
use tidefs_valkey::{Awake, NodeDescription};

use super::channel::ChannelKey;
use super::words::{LEASE, State, VOTERS_LEASE};

/// Cheap to clone; clones are one list.
#[derive(Clone, Debug, Default)]
pub struct Offers(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    all: Mutex<BTreeMap<NodeId, Offer>>,
    /// A node was offered.
    came: Condvar,
    /// Hosts vote, and have their nodes for longer.
    of_voters: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Offer {
    node: NodeDescription,
    state: State,
    /// In time in which this process runs: lenders cannot be heard while it is stopped.
    heard: Awake,
    /// Of the connection that the lender is at, and how many it has been at before that.
    key: ChannelKey,
    line: u64,
    /// The lender has hung up.
    is_closed: bool,
    /// It is wanted when the file system grows the next time.
    is_reserve: bool,
    why: Option<String>,
    of_voters: Arc<AtomicBool>,
}

impl Offers {
    /// Hosts vote from now on.
    pub fn hosts_vote(&self) {
        self.0.of_voters.store(true, Ordering::Relaxed);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<NodeId, Offer>> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `false`: another has that identity, or had it and has not been dealt with.
    pub fn add(&self, node: NodeDescription, key: ChannelKey, is_reserve: bool) -> bool {
        let mut all = self.all();
        let id = node.id;
        let is_new = !all.contains_key(&id);
        let offer = || Offer {
            node,
            state: State::Waiting,
            heard: Awake::now(),
            key,
            line: 0,
            is_closed: false,
            is_reserve,
            why: None,
            of_voters: Arc::clone(&self.0.of_voters),
        };
        if is_new {
            all.insert(id, offer());
            self.0.came.notify_all();
        }
        is_new
    }

    /// A node that is in use, and whose host may come with it: the file system was taken over.
    pub fn expect(&self, node: NodeDescription, key: ChannelKey) {
        let id = node.id;
        self.add(node, key, false);
        if let Some(offer) = self.all().get_mut(&id) {
            offer.state = State::InUse;
        }
    }

    /// Its host has come with one that was expected; answers which of its connections that is. `None`: it was not.
    pub fn bring(&self, id: NodeId, key: ChannelKey) -> Option<u64> {
        self.resume(id, key, |_| true)
    }

    /// One of this class that waits, in use from now on.
    pub fn take(&self, class: NodeClass) -> Option<NodeDescription> {
        Offers::take_of(&mut self.all(), class)
    }

    /// One of this class waits.
    pub fn has_one(&self, class: NodeClass) -> bool {
        self.all().values().any(|offer| offer.waits(class))
    }

    /// The same; where none waits, one is waited for: a host that has emptied a node offers another one soon.
    pub fn take_within(&self, class: NodeClass, within: Duration) -> Option<NodeDescription> {
        let none = |all: &mut BTreeMap<_, Offer>| !all.values().any(|offer| offer.waits(class));
        let waited = self.0.came.wait_timeout_while(self.all(), within, none);
        Offers::take_of(&mut waited.unwrap_or_else(PoisonError::into_inner).0, class)
    }

    fn take_of(all: &mut BTreeMap<NodeId, Offer>, class: NodeClass) -> Option<NodeDescription> {
        let waiting = all.values_mut().filter(|offer| offer.waits(class));
        let offer = waiting.min_by_key(|offer| offer.is_reserve)?;
        offer.state = State::InUse;
        Some(offer.node.clone())
    }

    /// One that was taken and never became a node waits again, unless its lender wants it back.
    pub fn put_back(&self, id: NodeId) {
        if let Some(offer) = self.all().get_mut(&id) {
            offer.state = match offer.state {
                State::InUse => State::Waiting,
                State::Waiting | State::Free | State::Leaving => State::Free,
            };
            self.0.came.notify_all();
        }
    }

    /// Its lender is there; answers how it stands. `None` where nobody knows it any more.
    pub fn heard(&self, id: NodeId) -> Option<(State, Option<String>)> {
        let mut all = self.all();
        let offer = all.get_mut(&id)?;
        offer.heard = Awake::now();
        Some((offer.state, offer.why.clone()))
    }

    /// Its lender wants it back; `true`: it is in use, and nobody has begun to empty it.
    pub fn want_back(&self, id: NodeId) -> bool {
        let mut all = self.all();
        let Some(offer) = all.get_mut(&id) else { return false };
        let was = offer.state;
        offer.state = match was {
            State::Waiting | State::Free => State::Free,
            State::InUse | State::Leaving => State::Leaving,
        };
        was == State::InUse
    }

    /// Somebody has begun to empty it, or it is in use after all.
    pub fn still_leaves(&self, id: NodeId) -> bool {
        self.all().get(&id).is_some_and(|it| it.state == State::Leaving && !it.is_over())
    }

    pub fn waits(&self, id: NodeId) -> bool {
        self.all().get(&id).is_some_and(|offer| offer.state == State::Waiting)
    }

    /// How many of the own class wait that are wanted at once.
    pub fn wanted(&self) -> usize {
        let all = self.all();
        all.values().filter(|offer| offer.waits(NodeClass::Own) && !offer.is_reserve).count()
    }

    /// It waits until the file system grows, for this reason.
    pub fn keep_in_reserve(&self, id: NodeId, why: String) {
        if let Some(offer) = self.all().get_mut(&id) {
            (offer.is_reserve, offer.why) = (true, Some(why));
        }
    }

    /// What keeps it from coming or leaving, for its lender.
    pub fn note(&self, id: NodeId, why: String) {
        if let Some(offer) = self.all().get_mut(&id) {
            offer.why = Some(why);
        }
    }

    /// It is in nobody's use any more.
    pub fn free(&self, id: NodeId) {
        if let Some(offer) = self.all().get_mut(&id) {
            offer.state = State::Free;
        }
    }

    /// Its lender goes on with it on another connection, which has this key, where `is_its` knows the
    /// last one's; answers which of its connections that is.
    pub fn resume(
        &self,
        id: NodeId,
        key: ChannelKey,
        is_its: impl FnOnce(&ChannelKey) -> bool,
    ) -> Option<u64> {
        let mut all = self.all();
        let offer = all.get_mut(&id).filter(|offer| !offer.is_over() && is_its(&offer.key))?;
        offer.heard = Awake::now();
        offer.key = key;
        offer.line += 1;
        Some(offer.line)
    }

    /// Its lender may still go on with it on another connection than this one.
    pub fn may_resume(&self, id: NodeId, line: u64) -> bool {
        self.all().get(&id).is_some_and(|offer| offer.line == line && !offer.is_over())
    }

    /// Its lender has hung up, if it was at that connection. One that is in use stays known until that
    /// has been dealt with.
    pub fn close(&self, id: NodeId, line: u64) {
        let mut all = self.all();
        if let Some(offer) = all.get_mut(&id).filter(|offer| offer.line == line) {
            offer.is_closed = true;
            if matches!(offer.state, State::Waiting | State::Free) {
                all.remove(&id);
            }
        }
    }

    /// What was lost with it has been dealt with.
    pub fn bury(&self, id: NodeId) {
        let mut all = self.all();
        if let Some(offer) = all.get_mut(&id) {
            offer.state = State::Free;
            if offer.is_over() {
                all.remove(&id);
            }
        }
    }

    /// Its lender has gone, and its node with it.
    pub fn has_ended(&self, id: NodeId) -> bool {
        self.all().get(&id).is_none_or(Offer::is_over)
    }
}

impl Offer {
    fn waits(&self, class: NodeClass) -> bool {
        self.state == State::Waiting && self.node.class == class && !self.is_over()
    }

    fn is_over(&self) -> bool {
        let votes = self.node.class == NodeClass::Own && self.of_voters.load(Ordering::Relaxed);
        let lease = if votes { VOTERS_LEASE } else { LEASE };
        self.is_closed || Awake::now() > self.heard + lease
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidefs_model::ByteSize;
    use tidefs_valkey::ProcessId;

    fn node(byte: u8) -> NodeDescription {
        NodeDescription {
            id: NodeId([byte; 20]),
            class: NodeClass::Victim,
            address: "127.0.0.1:1".parse().unwrap(),
            bus_port: 2,
            socket: "".into(),
            directory: "".into(),
            memory: ByteSize::mib(64),
            process: ProcessId { pid: 0, started_ticks: 0 },
        }
    }

    fn key() -> ChannelKey {
        ChannelKey::of_nobody()
    }

    #[test]
    fn one_whose_connection_broke_is_gone_on_with_or_lost() {
        let (offers, id) = (Offers::default(), node(1).id);
        offers.add(node(1), key(), false);
        assert!(offers.take(NodeClass::Victim).is_some() && offers.may_resume(id, 0));
        assert_eq!(offers.resume(id, key(), |_| false), None, "another's");
        assert_eq!(offers.resume(id, key(), |_| true), Some(1));
        assert!(!offers.may_resume(id, 0) && offers.may_resume(id, 1));
        offers.close(id, 0);
        assert!(!offers.has_ended(id), "the first connection says nothing any more");
        offers.close(id, 1);
        assert!(offers.has_ended(id));
        assert_eq!(offers.resume(id, key(), |_| true), None, "it is lost by now");
    }

    #[test]
    fn a_node_is_taken_once_and_given_back() {
        let (offers, id) = (Offers::default(), node(1).id);
        assert!(
            offers.add(node(1), key(), false) && !offers.add(node(1), key(), false),
            "an identity is one node's"
        );
        assert_eq!(offers.take(NodeClass::Victim).map(|node| node.id), Some(id));
        assert_eq!(offers.take(NodeClass::Victim), None);
        assert!(offers.want_back(id), "somebody has to empty it");
        assert!(!offers.want_back(id), "somebody does");
        assert_eq!(offers.heard(id), Some((State::Leaving, None)));
        offers.free(id);
        assert_eq!(offers.heard(id), Some((State::Free, None)));
        offers.close(id, 0);
        assert_eq!(offers.heard(id), None);
    }

    #[test]
    fn one_that_did_not_become_a_node_is_offered_again_unless_its_lender_wants_it() {
        let (offers, id) = (Offers::default(), node(1).id);
        offers.add(node(1), key(), false);
        assert!(offers.take(NodeClass::Victim).is_some() && !offers.waits(id));
        offers.put_back(id);
        assert!(offers.waits(id) && offers.take(NodeClass::Victim).is_some());
        assert!(offers.want_back(id), "it is about to be used");
        offers.put_back(id);
        assert_eq!(
            (offers.heard(id), offers.take(NodeClass::Victim)),
            (Some((State::Free, None)), None)
        );
    }

    #[test]
    fn a_lender_that_hangs_up_takes_its_node_with_it() {
        let (offers, id) = (Offers::default(), node(1).id);
        offers.add(node(1), key(), false);
        offers.add(node(2), key(), false);
        offers.close(node(2).id, 0);
        assert_eq!(
            offers.take(NodeClass::Victim).map(|node| node.id),
            Some(id),
            "one that waits is forgotten"
        );
        assert!(!offers.has_ended(id));
        offers.close(id, 0);
        assert!(offers.has_ended(id));
        assert!(!offers.add(node(1), key(), false), "nobody comes back under an old identity");
        offers.bury(id);
        assert!(offers.has_ended(id) && offers.heard(id).is_none());
    }

    #[test]
    fn one_that_is_waited_for_is_taken_when_it_is_offered() {
        let offers = Offers::default();
        let own = NodeDescription { class: NodeClass::Own, ..node(2) };
        let taken = std::thread::scope(|scope| {
            let waits = scope.spawn(|| offers.take_within(NodeClass::Own, Duration::from_secs(60)));
            offers.add(node(1), key(), false);
            offers.add(own.clone(), key(), true);
            waits.join().unwrap()
        });
        assert_eq!(taken.map(|node| node.id), Some(own.id));
        assert_eq!(offers.take_within(NodeClass::Own, Duration::ZERO), None);
    }

    #[test]
    fn nodes_of_a_class_are_taken_for_it_and_a_reserve_comes_last() {
        let offers = Offers::default();
        let own = |byte: u8| NodeDescription { class: NodeClass::Own, ..node(byte) };
        offers.add(node(1), key(), false);
        offers.add(own(2), key(), true);
        assert_eq!(offers.wanted(), 0, "a reserve waits until the file system grows");
        offers.add(own(3), key(), false);
        assert_eq!(offers.wanted(), 1);
        let taken = || offers.take(NodeClass::Own).map(|node| node.id);
        assert_eq!([taken(), taken(), taken()], [Some(own(3).id), Some(own(2).id), None]);
        assert_eq!(offers.take(NodeClass::Victim).map(|node| node.id), Some(node(1).id));
        offers.add(own(4), key(), false);
        offers.keep_in_reserve(own(4).id, "there are enough".to_owned());
        let why = Some("there are enough".to_owned());
        assert_eq!((offers.wanted(), offers.heard(own(4).id)), (0, Some((State::Waiting, why))));
    }

    #[test]
    fn one_that_is_expected_comes_with_its_host_and_no_other_does() {
        let (offers, id) = (Offers::default(), node(1).id);
        assert_eq!(offers.bring(id, key()), None);
        offers.expect(node(1), key());
        assert!(!offers.has_ended(id), "its host may come");
        assert_eq!(offers.take(NodeClass::Victim), None, "it is in use");
        assert_eq!(offers.bring(id, key()), Some(1));
        assert_eq!(offers.heard(id), Some((State::InUse, None)));
    }

    #[test]
    fn one_that_waits_is_free_at_once() {
        let (offers, id) = (Offers::default(), node(1).id);
        offers.add(node(1), key(), false);
        assert!(!offers.want_back(id), "there is nothing to empty");
        assert_eq!((offers.take(NodeClass::Victim), offers.waits(id)), (None, false));
    }
}
