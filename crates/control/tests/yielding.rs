//! A lender's machine: a tenant that takes memory and leaves it, and what the lender makes of it.

use std::time::Duration;

use proptest::prelude::*;
use tidefs_control::yielding::{Lender, Lending, Limits, Need, Pressure};
use tidefs_model::{ByteSize, Time};

const MIB: u64 = 1 << 20;

const LIMITS: Limits = Limits {
    most: ByteSize::mib(1_000),
    least: ByteSize::mib(64),
    reserve: ByteSize::mib(500),
    deadline: Duration::from_secs(2),
    idle: Duration::from_secs(10),
};

fn pressure(available: u64, lent: u64) -> Pressure {
    Pressure {
        available: ByteSize(available * MIB),
        lent: ByteSize(lent * MIB),
        stalled_percent: 0.0,
        limits_met: 0,
        killed: 0,
    }
}

fn at(milliseconds: u64) -> Time {
    Time::from_unix(1_000, 0) + Duration::from_millis(milliseconds)
}

fn lending(budget: u64) -> Lender {
    let mut lender = Lender::new(LIMITS);
    lender.lent(ByteSize::mib(budget));
    lender
}

#[test]
fn a_slow_need_shrinks_the_node_by_what_is_missing() {
    let mut lender = lending(1_000);
    assert_eq!(lender.look(at(0), pressure(600, 900)), Lending::Keep);
    // Ten seconds later there are 100 MiB less than the reserve.
    let asked = lender.look(at(10_000), pressure(400, 900));
    assert_eq!(asked, Lending::Budget(ByteSize::mib(800)));
    let asked = lender.look(at(20_000), pressure(540, 20));
    assert_eq!(asked, Lending::Leave(Need::TooLittle), "60 MiB would be left for it");
}

#[test]
fn a_machine_with_much_free_is_looked_at_less_often() {
    let lender = lending(1_000);
    let pause = |available| lender.pause(&pressure(available, 900)).as_millis();
    assert_eq!((pause(1_523), pause(1_524)), (50, 200), "a gibibyte beyond the reserve");
}

#[test]
fn a_sudden_need_ends_the_loan_before_memory_is_used_up() {
    let mut lender = lending(1_000);
    lender.look(at(0), pressure(4_000, 900));
    // 200 MiB in a tenth of a second leave 1.9 s.
    let Lending::Leave(Need::Sudden { within }) = lender.look(at(100), pressure(3_800, 900)) else {
        panic!("it stays");
    };
    assert_eq!(within, Duration::from_millis(1_900));
    // The same speed where there is enough for a while.
    let mut lender = lending(1_000);
    lender.look(at(0), pressure(9_000, 900));
    assert_eq!(lender.look(at(100), pressure(8_800, 900)), Lending::Keep);
}

/// Too slow to be seen from one look to the next.
#[test]
fn a_need_that_goes_on_is_seen_over_a_second() {
    let mut lender = lending(1_000);
    let left = (0..200).find(|look| {
        let asked = lender.look(at(look * 50), pressure(8_000 - 40 * look, 900));
        matches!(asked, Lending::Leave(Need::Sudden { .. }))
    });
    // 800 MiB a second: two seconds before the end there are 1,600 MiB.
    assert_eq!(left, Some(161));
}

#[test]
fn what_the_node_takes_in_itself_is_no_need() {
    let mut lender = lending(1_000);
    lender.look(at(0), pressure(1_900, 0));
    assert_eq!(lender.look(at(100), pressure(1_600, 300)), Lending::Keep);
    assert_eq!(lender.look(at(200), pressure(1_300, 600)), Lending::Keep);
}

#[test]
fn somebody_who_meets_a_limit_is_given_way_at_once() {
    let mut lender = lending(1_000);
    let met = |times, available| Pressure { limits_met: times, ..pressure(available, 900) };
    assert_eq!(lender.look(at(0), met(7, 600)), Lending::Keep, "that was long ago");
    assert_eq!(lender.look(at(50), met(8, 600)), Lending::Keep, "it reads files");
    assert_eq!(lender.look(at(9_000), met(9, 499)), Lending::Leave(Need::LimitMet));
    let mut lender = lending(1_000);
    let killed = |killed| Pressure { killed, ..pressure(5_000, 900) };
    assert_eq!(lender.look(at(0), killed(3)), Lending::Keep);
    assert_eq!(lender.look(at(50), killed(4)), Lending::Leave(Need::LimitMet));
}

#[test]
fn programs_that_wait_for_memory_are_given_some() {
    let mut lender = lending(1_000);
    let stalled = |lent| Pressure { stalled_percent: 30.0, ..pressure(5_800 - lent, lent) };
    assert_eq!(lender.look(at(0), stalled(800)), Lending::Budget(ByteSize::mib(600)));
    // The kernel tells of the same waiting for ten seconds.
    for look in 1..200 {
        assert_eq!(lender.look(at(look * 50), stalled(600)), Lending::Keep);
    }
    assert_eq!(lender.look(at(10_000), stalled(600)), Lending::Budget(ByteSize::mib(450)));
    // Memory is free, so waiting for it alone does not end the loan.
    for look in 2..20 {
        lender.look(at(look * 10_000), stalled(10));
    }
    assert_eq!(lender.look(at(200_000), stalled(10)), Lending::Keep);
}

