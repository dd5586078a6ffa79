//! Callbacks that fail, hang or say what is not so, and servers that vanish: said with the item, mended as
//! far as it can be, and nothing lost.

use tidefs_rescale::{Call, Fault, Inventory, Move, Outcome, Refused, Server, Unfinished};

use crate::sim::Manner::{self, *};
use crate::sim::{Happens, Sim, change, seconds, server, well};

/// The first so many moves of a bucket go in that manner, and everything else well.
fn moves_of(
    bucket: &'static str,
    times: usize,
    manner: Manner,
) -> impl FnMut(&Call) -> (Manner, std::time::Duration) {
    let mut left = times;
    move |call| match call {
        Call::Move { bucket: moved, .. } if moved == bucket && left > 0 => {
            left -= 1;
            (manner, if manner == IsLate { seconds(1e3) } else { seconds(0.1) })
        }
        _ => well(call),
    }
}

/// Server s0 of three leaves, with b0-0 on it.
fn leave(manners: &mut crate::sim::Manners<'_>) -> (Sim, Outcome) {
    let mut sim = Sim::new(3, 20);
    let before = sim.buckets();
    let outcome = sim.rescale(change(0..0, &["s0"]), manners).unwrap();
    let mut after = sim.buckets();
    after.dedup();
    after.extend(sim.lost.iter().cloned());
    after.sort();
    assert_eq!(after, before);
    (sim, outcome)
}

fn says(outcome: &Outcome, part: &str) {
    let faults: Vec<_> = outcome.faults.iter().map(|fault| fault.to_string()).collect();
    assert!(faults.iter().any(|fault| fault.contains(part)), "{part}: {faults:?}");
}

fn left(outcome: &Outcome, part: &str) {
    let left: Vec<_> = outcome.unfinished.iter().map(|it| it.to_string()).collect();
    assert!(left.iter().any(|it| it.contains(part)), "{part}: {left:?}");
    assert!(!outcome.is_complete());
}

#[test]
fn a_move_that_does_not_come_off_is_tried_again_and_then_elsewhere() {
    for (manner, part) in [
        (Fails, "failed: it broke"),
        (FailsAfterwards, "failed: it broke afterwards"),
        (Lies, "was said to be done, and by the inventory the bucket is still on \"s0\""),
        (Copies, "the bucket is both on"),
        (Strays, "the bucket is on \"s"),
    ] {
        let (sim, outcome) = leave(&mut moves_of("b0-0", 2, manner));
        assert!(outcome.is_complete(), "{manner:?}: {outcome:?}");
        assert_eq!(outcome.stopped, ["s0"], "{manner:?}");
        assert!(!sim.servers.contains_key("s0"));
        says(&outcome, part);
        says(&outcome, "b0-0");
    }
    let targets = |calls: &[Call]| {
        let to = calls.iter().filter_map(|call| match call {
            Call::Move { bucket, to, .. } if bucket == "b0-0" => Some(to.clone()),
            _ => None,
        });
        to.collect::<Vec<_>>()
    };
    let (sim, _) = leave(&mut moves_of("b0-0", 2, Fails));
    let to = targets(&sim.calls);
    assert!(to.len() == 3 && to[0] == to[1] && to[1] != to[2], "{to:?}");
}

/// The copy that an attempt left is gone when the next one is confirmed, which nothing may come after.
#[test]
fn a_move_that_left_a_copy_at_first_is_complete_in_the_end() {
    let last = |sim: &Sim| {
        let last = sim.calls.iter().rev().find_map(|call| match call {
            Call::Move { bucket, .. } => Some(bucket.clone()),
            _ => None,
        });
        last.expect("something moved")
    };
    let mut sim = Sim::new(2, 20);
    sim.rescale(change(2..3, &[]), &mut well).unwrap();
    let copied = last(&sim);
    let (mut sim, mut left) = (Sim::new(2, 20), 1);
    let outcome = sim.rescale(change(2..3, &[]), &mut |call| match call {
        Call::Move { bucket, .. } if *bucket == copied && left > 0 => {
            left -= 1;
            (Copies, seconds(0.1))
        }
        _ => well(call),
    });
    let outcome = outcome.unwrap();
    says(&outcome, "the bucket is both on");
    assert_eq!(last(&sim), copied, "nothing comes after it");
    assert!(outcome.is_complete(), "{outcome:?}");
}

