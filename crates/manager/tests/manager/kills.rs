//! A manager that is killed after each of its effects in turn, and the one that comes after it.

use std::thread;
use std::time::Duration;

use tidefs_control::{Policy, Request, Settings};
use tidefs_model::ByteSize;

use crate::world::{Life, MIB, NODE_BYTES, Stage, lock, until};

const PARTITIONS: usize = 18;
/// More effects than any of the reconfigurations has; that the walk ends earlier is asserted.
const EFFECTS_MOST: i64 = 400;
/// Managers mostly wait for their threads to be woken, so several are killed at a time.
const AT_A_TIME: i64 = 8;

fn stage(nodes: usize) -> Stage {
    let settings = Settings::new(Policy::STATIC, 1, 4, ByteSize(NODE_BYTES));
    Stage::new(settings, nodes, PARTITIONS)
}

/// Returns whether the manager lived to see the end of the reconfiguration.
fn killed_after(effects: i64, nodes: usize, asked: u16) -> bool {
    let stage = stage(nodes);
    let life = Life::of(effects);
    let first = stage.start(&life);
    let ticket = first.handle.request(Request::Scale(asked)).expect("a queue with room");
    let ended = || ticket.wait(Duration::from_millis(1)).is_ok();
    let mut answered = false;
    let say = || format!("{:?}", first.handle.status());
    let over = || {
        answered = answered || ended();
        answered || life.is_over()
    };
    until("an end", over, say);
    first.stop().expect("a manager that is stopped");
    let began = !stage.journal_is_empty();

    let second = stage.start(&Life::without_end());
    let say = || format!("{:?} {:?}", second.handle.status(), stage.world);
    until("an empty journal", || stage.journal_is_empty(), say);
    second.stop().expect("a manager that is stopped");
    let world = lock(&stage.world);
    world.assert_sound(MIB);
    world.assert_even();
    let left = world.members.len();
    if answered {
        assert_eq!(left, usize::from(asked), "after {effects} effects");
    }
    if began && usize::from(asked) < nodes {
        assert_eq!(left, usize::from(asked), "a shrink that was begun is finished");
    }
    let between = nodes.min(asked.into())..=nodes.max(asked.into());
    assert!(between.contains(&left), "{left} nodes after {effects} effects");
    answered
}

/// Kills after no effect, after one, after two, until one lives to see the end.
fn walk(nodes: usize, asked: u16) {
    let several = |first: i64| {
        thread::scope(|scope| {
            let each = (first..first + AT_A_TIME)
                .map(|effects| scope.spawn(move || killed_after(effects, nodes, asked)));
            let each: Vec<_> = each.collect();
            let lived = each.into_iter().map(|walked| walked.join().expect("a walk"));
            lived.filter(|lived| *lived).count()
        })
    };
    let firsts = (0..EFFECTS_MOST).step_by(AT_A_TIME as usize);
    let last = firsts.into_iter().find(|&first| several(first) > 0);
    let effects = last.expect("a manager that lives to the end");
    // Three effects for each partition that moves, and those around them.
    assert!(effects >= 2 * PARTITIONS as i64, "only {effects} effects were walked");
}

#[test]
fn growth_survives_a_kill_after_every_effect() {
    walk(1, 3);
}

#[test]
fn shrinkage_survives_a_kill_after_every_effect() {
    walk(3, 1);
}

/// The successor is killed as well, again and again, after a few effects more each time.
#[test]
fn successors_that_are_killed_too_come_to_an_end() {
    let stage = stage(3);
    let first_life = Life::of(20);
    let first = stage.start(&first_life);
    let _ticket = first.handle.request(Request::Scale(1)).expect("a queue with room");
    until("death", || first_life.is_over(), || format!("{:?}", first.handle.status()));
    first.stop().expect("a manager that is stopped");
    let mut lives = 0;
    while !stage.journal_is_empty() {
        lives += 1;
        assert!(lives < 100, "no end in sight");
        let life = Life::of(7 + lives);
        let next = stage.start(&life);
        let say = || format!("{:?}", next.handle.status());
        until("death", || life.is_over() || stage.journal_is_empty(), say);
        next.stop().expect("a manager that is stopped");
    }
    assert!(lives > 1, "one life was enough");
    let last = stage.start(&Life::without_end());
    until("one node", || lock(&stage.world).processes.len() == 1, String::new);
    last.stop().expect("a manager that is stopped");
    lock(&stage.world).assert_sound(MIB);
}