#[test]
fn memory_that_stays_free_is_lent_again_and_later_each_time() {
    let mut lender = lending(1_000);
    let mut waits = Vec::new();
    let mut now = 0;
    for _ in 0..4 {
        lender.look(at(now), pressure(1_600, 300));
        now += 1_000;
        let asked = lender.look(at(now), pressure(200, 300));
        assert!(matches!(asked, Lending::Leave(_)), "{asked:?}");
        lender.gone(at(now));
        let left = now;
        let offered = loop {
            now += 500;
            match lender.look(at(now), pressure(1_800, 0)) {
                Lending::Keep => assert!(now < left + 1_000_000, "it is never lent again"),
                other => break other,
            }
        };
        // Twice the reserve stays free.
        assert_eq!(offered, Lending::Offer(ByteSize::mib(800)));
        waits.push((now - left) / 10_000);
        lender.lent(ByteSize::mib(800));
    }
    assert_eq!(waits, [1, 2, 4, 8]);
}

#[test]
fn a_node_grows_again_only_after_the_pause_and_not_for_little() {
    let mut lender = lending(500);
    // 1,000 beyond twice the reserve, of which 300 are in use.
    for second in 0..10 {
        assert_eq!(lender.look(at(second * 1_000), pressure(1_500, 300)), Lending::Keep);
    }
    assert_eq!(lender.look(at(10_000), pressure(1_500, 300)), Lending::Budget(ByteSize::mib(800)));
    for second in 11..60 {
        let asked = lender.look(at(second * 1_000), pressure(1_540, 300));
        assert_eq!(asked, Lending::Keep, "40 MiB are not worth it");
    }
}

#[test]
fn memory_that_is_being_used_up_is_not_lent() {
    let mut lender = Lender::new(LIMITS);
    for second in 0..40 {
        let asked = lender.look(at(second * 1_000), pressure(9_000 - 100 * second, 0));
        assert_eq!(asked, Lending::Keep, "after {second} s");
    }
    let offered = (40..60).map(|second| lender.look(at(second * 1_000), pressure(5_000, 0)));
    assert!(offered.into_iter().any(|asked| asked == Lending::Offer(ByteSize::mib(1_000))));
}

#[test]
fn an_interruption_of_the_calm_begins_the_pause_anew() {
    let mut lender = lending(500);
    for second in 0..40 {
        let free = if second % 8 == 7 { 800 } else { 3_000 };
        let asked = lender.look(at(second * 1_000), pressure(free, 300));
        assert!(matches!(asked, Lending::Keep | Lending::Leave(_)), "{asked:?}");
        assert!(!matches!(asked, Lending::Budget(_)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a tenant does, budgets are within what was promised, and shrinking leaves the tenant
    /// its reserve as soon as the node holds no more than its budget.
    #[test]
    fn budgets_are_kept(free in prop::collection::vec((0_u64..4_000, 10_u64..3_000), 1..80)) {
        let mut lender = Lender::new(LIMITS);
        let (mut budget, mut now): (Option<u64>, u64) = (None, 0);
        for (tenant, pause) in free {
            now += pause;
            // A machine of 4,000 MiB; the node is full.
            let lent = budget.unwrap_or(0).min(4_000 - tenant);
            let available = 4_000 - tenant - lent;
            match lender.look(at(now), pressure(available, lent)) {
                Lending::Keep => {}
                Lending::Budget(to) => {
                    prop_assert!(to >= LIMITS.least && to <= LIMITS.most, "{to}");
                    let left = (available + lent) as i64 - (to.0 / MIB) as i64;
                    prop_assert!(left >= 500, "{left} MiB are left for the tenant");
                    budget = Some(to.0 / MIB);
                }
                Lending::Leave(_) => {
                    prop_assert!(budget.is_some(), "there is nothing to give back");
                    budget = None;
                    lender.gone(at(now));
                }
                Lending::Offer(with) => {
                    prop_assert!(budget.is_none(), "there is a node already");
                    prop_assert!(with >= LIMITS.least && with <= LIMITS.most, "{with}");
                    prop_assert!(available - with.0 / MIB >= 1_000, "{available} of which {with}");
                    lender.lent(with);
                    budget = Some(with.0 / MIB);
                }
            }
        }
    }

    /// A tenant that stays as it is makes the budget change at most once, and then never again.
    #[test]
    fn a_steady_machine_comes_to_rest(tenant in 0_u64..3_900, budget in 64_u64..1_000) {
        let mut lender = lending(budget);
        let (mut budget, mut changes) = (Some(budget), 0);
        for second in 0..600 {
            let lent = budget.unwrap_or(0).min(4_000 - tenant);
            match lender.look(at(second * 1_000), pressure(4_000 - tenant - lent, lent)) {
                Lending::Keep => {}
                Lending::Budget(to) | Lending::Offer(to) => {
                    (budget, changes) = (Some(to.0 / MIB), changes + 1);
                    lender.lent(to);
                }
                Lending::Leave(_) => {
                    (budget, changes) = (None, changes + 1);
                    lender.gone(at(second * 1_000));
                }
            }
        }
        prop_assert!(changes <= 2, "{changes} changes");
    }
}
