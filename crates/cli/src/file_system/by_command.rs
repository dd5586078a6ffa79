//! Which commands asked the mounts of this process for how much, those that are gone included.

use tidefs_fuse::together;
use tidefs_report::{ByCommand, CommandUse};

use super::FileSystem;
use crate::mounting::ServedMount;

impl FileSystem {
    pub fn by_command(&self) -> ByCommand {
        let passes_through = self.totals().direct;
        let parts = self.parts();
        let mounts = parts.mounts.iter().flat_map(ServedMount::commands);
        let uses = together(parts.earlier_commands.iter().cloned().chain(mounts));
        let told = |it: tidefs_fuse::CommandUse| CommandUse {
            command: it.command,
            calls: it.calls,
            bytes_read: it.bytes_read,
            bytes_written: it.bytes_written,
        };
        ByCommand { uses: uses.into_iter().map(told).collect(), passes_through }
    }
}
