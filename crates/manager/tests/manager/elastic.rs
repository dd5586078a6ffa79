//! A manager with a workload: growth, shrinkage, alarms, requests, failures.

use std::time::Duration;

use tidefs_control::{Answer, Growth, Outcome, Phase, Refused, Request, Settings};
use tidefs_manager::{AskError, ManagerError, RecoveryStatus};
use tidefs_model::{ByteSize, NodeId};

use crate::world::{Life, MIB, NODE_BYTES, Stage, lock, until};

/// Generous, for loaded machines; only a failing test takes as long.
const LONG: Duration = Duration::from_secs(120);
const PARTITIONS: usize = 60;

fn stage(policy: &str, min: u16, max: u16, nodes: usize) -> Stage {
    let policy = policy.parse().expect("a policy");
    let mut settings = Settings::new(policy, min, max, ByteSize(NODE_BYTES));
    if let Some(scale_in) = &mut settings.policy.scale_in {
        scale_in.quiet = Duration::from_millis(40);
    }
    Stage::new(settings, nodes, PARTITIONS)
}

#[test]
fn it_grows_with_the_data_and_shrinks_when_that_is_gone() {
    let stage = stage("nso+asi", 1, 6, 1);
    let running = stage.start(&Life::without_end());
    let say = || format!("{:?}", running.handle.status());
    // 20 MiB in each of 60 partitions are 1,200 MiB: five nodes of 256 MiB at least.
    for mib in 2..=20 {
        let write = || {
            let filled = lock(&stage.world).fill(mib * MIB);
            let Err(node) = filled else { return true };
            let growth = running.handle.alarm_full(Some(node)).expect("an answer");
            assert!(growth.is_hopeful(), "{growth:?}");
            false
        };
        until("room", write, say);
    }
    let settled = |nodes: usize| stage.nodes() == nodes && running.handle.progress().is_none();
    until("rest", || (5..=6).any(settled), say);
    lock(&stage.world).assert_even();
    lock(&stage.world).fill(MIB / 8).expect("room for less");
    until("one node", || settled(1) && stage.journal_is_empty(), say);
    lock(&stage.world).assert_sound(MIB / 8);

    let finished = running.handle.finished(0);
    let kinds: Vec<_> = finished.iter().map(|done| done.kind.as_str()).collect();
    assert!(kinds.contains(&"commission") && kinds.contains(&"decommission"), "{kinds:?}");
    assert!(finished.iter().all(|done| !done.reason.is_empty()));
    assert!(finished.iter().any(|done| done.nodes_after >= 5));
    running.stop().expect("a manager that is stopped");
}

#[test]
fn where_there_is_no_hope_for_room_writers_are_told_so() {
    for (policy, growth) in
        [("nso", Growth::AtMaximum { nodes: 2 }), ("static", Growth::NotByItself)]
    {
        let stage = stage(policy, 1, 2, 2);
        let running = stage.start(&Life::without_end());
        let say = || format!("{:?}", running.handle.status());
        until("an answer", || running.handle.alarm_full(None) == Ok(growth.clone()), say);
        assert_eq!(stage.nodes(), 2);
        let handle = running.handle.clone();
        running.stop().expect("a manager that is stopped");
        assert_eq!(handle.alarm_full(None), Err(AskError::Stopped));
    }
}

/// The journal is opened, and then written, confirmed and erased; its node ends at each of these.
#[test]
fn a_node_that_ends_with_the_journal_holds_nothing_up() {
    for uses in 1..=4 {
        let stage = stage("static", 1, 4, 3);
        let node = *lock(&stage.world).members.iter().next().expect("a node");
        lock(&stage.world).journal = Some((node, uses));
        let running = stage.start(&Life::without_end());
        let say = || format!("after {uses} uses: {:?} {:?}", running.handle.status(), stage.world);
        let ask = |nodes| {
            let asked = running.handle.request(Request::Scale(nodes)).expect("a queue");
            asked.wait(LONG).expect("an answer")
        };
        ask(2);
        ask(4);
        let is_buried = || !lock(&stage.world).losses.is_empty();
        until("the loss", || is_buried() && running.handle.progress().is_none(), say);
        ask(4);
        assert!(matches!(ask(3), Answer::Finished(_)), "{}", say());
        assert_eq!((stage.nodes(), stage.journal_is_empty()), (3, true));
        let lost: Vec<_> = lock(&stage.world).losses.iter().map(|loss| loss.node).collect();
        assert_eq!(lost, [node], "after {uses} uses");
        running.stop().expect("a manager that is stopped");
    }
}

#[test]
fn whoever_asks_does_not_wait_for_the_next_observation() {
    let stage = stage("static", 1, 4, 1);
    let never = Duration::from_secs(24 * 60 * 60);
    let running = stage.start_looking_every(&Life::without_end(), never);
    for nodes in [2, 4, 3] {
        let asked = running.handle.request(Request::Scale(nodes)).expect("a queue");
        let answer = asked.wait(LONG).expect("an answer");
        assert!(matches!(answer, Answer::Finished(_)), "{answer:?}");
    }
}