#[test]
fn a_bucket_that_cannot_be_moved_keeps_its_server() {
    for manner in [Fails, Lies, Copies] {
        let (sim, outcome) = leave(&mut moves_of("b0-0", 99, manner));
        assert!(sim.servers["s0"].contains_key("b0-0"));
        assert!(!sim.calls.iter().any(|call| matches!(call, Call::Stop { .. })), "{manner:?}");
        left(&outcome, "bucket \"b0-0\" is on");
        left(&outcome, "server \"s0\" was not stopped");
        assert_eq!(sim.servers["s0"].len(), 1, "the others have left");
    }
}

#[test]
fn a_move_that_hangs_keeps_both_servers_and_stops_nothing_else() {
    for manner in [Hangs, HangsAfterwards] {
        let (sim, outcome) = leave(&mut moves_of("b0-0", 1, manner));
        says(&outcome, "the move of bucket \"b0-0\"");
        says(&outcome, "had not returned after 300 s");
        left(&outcome, "server \"s0\" was not stopped");
        assert_eq!(outcome.calls_running, 1);
        assert!(sim.servers["s0"].len() <= 1, "the others have left");
        assert!(!sim.calls.iter().any(|call| matches!(call, Call::Stop { .. })));
    }
}

#[test]
fn what_comes_late_is_believed_when_the_inventory_has_it() {
    let mut sim = Sim::new(3, 20);
    // Another move takes long enough for the late one to come back meanwhile.
    sim.settings.move_within = seconds(900.0);
    let mut late = moves_of("b0-0", 1, IsLate);
    let mut slow = moves_of("b0-1", 1, Fine);
    let outcome = sim.rescale(change(0..0, &["s0"]), &mut |call| match call {
        Call::Move { bucket, .. } if bucket == "b0-1" => (slow(call).0, seconds(899.0)),
        Call::Move { bucket, .. } if bucket == "b0-2" => (Fine, seconds(200.0)),
        _ => late(call),
    });
    let outcome = outcome.unwrap();
    says(&outcome, "had not returned");
    assert!(outcome.is_complete(), "{outcome:?}");
    assert_eq!((outcome.stopped.len(), outcome.calls_running), (1, 0));
    assert_eq!(sim.buckets().len(), 60);
}

#[test]
fn a_bucket_that_a_move_loses_ends_everything() {
    let (sim, outcome) = leave(&mut moves_of("b0-0", 1, Loses));
    says(&outcome, "bucket \"b0-0\" was moved from \"s0\"");
    assert!(outcome.halted.is_some());
    left(&outcome, "b0-0");
    assert!(!sim.calls.iter().any(|call| matches!(call, Call::Stop { .. })));
    // What was under way is not told as if nobody had been asked.
    left(&outcome, "its move came back, and no inventory said what came of it");
    let begun = |name: &String| {
        sim.calls.iter().any(|call| matches!(call, Call::Move { bucket, .. } if bucket == name))
    };
    for it in &outcome.unfinished {
        if let Unfinished::NotMoved { bucket, why, .. } = it {
            assert_eq!(begun(bucket), why != "it was not begun any more", "{it}");
        }
    }
}

#[test]
fn a_server_that_does_not_start_is_done_without() {
    for (manner, part) in [
        (Fails, "the start of server \"s2\" failed: it broke"),
        (
            Lies,
            "the start of server \"s2\" was said to be done, and by the inventory it is not there",
        ),
        (Hangs, "the start of server \"s2\" had not returned after 60 s"),
    ] {
        let mut sim = Sim::new(2, 30);
        let before = sim.buckets();
        let outcome = sim.rescale(change(2..4, &[]), &mut |call| match call {
            Call::Start { server } if server == "s2" => (manner, seconds(1.0)),
            _ => well(call),
        });
        let outcome = outcome.unwrap();
        says(&outcome, part);
        left(&outcome, "server \"s2\" was not started");
        assert_eq!(outcome.started, ["s3"]);
        // A tenth above even is what a plan for so few buckets allows for its time.
        assert!(sim.servers.values().all(|held| held.len() <= 22), "{:?}", sim.servers);
        assert_eq!(sim.buckets(), before);
    }
}

