//! Spreads one range of partitions evenly over the nodes, in bytes and in number, moving little.
//!
//! Both matter: bytes are what fills nodes now, and the number of partitions is what fills them
//! later, since new keys fall on partitions by hash. A pass has two halves. Nodes that hold too
//! much *release* what they have too much of, choosing partitions that bring bytes and number down
//! together; then each released partition, the largest first, goes to the node whose gap it fills
//! best. A pass is kept when it makes the spread clearly more even; passes repeat until one does not.
//! Whether it does depends on the spread alone, so planning again from the result moves nothing.

use std::collections::BTreeSet;

use super::gains::Gains;
use super::shares::whole_shares;

/// A node is even enough when its bytes are off by at most this part of its share, or of the part of
/// its memory below which bytes do not matter. What several nodes may have too much, one may lack.
const TOLERANCE: f64 = 0.005;
/// So much of its tolerance a node gives away for an even number of partitions although it lacks bytes.
const SPARE_PART: f64 = 0.1;
/// A range that takes less than this part of all memory is spread by number rather than by bytes.
pub const SMALL_PART_OF_MEMORY: f64 = 0.02;
/// How much an uneven number weighs beside uneven bytes.
pub(super) const NUMBER_WEIGHT: f64 = 0.25;
/// A pass must remove this part of the unevenness to be worth its moves.
const WORTHWHILE: f64 = 0.1;
/// A node's part of the partitions is taken for this part of its bytes' at least, where one is compared with it.
const NUMBER_PART_LEAST: f64 = 0.01;
/// Two passes are usual; the unevenness falls by a tenth at least with each.
const PASSES_MOST: u32 = 64;

/// A partition of the range; it lies on a node that answers.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    pub number: u16,
    pub bytes: u64,
}

/// The partitions of a range, and how much of it each node should hold.
pub struct Range<'a> {
    pub items: &'a [Item],
    memory: &'a [u64],
    bytes: u64,
    /// By node, the part of the range that it should hold; 0 for a node that must hold nothing.
    parts: Vec<f64>,
    weights: &'a [u64],
    /// What the nodes' numbers of partitions follow.
    numbers: &'a [u64],
    /// By node, the part of the partitions that it should hold.
    number_parts: Vec<f64>,
    /// The bytes that deviations are measured against.
    scale: f64,
}

/// What a node holds of a range.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    bytes: u64,
    number: u32,
}

/// What a node should hold of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// Part of the whole range; 0 to 1.
    pub part: f64,
    /// What a number that is off is measured against.
    pub number_part: f64,
    pub bytes: f64,
    pub number: u32,
    pub tolerance: f64,
}

/// How far a spread is from even: squares of the deviations, as parts of each node's share.
#[derive(Clone, Copy, Debug)]
struct Unevenness {
    bytes: f64,
    number: f64,
}

impl Unevenness {
    fn total(self) -> f64 {
        self.bytes + NUMBER_WEIGHT * self.number
    }

    /// Numbers count by themselves where bytes cannot become more even, because few partitions
    /// hold them.
    fn is_worth_leaving_for(self, other: Unevenness) -> bool {
        other.total() <= self.total() * (1.0 - WORTHWHILE)
            || (other.bytes <= self.bytes && other.number <= self.number * 0.5)
                && other.total() < self.total()
    }
}

