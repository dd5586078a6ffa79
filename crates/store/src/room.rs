//! Whom a store that waits for room asks.

/// Who can make room.
pub trait Room: Send + Sync + 'static {
    /// A node is full and somebody waits for room there: whoever can make some is told. Asked at once,
    /// and then again and again by one of those who wait. `false`: there will be none.
    fn hope(&self, endpoint: &str) -> bool;

    /// Another number when keys may have come to lie elsewhere. Asked some twenty times a second
    /// while somebody waits.
    fn shape(&self) -> u64 {
        0
    }
}
