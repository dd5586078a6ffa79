//! Where Tidefs keeps bytes: the [`Store`] trait and the stores that live in this process.
//!
//! A store knows keys and bytes, not files. It offers two kinds of value: a *shard* is a small
//! map of fields changed by conditional batches on one key, a *stripe* is a byte string read and
//! written by range. [`Embedded`] keeps both in this process's memory; [`Faulty`] wraps any other
//! store and fails by count; `conformance` is the suite that every store passes.

mod batch;
pub mod caller;
#[cfg(feature = "testing")]
pub mod conformance;
mod embedded;
mod error;
mod faulty;
mod line;
mod overview;
mod patient;
mod room;
mod store;

pub use batch::{Batch, Bytes, Check, Outcome, Read, Update};
pub use embedded::Embedded;
pub use error::StoreError;
pub use faulty::{Fault, Faulty, Operation, Pause, Turn, When};
pub use overview::{NodeOverview, Overview};
pub use patient::Patient;
pub use room::Room;
pub use store::{Cursor, Cut, Key, KeyPage, Location, Page, Pin, Store, StripeRead, StripeWrite};
