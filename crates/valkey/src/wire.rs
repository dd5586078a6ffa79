//! The protocol between a client and a server (RESP2), as functions over bytes.
//!
//! Nothing here does I/O. Requests are laid out so that a large payload is never copied, and
//! replies are taken apart without trusting them: lengths, counts and depth are bounded, and memory
//! is taken only for bytes that have arrived.

mod reply;
mod request;
#[cfg(test)]
mod tests;

#[cfg(test)]
use reply::REPLY_BYTES_MAX;
pub use reply::{BulkStart, Malformed, Reply, Scanner, bulk_start, parse};
pub use request::Request;