#[test]
fn a_server_that_failed_to_start_and_runs_is_stopped_again() {
    let mut sim = Sim::new(2, 30);
    let outcome = sim.rescale(change(2..4, &[]), &mut |call| match call {
        Call::Start { server } if server == "s2" => (FailsAfterwards, seconds(1.0)),
        _ => well(call),
    });
    assert_eq!(outcome.unwrap().rolled_back, ["s2"]);
    assert_eq!(sim.servers.keys().collect::<Vec<_>>(), ["s0", "s1", "s3"]);
}

#[test]
fn a_server_to_which_nothing_can_be_moved_is_stopped_again() {
    let mut sim = Sim::new(2, 30);
    let outcome = sim.rescale(change(2..3, &[]), &mut |call| match call {
        Call::Move { to, .. } if to == "s2" => (Fails, seconds(0.1)),
        _ => well(call),
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.rolled_back, ["s2"]);
    left(&outcome, "server \"s2\" was not started: nothing could be moved to it");
    assert_eq!(sim.servers.len(), 2);
    assert_eq!(sim.buckets().len(), 60);
}

#[test]
fn a_stop_that_fails_hangs_or_lies_is_said() {
    for (manner, part) in [
        (Fails, "the stop of server \"s0\" failed: it broke"),
        (
            Lies,
            "the stop of server \"s0\" was said to be done, and by the inventory it is still there",
        ),
        (Hangs, "the stop of server \"s0\" had not returned after 60 s"),
    ] {
        let (sim, outcome) = leave(&mut |call| match call {
            Call::Stop { .. } => (manner, seconds(1.0)),
            _ => well(call),
        });
        says(&outcome, part);
        left(&outcome, "server \"s0\" was not stopped");
        assert_eq!(sim.servers["s0"].len(), 0);
    }
}

#[test]
fn a_stop_that_is_refused_is_tried_again() {
    for manner in [Fails, FailsAfterwards] {
        let mut refusals = 1;
        let (sim, outcome) = leave(&mut |call| match call {
            Call::Stop { .. } if refusals > 0 => {
                refusals -= 1;
                (manner, seconds(1.0))
            }
            _ => well(call),
        });
        says(&outcome, "the stop of server \"s0\" failed: it broke");
        assert!(outcome.is_complete(), "{manner:?}: {outcome:?}");
        assert_eq!(outcome.stopped, ["s0"]);
        assert!(!sim.servers.contains_key("s0"));
    }
    let (sim, _) = leave(&mut |call| match call {
        Call::Stop { .. } => (Fails, seconds(1.0)),
        _ => well(call),
    });
    let stops = sim.calls.iter().filter(|call| matches!(call, Call::Stop { .. })).count();
    assert_eq!(stops, sim.settings.attempts as usize);
}

#[test]
fn a_server_that_vanishes_is_planned_around() {
    let mut sim = Sim::new(4, 30);
    sim.events.push((seconds(2.5), Happens::Vanishes("s1".to_owned())));
    let before = sim.buckets();
    let outcome = sim.rescale(change(4..6, &["s0"]), &mut well).unwrap();
    let gone = sim.lost.len() as u64;
    says(&outcome, "server \"s1\" is not in the inventory any more");
    left(&outcome, "server \"s1\" vanished");
    assert_eq!(outcome.stopped, ["s0"]);
    assert_eq!(outcome.plans, 2);
    assert_eq!(sim.buckets().len() as u64 + gone, before.len() as u64);
    let held: Vec<_> = sim.servers.values().map(|held| held.len()).collect();
    assert!(held.iter().max().unwrap() - held.iter().min().unwrap() <= 2, "{held:?}");
}

/// Half of what was on it is on its way to the newcomers when it vanishes. The plan that is made then does not
/// know yet that this will not arrive.
#[test]
fn what_does_not_arrive_from_a_server_that_vanished_is_not_planned_with() {
    let mut sim = Sim::new(2, 20);
    sim.settings.moves_per_server = 16;
    sim.events.push((seconds(0.16), Happens::Vanishes("s1".to_owned())));
    let mut quick = |call: &Call| match call {
        Call::Start { .. } => (Fine, seconds(0.01)),
        _ => well(call),
    };
    let outcome = sim.rescale(change(2..4, &["s0"]), &mut quick).unwrap();
    left(&outcome, "server \"s1\" vanished");
    let held: Vec<_> = ["s2", "s3"].map(|server| sim.servers[server].len()).into();
    assert!(held[0].abs_diff(held[1]) <= 2, "{held:?}");
}

#[test]
fn a_target_that_vanishes_has_its_moves_redirected() {
    let mut sim = Sim::new(3, 30);
    sim.events.push((seconds(3.0), Happens::Vanishes("s3".to_owned())));
    let outcome = sim.rescale(change(3..5, &["s0"]), &mut well).unwrap();
    left(&outcome, "server \"s3\" vanished");
    assert_eq!(outcome.stopped, ["s0"]);
    let all = sim.buckets().len() + sim.lost.len();
    assert_eq!(all, 90);
}

/// The first of two that are to go the same way does not fit.
#[test]
fn a_bucket_that_fits_does_not_stay_for_one_that_does_not() {
    let mut sim = Sim::new(2, 0);
    let sizes = [("large", 600), ("small", 100)].map(|(name, bytes)| (name.to_owned(), bytes));
    sim.servers.insert("s0".to_owned(), sizes.clone().into());
    sim.specs.insert("s1".to_owned(), Server { capacity_bytes: 500, ..server("s1") });
    let (from, to) = ("s0".to_owned(), "s1".to_owned());
    let step = |(bucket, bytes)| Move { bucket, from: from.clone(), to: to.clone(), bytes };
    sim.planned = Some(sizes.map(step).into());
    let outcome = sim.rescale(change(0..0, &[]), &mut well).unwrap();
    assert_eq!(sim.servers["s1"].keys().collect::<Vec<_>>(), ["small"]);
    left(
        &outcome,
        "\"large\" is on \"s0\" and should be on \"s1\": it has 600 bytes and there is room for 400",
    );
    assert_eq!(outcome.unfinished.len(), 1, "{:?}", outcome.unfinished);
}

#[test]
fn buckets_that_are_made_on_a_server_that_leaves_are_moved_too() {
    let mut sim = Sim::new(3, 20);
    let makes = Happens::Makes { bucket: "new".to_owned(), server: "s0".to_owned() };
    sim.events.push((seconds(0.35), makes));
    let outcome = sim.rescale(change(0..0, &["s0"]), &mut well).unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    assert!(sim.buckets().contains(&"new".to_owned()));
}

/// The simulation would not allow the stop.
#[test]
fn a_server_is_not_stopped_where_a_bucket_hides() {
    let hide = |shows: Option<f64>| {
        let mut sim = Sim::new(3, 20);
        let hidden = || "b0-9".to_owned();
        sim.events.push((seconds(0.05), Happens::Hides(hidden())));
        sim.events.extend(shows.map(|at| (seconds(at), Happens::Shows(hidden()))));
        let outcome = sim.rescale(change(0..0, &["s0"]), &mut well).unwrap();
        says(&outcome, "bucket \"b0-9\" lay on \"s0\" and is not in the inventory any more");
        (sim, outcome)
    };
    let (sim, outcome) = hide(None);
    left(&outcome, "server \"s0\" was not stopped: bucket \"b0-9\" vanished there");
    assert_eq!(sim.servers["s0"].keys().collect::<Vec<_>>(), ["b0-9"]);
    // Once it is found it is moved as the others are, and its server goes.
    let (sim, outcome) = hide(Some(0.65));
    assert!(outcome.is_complete(), "{outcome:?}");
    assert_eq!(outcome.stopped, ["s0"]);
    assert_eq!(sim.buckets().len(), 60);
}

/// Its target vanishes, and the inventory that settles that overlooks it at its old place.
#[test]
fn a_bucket_that_is_overlooked_once_beside_a_server_that_vanished_is_not_given_up() {
    let mut sim = Sim::new(3, 20);
    sim.rescale(change(0..0, &["s0"]), &mut well).unwrap();
    let first = sim.calls.iter().find_map(|call| match call {
        Call::Move { bucket, to, .. } if to == "s1" => Some(bucket.clone()),
        _ => None,
    });
    let bucket = first.expect("something goes to s1");
    let mut sim = Sim::new(3, 20);
    sim.events.push((seconds(0.05), Happens::Vanishes("s1".to_owned())));
    sim.events.push((seconds(0.06), Happens::Hides(bucket.clone())));
    sim.events.push((seconds(0.35), Happens::Shows(bucket.clone())));
    let outcome = sim.rescale(change(0..0, &["s0"]), &mut well).unwrap();
    left(&outcome, "server \"s1\" vanished");
    let gone =
        |it: &Unfinished| matches!(it, Unfinished::BucketGone { bucket: gone } if *gone == bucket);
    assert!(!outcome.unfinished.iter().any(gone), "{:?}", outcome.unfinished);
    assert!(sim.servers["s2"].contains_key(&bucket));
    assert_eq!(outcome.stopped, ["s0"]);
}

#[test]
fn without_an_inventory_nothing_goes_on() {
    let mut sim = Sim::new(3, 20);
    let refused = sim.rescale(change(0..0, &["s0"]), &mut |_| (Fails, seconds(0.1))).unwrap_err();
    assert!(
        matches!(&refused, Refused::NoInventory { why } if why.contains("3 times")),
        "{refused}"
    );
    assert_eq!(sim.calls, vec![Call::Inventory; 3]);
    for manner in [Fails, Hangs] {
        let mut looks = 0;
        let (sim, outcome) = leave(&mut |call| match call {
            Call::Inventory => {
                looks += 1;
                (if looks > 2 { manner } else { Fine }, seconds(0.01))
            }
            _ => well(call),
        });
        assert!(
            outcome.halted.as_ref().is_some_and(|why| why.contains("inventory")),
            "{outcome:?}"
        );
        assert!(!sim.calls.iter().any(|call| matches!(call, Call::Stop { .. })));
    }
}

#[test]
fn what_cannot_be_planned_is_refused_before_anything_is_done() {
    let refusal = |change, prepare: fn(&mut Sim), part: &str| {
        let mut sim = Sim::new(2, 10);
        prepare(&mut sim);
        let refused = sim.rescale(change, &mut well).unwrap_err().to_string();
        assert!(refused.contains(part), "{refused}");
        let harmless = |call: &Call| matches!(call, Call::Inventory | Call::Plan(_));
        assert!(sim.calls.iter().all(harmless), "{:?}", sim.calls);
    };
    refusal(change(0..0, &["z"]), |_| {}, "no server \"z\"");
    refusal(change(0..0, &["s0", "s1"]), |_| {}, "no server would be left");
    refusal(change(0..1, &["s0"]), |_| {}, "\"s0\" is to be started and to be stopped");
    let small = |sim: &mut Sim| {
        let mut spec = server("s1");
        spec.capacity_bytes = 1_500;
        sim.specs.insert("s1".to_owned(), spec);
    };
    refusal(change(0..0, &["s0"]), small, "\"s1\" would hold 2000 bytes and has room for 1500");
    let twice = |sim: &mut Sim| {
        sim.servers.get_mut("s0").unwrap().insert("b1-0".to_owned(), 1);
    };
    refusal(change(0..0, &["s0"]), twice, "bucket \"b1-0\" lies on \"s0\" and on \"s1\"");
}

/// A later inventory that cannot be used is as one that could not be had.
#[test]
fn an_inventory_that_contradicts_itself_is_not_believed() {
    use tidefs_rescale::{Answer, Rescaling, Settings};
    let mut sim = Sim::new(2, 2);
    let mut rescaling = Rescaling::new(change(0..0, &["s0"]), Settings::default(), seconds(0.0));
    let (mut now, mut looks) = (0.0, 0);
    let outcome = loop {
        now += 1.0;
        for (id, call) in rescaling.next(seconds(now)) {
            let answer = match &call {
                Call::Inventory => {
                    looks += 1;
                    let mut found: Inventory = sim.inventory();
                    if looks > 1 {
                        found.servers.clear();
                    }
                    Answer::Inventory(Ok(found))
                }
                Call::Plan(question) => Answer::Plan(Box::new(question.answer())),
                _ => Answer::Done(Ok(())),
            };
            rescaling.returned(seconds(now), id, answer);
        }
        if let Some(result) = rescaling.result() {
            break result.unwrap();
        }
    };
    sim.servers.clear();
    says(&outcome, "which is not among the servers");
    assert!(outcome.halted.is_some());
    let not_stopped =
        |it: &Unfinished| matches!(it, Unfinished::NotStopped { server, .. } if server == "s0");
    assert!(outcome.unfinished.iter().any(not_stopped), "{:?}", outcome.unfinished);
    assert!(outcome.faults.iter().all(|fault| matches!(fault, Fault::Failed { .. })));
}
