//! What each policy answers to what was observed: tables of numbers and verdicts.

use std::time::Duration;

use tidefs_control::{
    Capacity, Cause, Hold, May, Node, NodeState, Observation, Quiet, Refused, Request, Settings,
    SharesHeld, Silence, Situation, Uneven, Verdict, decide, grant,
};
use tidefs_model::{ByteSize, NodeClass, NodeId, Time};

const MIB: u64 = 1 << 20;

fn id(byte: u8) -> NodeId {
    NodeId([byte; 20])
}

/// Nodes of 100 MiB, with this much in use on each.
fn nodes(used_mib: &[u64]) -> Observation {
    let node = |(at, used): (usize, &u64)| Node {
        id: id(at as u8),
        class: NodeClass::Own,
        state: NodeState::Serving,
        capacity_bytes: 100 * MIB,
        used_bytes: used * MIB,
        partitions: 100,
        received_bytes: 0,
        sent_bytes: 0,
    };
    Observation::new(used_mib.iter().enumerate().map(node).collect())
}

fn settings(policy: &str, min: u16, max: u16, initial: u16) -> Settings {
    let policy = policy.parse().expect("a policy");
    let settings = Settings::new(policy, min, max, ByteSize::mib(100));
    let settings = Settings { nodes_initial: initial, ..settings };
    assert_eq!(settings.check(), Ok(()));
    settings
}

/// What is decided when usage has been the same for so many seconds.
fn after(seconds: u64, settings: &Settings, observed: &Observation, full: bool) -> Verdict {
    after_rebalance(seconds, settings, observed, full, (None, None))
}

/// The same when there was a rebalance, and one that moved nothing, at these times.
fn after_rebalance(
    seconds: u64,
    settings: &Settings,
    observed: &Observation,
    full: bool,
    rebalances: (Option<Time>, Option<Time>),
) -> Verdict {
    while_held_back(seconds, settings, observed, full, rebalances, May::ALL)
}

/// The same when only this may be decided on.
fn while_held_back(
    seconds: u64,
    settings: &Settings,
    observed: &Observation,
    full: bool,
    (last_rebalance, moved_nothing): (Option<Time>, Option<Time>),
    may: May,
) -> Verdict {
    let mut quiet = Quiet::default();
    let now = Time::from_unix(1_000 + seconds as i64, 0);
    quiet.observe(Time::from_unix(1_000, 0), observed, settings.policy.scale_in.as_ref());
    quiet.observe(now, observed, settings.policy.scale_in.as_ref());
    let full = full.then_some(None);
    let mut silence = Silence::default();
    silence.observe(Time::from_unix(1_000, 0), observed);
    let mut uneven = Uneven::default();
    uneven.observe(Time::from_unix(1_000, 0), observed, &settings.spreading, None);
    let shares = &SharesHeld::default();
    let silence = &silence;
    let advice = None;
    decide(&Situation {
        now,
        settings,
        observed,
        quiet,
        uneven,
        shares,
        silence,
        full,
        last_rebalance,
        moved_nothing,
        in_vain: None,
        is_as_in_vain: true,
        shift: None,
        ahead: None,
        advice,
        may,
    })
}

fn size_of(verdict: &Verdict) -> i32 {
    match verdict {
        Verdict::Grow { add, .. } => i32::from(*add),
        Verdict::Shrink { leaving, .. } => -(leaving.len() as i32),
        Verdict::Hold(_)
        | Verdict::Rebalance { .. }
        | Verdict::TakeIn
        | Verdict::Replace { .. }
        | Verdict::Expunge { .. } => 0,
    }
}

