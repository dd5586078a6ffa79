//! A mark that servers keep at a slot: its owner does not claim it.
//!
//! It is set when a greeting of the owner comes late, from before it had the slot. Redis 7.0 leaves it
//! there when the slot changes hands: a node that takes a marked slot over, whose giver has yet to
//! be told and goes on to claim it, believes the giver whatever the epochs are, and drops the keys that
//! it was just given. Then nobody has the slot.
//!
//! A server looks at all that another one claims, and takes away the marks of it, when the claims
//! differ from what it knows. So before slots move, each taker is made to know one slot less of
//! each giver, and the giver's next greeting puts it right.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Instant;

use tidefs_model::NodeId;

use super::epochs::{AGREED_WITHIN, GREET_EVERY, LOOK_EVERY, greet};
use super::{Admin, AdminError, Managed};

/// A giver, a taker, and the slot of the giver that the taker does not know of for a moment.
type Gap = (Managed, Managed, u16);

impl Admin {
    /// Takes away the marks that takers have at slots of their givers; `ways` are from whom to whom.
    /// For the moment of it a taker sends nobody on who asks it for one of the giver's slots.
    pub(super) fn clear_marks(&self, ways: &[(NodeId, NodeId)]) -> Result<(), AdminError> {
        let ways: BTreeSet<_> = ways.iter().copied().collect();
        let mut gaps = Vec::with_capacity(ways.len());
        for (giver, taker) in ways {
            let (giver, taker) = (self.managed(giver)?, self.managed(taker)?);
            // Of a giver that cannot greet the taker would not hear again.
            greet(&giver, &taker)?;
            if let Some(slot) = known_slot(&taker, giver.id())? {
                taker.say(&["CLUSTER", "DELSLOTS", &slot.to_string()])?;
                gaps.push((giver, taker, slot));
            }
        }
        wait_until_closed(gaps)
    }
}

/// The last slot that a node takes another one to have.
fn known_slot(node: &Managed, other: NodeId) -> Result<Option<u16>, AdminError> {
    let view = node.view()?;
    let ranges = view.iter().filter(|seen| seen.id == other).flat_map(|seen| &seen.slots);
    Ok(ranges.last().map(|range| *range.end()))
}

fn wait_until_closed(mut gaps: Vec<Gap>) -> Result<(), AdminError> {
    let begun = Instant::now();
    let mut greeted: Option<Instant> = None;
    while !gaps.is_empty() {
        if greeted.is_none_or(|last| last.elapsed() >= GREET_EVERY) {
            gaps.iter().try_for_each(|(giver, taker, _)| greet(giver, taker))?;
            greeted = Some(Instant::now());
        }
        sleep(LOOK_EVERY);
        let mut open = Vec::with_capacity(gaps.len());
        for gap in gaps {
            if is_open(&gap)? {
                open.push(gap);
            }
        }
        gaps = open;
        if let (Some((giver, taker, slot)), true) = (gaps.first(), begun.elapsed() >= AGREED_WITHIN)
        {
            let said = format!("{:?} does not hear that {:?} has {slot}", taker.id(), giver.id());
            return Err(AdminError::NotAgreed { waited: AGREED_WITHIN, said });
        }
    }
    Ok(())
}

fn is_open((_, taker, slot): &Gap) -> Result<bool, AdminError> {
    let view = taker.view()?;
    Ok(!view.iter().flat_map(|seen| &seen.slots).any(|range| range.contains(slot)))
}
