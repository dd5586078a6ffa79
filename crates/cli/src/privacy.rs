//! Keeping what this process knows from other processes of its user, and from cores on disk.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Nobody but root reads the memory of this process from here on, or has it write a core. What the
/// kernel shows of it in `/proc` is root's then: whatever needs more of that than anybody may see is
/// opened before. A program that it starts is as every other.
pub fn guard() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!("others of this user may read the secrets of this process: {error}");
    }
}
