//! Others come first: a writer without room, a lender. What is under way ends early for them where
//! that is of use to them.

use tidefs_model::{NodeClass, NodeId};

use super::{Reconfiguration, Tasks};
use crate::events::{Action, Outcome};
use crate::inventory::Inventory;
use crate::phase::Phase;
use crate::record::Kind;

/// Who waits for a reconfiguration, and so who may end it early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precedence {
    /// A writer or a lender waits for it.
    pub urgent: bool,
    /// A lender does.
    pub is_lenders: bool,
    /// Nobody waits for what it does, so it ends early where a lender waits.
    pub gives_way: bool,
}

/// What a writer would get if nothing were under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// More nodes, while the nodes that there are have room, at other places than the writer's.
    Growth,
    /// More nodes, because there is little room anywhere.
    OnlyGrowth,
}

impl Reconfiguration {
    /// A writer waits for room: nodes that were to leave stay, unless they are empty already. A move
    /// keeps the pace that it began with, so one that nobody waited for is begun anew; so is one by a
    /// plan from before the node was full, once for each node.
    pub fn hurry(&mut self, full: Option<NodeId>) {
        let was_urgent = std::mem::replace(&mut self.precedence.urgent, true);
        let helps = was_urgent && full.is_none_or(|node| self.is_to_give(node));
        self.begin_anew |= self.full.insert(full) && !helps && self.only_spreads();
        let may_turn = !matches!(self.phase, Phase::Removing | Phase::Erasing | Phase::Over);
        let takes_away = self.kind() == Kind::Decommission && !self.record.undoing;
        // A lender's node ends at a time that the lender has set, with all that is on it by then.
        if takes_away && may_turn && !self.precedence.is_lenders {
            self.cancelled.get_or_insert("a writer needs the room".to_owned());
        }
    }

    /// Whether a writer that met this node full is served better when this ends and nodes are added.
    ///
    /// A move may take as long as its limit says, so a writer must not wait for one that is of no use
    /// to it. But one that takes bytes off the full node is making that room, with nothing to start
    /// first. Ended for a growth it would begin again as a part of that growth, after a wait for the new
    /// node; and a node would be bought for data that finds room on those that there are. Where the
    /// others are nearly full as well, the room that moving makes does not last, and the node that is
    /// needed in any case should come at once. Before there is a plan nobody can say, and the writer
    /// tells its need again as long as it waits.
    ///
    /// A growth whose nodes have been filled meanwhile makes way for the next in the same way, but not
    /// while it takes bytes off the full node: that is what it was begun for.
    pub fn is_worse_than(&self, instead: Instead, full: Option<NodeId>) -> bool {
        if self.precedence.is_lenders || self.plan.is_none() {
            return false;
        }
        let gives = full.is_none_or(|node| self.is_to_give(node));
        match self.only_spreads() {
            true => instead == Instead::OnlyGrowth || !gives,
            false => {
                let spreads = self.is_growth() && self.phase == Phase::Moving;
                spreads && instead == Instead::OnlyGrowth && !gives
            }
        }
    }

    /// No own node comes and none leaves.
    fn only_spreads(&self) -> bool {
        match self.kind() {
            Kind::Rebalance => true,
            Kind::Commission => self.start == Action::TakeIn,
            Kind::Decommission => self.record.undoing,
        }
    }

    /// The policy takes nodes away that nobody asked it to.
    pub fn takes_away_unasked(&self) -> bool {
        let takes_away = self.kind() == Kind::Decommission && !self.record.undoing;
        takes_away && self.precedence.gives_way
    }

    /// The rest of the plan takes bytes off this node.
    fn is_to_give(&self, node: NodeId) -> bool {
        let steps = self.plan.iter().flat_map(|plan| plan.steps.iter().skip(self.next_step));
        steps.flat_map(|step| &step.moves).any(|step| step.from == node && step.bytes > 0)
    }

    /// It was decided for a writer that met this node full.
    pub fn begins_for(&mut self, full: Option<NodeId>) {
        self.full.insert(full);
    }

    /// Goes no further than it must: somebody else comes first.
    pub fn cut_short(&mut self) {
        self.cut_short = true;
    }

    /// It empties nodes whose lenders want them back.
    pub fn gives_back(&self) -> bool {
        self.precedence.is_lenders && !self.record.leaving.is_empty()
    }

    /// Whether a lender waits for its memory: told again with everything that happens, since what is
    /// under way becomes another when it is turned round, or when a survey shows whose it is.
    pub fn lender_waits(&mut self, waits: bool) {
        self.lender_waits = waits;
    }

    /// For a lender, what nobody else waits for ends with the step under way. Nor is anything spread
    /// back first.
    pub(super) fn is_cut_short(&self) -> bool {
        let spreads_back = self.record.undoing && !self.precedence.is_lenders;
        let gives_way = self.precedence.gives_way || spreads_back;
        self.cut_short || self.lender_waits && gives_way
    }

    /// Ends where it stands: somebody else comes first.
    pub(super) fn end_early(&mut self, tasks: &mut Tasks) {
        self.cancelled = None;
        self.ended_early = true;
        if self.kind() == Kind::Decommission && !self.record.undoing {
            let why = "a lender wants its node back first; what was moved is not spread back yet";
            self.outcome = Outcome::RolledBack { why: why.to_owned() };
            self.nodes_after = self.record.nodes_before.len() as u16;
        }
        self.remove(Vec::new(), tasks);
    }

    /// What a predecessor began and nobody remembers the reason of: victim nodes leave when their
    /// lenders want them to.
    pub(super) fn find_lenders(&mut self, inventory: &Inventory) {
        let is_victim = |id: &NodeId| {
            inventory.observation().node(*id).is_some_and(|node| node.class == NodeClass::Victim)
        };
        if self.record.leaving.iter().any(is_victim) {
            self.precedence.is_lenders = true;
            self.precedence.gives_way = false;
        }
        if self.precedence.is_lenders || self.leaving_in(inventory).is_empty() {
            self.cancelled = None;
        }
        if self.kind() == Kind::Commission && self.joined.iter().all(is_victim) {
            self.precedence.gives_way = true;
            self.start = Action::TakeIn;
        }
    }

    /// Whether the move under way is to end now, which is said once: somebody else comes first, it is
    /// urgent by now, nodes that were to leave stay, or `died`: a node has, and nobody else gives up what it held.
    pub fn breaks_off(&mut self, died: bool) -> bool {
        let is_moving = self.phase == Phase::Moving && !self.pending.is_empty();
        let anew = std::mem::take(&mut self.begin_anew);
        let otherwise = died || anew || self.is_cut_short() || self.cancelled.is_some();
        is_moving && otherwise && !std::mem::replace(&mut self.broken_off, true)
    }
}
