//! What the driver asks of a worker and what it gets back: one line of JSON each way.

use serde::{Deserialize, Serialize};

use crate::figures::Figure;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Sequential { bytes: u64 },
    RandomRead { bytes: u64, reads: u64 },
    SmallFiles { files: u64 },
    Memory { large_bytes: u64, files: u64 },
    Raw { bytes: u64 },
    Changes { bytes: u64 },
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Order::Sequential { .. } => "sequential",
            Order::RandomRead { .. } => "random read",
            Order::SmallFiles { .. } => "small files",
            Order::Memory { .. } => "memory",
            Order::Raw { .. } => "raw client",
            Order::Changes { .. } => "changes of the nodes",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Sent once, before any order: the worker stands in its directory.
    Ready {
        /// What the file system says that it keeps its bytes in.
        store: Option<String>,
    },
    Figures(Vec<(Figure, f64)>),
    Failed(String),
}
