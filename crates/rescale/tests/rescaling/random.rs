//! Callbacks that misbehave at random, on servers that vanish: whatever happens, it ends, no bucket is lost
//! by it, and no server is stopped that holds something. The simulation checks the latter at each call.

use std::time::Duration;

use proptest::prelude::*;
use tidefs_rescale::{Call, Settings};

use crate::sim::Manner::*;
use crate::sim::{Happens, Sim, change, seconds};

/// The next of a sequence that a seed gives.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost(
        seed in any::<u64>(),
        servers in 2..6_usize,
        each in 0..15_usize,
        comes in 0..4_usize,
        goes in 0..4_usize,
        bad in 0..60_u64,
        vanishes in prop::collection::vec((0..9_usize, 0..80_u64), 0..2),
        per_server in 1..4_usize,
        attempts in 1..4_u32,
    ) {
        let mut sim = Sim::new(servers, each);
        sim.settings = Settings {
            moves_per_server: per_server,
            calls_at_once: 8,
            attempts,
            move_within: seconds(5.0),
            ..Settings::default()
        };
        let before = sim.buckets();
        let vanish = |(at, when): &(usize, u64)| {
            (seconds(*when as f64 / 10.0), Happens::Vanishes(format!("s{at}")))
        };
        sim.events = vanishes.iter().map(vanish).collect();
        let goes: Vec<String> = (0..goes.min(servers - 1)).map(|at| format!("s{at}")).collect();
        let goes: Vec<&str> = goes.iter().map(String::as_str).collect();
        let mut state = seed;
        let mut manners = |call: &Call| {
            let takes = Duration::from_millis(1 + draw(&mut state) % 400);
            if draw(&mut state) % 100 >= bad {
                return (Fine, takes);
            }
            let manner = match call {
                Call::Inventory => [Fails, Hangs][draw(&mut state) as usize % 2],
                Call::Plan(_) => Fine,
                Call::Start { .. } | Call::Stop { .. } => {
                    [Fails, FailsAfterwards, Lies, Hangs, HangsAfterwards][draw(&mut state) as usize % 5]
                }
                Call::Move { .. } => {
                    let all = [Fails, FailsAfterwards, Lies, Copies, Strays, Hangs, HangsAfterwards, IsLate];
                    all[draw(&mut state) as usize % all.len()]
                }
            };
            (manner, if manner == IsLate { seconds(7.0) } else { takes })
        };
        let outcome = sim.rescale(change(servers..servers + comes, &goes), &mut manners);
        let mut after = sim.buckets();
        after.extend(sim.lost.iter().cloned());
        after.sort();
        after.dedup();
        prop_assert_eq!(after, before);
        let Ok(outcome) = outcome else { return Ok(()) };
        if outcome.is_complete() && outcome.calls_running == 0 {
            for name in goes {
                prop_assert!(!sim.servers.contains_key(name), "{} is still there", name);
            }
            let mut once = sim.buckets();
            let all = once.len();
            once.dedup();
            prop_assert_eq!(once.len(), all, "a bucket is on two servers");
        }
        if bad == 0 && sim.lost.is_empty() && vanishes.is_empty() {
            prop_assert!(outcome.is_complete(), "{:?}", outcome);
        }
    }
}
