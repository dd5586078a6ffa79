//! Who waits for a lock, file by file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use tidefs_model::Ino;

use super::{Counted, Request, Waits};

/// A look at what other mounts hold is a round to the store.
const FIRST_PAUSE: Duration = Duration::from_micros(250);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(32);
/// By what part pauses grow, so that nobody waits for much longer than a lock is held.
const GROWTH: u32 = 4;

pub struct Waiting {
    pub counted: Counted,
    pub request: Request,
    pub waits: Waits,
    /// Its place among those who came.
    pub number: u64,
    /// Nothing that is known here is in its way.
    pub is_to_be_tried: bool,
    due: Instant,
    pause: Duration,
}

impl Waiting {
    pub fn new(request: Request, waits: Waits, counted: Counted) -> Waiting {
        let (due, pause) = (Instant::now(), FIRST_PAUSE);
        Waiting { counted, request, waits, number: 0, is_to_be_tried: false, due, pause }
    }

    pub fn put_off(&mut self) {
        self.due = Instant::now() + self.pause;
        self.pause = (self.pause + self.pause / GROWTH).min(PAUSE_MAX);
    }
}

#[derive(Default)]
pub struct List {
    files: HashMap<Ino, File>,
    /// The number of who came last.
    came: u64,
    /// There is the thread that looks at it.
    pub is_attended: bool,
}

#[derive(Default)]
struct File {
    /// By their numbers, which begin with 1.
    waiting: BTreeMap<u64, Waiting>,
    /// Some of them are being tried elsewhere, one after the other.
    is_tried: bool,
    /// Since that began a lock was given back.
    is_rung: bool,
}

impl List {
    pub fn enter(&mut self, waiting: Waiting) {
        self.came += 1;
        self.put(Waiting { number: self.came, ..waiting });
    }

    pub fn put(&mut self, waiting: Waiting) {
        let file = self.files.entry(waiting.request.ino).or_default();
        file.waiting.insert(waiting.number, waiting);
    }

    /// One that was refused. What was given back meanwhile it may have missed.
    pub fn put_tried(&mut self, mut waiting: Waiting) {
        waiting.is_to_be_tried = false;
        if self.files.get(&waiting.request.ino).is_some_and(|file| file.is_rung) {
            waiting.due = Instant::now();
        }
        self.put(waiting);
    }

    /// Takes those out that are to be looked at now.
    pub fn take_due(&mut self, unlocked: &HashSet<Ino>) -> Vec<Waiting> {
        let now = Instant::now();
        let mut due = Vec::new();
        for (ino, file) in &mut self.files {
            let is_unlocked = unlocked.contains(ino);
            file.is_rung |= is_unlocked && file.is_tried;
            let is_due = |it: &&Waiting| is_unlocked || it.due <= now;
            let numbers: Vec<u64> =
                file.waiting.values().filter(is_due).map(|it| it.number).collect();
            due.extend(numbers.iter().filter_map(|number| file.waiting.remove(number)));
        }
        due
    }

    /// The files of which somebody is to be tried and nobody is.
    pub fn begin_tries(&mut self) -> Vec<Ino> {
        self.files.retain(|_, file| file.is_tried || !file.waiting.is_empty());
        let mut begun = Vec::new();
        for (ino, file) in &mut self.files {
            if !file.is_tried && file.waiting.values().any(|it| it.is_to_be_tried) {
                file.is_tried = true;
                begun.push(*ino);
            }
        }
        begun
    }

    /// Takes the first out that is to be tried of those behind one.
    pub fn next_to_try(&mut self, ino: Ino, last: u64) -> Option<Waiting> {
        let waiting = &mut self.files.get_mut(&ino)?.waiting;
        let behind = waiting.range(last + 1..);
        let next = behind.filter(|(_, it)| it.is_to_be_tried).map(|(number, _)| *number).next()?;
        waiting.remove(&next)
    }

    /// Answers whether anybody waits for the file.
    pub fn end_tries(&mut self, ino: Ino) -> bool {
        let Some(file) = self.files.get_mut(&ino) else { return false };
        (file.is_tried, file.is_rung) = (false, false);
        let is_awaited = !file.waiting.is_empty();
        if !is_awaited {
            self.files.remove(&ino);
        }
        is_awaited
    }

    /// How long until the next one has to be looked at.
    pub fn next_due(&self) -> Option<Duration> {
        let now = Instant::now();
        let all = self.files.values().flat_map(|file| file.waiting.values());
        all.map(|waiting| waiting.due.saturating_duration_since(now)).min()
    }

    /// Nobody waits, and nobody is tried.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub fn clear(&mut self) {
        (self.files, self.is_attended) = (HashMap::new(), false);
    }
}
