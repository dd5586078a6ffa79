//! How a client behaves.

use tidefs_model::StripeSize;

use crate::endpoint::Timeouts;

/// How a client behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub timeouts: Timeouts,
    pub connections_per_node: usize,
    /// Bytes of a whole stripe; a longer one is refused.
    pub stripe_size: StripeSize,
}

impl Default for Options {
    fn default() -> Options {
        let timeouts = Timeouts::default();
        Options { timeouts, connections_per_node: 16, stripe_size: StripeSize::DEFAULT }
    }
}
