//! What part of the data each node should hold where that follows its bandwidth: network-aware
//! MemEFS, equation 4.1, *c(v) = bandwidth(v) n / sum of all bandwidths*, as far as memory allows.
//!
//! The paper assumes that the data fits. Here a node with a fast link may be small, and memory may be
//! nearly full: then nobody is planned to be fuller than the mean by more than a little. So shares
//! follow bandwidth while there is room, and memory when there is none.

/// A node may be filled to this part of its memory for the sake of its bandwidth, ...
const FILL_FOR_BANDWIDTH: f64 = 0.6;
/// ... or to this much more than the mean, where the mean is near that.
const ABOVE_MEAN: f64 = 0.05;
/// Weights are whole numbers that add up to about this.
const WEIGHTS: f64 = 1e12;

/// Why a node's share is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// In proportion to its memory.
    Memory,
    /// In proportion to its bandwidth.
    Bandwidth,
    /// Its bandwidth would have it hold more than its memory takes.
    MemoryBound,
}

/// The part of the data that a node should hold; 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataShare {
    pub part: f64,
    pub reason: Reason,
    /// What nodes of its class are to hold together, where that is stated and nodes of both are there.
    pub of_class: Option<f64>,
}

/// By node, for memory that is there for data (0: it may hold none) and bandwidths, of which nodes
/// that were not measured have the mean; in all by memory where none was. There are `bytes` of data.
pub fn data_shares(memory: &[u64], bandwidths: &[Option<u64>], bytes: u64) -> Vec<DataShare> {
    let all: f64 = memory.iter().map(|&memory| memory as f64).sum();
    let known: Vec<f64> = bandwidths
        .iter()
        .zip(memory)
        .filter(|(_, memory)| **memory > 0)
        .filter_map(|(it, _)| it.map(|rate| rate as f64))
        .collect();
    if known.is_empty() || all == 0.0 {
        let part = |&memory: &u64| memory as f64 / all.max(1.0);
        return memory
            .iter()
            .map(|it| DataShare { part: part(it), reason: Reason::Memory, of_class: None })
            .collect();
    }
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    let rate =
        |at: usize| if memory[at] == 0 { 0.0 } else { bandwidths[at].map_or(mean, |it| it as f64) };
    let rates: Vec<f64> = (0..memory.len()).map(rate).collect();
    let bytes = bytes as f64;
    let fill = FILL_FOR_BANDWIDTH.max(bytes / all + ABOVE_MEAN);
    let most: Vec<f64> =
        memory.iter().map(|&memory| memory as f64 * fill / bytes.max(1.0)).collect();
    bounded(&rates, &most)
}

/// Parts in proportion to the rates, none above its bound; what the bounds leave goes to the others.
/// The bounds add up to more than 1.
fn bounded(rates: &[f64], most: &[f64]) -> Vec<DataShare> {
    let mut is_bound = vec![false; rates.len()];
    loop {
        let left = 1.0 - sum(most, |at| is_bound[at]);
        let open = sum(rates, |at| !is_bound[at]);
        let part = |at: usize| rates[at] * left.max(0.0) / open.max(f64::MIN_POSITIVE);
        let over: Vec<_> =
            (0..rates.len()).filter(|&at| !is_bound[at] && part(at) > most[at]).collect();
        if over.is_empty() {
            let share = |at: usize| {
                let (part, reason) = match is_bound[at] {
                    true => (most[at], Reason::MemoryBound),
                    false => (part(at), Reason::Bandwidth),
                };
                DataShare { part, reason, of_class: None }
            };
            return (0..rates.len()).map(share).collect();
        }
        over.into_iter().for_each(|at| is_bound[at] = true);
    }
}

fn sum(values: &[f64], counts: impl Fn(usize) -> bool) -> f64 {
    values.iter().enumerate().filter(|(at, _)| counts(*at)).map(|(_, value)| value).sum()
}

/// As whole numbers; a node that may hold something has at least 1.
pub(super) fn weights(shares: &[DataShare]) -> Vec<u64> {
    let weight = |share: &DataShare| match share.part {
        0.0 => 0,
        part => ((part * WEIGHTS) as u64).max(1),
    };
    shares.iter().map(weight).collect()
}