#[test]
fn policies_grow_and_shrink_by_their_steps() {
    for (policy, initial, used, expected) in [
        ("cso", 4, vec![96; 8], 2),
        ("nso", 4, vec![96; 8], 4),
        ("aso", 4, vec![96; 8], 8),
        ("nso", 4, vec![95; 8], 0),
        ("aso", 4, vec![96; 30], 2),
        ("aso", 4, vec![96; 32], 0),
        ("csi", 1, vec![60; 8], -2),
        ("asi", 1, vec![40; 8], -4),
        ("csi", 1, vec![76; 8], 0),
        ("asi", 1, vec![51; 8], 0),
        ("asi", 1, vec![10; 1], 0),
        ("static", 1, vec![99; 8], 0),
        ("static", 1, vec![1; 8], 0),
    ] {
        let settings = settings(policy, 1, 32, initial);
        let verdict = after(60, &settings, &nodes(&used), false);
        assert_eq!(size_of(&verdict), expected, "{policy} {used:?}: {verdict}");
    }
}

#[test]
fn a_shrink_leaves_no_node_too_full() {
    for (policy, used, expected) in [
        // A quarter less nodes would be 99 % full: one of eight may go.
        ("csi", vec![74; 8], -1),
        // With three nodes instead of four, 98.7 %.
        ("csi", vec![74; 4], 0),
        // Half of the nodes would be 98 % full.
        ("asi", vec![49; 8], -3),
    ] {
        let verdict = after(60, &settings(policy, 1, 32, 1), &nodes(&used), false);
        assert_eq!(size_of(&verdict), expected, "{policy} {used:?}: {verdict}");
    }
    let verdict = after(60, &settings("csi", 1, 32, 1), &nodes(&[74; 4]), false);
    assert!(verdict.to_string().contains("97.3 % would be in use"), "{verdict}");
}

#[test]
fn a_shrink_waits_until_usage_has_been_low_and_has_not_grown() {
    let settings = settings("asi", 1, 8, 1);
    let low = nodes(&[20, 20]);
    let verdict = after(44, &settings, &low, false);
    assert!(matches!(verdict, Verdict::Hold(Hold::Quiet { .. })), "{verdict}");
    assert_eq!(size_of(&after(45, &settings, &low, false)), -1);

    let scale_in = settings.policy.scale_in.as_ref();
    let at = |seconds| Time::from_unix(seconds, 0);
    let mut quiet = Quiet::default();
    for (seconds, used, lasted) in
        [(0, 20, 0), (20, 18, 20), (30, 19, 30), (40, 24, 0), (50, 24, 10), (60, 60, 0)]
    {
        quiet.observe(at(seconds), &nodes(&[used, used]), scale_in);
        assert_eq!(quiet.lasted(at(seconds)), Duration::from_secs(lasted), "{used} MiB");
    }
}

#[test]
fn the_least_used_leave_and_one_own_node_stays() {
    let verdict = after(60, &settings("asi", 1, 8, 1), &nodes(&[30, 10, 20, 10]), false);
    let Verdict::Shrink { leaving, .. } = verdict else { panic!("{verdict}") };
    assert_eq!(leaving, [id(3), id(1)]);

    // Victim nodes go when their lenders want them to, and no policy asks them to.
    let mut lent = nodes(&[10, 30, 30, 30]).nodes().to_vec();
    lent[1..].iter_mut().for_each(|node| node.class = NodeClass::Victim);
    let verdict = after(60, &settings("asi", 1, 8, 1), &Observation::new(lent), false);
    assert_eq!(verdict, Verdict::Hold(Hold::AtMinimum { min: 1 }));
}

#[test]
fn a_full_node_is_reason_to_act_at_once() {
    let grow = settings("nso", 1, 4, 1);
    let verdict = after(0, &grow, &nodes(&[85, 84]), true);
    assert!(matches!(verdict, Verdict::Grow { add: 1, cause: Cause::NodeFull { .. } }));
    // There is room on the other node: spreading anew is enough.
    let verdict = after(0, &grow, &nodes(&[100, 10]), true);
    assert!(matches!(verdict, Verdict::Rebalance { cause: Cause::Uneven { .. } }), "{verdict}");
    let verdict = after(0, &grow, &nodes(&[99; 4]), true);
    assert_eq!(verdict, Verdict::Hold(Hold::AtMaximum { max: 4 }));
    let verdict = after(0, &settings("static", 1, 4, 1), &nodes(&[99; 2]), true);
    assert_eq!(verdict, Verdict::Hold(Hold::NoScaleOut));
}

