//! Sealing and opening one block.
//!
//! Each client has a key of its own, derived from the file system's and the client's salt by HKDF
//! with SHA-256 (RFC 5869), and counts the blocks that it seals. So no nonce is used twice under a
//! key as long as no two clients draw the same 96 bits. A client whose machine is set back to an
//! earlier state counts the same numbers again, and nodes elsewhere remember what it sealed with them
//! before: so half of a nonce is the number, and half is drawn for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf;
use tidefs_model::StripeKey;

use crate::key::{Cipher, Key, Salt, Sealing};
use crate::record::{NONCE_BYTES, Seal};

/// Derived keys that are kept; mounts come and go.
const KEYS_MAX: usize = 1_024;
const PURPOSE: &[u8] = b"tidefs stripes 2";
/// Of a nonce, for the number: it is enough for more bytes than there are numbers for bytes of a file.
const NUMBER_BYTES: usize = NONCE_BYTES / 2;

pub struct Keyring {
    cipher: Cipher,
    sealing: Sealing,
    own: LessSafeKey,
    sealed: AtomicU64,
    others: RwLock<HashMap<Salt, Arc<LessSafeKey>>>,
}

/// Which block it is: bound to its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub stripe: StripeKey,
    pub block: u16,
}

impl Keyring {
    pub fn new(cipher: Cipher, sealing: Sealing) -> Keyring {
        let own = derive(cipher, &sealing.key, &sealing.salt);
        Keyring { cipher, sealing, own, sealed: AtomicU64::new(0), others: RwLock::default() }
    }

    pub fn salt(&self) -> &Salt {
        &self.sealing.salt
    }

    /// Seals bytes where they are; none are an absent block, which needs no seal.
    pub fn seal(&self, place: Place, bytes: &mut [u8]) -> Seal {
        let nonce = nonce(self.sealed.fetch_add(1, Ordering::Relaxed), (self.sealing.fresh)());
        let length = bytes.len() as u32;
        let bound = Aad::from(bound_to(place, length));
        let unique = Nonce::assume_unique_for_key(nonce);
        let tag = self.own.seal_in_place_separate_tag(unique, bound, bytes);
        let tag = tag.expect("a block is shorter than what the cipher can seal");
        let tag = tag.as_ref().try_into().expect("a tag of 16 bytes");
        Seal { salt: self.sealing.salt, nonce, tag, sealed: length, visible: length }
    }

    /// Opens bytes where they are. `false`: they are not what was sealed, and are overwritten with
    /// anything.
    pub fn open(&self, place: Place, seal: &Seal, bytes: &mut [u8]) -> bool {
        if bytes.len() != seal.sealed as usize {
            return false;
        }
        let bound = Aad::from(bound_to(place, seal.sealed));
        let open = |key: &LessSafeKey, bytes: &mut [u8]| {
            let (nonce, tag) = (Nonce::assume_unique_for_key(seal.nonce), seal.tag.into());
            key.open_in_place_separate_tag(nonce, bound, tag, bytes, 0..).is_ok()
        };
        if seal.salt == self.sealing.salt {
            return open(&self.own, bytes);
        }
        open(&self.key_of(&seal.salt), bytes)
    }

    fn key_of(&self, salt: &Salt) -> Arc<LessSafeKey> {
        let known = self.others.read().unwrap_or_else(PoisonError::into_inner).get(salt).cloned();
        known.unwrap_or_else(|| {
            let key = Arc::new(derive(self.cipher, &self.sealing.key, salt));
            let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
            if others.len() >= KEYS_MAX {
                others.clear();
            }
            others.insert(*salt, Arc::clone(&key));
            key
        })
    }
}

fn derive(cipher: Cipher, key: &Key, salt: &Salt) -> LessSafeKey {
    let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&key.0);
    let derived = secret.expand(&[PURPOSE], cipher.algorithm());
    LessSafeKey::new(UnboundKey::from(derived.expect("a key is shorter than what HKDF gives")))
}

fn nonce(number: u64, fresh: u64) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    let (numbered, drawn) = nonce.split_at_mut(NUMBER_BYTES);
    numbered.copy_from_slice(&number.to_be_bytes()[size_of::<u64>() - NUMBER_BYTES..]);
    drawn.copy_from_slice(&fresh.to_be_bytes()[..NONCE_BYTES - NUMBER_BYTES]);
    nonce
}

