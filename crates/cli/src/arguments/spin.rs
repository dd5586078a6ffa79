//! Whether a mount may keep processors busy to be quicker.

use clap::Args;

/// Of one mount.
#[derive(Clone, Copy, Debug, Args)]
pub struct Spin {
    /// Serve a program's small calls on its own processor and, on a machine of two processors, keep the
    /// other one busy meanwhile with a thread that spins at the lowest priority: quicker where nothing
    /// else runs, and of no use where it does
    #[arg(long)]
    pub spin: bool,
}
