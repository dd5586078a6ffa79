//! Network-aware MemEFS on eight clouds (its figure 4.3): 1,000 tasks that each write 100 MB to 32
//! machines whose links differ, with partitions spread evenly and in proportion to bandwidth
//! (equation 4.1).
//!
//! A link carries so much in each direction (the hose model). A file's stripes go to all machines in
//! proportion to their partitions, so the machine whose link is slowest for its part holds all
//! writers back; and a machine's writers share its own link. What writers get is fair: all as much as
//! the busiest target allows, none more than its own machine sends.

mod changes;
mod links;
mod workflows;
mod world;

use tidefs_control::whole_shares;
use tidefs_model::PARTITIONS;

use self::links::{Machine, fair};
use super::{Scenario, Table};
use crate::random::Random;
pub(super) use changes::table as changes;
pub(super) use workflows::table as workflows;

const MACHINES: usize = 32;
const SLOTS: usize = 8;
const TASKS: usize = 1_000;
const TASK_BYTES: f64 = 100e6;
/// Clouds of each distribution that are drawn; the mean is told.
const DRAWS: u64 = 100;

/// A cloud of Ballani et al. (Towards predictable datacenter networks, SIGCOMM 2011): Mbit/s at the
/// 1st, 25th, 50th, 75th and 99th percentile, as in the bandwidth emulator of the paper's author. Then
/// whether the paper found that awareness helps.
pub const CLOUDS: [(&str, [f64; 5], bool); 8] = [
    ("A", [60.3, 150.0, 263.8, 384.5, 653.4], true),
    ("B", [308.6, 503.4, 646.6, 789.7, 991.4], false),
    ("C", [555.2, 841.4, 901.7, 934.5, 946.6], false),
    ("D", [112.1, 137.9, 170.7, 200.0, 298.3], true),
    ("E", [774.1, 824.1, 851.7, 855.2, 858.6], false),
    ("F", [269.0, 729.3, 777.6, 820.7, 925.9], true),
    ("G", [334.5, 529.3, 537.9, 600.0, 624.1], true),
    ("H", [136.2, 425.9, 525.9, 660.3, 998.3], true),
];

/// Bytes a second of each machine: a quarter of the distribution, then a place in it, both even.
fn drawn(percentiles: &[f64; 5], random: &mut Random) -> Vec<f64> {
    let mut draw = || {
        let quarter = random.between(0, 3) as usize;
        let (low, high) = (percentiles[quarter], percentiles[quarter + 1]);
        (low + (high - low) * random.unit()) * 1e6 / 8.0
    };
    (0..MACHINES).map(|_| draw()).collect()
}

/// Seconds until everything is written.
fn seconds(links: &[f64], aware: bool) -> f64 {
    let weights: Vec<u64> = links.iter().map(|&link| if aware { link as u64 } else { 1 }).collect();
    let partitions = whole_shares(&weights, &vec![0; links.len()], PARTITIONS.into());
    let part = |held: u32| f64::from(held) / f64::from(PARTITIONS);
    let mut waiting = TASKS;
    // By machine, bytes left of each of its tasks.
    let mut running: Vec<Vec<f64>> = vec![Vec::new(); links.len()];
    let mut now = 0.0;
    loop {
        for round in 0..SLOTS {
            for tasks in running.iter_mut().filter(|tasks| tasks.len() == round) {
                if waiting > 0 {
                    waiting -= 1;
                    tasks.push(TASK_BYTES);
                }
            }
        }
        let machine = |((&link, &held), tasks): ((&f64, &u32), &Vec<f64>)| Machine {
            link,
            part: part(held),
            readers: 0,
            writers: tasks.len(),
        };
        let machines = links.iter().zip(&partitions).zip(&running).map(machine);
        let rates = fair(&machines.collect::<Vec<_>>());
        let rate = |machine: usize| rates[machine].write;
        let next = running
            .iter()
            .enumerate()
            .flat_map(|(machine, tasks)| tasks.iter().map(move |left| left / rate(machine)));
        let next = next.fold(f64::INFINITY, f64::min);
        if next.is_infinite() {
            return now;
        }
        now += next;
        for (machine, tasks) in running.iter_mut().enumerate() {
            let carried = rate(machine) * next;
            tasks.iter_mut().for_each(|left| *left -= carried);
            tasks.retain(|left| *left > 1.0);
        }
    }
}

/// How much less time it takes with awareness, as a part, on average over so many draws.
pub fn saved(percentiles: &[f64; 5], seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let (mut agnostic, mut aware) = (0.0, 0.0);
    for _ in 0..DRAWS {
        let links = drawn(percentiles, &mut random);
        agnostic += seconds(&links, false);
        aware += seconds(&links, true);
    }
    1.0 - aware / agnostic
}

/// Each cloud's time saved beside what the paper says of it.
pub(super) fn table(seed: u64) -> Table {
    let mut table = Table::new(Scenario::Clouds, "network-aware MemEFS, figure 4.3");
    for (name, percentiles, helps) in CLOUDS {
        let paper = if helps { "helps" } else { "little" };
        let figure = 100.0 * saved(&percentiles, seed);
        table.told(&format!("cloud {name}"), "time saved, %", paper, figure);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_alike_gain_nothing_and_the_time_can_be_worked_out() {
        let links = vec![100e6; MACHINES];
        // 100 GB over 32 links of 100 MB/s; the last wave of 1,000 - 3 x 256 is not full.
        let even = seconds(&links, false);
        assert!((even - seconds(&links, true)).abs() < 1e-9);
        assert!((31.2..=33.0).contains(&even), "{even}");
    }

    #[test]
    fn a_slow_machine_holds_everybody_back_unless_it_holds_less() {
        let mut links = vec![100e6; MACHINES];
        links[3] = 25e6;
        let (agnostic, aware) = (seconds(&links, false), seconds(&links, true));
        // 3.1 GB for it take 125 s at 25 MB/s; what it writes itself remains, 32 s for each 8 tasks.
        assert!((125.0..=129.0).contains(&agnostic), "{agnostic}");
        assert!(aware < 0.6 * agnostic, "{aware}");
    }
}
