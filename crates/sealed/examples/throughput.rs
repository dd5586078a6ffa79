//! How fast stripes are sealed and opened by one thread: the ciphers alone, and the whole layer
//! beside the store that it lies on, which is this process's memory.
//!
//! `cargo run --release -p tidefs-sealed --example throughput`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use ring::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use tidefs_model::{ByteSize, Ino, ShardKey, StripeKey, StripeSize};
use tidefs_sealed::{Cipher, Circumstances, Key, Sealed, Sealing};
use tidefs_store::{Embedded, Store, StripeRead, StripeWrite};

const BLOCK: usize = 64 << 10;
const STRIPE: usize = 1 << 20;
const STRIPES: u32 = 64;
const ROUNDS: usize = 9;

fn main() {
    for (name, algorithm) in
        [("AES-256-GCM", &AES_256_GCM), ("ChaCha20-Poly1305", &CHACHA20_POLY1305)]
    {
        println!("{name:22} {:6.2} GB/s", cipher(algorithm));
    }
    let plain = [layer(None, true), layer(None, true)];
    let sealed = layer(Some(Cipher::of_this_processor()), true);
    for (what, at) in [("write", 0), ("read", 1)] {
        let plain = (plain[0][at] + plain[1][at]) / 2.0;
        println!(
            "{what:22} {:6.2} GB/s sealed, {plain:6.2} plain: {:.2}",
            sealed[at],
            sealed[at] / plain
        );
    }
}

/// The median rate of sealing blocks in place.
fn cipher(algorithm: &'static Algorithm) -> f64 {
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &[7; 32]).expect("a key of 32 bytes"));
    let mut block = vec![1; BLOCK];
    let blocks = STRIPES as usize * STRIPE / BLOCK;
    median(|| {
        for number in 0..blocks as u64 {
            let mut nonce = [0; 12];
            nonce[4..].copy_from_slice(&number.to_be_bytes());
            let nonce = Nonce::assume_unique_for_key(nonce);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut block);
            let _ = black_box(tag.expect("a block is short enough"));
        }
    })
}

/// The median rates of writing new stripes and of reading them.
fn layer(cipher: Option<Cipher>, alone: bool) -> [f64; 2] {
    let store = Embedded::in_heap(ByteSize::mib(256), StripeSize::DEFAULT);
    let store = Arc::new(store);
    let circumstances = Circumstances {
        time_alone: Box::new(move || alone.then_some(1)),
        losses: (ShardKey { directory: Ino::NONE, index: 9 }, b"losses".to_vec()),
    };
    let sealing = Sealing { key: Key([7; 32]), salt: [1; 12], fresh: || 0 };
    let store = match cipher {
        None => Sealed::plain(store),
        Some(cipher) => {
            Sealed::new(store, cipher, Some(sealing), StripeSize::DEFAULT, circumstances)
        }
    };
    let (bytes, mut buffer) = (vec![3; STRIPE], vec![0; STRIPE]);
    let keys = |round: u64| (0..STRIPES).map(move |index| StripeKey { ino: Ino(round), index });
    let mut round = 0;
    let write = median(|| {
        let gone: Vec<_> = keys(round).map(|key| (key, 0)).collect();
        store.trim(&gone).expect("removed");
        round += 1;
        for key in keys(round) {
            store.write(&[StripeWrite { key, offset: 0, bytes: &bytes }]).expect("written");
        }
    });
    let read = median(|| {
        for key in keys(round) {
            store.read(&mut [StripeRead { key, offset: 0, buffer: &mut buffer }]).expect("read");
        }
    });
    [write, read]
}

fn median(mut work: impl FnMut()) -> f64 {
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            f64::from(STRIPES) * STRIPE as f64 / start.elapsed().as_secs_f64() / 1e9
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[ROUNDS / 2]
}
