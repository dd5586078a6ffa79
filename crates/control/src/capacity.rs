//! What a node's share of the data is measured by.

/// By what nodes hold more or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// MemEFS, equation 3.2.
    Memory,
    /// Network-aware MemEFS, equation 4.1.
    Bandwidth,
}
