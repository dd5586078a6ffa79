//! How a mount's requests are served.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

/// Of one mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct Serving {
    /// Serve a program's small calls on its own processor and, on a machine of two processors, keep the
    /// other one busy meanwhile with a thread that spins at the lowest priority: quicker where nothing
    /// else runs, and of no use where it does
    #[arg(long)]
    pub spin: bool,

    /// Have the kernel hand requests to a ring of the processor on which they are made (FUSE over io_uring, Linux
    /// 6.14). `auto`: where root has switched it on; `tidefs doctor` says how
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Rings::Off)]
    pub rings: Rings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rings {
    /// Where the kernel offers them
    Auto,
    /// Always; without them there is no mount
    On,
    /// Never
    Off,
}

impl From<Rings> for tidefs_fuse::Rings {
    fn from(rings: Rings) -> tidefs_fuse::Rings {
        match rings {
            Rings::Auto => tidefs_fuse::Rings::Auto,
            Rings::On => tidefs_fuse::Rings::On,
            Rings::Off => tidefs_fuse::Rings::Off,
        }
    }
}
