//! Hosts that are reached by the user's own `ssh`: a list of them, and the program.

mod list;

use std::ffi::OsString;

pub use list::{ListError, Listed, SshHost, read};

/// `TIDEFS_SSH` names another program.
pub fn program() -> OsString {
    std::env::var_os("TIDEFS_SSH").filter(|it| !it.is_empty()).unwrap_or_else(|| "ssh".into())
}
