//! Pages of the kernel that are out of date, and are to be dropped.
//!
//! The kernel puts what it appends into its page where it thinks the end of the file is, and other
//! mounts may have moved that. Such pages are dropped once the write is answered, as are those where
//! the bytes really went, which a reader may have filled before they were there. And a page that was read
//! when the file was shorter has zeros where there are bytes by now: it is dropped before the kernel is
//! told how long the file is, so such an answer waits here.
//!
//! Dropping a page waits for whoever reads or writes it, so no thread that serves them may do it: one
//! thread does it for all files, and ends when there was nothing to do for a while.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_fs::FILE_BYTES_MAX;
use tidefs_session::INodeNo;

use crate::following::run_anywhere;
use crate::kernel::Kernel;

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
    /// Answers to programs, which wait for it.
    answers: Vec<Answer>,
    is_running: bool,
    /// Something that was here is being dropped, or answered.
    is_at_work: bool,
}

pub type Answer = Box<dyn FnOnce() + Send>;

impl State {
    fn add(&mut self, ino: INodeNo, more: Range<u64>) {
        let range = self.ranges.entry(ino).or_insert(more.clone());
        range.start = range.start.min(more.start);
        range.end = range.end.max(more.end);
    }

    fn is_idle(&self) -> bool {
        self.ranges.is_empty() && self.answers.is_empty()
    }
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
        let range = offset.min(place)..offset.max(place).saturating_add(bytes);
        let mut state = self.state();
        state.add(ino, range);
        self.see_to_it(&mut state);
    }

    /// Drops what was read of files from an offset on, and answers then.
    pub fn drop_before(self: &Arc<Self>, files: &[(INodeNo, u64)], answer: Answer) {
        let mut state = self.state();
        for (ino, from) in files {
            state.add(*ino, *from..FILE_BYTES_MAX);
        }
        state.answers.push(answer);
        self.see_to_it(&mut state);
        // Without a thread nothing is dropped, and nobody is to wait for it.
        let unanswered =
            if state.is_running { Vec::new() } else { std::mem::take(&mut state.answers) };
        drop(state);
        unanswered.into_iter().for_each(|answer| answer());
    }

    /// There are pages that are still to be dropped.
    pub fn is_used(&self) -> bool {
        let state = self.state();
        !state.is_idle() || state.is_at_work
    }

    fn see_to_it(self: &Arc<Self>, state: &mut State) {
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
            // The next one begins anew; what is dropped unanswered is answered with an error.
            *self.state() = State::default();
        }
    }

    fn run(&self) {
        loop {
            let state = self.state();
            let (mut state, _) = self
                .more
                .wait_timeout_while(state, IDLE, |state| state.is_idle())
                .unwrap_or_else(PoisonError::into_inner);
            if state.is_idle() {
                state.is_running = false;
                return;
            }
            let ranges = std::mem::take(&mut state.ranges);
            let answers = std::mem::take(&mut state.answers);
            state.is_at_work = true;
            drop(state);
            for (ino, range) in ranges {
                self.kernel.drop_range(ino, range);
            }
            for answer in answers {
                let Some(_under_way) = self.kernel.begin() else { continue };
                answer();
            }
            self.state().is_at_work = false;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
