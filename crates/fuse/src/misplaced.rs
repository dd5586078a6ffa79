//! Pages of the kernel in which an append lies where it did not go.
//!
//! The kernel puts what it appends into its page where it thinks the end of the file is, and other
//! mounts may have moved that. Such pages are dropped once the write is answered, as are those where
//! the bytes really went, which a reader may have filled before they were there. Dropping a page waits
//! for whoever reads or writes it, so no thread that serves them may do it: one thread does it for all
//! files, and ends when there was nothing to do for a while.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fuser::INodeNo;

use crate::adapter::Kernel;
use crate::following::run_anywhere;

const IDLE: Duration = Duration::from_secs(1);

pub struct Misplaced {
    kernel: Arc<Kernel>,
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    /// What is to be dropped of each file.
    ranges: HashMap<INodeNo, Range<u64>>,
    is_running: bool,
}

impl Misplaced {
    pub fn new(kernel: Arc<Kernel>) -> Arc<Misplaced> {
        Arc::new(Misplaced { kernel, state: Mutex::default(), more: Condvar::new() })
    }

    /// `bytes` were appended at `place`, and the kernel has put them at `offset`; to be called when
    /// it was told that they are written.
    pub fn appended(self: &Arc<Self>, ino: INodeNo, offset: u64, place: u64, bytes: u64) {
        if place == offset || bytes == 0 {
            return;
        }
        let mut state = self.state();
        let range = state.ranges.entry(ino).or_insert(offset..offset);
        range.start = range.start.min(offset).min(place);
        range.end = range.end.max(offset.max(place).saturating_add(bytes));
        if state.is_running {
            return self.more.notify_one();
        }
        let own = Arc::clone(self);
        let thread = std::thread::Builder::new().name("tidefs-pages".to_owned());
        match thread.spawn(move || own.run_or_say_so()) {
            Ok(_) => state.is_running = true,
            Err(error) => tracing::error!(%error, "pages that are out of date stay"),
        }
    }

    fn run_or_say_so(&self) {
        run_anywhere();
        if catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            tracing::error!("dropping pages has ended with an error");
            // The next append begins anew.
            self.state().is_running = false;
        }
    }

    fn run(&self) {
        loop {
            let state = self.state();
            let (mut state, _) = self
                .more
                .wait_timeout_while(state, IDLE, |state| state.ranges.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            if state.ranges.is_empty() {
                state.is_running = false;
                return;
            }
            let ranges = std::mem::take(&mut state.ranges);
            drop(state);
            for (ino, range) in ranges {
                self.kernel.drop_range(ino, range);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
