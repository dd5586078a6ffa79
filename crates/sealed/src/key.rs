//! What a client needs to seal: a key of the file system, and a salt of its own.

use std::fmt;

use ring::aead;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// Bytes of a salt.
pub const SALT_BYTES: usize = 12;

/// The secret of a file system from which the keys of its clients are derived.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// Random bits that one client draws when it starts, and no other has.
pub type Salt = [u8; SALT_BYTES];

/// With what one client seals.
#[derive(Clone, Copy, Debug)]
pub struct Sealing {
    pub key: Key,
    pub salt: Salt,
    /// Draws bits that a machine which is set back to an earlier state does not draw again.
    pub fresh: fn() -> u64,
}

/// Where bits are drawn makes no difference to what is sealed.
impl PartialEq for Sealing {
    fn eq(&self, other: &Sealing) -> bool {
        (self.key, self.salt) == (other.key, other.salt)
    }
}

impl Eq for Sealing {}

/// An authenticated cipher; fixed when a file system is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES with 256 bits in Galois/counter mode (NIST SP 800-38D).
    Aes256Gcm,
    /// ChaCha20 with Poly1305 (RFC 8439).
    ChaCha20Poly1305,
}

impl Cipher {
    /// The quicker one on this processor: AES where it has instructions for that.
    pub fn of_this_processor() -> Cipher {
        if has_aes() { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 }
    }

    /// Number of the cipher in a file system's format; 0 stands for none.
    pub fn number(self) -> u32 {
        match self {
            Cipher::Aes256Gcm => 1,
            Cipher::ChaCha20Poly1305 => 2,
        }
    }

    /// The cipher with this number.
    pub fn of_number(number: u32) -> Option<Cipher> {
        [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305].into_iter().find(|it| it.number() == number)
    }

    pub(crate) fn algorithm(self) -> &'static aead::Algorithm {
        match self {
            Cipher::Aes256Gcm => &aead::AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes() -> bool {
    false
}