/// What a predecessor left may take as long to put right as the first look takes, which is too old then.
#[test]
fn the_first_decision_does_not_wait_for_the_next_observation() {
    let stage = stage("static", 1, 4, 1);
    lock(&stage.world).is_put_right_late = true;
    let never = Duration::from_secs(24 * 60 * 60);
    let running = stage.start_looking_every(&Life::without_end(), never);
    let say = || format!("{:?}", running.handle.status());
    until("a decision", || running.handle.status().last_decision.is_some(), say);
    running.stop().expect("a manager that is stopped");
}

#[test]
fn requests_are_answered_when_they_are_done_or_refused_with_the_reason() {
    let stage = stage("static", 1, 4, 2);
    let running = stage.start(&Life::without_end());
    let ask = |request| running.handle.request(request).expect("a queue").wait(LONG);
    let ask = |request| ask(request).expect("an answer");
    let answer = ask(Request::Scale(4));
    let Answer::Finished(summary) = answer else { panic!("{answer:?}") };
    assert_eq!((summary.nodes_before, summary.nodes_after), (2, 4));
    assert_eq!(summary.outcome, Outcome::Completed);
    let drained = *lock(&stage.world).members.first().expect("a node");
    let Answer::Finished(summary) = ask(Request::Drain(drained)) else { panic!("not drained") };
    assert_eq!(summary.nodes_after, 3);
    assert!(!lock(&stage.world).members.contains(&drained));
    assert_eq!(ask(Request::Scale(3)), Answer::NothingToDo);
    let refused = Answer::Refused(Refused::AboveMaximum { asked: 5, max: 4 });
    assert_eq!(ask(Request::Scale(5)), refused);
    let nobody = NodeId([7; 20]);
    let refused = Answer::Refused(Refused::UnknownNode { node: nobody });
    assert_eq!(ask(Request::Drain(nobody)), refused);
    lock(&stage.world).assert_sound(MIB);
}

#[test]
fn failures_are_tried_again_and_harm_nothing() {
    let stage = stage("static", 1, 4, 1);
    lock(&stage.world).starts_that_fail = 3;
    lock(&stage.world).moves_that_fail = 3;
    let running = stage.start(&Life::without_end());
    let ticket = running.handle.request(Request::Scale(3)).expect("a queue");
    let answer = ticket.wait(LONG).expect("an answer");
    let Answer::Finished(summary) = answer else { panic!("{answer:?}") };
    assert_eq!((summary.outcome, summary.nodes_after), (Outcome::Completed, 3));
    lock(&stage.world).assert_sound(MIB);
    lock(&stage.world).assert_even();
}

#[test]
fn nodes_that_never_start_end_the_request_and_leave_all_as_it_was() {
    let stage = stage("static", 1, 4, 2);
    lock(&stage.world).starts_that_fail = u32::MAX;
    let running = stage.start(&Life::without_end());
    let ticket = running.handle.request(Request::Scale(3)).expect("a queue");
    let answer = ticket.wait(LONG).expect("an answer");
    let Answer::Finished(summary) = answer else { panic!("{answer:?}") };
    assert_eq!(summary.outcome, Outcome::Failed { why: "no port is free".to_owned() });
    assert_eq!(summary.nodes_after, 2);
    assert!(stage.journal_is_empty());
    lock(&stage.world).assert_sound(MIB);
}

#[test]
fn moves_that_never_succeed_turn_a_drain_round() {
    let stage = stage("static", 1, 4, 3);
    lock(&stage.world).moves_that_fail = 8;
    let running = stage.start(&Life::without_end());
    let ticket = running.handle.request(Request::Scale(2)).expect("a queue");
    let answer = ticket.wait(LONG).expect("an answer");
    let Answer::Finished(summary) = answer else { panic!("{answer:?}") };
    assert!(matches!(summary.outcome, Outcome::RolledBack { .. }), "{summary:?}");
    assert_eq!(summary.nodes_after, 3);
    lock(&stage.world).assert_sound(MIB);
}

#[test]
fn a_manager_ends_when_another_has_taken_over() {
    let stage = stage("static", 1, 4, 1);
    let mut first = stage.start(&Life::without_end());
    let ticket = first.handle.request(Request::Scale(2)).expect("a queue");
    ticket.wait(LONG).expect("the first is at work");
    let second = stage.start(&Life::without_end());
    let ticket = second.handle.request(Request::Scale(3)).expect("a queue");
    ticket.wait(LONG).expect("the second is at work");
    // It may have noticed already, by trying to fill a node that the second had just started.
    let _ticket = first.handle.request(Request::Scale(4));
    assert_eq!(first.join(), Err(ManagerError::Superseded));
    assert_eq!(stage.nodes(), 3);
}

