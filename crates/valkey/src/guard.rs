//! What whoever orders something looks at before each order.

use std::fmt;
use std::sync::Arc;

/// Asked once a connection is there, and before anything is sent on it: whoever was stopped in between finds it ended by
/// his successor.
#[derive(Clone, Default)]
pub struct Guard(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Guard {
    /// `permits`: answers `false`, or does not return, where nothing may be ordered any more.
    pub fn new(permits: impl Fn() -> bool + Send + Sync + 'static) -> Guard {
        Guard(Some(Arc::new(permits)))
    }

    pub(crate) fn permits(&self) -> bool {
        self.0.as_ref().is_none_or(|permits| permits())
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard(..)")
    }
}
