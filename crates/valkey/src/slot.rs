//! Partition *p* is slot *p*: names of keys that a cluster puts where the placement says.
//!
//! A cluster hashes only the part of a name between braces, if there is one. For each slot a tag of
//! three letters is searched once whose hash is that slot.

use std::sync::LazyLock;

use tidefs_model::{Ino, PARTITIONS, Partition, ShardKey, StripeKey};
use tidefs_store::Key;

const TAG_BYTES: usize = 3;
const LETTERS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Names of all keys match one of these; accounts are confined to them.
pub const KEY_PATTERNS: [&str; 2] = [STRIPES_PATTERN, "{???}m*"];
pub const STRIPES_PATTERN: &str = "{???}s*";

static TAGS: LazyLock<Box<[[u8; TAG_BYTES]]>> = LazyLock::new(find_tags);

/// `{tag}s`, inode, index of the stripe.
pub fn stripe_name(key: StripeKey) -> [u8; TAG_BYTES + 15] {
    let mut name = [0; TAG_BYTES + 15];
    begin(&mut name, key.partition(), b's');
    name[TAG_BYTES + 3..TAG_BYTES + 11].copy_from_slice(&key.ino.0.to_be_bytes());
    name[TAG_BYTES + 11..].copy_from_slice(&key.index.to_be_bytes());
    name
}

/// `{tag}s`, and a word that is shorter than any stripe's: see `losses`.
pub fn mark_name(partition: Partition) -> [u8; TAG_BYTES + 7] {
    let mut name = [0; TAG_BYTES + 7];
    begin(&mut name, partition, b's');
    name[TAG_BYTES + 3..].copy_from_slice(b"lost");
    name
}

/// `{tag}m`, directory, index of the shard.
pub fn shard_name(key: ShardKey) -> [u8; TAG_BYTES + 13] {
    let mut name = [0; TAG_BYTES + 13];
    begin(&mut name, key.partition(), b'm');
    name[TAG_BYTES + 3..TAG_BYTES + 11].copy_from_slice(&key.directory.0.to_be_bytes());
    name[TAG_BYTES + 11..].copy_from_slice(&key.index.to_be_bytes());
    name
}

/// What a name stands for; `None` of a mark, and of a name that was not made here.
pub fn key_of_name(name: &[u8]) -> Option<Key> {
    let (tag, key) = name.split_at_checked(TAG_BYTES + 2)?;
    let (&kind, key) = key.split_first()?;
    let (ino, index) = key.split_first_chunk::<8>()?;
    let ino = Ino(u64::from_be_bytes(*ino));
    let (key, partition) = match kind {
        b's' => {
            let key = StripeKey { ino, index: u32::from_be_bytes(index.try_into().ok()?) };
            (Key::Stripe(key), key.partition())
        }
        b'm' => {
            let index = u16::from_be_bytes(index.try_into().ok()?);
            let key = ShardKey { directory: ino, index };
            (Key::Shard(key), key.partition())
        }
        _ => return None,
    };
    let own = &TAGS[usize::from(partition.number())];
    (tag[0] == b'{' && tag[1..=TAG_BYTES] == own[..] && tag[TAG_BYTES + 1] == b'}').then_some(key)
}

/// A name that lies in the partition, and that no key has.
pub fn any_name(partition: Partition) -> [u8; TAG_BYTES + 3] {
    let mut name = [0; TAG_BYTES + 3];
    begin(&mut name, partition, b's');
    name
}

fn begin(name: &mut [u8], partition: Partition, kind: u8) {
    name[0] = b'{';
    name[1..=TAG_BYTES].copy_from_slice(&TAGS[usize::from(partition.number())]);
    name[TAG_BYTES + 1] = b'}';
    name[TAG_BYTES + 2] = kind;
}

/// The first tag of each slot. Three of 62 letters make 15 tags a slot on average, and none is
/// without: a test says so.
fn find_tags() -> Box<[[u8; TAG_BYTES]]> {
    let mut tags = vec![[0; TAG_BYTES]; usize::from(PARTITIONS)];
    for &first in LETTERS {
        for &second in LETTERS {
            for &third in LETTERS {
                let tag = [first, second, third];
                let place = &mut tags[usize::from(slot_of(&tag))];
                if *place == [0; TAG_BYTES] {
                    *place = tag;
                }
            }
        }
    }
    tags.into_boxed_slice()
}

/// The slot of the part of a name that counts.
fn slot_of(tag: &[u8]) -> u16 {
    crc16(tag) % PARTITIONS
}

/// CRC-16 as XMODEM has it: polynomial 0x1021, from zero, not reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc: u16, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 { shifted } else { shifted ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidefs_model::Ino;

    #[test]
    fn the_checksum_is_the_one_of_a_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
    }

    #[test]
    fn every_slot_has_a_tag_of_its_own() {
        for (slot, tag) in TAGS.iter().enumerate() {
            assert_ne!(*tag, [0; TAG_BYTES], "slot {slot}");
            assert_eq!(usize::from(slot_of(tag)), slot);
        }
    }

    #[test]
    fn a_name_says_which_key_it_stands_for() {
        let stripe = StripeKey { ino: Ino(77), index: 5 };
        assert_eq!(key_of_name(&stripe_name(stripe)), Some(Key::Stripe(stripe)));
        let shard = ShardKey { directory: Ino(77), index: 5 };
        assert_eq!(key_of_name(&shard_name(shard)), Some(Key::Shard(shard)));
        assert_eq!(key_of_name(&mark_name(stripe.partition())), None);
        assert_eq!(key_of_name(&any_name(stripe.partition())), None);
        let mut elsewhere = stripe_name(stripe);
        elsewhere[1] ^= 1;
        assert_eq!(key_of_name(&elsewhere), None);
        let name = shard_name(shard);
        for length in 0..name.len() {
            assert_eq!(key_of_name(&name[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn names_hold_the_whole_key() {
        let stripe = StripeKey { ino: Ino(0x0102_0304_0506_0708), index: 0x0a0b_0c0d };
        let name = stripe_name(stripe);
        assert_eq!(&name[4..6], b"}s");
        assert_eq!(name[6..], [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13]);
        assert_eq!(slot_of(&name[1..4]), stripe.partition().number());
        let shard = ShardKey { directory: Ino(7), index: 0x0102 };
        let name = shard_name(shard);
        assert_eq!(&name[4..6], b"}m");
        assert_eq!(name[6..], [0, 0, 0, 0, 0, 0, 0, 7, 1, 2]);
        assert_eq!(slot_of(&name[1..4]), shard.partition().number());
    }
}
