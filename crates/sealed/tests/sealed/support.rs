//! Clients of one store.

use std::sync::Arc;

use tidefs_model::{ByteSize, Ino, ShardKey, StripeKey, StripeSize};
use tidefs_sealed::{Cipher, Circumstances, Key, Sealed, Sealing};
pub use tidefs_store::conformance::noise;
use tidefs_store::{Embedded, Store, StoreError, StripeRead, StripeWrite};

pub const BLOCK: usize = 64 << 10;
pub const STRIPE: usize = 1 << 20;
/// Where the number stands below which inodes may have lost seals.
pub const LOSSES: (ShardKey, &[u8]) = (ShardKey { directory: Ino(0), index: 9 }, b"lost-below");

pub fn heap(capacity: ByteSize) -> Embedded {
    Embedded::in_heap(capacity, StripeSize::DEFAULT)
}

pub fn cipher() -> Cipher {
    Cipher::of_this_processor()
}

/// A client of a number of its own; alone or one of several.
pub fn client<S: Store>(store: &Arc<S>, number: u8, alone: bool) -> Sealed<S> {
    client_with(store, number, alone, cipher())
}

pub fn client_with<S: Store>(store: &Arc<S>, number: u8, alone: bool, cipher: Cipher) -> Sealed<S> {
    make(store, number, move || alone.then_some(1), cipher)
}

/// A client whose company changes.
pub fn client_when<S: Store>(
    store: &Arc<S>,
    number: u8,
    time_alone: impl Fn() -> Option<u64> + Send + Sync + 'static,
) -> Sealed<S> {
    make(store, number, time_alone, cipher())
}

fn make<S: Store>(
    store: &Arc<S>,
    number: u8,
    time_alone: impl Fn() -> Option<u64> + Send + Sync + 'static,
    cipher: Cipher,
) -> Sealed<S> {
    let sealing = Sealing { key: Key([7; 32]), salt: [number; 12], fresh: || 0 };
    let circumstances =
        Circumstances { time_alone: Box::new(time_alone), losses: (LOSSES.0, LOSSES.1.to_vec()) };
    let store = Arc::clone(store);
    Sealed::new(store, cipher, Some(sealing), StripeSize::DEFAULT, circumstances)
}

pub fn stripe(index: u32) -> StripeKey {
    StripeKey { ino: Ino(77), index }
}

pub fn write(
    store: &(impl Store + ?Sized),
    key: StripeKey,
    offset: usize,
    bytes: &[u8],
) -> Result<(), StoreError> {
    store.write(&[StripeWrite { key, offset: offset as u32, bytes }])
}

pub fn read(
    store: &(impl Store + ?Sized),
    key: StripeKey,
    offset: usize,
    length: usize,
) -> Result<Vec<u8>, StoreError> {
    let mut buffer = vec![0xee; length];
    store.read(&mut [StripeRead { key, offset: offset as u32, buffer: &mut buffer }])?;
    Ok(buffer)
}

/// What lies in a stripe once bytes were written over it at an offset.
pub fn laid(base: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut all = base.to_vec();
    all.resize(all.len().max(at + bytes.len()), 0);
    all[at..at + bytes.len()].copy_from_slice(bytes);
    all
}
