//! Partitions of nodes that died: others hold them from now on, empty and marked as having lost.
//!
//! A stripe that is not there reads as zeros, so an empty partition alone would turn what was lost
//! into zeros. The mark lies in the partition itself, moves with it, and is there before anybody is
//! served: while a node takes a slot in, it serves only those who insist.

use std::collections::BTreeMap;

use tidefs_model::{Granted, NodeClass, NodeId, PARTITIONS, Partition};

use super::keywise::{BATCH_SLOTS_MAX, order, take_in};
use super::members::forget;
use super::{Admin, AdminError, Managed, Owner};
use crate::losses::mark_request;
use crate::wire::Request;

impl Admin {
    /// Gives what nodes held whose processes have ended to the own nodes that answer, marked as lost
    /// for inodes that were `granted`, and has all forget the dead. Answers with how many partitions
    /// each of the dead held.
    ///
    /// # Errors
    /// When no own node is left, or one does not do as it is told. The call may be repeated.
    pub fn expunge(
        &self,
        dead: &[NodeId],
        granted: Granted,
    ) -> Result<BTreeMap<NodeId, usize>, AdminError> {
        let known = self.knowing();
        let is_heir = |managed: &&Managed| {
            managed.description.class == NodeClass::Own && !dead.contains(&managed.id())
        };
        let heirs: Vec<_> = known.iter().map(|(managed, _)| managed).filter(is_heir).collect();
        if heirs.is_empty() {
            return Err(AdminError::NoNodes);
        }
        let mut held: BTreeMap<NodeId, usize> = dead.iter().map(|&id| (id, 0)).collect();
        let mut shares: BTreeMap<(usize, NodeId), Vec<u16>> = BTreeMap::new();
        let placement = self.placement()?;
        let mut next = 0;
        for partition in (0..PARTITIONS).map(Partition::new) {
            if let Owner::One(owner) = placement.owner(partition)
                && let Some(count) = held.get_mut(owner)
            {
                *count += 1;
                shares.entry((next % heirs.len(), *owner)).or_default().push(partition.number());
                next += 1;
            }
        }
        self.raise_above_all(heirs.iter().map(|heir| heir.id()))?;
        for ((heir, from), slots) in &shares {
            for slots in slots.chunks(BATCH_SLOTS_MAX) {
                self.inherit(heirs[*heir], *from, slots, granted)?;
            }
        }
        for id in dead {
            let text = id.to_string();
            // One of them may still answer, and no node forgets itself.
            let others = known.iter().map(|(other, _)| other);
            let mut others = others.filter(|other| !dead.contains(&other.id()));
            others.try_for_each(|other| forget(other, &text))?;
            self.manage(*id, None);
            self.vouched.remove(*id);
        }
        Ok(held)
    }

    /// Has an heir hold slots of a node that is dead, marked.
    pub(super) fn inherit(
        &self,
        heir: &Managed,
        from: NodeId,
        slots: &[u16],
        granted: Granted,
    ) -> Result<(), AdminError> {
        learn(heir, from, slots)?;
        order(heir, slots, &["IMPORTING", &from.to_string()])?;
        let mark = |&slot: &u16| [Request::of(&["ASKING"]), mark_request(slot, granted)];
        heir.order_all(&slots.iter().flat_map(mark).collect::<Vec<_>>())?;
        take_in(heir, slots)?;
        let id = heir.id().to_string();
        for (other, _) in self.knowing().iter().filter(|(other, _)| other.id() != heir.id()) {
            order(other, slots, &["NODE", &id])?;
        }
        Ok(())
    }
}

/// One that came after the other had died has never heard what that one held, and a server lets nobody in to a slot that
/// it takes for nobody's, not even those who insist.
fn learn(heir: &Managed, from: NodeId, slots: &[u16]) -> Result<(), AdminError> {
    let view = heir.view()?;
    let is_nobodys = |slot: &u16| !view.iter().any(|seen| seen.holds(*slot));
    let unheard: Vec<u16> = slots.iter().copied().filter(is_nobodys).collect();
    order(heir, &unheard, &["NODE", &from.to_string()])
}

/// Closes slots that a node was giving to one that died: what went over is lost, so they are marked
/// in the same breath in which the node stops to send clients there. The two orders for a slot
/// arrive together, and the server does what arrived together without serving others in between.
pub fn take_back(managed: &Managed, slots: &[u16], granted: Granted) -> Result<(), AdminError> {
    for &slot in slots {
        let close = Request::of(&["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"]);
        managed.order_all(&[close, mark_request(slot, granted)])?;
    }
    Ok(())
}
