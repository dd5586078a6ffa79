//! Who holds each partition, as the nodes themselves say.

use tidefs_model::{Epoch, NodeId, PARTITIONS, Partition};

use super::{Admin, AdminError, Managed};
use crate::view::ViewNode;

/// Who says that a partition is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    One(NodeId),
    /// Nobody: its keys are served by no node.
    None,
    /// Several: the nodes have yet to agree, or the cluster is broken.
    Several(Vec<NodeId>),
}

/// The owners of all partitions at about one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    pub epoch: Epoch,
    /// By the number of the partition.
    owners: Vec<Owner>,
}

impl Ownership {
    pub fn owner(&self, partition: Partition) -> &Owner {
        &self.owners[usize::from(partition.number())]
    }

    pub fn partitions_of(&self, node: NodeId) -> impl Iterator<Item = Partition> + '_ {
        let all = (0..PARTITIONS).map(Partition::new);
        all.filter(move |&partition| *self.owner(partition) == Owner::One(node))
    }

    /// Partitions that have no owner, or several.
    pub fn disputed(&self) -> Vec<Partition> {
        let all = (0..PARTITIONS).map(Partition::new);
        all.filter(|&partition| !matches!(self.owner(partition), Owner::One(_))).collect()
    }
}

impl Admin {
    /// Asks every node what it holds. Of nodes that do not answer, the others' word is taken for
    /// partitions that nobody else claims.
    ///
    /// # Errors
    /// When no node answers.
    pub fn placement(&self) -> Result<Ownership, AdminError> {
        let views = self.views();
        if views.iter().all(|(_, view)| view.is_none()) {
            let managed = views.first().ok_or(AdminError::NoNodes)?.0.clone();
            managed.view()?;
        }
        Ok(ownership(&views))
    }
}

pub fn ownership(views: &[(Managed, Option<Vec<ViewNode>>)]) -> Ownership {
    let mut owners = vec![Owner::None; usize::from(PARTITIONS)];
    let answered = |id: NodeId| views.iter().any(|(node, view)| node.id() == id && view.is_some());
    let seen = || views.iter().flat_map(|(_, view)| view.iter().flatten());
    for itself in seen().filter(|seen| seen.is_myself) {
        claim(&mut owners, itself, |owner| match owner {
            Owner::None => *owner = Owner::One(itself.id),
            Owner::One(other) if *other != itself.id => {
                *owner = Owner::Several(vec![*other, itself.id]);
            }
            Owner::One(_) => {}
            Owner::Several(all) => all.push(itself.id),
        });
    }
    for silent in seen().filter(|seen| !seen.is_myself && !answered(seen.id)) {
        claim(&mut owners, silent, |owner| {
            if *owner == Owner::None {
                *owner = Owner::One(silent.id);
            }
        });
    }
    let epoch = Epoch(seen().map(|seen| seen.epoch).max().unwrap_or(0));
    Ownership { epoch, owners }
}

fn claim(owners: &mut [Owner], node: &ViewNode, mut change: impl FnMut(&mut Owner)) {
    for slot in node.slots.iter().cloned().flatten() {
        change(&mut owners[usize::from(slot)]);
    }
}
