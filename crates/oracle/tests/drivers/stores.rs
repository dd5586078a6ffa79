//! The stores in this process's memory under the mounts.

use std::sync::Arc;

use tidefs_fuse::passthrough_available;
use tidefs_model::{ByteSize, StripeSize};
use tidefs_store::Embedded;

use crate::nodes::is_wanted;

/// Small, so that stripe borders are crossed with few bytes, and more than a page.
pub const STRIPE: u32 = 16 << 10;
const CAPACITY: ByteSize = ByteSize::mib(256);

pub fn stripe_size() -> StripeSize {
    StripeSize::new(STRIPE).expect("a stripe size")
}

pub fn in_heap() -> Arc<Embedded> {
    Arc::new(Embedded::in_heap(CAPACITY, stripe_size()))
}

/// Where the kernel reads and writes open files by itself.
pub fn passed_through() -> Option<Arc<Embedded>> {
    if !is_wanted("passthrough") {
        return None;
    }
    assert!(
        passthrough_available(),
        "passthrough needs root and Linux 6.9; TIDEFS_TEST_WITHOUT=passthrough leaves it out"
    );
    Some(Arc::new(Embedded::in_tmpfs(CAPACITY, stripe_size()).expect("root may make a tmpfs")))
}