impl<'a> Range<'a> {
    /// Weights are in any unit; a node of weight 0 must hold nothing.
    pub fn new(items: &'a [Item], weights: &'a [u64], memory: &'a [u64]) -> Range<'a> {
        let bytes = items.iter().map(|item| item.bytes).sum::<u64>();
        let parts = parts_of(weights);
        let all_memory: f64 = memory.iter().map(|&bytes| bytes as f64).sum();
        let scale = (bytes as f64).max(all_memory * SMALL_PART_OF_MEMORY).max(1.0);
        let (numbers, number_parts) = (weights, parts.clone());
        Range { items, memory, bytes, parts, weights, numbers, number_parts, scale }
    }

    /// The same with numbers of partitions that do not follow the bytes.
    pub fn with_numbers(self, numbers: &'a [u64]) -> Range<'a> {
        // A node that should get no more still holds bytes, and so partitions.
        let least = |(part, of_bytes): (f64, &f64)| part.max(of_bytes * NUMBER_PART_LEAST);
        let number_parts = parts_of(numbers).into_iter().zip(&self.parts).map(least).collect();
        Range { numbers, number_parts, ..self }
    }

    /// Changes `owners`, which says for each item the node it lies on.
    ///
    /// # Panics
    /// When there are items and no node may hold any.
    pub fn spread(&self, owners: &mut Vec<u16>) {
        for _ in 0..PASSES_MOST {
            let goals = self.goals(owners);
            let must = owners.iter().any(|&owner| self.weights[usize::from(owner)] == 0);
            if !must && self.is_even(owners, &goals) {
                return;
            }
            let next = self.pass(owners, &goals);
            let (before, after) = (self.unevenness(owners), self.unevenness(&next));
            if !must && !before.is_worth_leaving_for(after) {
                return;
            }
            *owners = next;
        }
    }

    /// Bytes that a node should hold.
    pub fn fair_bytes(&self, node: usize) -> f64 {
        self.bytes as f64 * self.parts[node]
    }

    pub fn bytes_by_node(&self, owners: &[u16]) -> Vec<u64> {
        self.loads(owners).iter().map(|load| load.bytes).collect()
    }

    fn loads(&self, owners: &[u16]) -> Vec<Load> {
        let mut loads = vec![Load::default(); self.weights.len()];
        for (item, &owner) in self.items.iter().zip(owners) {
            let load = &mut loads[usize::from(owner)];
            load.bytes += item.bytes;
            load.number += 1;
        }
        loads
    }

    fn goals(&self, owners: &[u16]) -> Vec<Goal> {
        let held: Vec<_> = self.loads(owners).iter().map(|load| load.number).collect();
        let numbers = whole_shares(self.numbers, &held, self.items.len() as u32);
        let goal = |(node, number): (usize, u32)| {
            let (part, number_part) = (self.parts[node], self.number_parts[node]);
            let bytes = self.fair_bytes(node);
            let matters = self.memory[node] as f64 * SMALL_PART_OF_MEMORY;
            let tolerance = bytes.max(matters) * TOLERANCE;
            Goal { part, number_part, bytes, number, tolerance }
        };
        numbers.into_iter().enumerate().map(goal).collect()
    }

    fn is_even(&self, owners: &[u16], goals: &[Goal]) -> bool {
        self.loads(owners).iter().zip(goals).all(|(load, goal)| {
            let off = load.number.abs_diff(goal.number);
            (load.bytes as f64 - goal.bytes).abs() <= goal.tolerance
                && off <= (goal.number / 100).max(1)
        })
    }

    fn unevenness(&self, owners: &[u16]) -> Unevenness {
        let total = self.items.len().max(1) as f64;
        let mut sum = Unevenness { bytes: 0.0, number: 0.0 };
        for (node, load) in self.loads(owners).into_iter().enumerate() {
            let part = self.parts[node];
            if part > 0.0 {
                let bytes = (load.bytes as f64 - self.fair_bytes(node)) / self.scale;
                let number_part = self.number_parts[node];
                let number = f64::from(load.number) / total - number_part;
                sum.bytes += bytes * bytes / part;
                sum.number += number * number / number_part;
            }
        }
        sum
    }

    fn pass(&self, owners: &[u16], goals: &[Goal]) -> Vec<u16> {
        let loads = self.loads(owners);
        let room = loads.iter().map(|load| Vec::with_capacity(load.number as usize));
        let mut held: Vec<Vec<(u64, usize)>> = room.collect();
        for (at, (item, &owner)) in self.items.iter().zip(owners).enumerate() {
            held[usize::from(owner)].push((item.bytes, at));
        }
        let mut gaps: Vec<Gap> = Vec::with_capacity(goals.len());
        let mut released: Vec<(u64, usize)> = Vec::new();
        for (held, goal) in held.into_iter().zip(goals) {
            let (gone, gap) = release(held, goal);
            released.extend(gone);
            gaps.push(gap);
        }
        released.sort_unstable_by_key(|&(bytes, at)| (std::cmp::Reverse(bytes), at));
        let mut next = owners.to_vec();
        let mut gains = Gains::new(&gaps, goals, self.scale, self.items.len());
        for (bytes, at) in released {
            next[at] = gains.place(bytes);
        }
        next
    }
}

/// Of all of them.
fn parts_of(weights: &[u64]) -> Vec<f64> {
    let all: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    weights.iter().map(|&weight| weight as f64 / all.max(1) as f64).collect()
}

/// What a node lacks to its goal; negative when it has too much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub bytes: f64,
    pub number: i64,
}

/// Takes from a node what it has too much of, and says what it then lacks.
fn release(held: Vec<(u64, usize)>, goal: &Goal) -> (Vec<(u64, usize)>, Gap) {
    let bytes: u64 = held.iter().map(|&(bytes, _)| bytes).sum();
    let mut gap = Gap {
        bytes: goal.bytes - bytes as f64,
        number: i64::from(goal.number) - held.len() as i64,
    };
    if goal.part == 0.0 {
        return (held, gap);
    }
    let mut released = Vec::new();
    if gap.number >= 0 && -gap.bytes <= goal.tolerance {
        return (released, gap);
    }
    let mut held: BTreeSet<_> = held.into_iter().collect();
    let mut spare = goal.tolerance * SPARE_PART;
    while let Some(pick) = choose(&held, -gap.bytes, -gap.number, (goal.tolerance, spare)) {
        held.remove(&pick);
        if gap.bytes > goal.tolerance {
            spare -= pick.0 as f64;
        }
        gap.bytes += pick.0 as f64;
        gap.number += 1;
        released.push(pick);
    }
    (released, gap)
}

/// The partition to release next from a node with this many bytes and partitions too many. A node that
/// lacks bytes already may lack so many more.
fn choose(
    held: &BTreeSet<(u64, usize)>,
    bytes: f64,
    number: i64,
    (tolerance, spare): (f64, f64),
) -> Option<(u64, usize)> {
    let largest_up_to = |most: f64| {
        if most < 0.0 {
            None
        } else {
            held.range(..=(most as u64, usize::MAX)).next_back().copied()
        }
    };
    let too_full = bytes > tolerance;
    if number <= 0 {
        // Numbers are even; only partitions that hold something bring the bytes down. One that holds
        // a little more than there is too much does too: of three nodes that each keep nearly a
        // whole stripe, a fourth would lack three.
        let below = largest_up_to(bytes).filter(|&(size, _)| size > 0);
        let left = below.map_or(bytes, |(size, _)| bytes - size as f64);
        let above = held.range((bytes as u64 + 1, 0)..).next().copied();
        let above = above.filter(|&(size, _)| size as f64 - bytes < left);
        return above.or(below).filter(|_| too_full);
    }
    if too_full {
        let average = bytes / number as f64;
        let below = largest_up_to(average);
        let above = held.range((average as u64 + 1, 0)..).next().copied();
        let near = match (below, above) {
            (Some(below), Some(above)) => {
                let above_is_nearer = above.0 as f64 - average < average - below.0 as f64;
                Some(if above_is_nearer { above } else { below })
            }
            (below, above) => below.or(above),
        };
        // Not so much that the node would lack more than it had too much.
        return near
            .filter(|&(size, _)| size as f64 <= 2.0 * bytes + tolerance)
            .or_else(|| largest_up_to(bytes));
    }
    // Among those that weigh next to nothing, the last, so that what stays is in one run.
    let smallest = held.first()?.0;
    let last = held.range(..=(smallest, usize::MAX)).next_back().copied();
    last.filter(|&(size, _)| bytes - size as f64 >= -tolerance || size as f64 <= spare)
}
