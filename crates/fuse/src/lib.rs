//! The kernel adapter: FUSE callbacks in, replies out.
//!
//! [`Session`] mounts an [`Fs`](tidefs_fs::Fs) and serves it until it is unmounted; [`adapter`]
//! translates each request and keeps nothing of its own; [`errno`] says which error number each
//! failure is. This is the only crate that knows the FUSE session, the mount table and an error
//! number.
//!
//! [`null`] is a layer with no file system behind it, the floor that measurements compare with.

mod adapter;
mod clock;
mod commands;
mod device;
mod errno;
mod error;
mod expiring;
mod following;
mod fusermount;
mod interrupted;
mod kernel;
mod latency;
mod lock_waits;
mod misplaced;
pub mod mounts;
pub mod null;
mod options;
mod passthrough;
mod quiet;
mod session;
mod turns;
mod unmount;
mod waiting_room;

pub use clock::SystemClock;
pub use commands::{COMMANDS_MOST, CommandUse, together};
pub use error::{MountError, UnmountError};
pub use fusermount::fusermount_path;
pub use latency::{Requests, Slow};
pub use mounts::FS_TYPE;
pub use options::{AllowOther, MountOptions, Rings};
pub use passthrough::passthrough_available;
pub use session::{GiveError, Handed, Session, TakenOver, kernel_sends_again};
pub use tidefs_session::{Agreed, InitFlags};
pub use unmount::{Stale, is_abandoned, unmount_stale};