fn bound_to(place: Place, length: u32) -> [u8; 18] {
    let mut bound = [0; 18];
    bound[..8].copy_from_slice(&place.stripe.ino.0.to_be_bytes());
    bound[8..12].copy_from_slice(&place.stripe.index.to_be_bytes());
    bound[12..14].copy_from_slice(&place.block.to_be_bytes());
    bound[14..].copy_from_slice(&length.to_be_bytes());
    bound
}

#[cfg(test)]
mod tests {
    use tidefs_model::Ino;

    use super::*;
    use crate::key::{KEY_BYTES, SALT_BYTES};

    fn place(ino: u64, index: u32, block: u16) -> Place {
        Place { stripe: StripeKey { ino: Ino(ino), index }, block }
    }

    fn drawing(cipher: Cipher, key: u8, salt: u8, fresh: fn() -> u64) -> Keyring {
        let (key, salt) = (Key([key; KEY_BYTES]), [salt; SALT_BYTES]);
        Keyring::new(cipher, Sealing { key, salt, fresh })
    }

    /// A machine that was set back has the key, the salt and the count of before.
    #[test]
    fn a_client_that_was_set_back_repeats_no_nonce_and_its_blocks_open() {
        for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
            let (before, after) =
                (drawing(cipher, 1, 1, || 7 << 16), drawing(cipher, 1, 1, || 8 << 16));
            let (mut one, mut other) = ([1; 100], [2; 100]);
            let seals =
                [before.seal(place(7, 3, 2), &mut one), after.seal(place(7, 3, 2), &mut other)];
            assert_eq!(seals[0].salt, seals[1].salt);
            assert_ne!(seals[0].nonce, seals[1].nonce);
            // With one nonce what differs would show: the bytes' difference.
            let differences: Vec<u8> =
                one.iter().zip(&other).map(|(one, other)| one ^ other).collect();
            assert_ne!(differences, [1 ^ 2; 100]);
            for (seal, bytes) in seals.iter().zip([&mut one, &mut other]) {
                assert!(after.open(place(7, 3, 2), seal, bytes));
            }
            assert_eq!((one[0], other[0]), (1, 2));
        }
    }

    #[test]
    fn nonces_of_one_client_differ_whatever_is_drawn() {
        let keyring = keyring(Cipher::Aes256Gcm, 1, 1);
        let nonces: std::collections::HashSet<_> =
            (0..1_000).map(|_| keyring.seal(place(1, 1, 1), &mut [1]).nonce).collect();
        assert_eq!(nonces.len(), 1_000);
        assert_ne!(nonce(1, 0), nonce(1 << 40, 0));
    }

    fn keyring(cipher: Cipher, key: u8, salt: u8) -> Keyring {
        drawing(cipher, key, salt, || 0)
    }

    #[test]
    fn a_block_opens_where_it_belongs_and_nowhere_else() {
        for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
            let (one, other) = (keyring(cipher, 1, 1), keyring(cipher, 1, 2));
            let plain: Vec<u8> = (0..=255).cycle().take(5_000).collect();
            let mut bytes = plain.clone();
            let seal = one.seal(place(7, 3, 2), &mut bytes);
            assert_ne!(bytes, plain);
            let opens = |keyring: &Keyring, place, seal: &Seal, bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                let opened = keyring.open(place, seal, &mut bytes);
                assert!(!opened || bytes == plain);
                opened
            };
            assert!(opens(&one, place(7, 3, 2), &seal, &bytes));
            assert!(opens(&other, place(7, 3, 2), &seal, &bytes), "another client");
            assert!(!opens(&keyring(cipher, 2, 1), place(7, 3, 2), &seal, &bytes), "another key");
            for wrong in [place(8, 3, 2), place(7, 4, 2), place(7, 3, 1)] {
                assert!(!opens(&one, wrong, &seal, &bytes), "{wrong:?}");
            }
            for at in [0, 2_500, 4_999] {
                let mut altered = bytes.clone();
                altered[at] ^= 1;
                assert!(!opens(&one, place(7, 3, 2), &seal, &altered), "altered at {at}");
            }
            assert!(!opens(&one, place(7, 3, 2), &seal, &bytes[..4_999]), "short");
            let mut again = plain.clone();
            let second = one.seal(place(7, 3, 2), &mut again);
            assert_ne!((again, second.nonce), (bytes.clone(), seal.nonce), "nonces differ");
            assert!(!opens(&one, place(7, 3, 2), &second, &bytes), "an earlier one");
        }
    }
}