#[test]
fn a_fixed_number_of_nodes_is_spread_for_a_writer_and_left_alone_otherwise() {
    let fixed = settings("static", 3, 3, 3);
    let verdict = after(0, &fixed, &nodes(&[99, 80, 80]), true);
    assert!(matches!(verdict, Verdict::Rebalance { cause: Cause::Uneven { .. } }), "{verdict}");
    let verdict = after(0, &fixed, &nodes(&[99, 98, 98]), true);
    assert_eq!(verdict, Verdict::Hold(Hold::AtMaximum { max: 3 }));
    let verdict = after(0, &fixed, &nodes(&[99, 98, 98]), false);
    assert_eq!(verdict, Verdict::Hold(Hold::Fixed { nodes: 3 }));
}

#[test]
fn where_no_node_may_be_added_data_is_spread_for_a_writer_as_long_as_that_helps() {
    let (full, just_now) = (nodes(&[100, 10]), Some(Time::from_unix(999, 0)));
    for settings in [settings("static", 1, 4, 1), settings("nso", 1, 2, 1)] {
        for rebalanced in [None, just_now] {
            let verdict = after_rebalance(0, &settings, &full, true, (rebalanced, None));
            assert!(matches!(verdict, Verdict::Rebalance { .. }), "{verdict}");
        }
        let verdict = after_rebalance(0, &settings, &full, true, (just_now, just_now));
        assert!(matches!(verdict, Verdict::Hold(_)), "{verdict}: the last one moved nothing");
        let verdict = after_rebalance(6, &settings, &full, false, (just_now, None));
        assert!(matches!(verdict, Verdict::Hold(_)), "{verdict}: nobody waits for it");
    }
    let verdict = after_rebalance(0, &settings("nso", 1, 4, 1), &full, true, (just_now, None));
    assert!(matches!(verdict, Verdict::Grow { .. }), "{verdict}");
}

#[test]
fn nodes_that_hold_nothing_are_filled_and_missing_ones_replaced() {
    let mut empty = nodes(&[30, 30]).nodes().to_vec();
    empty[1].partitions = 0;
    let empty = Observation::new(empty);
    let verdict = after(4, &settings("nso", 1, 4, 1), &empty, false);
    assert!(matches!(verdict, Verdict::Hold(_)), "{verdict}");
    let verdict = after(5, &settings("nso", 1, 4, 1), &empty, false);
    assert_eq!(verdict, Verdict::Rebalance { cause: Cause::EmptyNode { node: id(1) } });

    let mut lost = nodes(&[30, 30]).nodes().to_vec();
    lost[1].state = NodeState::Unreachable;
    let lost = Observation::new(lost);
    assert_eq!(size_of(&after(9, &settings("nso", 2, 4, 2), &lost, false)), 0, "it may be slow");
    assert_eq!(size_of(&after(10, &settings("nso", 2, 4, 2), &lost, false)), 1);
    assert_eq!(size_of(&after(10, &settings("static", 2, 4, 2), &lost, false)), 0);
}

#[test]
fn a_spread_that_stays_uneven_is_made_anew_and_one_of_a_moment_is_not() {
    let settings = settings("static", 1, 4, 2);
    let verdict = after(4, &settings, &nodes(&[70, 30]), false);
    assert!(matches!(verdict, Verdict::Hold(_)), "{verdict}");
    let verdict = after(5, &settings, &nodes(&[70, 30]), false);
    assert!(matches!(verdict, Verdict::Rebalance { cause: Cause::Uneven { .. } }), "{verdict}");
    let verdict = after(5, &settings, &nodes(&[55, 45]), false);
    assert!(matches!(verdict, Verdict::Hold(_)), "{verdict}");
}

