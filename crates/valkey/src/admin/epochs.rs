//! Every node's epoch is its own, and every node knows it.
//!
//! A node that takes a slot over raises its epoch above those that it knows, and others believe the
//! claim with the highest epoch. Servers may raise an epoch on their own, when two happen to be
//! alike, and before version 8 they tell nobody until the next greeting. A node that gives a slot
//! away with such an epoch makes a third one correct the target, and the target then drops the keys
//! that it was just given. So before slots move, all epochs differ, those of takers are above those
//! of givers, and all are known to all; and while they move, no node both gives and takes, so that
//! no giver's epoch can change.

use std::collections::{BTreeSet, HashMap};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_model::NodeId;

use super::{Admin, AdminError, Managed};
use crate::view::ViewNode;

/// Nodes that do not agree after this long never will.
pub const AGREED_WITHIN: Duration = Duration::from_secs(20);
pub const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A greeting arrives within a tenth of a second; then it may be repeated.
pub const GREET_EVERY: Duration = Duration::from_millis(400);

/// Each time something else must have raised an epoch in between, which needs two that are alike.
const RAISES_MAX: u32 = 16;

/// A node that answers, and what it knows.
pub type Knowing = (Managed, Vec<ViewNode>);

impl Admin {
    /// Sees to it that nodes which are about to take partitions key by key have epochs above those
    /// of the nodes that give them. `ways` are from whom to whom.
    pub(super) fn raise_epochs(&self, ways: &[(NodeId, NodeId)]) -> Result<(), AdminError> {
        let takers: BTreeSet<_> = ways.iter().map(|&(_, to)| to).collect();
        let givers: BTreeSet<_> = ways.iter().map(|&(from, _)| from).collect();
        let known = self.ready_to_move()?;
        self.raise_above(known, &takers, |node| givers.contains(&node))
    }

    /// Sees to it that nodes which are about to take what a dead node held have epochs above all
    /// others.
    pub(super) fn raise_above_all(
        &self,
        takers: impl Iterator<Item = NodeId>,
    ) -> Result<(), AdminError> {
        let takers: BTreeSet<_> = takers.collect();
        self.ready_to_move()?;
        self.bump(&takers)?;
        let known = self.settle_epochs()?;
        self.raise_above(known, &takers, |node| !takers.contains(&node))
    }

    /// Until it is so: what settles two epochs that happen to be alike, the servers' doing or this
    /// program's, may raise the one that is to be the lower.
    fn raise_above(
        &self,
        mut known: Vec<Knowing>,
        takers: &BTreeSet<NodeId>,
        is_giver: impl Fn(NodeId) -> bool,
    ) -> Result<(), AdminError> {
        for _ in 0..RAISES_MAX {
            let low = too_low(&known, takers, &is_giver);
            if low.is_empty() {
                return Ok(());
            }
            self.bump(&low)?;
            known = self.settle_epochs()?;
        }
        let said = "epochs of nodes that are to take partitions stay below others".to_owned();
        Err(AdminError::NotAgreed { waited: AGREED_WITHIN, said })
    }

    fn bump(&self, nodes: &BTreeSet<NodeId>) -> Result<(), AdminError> {
        for &node in nodes {
            self.managed(node)?.say(&["CLUSTER", "BUMPEPOCH"])?;
        }
        Ok(())
    }

    /// Waits until all nodes that answer have links to each other and agree about their epochs;
    /// answers with what they know. A server that takes whole slots over raises its own epoch.
    pub(super) fn ready_to_move(&self) -> Result<Vec<Knowing>, AdminError> {
        self.mend_links()?;
        self.settle_epochs()
    }

    /// Waits until all nodes that answer have epochs of their own and know each other's; sees to it
    /// that they tell. Answers with what they know.
    pub(super) fn settle_epochs(&self) -> Result<Vec<Knowing>, AdminError> {
        let deadline = Instant::now() + AGREED_WITHIN;
        let mut greeted: HashMap<(NodeId, NodeId), Instant> = HashMap::new();
        loop {
            let known = self.knowing();
            let said = if let Some(double) = doubled(&known) {
                double.say(&["CLUSTER", "BUMPEPOCH"])?;
                format!("{:?} had the epoch of another", double.id())
            } else if let Some((who, whom)) = lacking(&known).first() {
                format!("{:?} does not know the epoch of {:?}", who.id(), whom.id())
            } else {
                return Ok(known);
            };
            for (who, whom) in lacking(&known) {
                let last = greeted.get(&(whom.id(), who.id()));
                if last.is_none_or(|last| last.elapsed() >= GREET_EVERY) {
                    greeted.insert((whom.id(), who.id()), Instant::now());
                    greet(whom, who)?;
                }
            }
            if Instant::now() >= deadline {
                return Err(AdminError::NotAgreed { waited: AGREED_WITHIN, said });
            }
            sleep(LOOK_EVERY);
        }
    }

    /// The nodes that answer.
    pub(super) fn knowing(&self) -> Vec<Knowing> {
        let views = self.views().into_iter();
        views.filter_map(|(managed, view)| Some((managed, view?))).collect()
    }
}

/// Has one node tell another of itself; both may know each other already.
pub fn greet(from: &Managed, to: &Managed) -> Result<(), AdminError> {
    let (address, bus_port) = (to.description.address, to.description.bus_port.to_string());
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    from.say(&["CLUSTER", "MEET", &ip, &port, &bus_port]).map(|_| ())
}

fn epoch_of(view: &[ViewNode], node: NodeId) -> Option<u64> {
    view.iter().find(|seen| seen.id == node).map(|seen| seen.epoch)
}

fn own_epoch(knowing: &Knowing) -> Option<u64> {
    epoch_of(&knowing.1, knowing.0.id())
}

/// Takers whose epochs are not above those of all givers, as anybody knows them.
fn too_low(
    known: &[Knowing],
    takers: &BTreeSet<NodeId>,
    is_giver: impl Fn(NodeId) -> bool,
) -> BTreeSet<NodeId> {
    let seen = known.iter().flat_map(|(_, view)| view);
    let highest = seen.filter(|seen| is_giver(seen.id)).map(|seen| seen.epoch).max();
    let own = |taker| known.iter().find(|(node, _)| node.id() == taker).and_then(own_epoch);
    takers.iter().copied().filter(|&taker| own(taker) <= highest).collect()
}

/// A node whose epoch another has too, or that has none.
fn doubled(known: &[Knowing]) -> Option<&Managed> {
    let mut taken = HashMap::new();
    let seen = known.iter().flat_map(|(_, view)| view);
    for seen in seen.filter(|seen| !known.iter().any(|(node, _)| node.id() == seen.id)) {
        // Of nodes that do not answer.
        taken.insert(seen.epoch, seen.id);
    }
    let double = known.iter().find(|knowing| {
        let (id, epoch) = (knowing.0.id(), own_epoch(knowing).unwrap_or(0));
        epoch == 0 || *taken.entry(epoch).or_insert(id) != id
    });
    double.map(|(node, _)| node)
}

/// Who does not know whose epoch.
fn lacking(known: &[Knowing]) -> Vec<(&Managed, &Managed)> {
    let pairs = known.iter().flat_map(|who| known.iter().map(move |whom| (who, whom)));
    let lacks = pairs.filter(|(who, whom)| epoch_of(&who.1, whom.0.id()) != own_epoch(whom));
    lacks.map(|(who, whom)| (&who.0, &whom.0)).collect()
}
