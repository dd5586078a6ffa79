//! Random batches and random stripe calls, compared with the oracle call by call.
//!
//! Alphabets are tiny and sizes gather around borders, so that fields meet, links find their
//! targets and checks hold about as often as not. One seed is one sequence of tries; a failure
//! prints the shortest sequence of calls that shows it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tidefs_model::StripeKey;

use super::fixture::{PAGE_BYTES, fields, length, noise, read, remove, shard, stripes, write};
use super::oracle::{Oracle, overlaid};
use crate::{Batch, Bytes, Check, Read, Store, Update};

cases![random_batches_do_what_the_oracle_says, random_stripe_calls_do_what_the_oracle_says];

fn random_batches_do_what_the_oracle_says(store: &dyn Store) {
    random_batches(store, 0, 256);
}

fn random_stripe_calls_do_what_the_oracle_says(store: &dyn Store) {
    random_stripes(store, 0, 64);
}

/// Compares `tries` sequences of batches, each on a fresh shard.
///
/// # Panics
/// Where store and oracle differ.
pub fn random_batches(store: &dyn Store, seed: u64, tries: u32) {
    run(seed, tries, &vec(batch(), 1..12), |batches| {
        let key = shard(store);
        let mut oracle = Oracle::default();
        for batch in &batches {
            prop_assert_eq!(store.batch(key, batch), Ok(oracle.apply(batch)), "{:?}", batch);
        }
        let left: Vec<_> = fields(store, key).into_iter().collect();
        prop_assert_eq!(left, oracle.fields());
        store.delete_shards(&[key]).unwrap();
        Ok(())
    });
}

/// Compares `tries` sequences of calls, each on three fresh stripes of one inode.
///
/// # Panics
/// Where store and oracle differ.
pub fn random_stripes(store: &dyn Store, seed: u64, tries: u32) {
    run(seed, tries, &vec(stripe_call(), 1..20), |calls| {
        let keys = stripes(store, STRIPES as u32);
        let mut contents = [const { Content::new() }; STRIPES];
        for (number, &call) in (0..).zip(&calls) {
            match call {
                StripeCall::Write { stripe, at, length } => {
                    let bytes = noise(number, length);
                    write(store, keys[stripe], at as u32, &bytes);
                    contents[stripe].write(at, &bytes);
                }
                StripeCall::Trim { stripe, length } => {
                    store.trim(&[(keys[stripe], length as u32)]).unwrap();
                    contents[stripe].bytes.truncate(length);
                    contents[stripe].written.truncate(length);
                }
            }
            for (&key, content) in keys.iter().zip(&contents) {
                compare_stripe(store, key, content, call)?;
            }
        }
        remove(store, &keys);
        Ok(())
    });
}

/// What a stripe must hold, and which of its bytes were written: those that are not 0.
struct Content {
    bytes: Vec<u8>,
    written: Vec<u8>,
}

impl Content {
    const fn new() -> Content {
        Content { bytes: Vec::new(), written: Vec::new() }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.bytes = overlaid(&self.bytes, at, bytes);
            self.written = overlaid(&self.written, at, &vec![1; bytes.len()]);
        }
    }

    fn written_end(&self) -> usize {
        self.written.iter().rposition(|&written| written == 1).map_or(0, |last| last + 1)
    }
}

fn compare_stripe(
    store: &dyn Store,
    key: StripeKey,
    content: &Content,
    last: StripeCall,
) -> Result<(), TestCaseError> {
    const MARGIN: usize = 5_000;
    let mut expected = content.bytes.clone();
    expected.resize((expected.len() + MARGIN).min(STRIPE_BYTES), 0);
    let found = read(store, key, 0, expected.len());
    let differs = found.iter().zip(&expected).position(|(one, other)| one != other);
    prop_assert_eq!(differs, None, "bytes of {:?} after {:?}", key, last);
    let length = length(store, key) as usize;
    let allowed = content.written_end()..=content.bytes.len().next_multiple_of(PAGE_BYTES);
    prop_assert!(allowed.contains(&length), "{} not in {:?} after {:?}", length, allowed, last);
    Ok(())
}

