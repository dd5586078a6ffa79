//! A plain model of a POSIX file system, and the means to compare others with it. For tests only.
//!
//! [`Tree`] is the model: maps and byte vectors, nothing clever. An [`Op`] is a random operation
//! that names files by index; [`resolve`] turns it into a [`Step`], which names them by path. A
//! step is performed on the model and on a [`Driver`], which reaches the file system under test;
//! [`run`] compares the answers, errors included, and after each step the whole tree.
//!
//! That the model itself is right is shown by the test of this crate, which runs it against a file
//! system of the kernel.

mod action;
mod check;
mod difference;
mod driver;
mod errno;
mod generators;
mod path;
mod pattern;
mod posix;
mod resolve;
mod run;
mod seek;
mod survey;
mod tree;
mod types;

pub use action::{Action, Reply};
pub use check::{check, check_any};
pub use difference::{Difference, Failure, Subject};
pub use driver::{Abilities, Driver, Observed, Operations};
pub use errno::Errno;
pub use generators::{Op, Pick, Profile, Scenario, Where, name_ops, scenarios};
pub use path::{Path, path};
pub use pattern::Pattern;
pub use posix::PosixDriver;
pub use resolve::resolve;
pub use run::{Checked, compare, replay, run};
pub use tree::{Stamp, Tree};
pub use types::{
    Access, Facts, Fd, Kind, OpenFlags, RenameMode, SeekFor, SetTime, SpaceMode, XattrMode,
};

/// An action on paths and descriptors: what is performed, printed and kept as a regression.
pub type Step = Action<Path, Fd>;