/// A node that took its share of a fast link is full, and spreading moved nothing off it a moment ago.
#[test]
fn a_writer_does_not_wait_for_what_was_in_vain() {
    let mut lent = nodes(&[100, 10, 10]).nodes().to_vec();
    lent[1..].iter_mut().for_each(|node| node.class = NodeClass::Victim);
    let lent = Observation::new(lent);
    let verdict = |max: u16, moved_nothing: Option<Time>| {
        let mut settings = settings("nso", 1, max, 1);
        settings.spreading.by = Capacity::Bandwidth;
        after_rebalance(5, &settings, &lent, true, (moved_nothing, moved_nothing))
    };
    let spreads = verdict(4, None);
    assert!(matches!(spreads, Verdict::Rebalance { .. }), "{spreads}");
    let just_now = Some(Time::from_unix(1_004, 0));
    assert_eq!(size_of(&verdict(4, just_now)), 1);
    let at_most = verdict(1, just_now);
    assert_eq!(at_most, Verdict::Hold(Hold::AtMaximum { max: 1 }));
}

#[test]
fn dead_nodes_that_hold_nothing_are_removed_and_others_are_not() {
    let mut dead = nodes(&[30, 0, 0]).nodes().to_vec();
    dead[1].state = NodeState::Unreachable;
    dead[2].state = NodeState::Unreachable;
    dead[2].partitions = 0;
    let dead = Observation::new(dead);
    let settings = settings("static", 1, 4, 1);
    assert_eq!(size_of(&after(9, &settings, &dead, false)), 0);
    let verdict = after(10, &settings, &dead, false);
    let node = id(2);
    let cause = Cause::DeadAndEmpty { node };
    assert_eq!(verdict, Verdict::Shrink { leaving: vec![node], cause });
}

#[test]
fn a_node_that_is_late_to_answer_counts_against_the_maximum() {
    let mut late = nodes(&[50, 100, 50]).nodes().to_vec();
    late[2].state = NodeState::Unreachable;
    let late = Observation::new(late);
    let settings = settings("nso", 1, 3, 1);
    let waits = Verdict::Hold(Hold::Silent { node: id(2), max: 3 });
    // Just spread, so that this is no answer.
    let now = |seconds: i64| Time::from_unix(1_000 + seconds, 0);
    let spread = |seconds: i64| (Some(now(seconds)), Some(now(seconds)));
    assert_eq!(after_rebalance(9, &settings, &late, true, spread(9)), waits);
    let verdict = after_rebalance(10, &settings, &late, true, spread(10));
    assert!(matches!(verdict, Verdict::Grow { add: 1, .. }), "{verdict}");
    let refused = grant(Request::Scale(3), &late, &settings).unwrap_err();
    assert_eq!(refused, Refused::IsLate { node: id(2), max: 3 });
    for (asked, nodes) in [(2, 3), (1, 2)] {
        let refused = grant(Request::Scale(asked), &late, &settings).unwrap_err();
        assert_eq!(refused, Refused::MayComeBack { node: id(2), asked, nodes });
    }
}

#[test]
fn at_the_maximum_a_writer_gets_the_room_that_others_have() {
    let settings = settings("nso", 1, 8, 1);
    let one_full = nodes(&[100, 83, 83, 83, 83, 83, 83, 83]);
    let verdict = after(0, &settings, &one_full, true);
    assert!(matches!(verdict, Verdict::Rebalance { cause: Cause::Uneven { .. } }), "{verdict}");
    assert!(matches!(after(60, &settings, &one_full, false), Verdict::Hold(_)));
    let all_full = nodes(&[100, 98, 98, 98, 98, 98, 98, 98]);
    let verdict = after(0, &settings, &all_full, true);
    assert_eq!(verdict, Verdict::Hold(Hold::AtMaximum { max: 8 }));
}

