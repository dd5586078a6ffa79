//! What readers and writers get where files lie in stripes on all machines: max-min fair rates.
//!
//! A link carries so much in each direction (the hose model). A reader draws on every machine by the
//! part of the data that lies there, and a writer fills them alike; both use their own machine's link
//! as well. So all rates rise together until a link is full; then those who use it stay, and the others
//! go on.

/// A machine: its link, the part of the data on it, and who reads and writes there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Machine {
    /// Bytes a second in each direction.
    pub link: f64,
    pub part: f64,
    pub readers: usize,
    pub writers: usize,
}

/// What each reader and each writer of a machine gets, in bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub read: f64,
    pub write: f64,
}

/// A link is full when less than this part of it is left: sums are rounded.
const ROUNDING: f64 = 1e-9;

struct Filling<'m> {
    machines: &'m [Machine],
    rates: Vec<Rates>,
    /// By machine: do its readers', its writers' rates still rise?
    rises: Vec<(bool, bool)>,
}

/// By machine; 0 where nobody reads or writes.
pub(super) fn fair(machines: &[Machine]) -> Vec<Rates> {
    let rises = machines.iter().map(|it| (it.readers > 0, it.writers > 0)).collect();
    let mut filling = Filling { machines, rates: vec![Rates::default(); machines.len()], rises };
    while filling.rises.iter().any(|&(read, write)| read || write) {
        filling.rise();
    }
    filling.rates
}

/// Of all together: what is read and written, and by how much that rises when each rate rises by 1.
#[derive(Default)]
struct All {
    read: f64,
    write: f64,
    readers: f64,
    writers: f64,
}

impl Filling<'_> {
    fn all(&self) -> All {
        let mut all = All::default();
        for (at, machine) in self.machines.iter().enumerate() {
            let (readers, writers) = (machine.readers as f64, machine.writers as f64);
            all.read += self.rates[at].read * readers;
            all.write += self.rates[at].write * writers;
            all.readers += if self.rises[at].0 { readers } else { 0.0 };
            all.writers += if self.rises[at].1 { writers } else { 0.0 };
        }
        all
    }

    /// How far rates may rise for a machine's link, out and in.
    fn room(&self, at: usize, all: &All) -> [f64; 2] {
        let Machine { link, part, readers, writers } = self.machines[at];
        let (readers, writers) = (readers as f64, writers as f64);
        let Rates { read, write } = self.rates[at];
        let rising = |rises: bool, who: f64| if rises { who } else { 0.0 };
        let out = part * all.readers + rising(self.rises[at].1, writers);
        let into = part * all.writers + rising(self.rises[at].0, readers);
        let room = |used: f64, slope: f64| {
            let left = link - used;
            let full = left <= link * ROUNDING;
            if slope <= 0.0 {
                f64::INFINITY
            } else if full {
                0.0
            } else {
                left / slope
            }
        };
        [
            room(part * all.read + write * writers, out),
            room(part * all.write + read * readers, into),
        ]
    }

    /// All rates rise until the first link is full; who uses it stays.
    fn rise(&mut self) {
        let all = self.all();
        let rooms: Vec<_> = (0..self.machines.len()).map(|at| self.room(at, &all)).collect();
        let least = rooms.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        for (rates, rises) in self.rates.iter_mut().zip(&self.rises) {
            rates.read += if rises.0 { least } else { 0.0 };
            rates.write += if rises.1 { least } else { 0.0 };
        }
        let full = |room: f64| room <= least * (1.0 + ROUNDING);
        for (at, [out, into]) in rooms.into_iter().enumerate() {
            let serves = self.machines[at].part > 0.0;
            if full(out) {
                self.rises[at].1 = false;
                self.rises.iter_mut().filter(|_| serves).for_each(|rises| rises.0 = false);
            }
            if full(into) {
                self.rises[at].0 = false;
                self.rises.iter_mut().filter(|_| serves).for_each(|rises| rises.1 = false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn machine(link: f64, part: f64, readers: usize, writers: usize) -> Machine {
        Machine { link, part, readers, writers }
    }

    #[test]
    fn rates_can_be_worked_out() {
        // One reader of two machines: the second serves half, and its link is 10.
        let rates = fair(&[machine(100.0, 0.5, 1, 0), machine(10.0, 0.5, 0, 0)]);
        assert_eq!(rates[0], Rates { read: 20.0, write: 0.0 });
        // With a tenth of the data there, the reader's own link binds.
        let rates = fair(&[machine(100.0, 0.9, 1, 0), machine(10.0, 0.1, 0, 0)]);
        assert_eq!(rates[0].read, 100.0);
        // A writer with a slow link of its own leaves its part to the others.
        let rates = fair(&[machine(10.0, 0.0, 0, 1), machine(100.0, 1.0, 0, 1)]);
        assert_eq!([rates[0].write, rates[1].write], [10.0, 90.0]);
        // What is read goes out where what is written comes in: neither holds the other up.
        let rates =
            fair(&[machine(50.0, 0.0, 1, 0), machine(50.0, 0.0, 0, 1), machine(50.0, 1.0, 0, 0)]);
        assert_eq!([rates[0].read, rates[1].write], [50.0, 50.0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// No link carries more than it can, and nobody could be given more without one that does.
        #[test]
        fn links_are_full_and_not_fuller(
            drawn in prop::collection::vec((1_u32..1_000, 0_u32..10, 0_usize..4, 0_usize..4), 1..12),
        ) {
            let all: u32 = drawn.iter().map(|it| it.1).sum();
            let stated = |&(link, part, readers, writers): &(u32, u32, usize, usize)| {
                machine(link.into(), f64::from(part) / f64::from(all.max(1)), readers, writers)
            };
            let machines: Vec<Machine> = drawn.iter().map(stated).collect();
            let rates = fair(&machines);
            let sum = |of: fn(&Machine, &Rates) -> f64| -> f64 {
                machines.iter().zip(&rates).map(|(machine, rates)| of(machine, rates)).sum()
            };
            let read = sum(|machine, rates| rates.read * machine.readers as f64);
            let written = sum(|machine, rates| rates.write * machine.writers as f64);
            let loads: Vec<[f64; 2]> = machines.iter().zip(&rates).map(|(machine, rates)| {
                let out = machine.part * read + rates.write * machine.writers as f64;
                let into = machine.part * written + rates.read * machine.readers as f64;
                [out / machine.link, into / machine.link]
            }).collect();
            prop_assert!(loads.iter().flatten().all(|load| *load <= 1.0 + 1e-6), "{loads:?}");
            let full = |load: f64| load >= 1.0 - 1e-6;
            let serving = |way: usize| {
                machines.iter().zip(&loads).any(|(it, load)| it.part > 0.0 && full(load[way]))
            };
            for (at, machine) in machines.iter().enumerate() {
                prop_assert!(machine.readers == 0 || full(loads[at][1]) || serving(0), "{at}");
                prop_assert!(machine.writers == 0 || full(loads[at][0]) || serving(1), "{at}");
            }
        }
    }
}