fn run<S: Strategy>(
    seed: u64,
    tries: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = Config { cases: tries, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    if let Err(error) = TestRunner::new_with_rng(config, random).run(strategy, test) {
        panic!("seed {seed}: {error}");
    }
}

fn field() -> impl Strategy<Value = Bytes> {
    select(vec!["", "a", "a\0", "b", "i", "ia", "i\0", "r\r\n"]).prop_map(Bytes::from)
}

fn offset() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(0), 4 => 0_u32..12, 1 => select(vec![100, 4_095, 70_000])]
}

fn number() -> impl Strategy<Value = u64> {
    let borders = vec![0, 1, 255, 256, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, 1 << 63, u64::MAX];
    prop_oneof![2 => select(borders), 1 => any::<u64>(), 1 => 0_u64..5]
}

fn delta() -> impl Strategy<Value = i64> {
    let borders = vec![i64::MIN, i64::MIN + 1, -256, -1, 0, 1, 255, 1 << 53, i64::MAX];
    prop_oneof![2 => select(borders), 1 => any::<i64>(), 2 => -3_i64..4]
}

fn text() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        2 => vec(select(vec![0, b'a', b'i', 13, 10, 255]), 0..4),
        1 => vec(any::<u8>(), 0..24),
        2 => number().prop_map(|number| number.to_be_bytes().to_vec()),
    ]
}

fn check() -> impl Strategy<Value = Check> {
    prop_oneof![
        2 => field().prop_map(|field| Check::Absent { field }),
        1 => field().prop_map(|field| Check::Present { field }),
        1 => (field(), text()).prop_map(|(field, value)| Check::Equals { field, value }),
        2 => (field(), offset(), number())
            .prop_map(|(field, at, least)| Check::AtLeast { field, at, least }),
        2 => (field(), offset(), number())
            .prop_map(|(field, at, most)| Check::AtMost { field, at, most }),
    ]
}

fn update() -> impl Strategy<Value = Update> {
    prop_oneof![
        3 => (field(), text()).prop_map(|(field, value)| Update::Put { field, value }),
        3 => field().prop_map(|field| Update::Delete { field }),
        2 => (field(), offset(), text())
            .prop_map(|(field, at, bytes)| Update::Patch { field, at, bytes }),
        2 => (field(), offset(), delta())
            .prop_map(|(field, at, delta)| Update::Add { field, at, delta }),
        2 => (field(), offset(), number())
            .prop_map(|(field, at, value)| Update::Max { field, at, value }),
    ]
}

fn one_read() -> impl Strategy<Value = Read> {
    let prefix = select(vec!["", "i", "a"]).prop_map(Bytes::from);
    prop_oneof![
        1 => field().prop_map(|field| Read::Field { field }),
        2 => (field(), 0_u32..4, 0_u32..3, prefix)
            .prop_map(|(field, at, length, prefix)| Read::Linked { field, at, length, prefix }),
    ]
}

fn batch() -> impl Strategy<Value = Batch> {
    (vec(check(), 0..3), vec(update(), 0..6), vec(one_read(), 0..5), any::<bool>())
        .prop_map(|(checks, updates, reads, reclaims)| Batch { checks, updates, reads, reclaims })
}

const STRIPES: usize = 3;
const STRIPE_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
enum StripeCall {
    Write { stripe: usize, at: usize, length: usize },
    Trim { stripe: usize, length: usize },
}

/// Around pages of memory and the ends of stripes.
fn position() -> impl Strategy<Value = usize> {
    let borders = vec![0, 1, 4_095, 4_096, 4_097, 8_192, 65_536, STRIPE_BYTES - 1, STRIPE_BYTES];
    prop_oneof![1 => select(borders), 2 => 0_usize..20_000]
}

fn stripe_call() -> impl Strategy<Value = StripeCall> {
    let write = (0..STRIPES, position(), 0_usize..9_000).prop_map(|(stripe, at, length)| {
        let length = length.min(STRIPE_BYTES - at);
        StripeCall::Write { stripe, at, length }
    });
    let trim =
        (0..STRIPES, position()).prop_map(|(stripe, length)| StripeCall::Trim { stripe, length });
    prop_oneof![2 => write, 1 => trim]
}