#[test]
fn a_manager_that_has_nothing_to_do_ends_as_well_when_another_has_taken_over() {
    let stage = stage("static", 1, 4, 1);
    let mut first = stage.start(&Life::without_end());
    let ticket = first.handle.request(Request::Scale(2)).expect("a queue");
    ticket.wait(LONG).expect("the first is at work");
    let _second = stage.start(&Life::without_end());
    until("its end", || first.is_over(), || format!("{:?}", first.handle.status()));
    assert_eq!(first.join(), Err(ManagerError::Superseded));
}

#[test]
fn a_node_that_ends_is_given_up_and_the_rest_goes_on() {
    let stage = stage("static", 1, 4, 3);
    let running = stage.start(&Life::without_end());
    let dead = *lock(&stage.world).members.first().expect("a node");
    lock(&stage.world).kill(dead);
    let say = || format!("{:?} {:?}", running.handle.status(), lock(&stage.world));
    until("its loss", || !lock(&stage.world).losses.is_empty(), say);
    {
        let world = lock(&stage.world);
        assert_eq!((world.losses[0].node, world.losses[0].partitions), (dead, 20));
        assert!(!world.members.contains(&dead) && !world.owners.contains(&dead));
    }
    let ask = |request| running.handle.request(request).expect("a queue").wait(LONG);
    for nodes in [4, 1] {
        let answer = ask(Request::Scale(nodes)).expect("an answer");
        let Answer::Finished(summary) = answer else { panic!("{answer:?}") };
        assert_eq!((summary.outcome, summary.nodes_after), (Outcome::Completed, nodes));
    }
    assert_eq!(lock(&stage.world).losses.len(), 1);
}

#[test]
fn a_death_does_not_wait_for_the_end_of_a_step() {
    let stage = stage("static", 1, 4, 3);
    let running = stage.start(&Life::without_end());
    lock(&stage.world).moves_rest = true;
    let ticket = running.handle.request(Request::Scale(4)).expect("a queue");
    let say = || format!("{:?} {:?}", running.handle.status(), lock(&stage.world));
    let phase = || running.handle.progress().map(|under_way| under_way.phase);
    until("moves", || phase() == Some(Phase::Moving), say);
    let dead = *lock(&stage.world).members.first().expect("a node");
    lock(&stage.world).kill(dead);
    until("its loss", || !lock(&stage.world).losses.is_empty(), say);
    lock(&stage.world).moves_rest = false;
    let answer = ticket.wait(LONG).expect("an answer");
    let Answer::Finished(summary) = answer else { panic!("{answer:?}") };
    assert_eq!(summary.outcome, Outcome::Completed, "{summary:?}");
    assert_eq!(stage.nodes(), 3);
}

#[test]
fn a_recovery_that_fails_is_told_with_the_reason_and_the_next_try() {
    let stage = stage("static", 1, 4, 3);
    let running = stage.start(&Life::without_end());
    let say = || format!("{:?} {:?}", running.handle.status(), lock(&stage.world));
    let recovery = || running.handle.status().recovery;
    until("the nodes", || running.handle.status().nodes.len() == 3, say);
    lock(&stage.world).nothing_is_put_right = true;
    let dead = *lock(&stage.world).members.first().expect("a node");
    lock(&stage.world).kill(dead);
    let is_told = |it: RecoveryStatus| {
        let waits = it.retry_in.is_some_and(|wait| wait <= Duration::from_secs(1));
        waits && it.failures > 1 && it.last_failure == "the heir does not answer"
    };
    until("a failure", || recovery().is_some_and(is_told), say);
    lock(&stage.world).nothing_is_put_right = false;
    until("its loss", || lock(&stage.world).losses.len() == 1 && recovery().is_none(), say);
}

#[test]
fn a_target_that_ends_costs_the_growth_that_node_only() {
    let stage = stage("static", 1, 4, 2);
    lock(&stage.world).moves_that_fail = 2;
    let running = stage.start(&Life::without_end());
    let before = lock(&stage.world).members.clone();
    let ticket = running.handle.request(Request::Scale(4)).expect("a queue");
    let say = || format!("{:?} {:?}", running.handle.status(), lock(&stage.world));
    let newcomer = || lock(&stage.world).members.difference(&before).next().copied();
    until("a new node", || newcomer().is_some(), say);
    let dead = newcomer().expect("a new node");
    lock(&stage.world).kill(dead);
    let answer = ticket.wait(LONG).expect("an answer");
    let Answer::Finished(summary) = answer else { panic!("{answer:?}") };
    until("its loss", || lock(&stage.world).losses.len() == 1, say);
    // It may have ended when nothing was left to be done with it.
    assert!(matches!(summary.nodes_after, 3 | 4), "{summary:?}");
    assert_eq!(stage.nodes(), 3);
    assert!(stage.journal_is_empty());
}
