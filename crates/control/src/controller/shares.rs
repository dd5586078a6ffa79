//! What part of the data each node is planned to hold, for people: as plans have it, without a survey.

use tidefs_model::{NodeClass, NodeId};

use super::Controller;
use crate::capacity::Capacity;
use crate::inventory::EMPTY_NODE_BYTES;
use crate::observation::Node;
use crate::own_share::ByClass;
use crate::planner::{DataShare, data_shares};

impl Controller {
    /// The parts of the data that the nodes that answer are planned to hold.
    pub fn shares(&self) -> Vec<(NodeId, DataShare)> {
        let serving: Vec<_> = self.observed.serving().collect();
        let memory: Vec<_> = serving.iter().map(|node| node.capacity_bytes).collect();
        let follows = self.settings.spreading.by == Capacity::Bandwidth;
        let planned = |id| self.bandwidths.planned().get(&id).copied().filter(|_| follows);
        let bandwidths: Vec<_> = serving.iter().map(|node| planned(node.id)).collect();
        let mut shares = data_shares(&memory, &bandwidths, self.observed.used_bytes());
        self.share_by_class(&serving, &mut shares);
        serving.iter().map(|node| node.id).zip(shares).collect()
    }

    /// Within a class nodes keep their proportions.
    fn share_by_class(&self, serving: &[&Node], shares: &mut [DataShare]) {
        let spreading = &self.settings.spreading;
        let Some(own_share) = spreading.own_share else { return };
        let (mut all, mut room) = (ByClass::<f64>::default(), ByClass::<u64>::default());
        let mut data = 0;
        for (node, share) in serving.iter().zip(&*shares) {
            let left = spreading.limit(node.capacity_bytes).saturating_sub(EMPTY_NODE_BYTES);
            *of(&mut all, node) += share.part;
            *of(&mut room, node) += left;
            data += node.used_bytes.saturating_sub(EMPTY_NODE_BYTES);
        }
        if all.own == 0.0 || all.victim == 0.0 {
            return;
        }
        let own = own_share.allowed(data, room);
        let mut parts = ByClass { own, victim: 1.0 - own };
        for (node, share) in serving.iter().zip(shares) {
            let of_class = *of(&mut parts, node);
            share.part *= of_class / *of(&mut all, node);
            share.of_class = Some(of_class);
        }
    }
}

fn of<'c, T>(classes: &'c mut ByClass<T>, node: &Node) -> &'c mut T {
    match node.class {
        NodeClass::Own => &mut classes.own,
        NodeClass::Victim => &mut classes.victim,
    }
}
