//! A [`Store`](tidefs_store::Store) that keeps what others may see of a file unreadable and its
//! changes found out: stripes are encrypted and authenticated here, before they leave the process.
//!
//! A stripe is sealed in blocks. What opens a block, its *seal* (number used once, tag, lengths), is
//! kept in shards, and shards lie on own nodes only; the node that has the bytes has nothing else.
//! So a block opens with the latest seal or not at all: bytes that were altered, swapped, replayed
//! or withheld answer an error. `docs/decisions/sealed-stripes.md` says what that protects from.
//!
//! - Bytes change in place, so a seal to come is announced beside the one that holds before the
//!   bytes are written, and takes its place after; who dies in between leaves both, and either
//!   opens. An announcement also keeps other clients from changing the same stripe.
//! - A client that is alone, as its caller says, announces nothing for blocks that are new, and
//!   remembers seals.
//! - It knows no file: an inode is a number that stripes have in common.

mod buffers;
mod cache;
mod change;
mod draft;
mod key;
mod keyring;
mod layout;
mod locks;
mod missing;
mod plan;
mod read;
mod record;
mod resolve;
mod sealed;
mod table;
mod trim;
mod write;

pub use key::{Cipher, Key, Salt, Sealing};
pub use missing::{may_lack_seals, partition_of_seals};
pub use sealed::{Circumstances, Sealed};
