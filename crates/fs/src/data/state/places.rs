//! Places of appends, of this mount and of others.

use super::State;

impl State {
    /// The store handed out a place, and the record is known as of then.
    pub fn placed(&mut self, place: u64, end: u64) {
        let known = self.reserved_end();
        if place > known {
            (self.awaited, self.is_shared) = (place, true);
        }
        // It lies before that where another mount has cut the file since.
        self.reserved = if place < known { end } else { self.reserved.max(end) };
    }

    /// There are places of others before those of this mount, and the record does not count all of their
    /// bytes.
    pub fn is_behind_others(&self) -> bool {
        self.stored.size < self.awaited
    }

    /// Others were given places before `promised` at most. Where that is 0 they are waited for no more.
    pub fn awaits_others_before(&mut self, promised: u64) {
        if promised < self.awaited {
            self.awaited = 0;
        }
    }
}
