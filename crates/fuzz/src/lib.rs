//! Hostile input for tests: a corpus that is kept in the project, and a seeded mutator that makes
//! more of it. The same seed makes the same inputs on every machine.
//!
//! A corpus is text: a line for each input, its name and its bytes in hexadecimal. What a run finds
//! is printed in that form, to be added.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Inputs grow no longer.
const BYTES_MAX: usize = 4 << 10;
/// Changes that one input takes at most.
const CHANGES_MAX: u64 = 6;
/// Numbers at the borders of what lengths and counts may be.
const BORDERS: [u64; 14] = [
    0,
    1,
    7,
    8,
    127,
    255,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 60,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// Inputs of a corpus.
///
/// # Panics
/// When a line is not a name and hexadecimal digits.
pub fn corpus(text: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, digits) = line.split_once(' ').unwrap_or((line, ""));
            let digit = |text: &str| u8::from_str_radix(text, 16);
            let bytes: Result<Vec<_>, _> =
                (0..digits.len() / 2).map(|at| digit(&digits[2 * at..2 * at + 2])).collect();
            assert!(digits.len().is_multiple_of(2), "{name} has half a byte");
            bytes.unwrap_or_else(|_| panic!("{name} has something else than hexadecimal digits"))
        })
        .collect()
}

/// How many mutants a test makes: `TIDEFS_FUZZ` times as many as it would.
pub fn cases(usual: u64) -> u64 {
    let times = std::env::var("TIDEFS_FUZZ").ok().and_then(|times| times.parse().ok());
    usual.saturating_mul(times.unwrap_or(1))
}

/// Feeds every seed, and mutants of them.
///
/// # Panics
/// With what `feed` panics with, after the input was printed.
pub fn run(seeds: &[Vec<u8>], usual: u64, mut feed: impl FnMut(&[u8])) {
    let mut fed = |input: &[u8]| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| feed(input))) {
            let digits: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("add to the corpus: found {digits}");
            resume_unwind(panic);
        }
    };
    seeds.iter().for_each(|seed| fed(seed));
    let mut mutator = Mutator::new(seeds.len() as u64);
    for _ in 0..cases(usual) {
        fed(&mutator.mutant(seeds));
    }
}

/// Makes inputs of others.
#[derive(Clone, Debug)]
pub struct Mutator(u64);

impl Mutator {
    pub fn new(seed: u64) -> Mutator {
        Mutator(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// One of the seeds with some changes.
    ///
    /// # Panics
    /// Without seeds.
    pub fn mutant(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(CHANGES_MAX as usize) {
            self.change(&mut input, seeds);
        }
        input.truncate(BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let end = at + self.below(input.len() - at + 1);
        match self.below(9) {
            0 => self.at(input, at, |byte, drawn| byte ^ 1 << (drawn % 8)),
            1 => self.at(input, at, |_, drawn| drawn as u8),
            2 => self.at(input, at, |byte, _| byte.wrapping_add(1)),
            3 => input.truncate(at),
            4 => drop(input.drain(at..end)),
            5 => {
                let again = input[at..end].to_vec();
                input.splice(at..at, again);
            }
            6 => {
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len() + 1);
                input.splice(at..end, other[from..].iter().copied());
            }
            7 => {
                let bytes = self.border().to_be_bytes();
                let length = [1, 2, 4, 8][self.below(4)];
                let end = (at + length).min(input.len());
                input.splice(at..end, bytes[8 - length..].iter().copied());
            }
            _ => self.change_digits(input, at),
        }
    }

    /// A number that is written in digits becomes another one.
    fn change_digits(&mut self, input: &mut Vec<u8>, from: usize) {
        let Some(first) = input[from..].iter().position(u8::is_ascii_digit) else { return };
        let first = from + first;
        let length = input[first..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = self.border().to_string();
        input.splice(first..first + length, number.bytes());
    }

    fn at(&mut self, input: &mut [u8], at: usize, change: impl Fn(u8, u64) -> u8) {
        let drawn = self.draw();
        if let Some(byte) = input.get_mut(at) {
            *byte = change(*byte, drawn);
        }
    }

    fn border(&mut self) -> u64 {
        BORDERS[self.below(BORDERS.len())]
    }

    fn below(&mut self, end: usize) -> usize {
        (self.draw() % end.max(1) as u64) as usize
    }

    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corpus_is_read_and_the_same_seed_makes_the_same_inputs() {
        let seeds = corpus("# words\none 0102ff\n\nnone \n");
        assert_eq!(seeds, [vec![1, 2, 255], vec![]]);
        let mutants = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..500).map(|_| mutator.mutant(&seeds)).collect::<Vec<_>>()
        };
        assert_eq!(mutants(1), mutants(1));
        assert_ne!(mutants(1), mutants(2));
        let distinct: std::collections::BTreeSet<_> = mutants(3).into_iter().collect();
        assert!(distinct.len() > 200, "{} different inputs", distinct.len());
    }

    #[test]
    fn what_a_decoder_does_not_bear_is_found() {
        let found = catch_unwind(|| {
            run(&[b"abc:123".to_vec()], 10_000, |input| {
                assert!(!input.ends_with(b"18446744073709551615"), "too large");
            });
        });
        assert!(found.is_err());
    }
}
