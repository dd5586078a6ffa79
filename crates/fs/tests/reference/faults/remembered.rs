//! Directories whose record lies on a node that goes silent: they have the record that was read last, with
//! what their mount has changed since.

use tidefs_oracle::{Errno, Operations, Path};
use tidefs_store::When;

use crate::line::Cut;
use crate::world::{World, embedded};

/// More calls than a look and a change take.
const CALLS_MAX: u64 = 20;

/// The mode after a change that was told as made; the line fails from a call of it on. `None`: one of both
/// failed.
fn mode_after(call: u64) -> Option<u32> {
    let mut world = World::new(embedded(), 4);
    let (line, mut driver) = world.driver_on_a_line();
    let root = Path::root();
    driver.stat(&root).expect("nothing fails yet");
    line.cut(Cut { call, when: When::Before, for_good: true });
    driver.chmod(&root, 0o700).ok()?;
    match driver.stat(&root) {
        Ok(facts) if line.calls() >= call => Some(facts.mode),
        Ok(_) | Err(Errno::Io) => None,
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn a_change_is_not_forgotten_when_the_node_of_the_record_goes_silent_after_it() {
    let seen: Vec<_> = (1..CALLS_MAX).filter_map(mode_after).collect();
    assert!(!seen.is_empty(), "the line never failed between the change and the look");
    assert!(seen.iter().all(|mode| *mode == 0o700), "{seen:?}");
}