#[test]
fn what_waits_for_its_next_try_hides_nothing_else() {
    let mut observed = nodes(&[95, 10, 10, 1]).nodes().to_vec();
    (observed[3].state, observed[3].partitions) = (NodeState::Unreachable, 0);
    let observed = Observation::new(observed);
    let settings = settings("static", 1, 4, 1);
    let decided = |may| while_held_back(60, &settings, &observed, false, (None, None), may);
    assert!(matches!(decided(May::ALL), Verdict::Shrink { .. }));
    let spread = decided(May { shrink: false, ..May::ALL });
    assert!(matches!(spread, Verdict::Rebalance { .. }), "{spread}");
    let nothing = decided(May { shrink: false, spread: false, ..May::ALL });
    assert!(matches!(nothing, Verdict::Hold(_)), "{nothing}");
}

#[test]
fn requests_are_granted_or_refused_with_the_numbers() {
    let settings = settings("static", 2, 4, 2);
    let observed = nodes(&[40, 50, 45]);
    let grant = |request| grant(request, &observed, &settings);
    assert_eq!(grant(Request::Scale(3)), Ok(None));
    assert!(matches!(grant(Request::Scale(4)), Ok(Some(Verdict::Grow { add: 1, .. }))));
    assert!(matches!(grant(Request::Scale(2)), Ok(Some(Verdict::Shrink { .. }))));
    let offered = grant(Request::TakeOffered(4)).unwrap().unwrap().to_string();
    assert_eq!(offered, "grow by 1: hosts that joined offer memory");
    assert_eq!(grant(Request::TakeOffered(2)), Ok(None), "they offer more, never less");
    for (request, says) in [
        (Request::Scale(5), "5 nodes would be more than the maximum of 4"),
        (Request::Scale(1), "1 node would be fewer than the minimum of 2"),
        (Request::Drain(id(9)), "is not one of the nodes"),
    ] {
        let refused = grant(request).unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
    }
}

#[test]
fn a_drain_that_the_rest_cannot_hold_is_refused() {
    let settings = settings("static", 1, 4, 2);
    let refused = grant(Request::Drain(id(0)), &nodes(&[70, 70]), &settings).unwrap_err();
    assert!(
        matches!(refused, Refused::DoesNotFit { nodes: 1, missing, .. }
        if missing == ByteSize(41 * MIB)),
        "{refused}"
    );
    let refused = grant(Request::Drain(id(0)), &nodes(&[1]), &settings).unwrap_err();
    assert_eq!(refused, Refused::LastNode { node: id(0) });
    for (state, refused) in [
        (NodeState::Unreachable, Refused::DoesNotAnswer { node: id(0) }),
        (NodeState::Ended, Refused::HasEnded { node: id(0) }),
    ] {
        let mut dead = nodes(&[1, 1]).nodes().to_vec();
        dead[0].state = state;
        let drain = grant(Request::Drain(id(0)), &Observation::new(dead), &settings);
        assert_eq!(drain.unwrap_err(), refused, "what it holds cannot be moved");
    }
    let mut lent = nodes(&[10, 10]).nodes().to_vec();
    lent[1].class = NodeClass::Victim;
    let refused = grant(Request::Drain(id(0)), &Observation::new(lent), &settings).unwrap_err();
    assert_eq!(refused, Refused::LastOwnNode { node: id(0) });
}

#[test]
fn nodes_whose_hosts_go_with_them_leave_first() {
    let settings = settings("asi", 1, 4, 1);
    let observed = nodes(&[1, 20, 10, 30]);
    let leaving =
        |observed: &Observation, asked| match grant(Request::Scale(asked), observed, &settings) {
            Ok(Some(Verdict::Shrink { leaving, .. })) => leaving,
            other => panic!("{other:?} is no shrink"),
        };
    assert_eq!(leaving(&observed, 2), [id(0), id(2)], "those that hold least");
    let observed = observed.with_guests([id(1), id(3)]);
    assert_eq!(leaving(&observed, 2), [id(1), id(3)]);
    assert_eq!(leaving(&observed, 1), [id(1), id(3), id(0)], "then the others");
    let by_itself = after(60, &settings, &observed, false);
    assert!(matches!(by_itself, Verdict::Shrink { leaving, .. } if leaving == [id(1), id(3)]));
}
