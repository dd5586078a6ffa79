//! What failed waits for its next try, and holds back nothing of another kind: a rebalance that fails
//! again and again is no reason not to add nodes.

use tidefs_model::Time;

use crate::decision::{Hold, Verdict};
use crate::reconfiguration::Reconfiguration;
use crate::record::Kind;
use crate::settings::BackOff;

#[derive(Clone, Debug, Default)]
pub(super) struct HeldBack {
    growing: Held,
    shrinking: Held,
    spreading: Held,
    giving_back: Held,
}

/// What a change of the nodes is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aim {
    Grow,
    Shrink,
    Spread,
    /// A lender's node, to the lender: who asks is not held back, but others are not ended for it.
    GiveBack,
}

impl Aim {
    /// `None`: whoever offers a lender's node is not held back, and an offer that was withdrawn says
    /// nothing of other changes.
    pub fn of(reconfiguration: &Reconfiguration) -> Option<Aim> {
        let aim = match reconfiguration.kind() {
            _ if reconfiguration.gives_back() => Aim::GiveBack,
            Kind::Commission if reconfiguration.is_growth() => Aim::Grow,
            Kind::Commission => return None,
            Kind::Rebalance => Aim::Spread,
            Kind::Decommission => Aim::Shrink,
        };
        Some(aim)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// In a row.
    failures: u32,
    until: Option<(Time, String)>,
}

impl Held {
    fn failed(&mut self, now: Time, why: String, helped: bool, back_off: &BackOff) {
        self.failures = if helped { 1 } else { self.failures + 1 };
        self.until = Some((now + back_off.wait(self.failures), why));
    }
}

impl HeldBack {
    /// `helped`: not for nothing.
    pub fn failed(
        &mut self,
        aim: Option<Aim>,
        now: Time,
        why: String,
        helped: bool,
        back_off: &BackOff,
    ) {
        if let Some(aim) = aim {
            self.of(aim).failed(now, why, helped, back_off);
        }
    }

    pub fn succeeded(&mut self, aim: Option<Aim>) {
        if let Some(aim) = aim {
            *self.of(aim) = Held::default();
        }
    }

    fn of(&mut self, aim: Aim) -> &mut Held {
        match aim {
            Aim::Grow => &mut self.growing,
            Aim::Shrink => &mut self.shrinking,
            Aim::Spread => &mut self.spreading,
            Aim::GiveBack => &mut self.giving_back,
        }
    }

    /// Giving a node back failed a moment ago.
    pub fn giving_back_is_held(&self, now: Time) -> bool {
        self.giving_back.until.as_ref().is_some_and(|(until, _)| *until > now)
    }

    /// Why a verdict is not carried out yet; `None`: it may be.
    pub fn back_off(&self, now: Time, verdict: &Verdict) -> Option<Hold> {
        let held = match verdict {
            Verdict::Grow { .. } => &self.growing,
            Verdict::Shrink { .. } => &self.shrinking,
            Verdict::Rebalance { .. } => &self.spreading,
            Verdict::Hold(_)
            | Verdict::Expunge { .. }
            | Verdict::Replace { .. }
            | Verdict::TakeIn => return None,
        };
        let (until, why) = held.until.as_ref().filter(|(until, _)| *until > now)?;
        let failures = held.failures;
        Some(Hold::BackOff { left: *until - now, failures, why: why.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::decision::Cause;

    #[test]
    fn what_fails_holds_back_its_own_kind_only_and_longer_each_time() {
        let now = Time::from_unix(1_000, 0);
        let back_off = BackOff::default();
        let grow = Verdict::Grow { add: 1, cause: Cause::ByHand };
        let spread = Verdict::Rebalance { cause: Cause::ByHand };
        let mut held = HeldBack::default();
        for _ in 0..9 {
            held.of(Aim::Spread).failed(now, "no room".to_owned(), false, &back_off);
        }
        let leaving = Vec::new();
        let shrink = Verdict::Shrink { leaving, cause: Cause::ByHand };
        assert_eq!((held.back_off(now, &grow), held.back_off(now, &shrink)), (None, None));
        let Some(Hold::BackOff { failures: 9, left, why }) = held.back_off(now, &spread) else {
            panic!("it is not held back");
        };
        assert_eq!((left, why.as_str()), (back_off.wait(9), "no room"));
        assert_eq!(held.back_off(now + left, &spread), None);
        let mut offered = HeldBack::default();
        offered.failed(None, now, "no offer".to_owned(), false, &back_off);
        assert_eq!(offered.back_off(now, &spread), None);
        // What added some nodes begins to count anew.
        for helped in [false, false, true] {
            held.of(Aim::Grow).failed(now, "one host is full".to_owned(), helped, &back_off);
        }
        let Some(Hold::BackOff { failures: 1, left, .. }) = held.back_off(now, &grow) else {
            panic!("it is not held back");
        };
        assert!(left <= back_off.wait(1) && left > Duration::ZERO);
        *held.of(Aim::Grow) = Held::default();
        assert_eq!(held.back_off(now, &grow), None);
    }
}
