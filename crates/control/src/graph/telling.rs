//! What news change in a graph, and what makes them refused.

use tidefs_model::Time;

use super::news::{NewFile, NewTask, News, Wrote};
use super::order::Before;
use super::{
    FILES_MOST, File, Graph, GraphError, Known, MENTIONS_MOST, NAME_BYTES_MOST, State, TASKS_MOST,
};
use crate::workflow::{BYTES_MOST, SECONDS_MOST};

impl Graph {
    /// Takes news in, and answers whether they said something new. Tasks may be told of in any order within
    /// one telling. It costs what the news say, and where a new
    /// task comes before known ones, a walk through all that it comes after.
    ///
    /// # Errors
    /// When one of them names what nobody knows or cannot be; then none of them counts.
    pub fn hear(&mut self, news: &[News], now: Time) -> Result<bool, GraphError> {
        let before = self.so_far();
        if let Err(refused) = self.add_tasks(news, before) {
            self.take_back(before);
            return Err(refused);
        }
        let mut is_news = self.has_grown(before);
        for one in news {
            is_news |= self.learn(one, now);
        }
        Ok(is_news)
    }

    /// Adds the tasks, and looks whether all else can be.
    fn add_tasks(&mut self, news: &[News], before: Before) -> Result<(), GraphError> {
        for one in news {
            if let News::Task(task) = one {
                self.add(task)?;
            }
        }
        self.put_in_order(before)?;
        news.iter().try_for_each(|one| self.can_be(one))
    }

    fn add(&mut self, task: &NewTask) -> Result<(), GraphError> {
        if let Some(&known) = self.task_numbers.get(&task.id) {
            return match self.tasks[known].told == *task {
                true => Ok(()),
                false => Err(GraphError::ToldOtherwise(task.id.clone())),
            };
        }
        check(task)?;
        let number = self.tasks.len();
        few("tasks", number + 1, TASKS_MOST)?;
        self.mentions += task.reads.len() + task.writes.len() + task.after.len();
        few("mentions of files and tasks", self.mentions, MENTIONS_MOST)?;
        let kind = self.kind(&task.kind)?;
        let (reads, writes) = (self.numbers(&task.reads)?, self.numbers(&task.writes)?);
        for file in writes.iter().map(|&file| &self.files[file]) {
            if let Some(first) = file.writer {
                let (file, first) = (file.name.clone(), self.tasks[first].told.id.clone());
                return Err(GraphError::TwoWriters { file, first, second: task.id.clone() });
            }
        }
        let written = |name: &&String| !task.writes.contains(name);
        if let Some(file) = task.temporary.iter().find(written) {
            return Err(GraphError::NotWritten { task: task.id.clone(), file: file.clone() });
        }
        for &file in &writes {
            let file = &mut self.files[file];
            file.writer = Some(number);
            file.temporary = task.temporary.contains(&file.name);
        }
        reads.iter().for_each(|&file| self.files[file].readers.push(number));
        self.task_numbers.insert(task.id.clone(), number);
        let (told, after) = (task.clone(), Vec::new());
        self.tasks.push(Known { told, kind, reads, writes, after, state: State::Waits });
        Ok(())
    }

    fn kind(&mut self, name: &str) -> Result<usize, GraphError> {
        if let Some(&known) = self.kind_numbers.get(name) {
            return Ok(known);
        }
        self.kinds.push(name.to_owned());
        few("kinds of tasks", self.kinds.len(), u16::MAX.into())?;
        self.kind_numbers.insert(name.to_owned(), self.kinds.len() - 1);
        Ok(self.kinds.len() - 1)
    }

    /// Each once, in order; files that nobody has told of yet are added.
    fn numbers(&mut self, names: &[String]) -> Result<Vec<usize>, GraphError> {
        let mut numbers = Vec::with_capacity(names.len());
        for name in names {
            let number = match self.file_numbers.get(name) {
                Some(&number) => number,
                None => {
                    short(name)?;
                    few("files", self.files.len() + 1, FILES_MOST)?;
                    self.files.push(File { name: name.clone(), ..File::default() });
                    self.file_numbers.insert(name.clone(), self.files.len() - 1);
                    self.files.len() - 1
                }
            };
            numbers.push(number);
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// Whether it names what is known, and says what can be.
    fn can_be(&self, news: &News) -> Result<(), GraphError> {
        match news {
            News::Task(_) | News::Slots(_) => Ok(()),
            News::File(NewFile { name, bytes }) => {
                sized(name, *bytes)?;
                self.known_file(name).map(drop)
            }
            News::Target(name) | News::Removed(name) => self.known_file(name).map(drop),
            News::Started(id) | News::Failed(id) => self.known_task(id).map(drop),
            News::Finished(Wrote { id, files }) => {
                let task = self.known_task(id)?;
                files.iter().try_for_each(|NewFile { name, bytes }| {
                    sized(name, *bytes)?;
                    let writer = self.files[self.known_file(name)?].writer;
                    let error = || {
                        let (task, file) = (id.clone(), name.clone());
                        GraphError::NotWritten { task, file }
                    };
                    (writer == Some(task)).then_some(()).ok_or_else(error)
                })
            }
        }
    }

    /// What can be is so from now on; whether it was not so before.
    fn learn(&mut self, news: &News, now: Time) -> bool {
        let file = |name: &str| self.known_file(name).ok();
        let task = |id: &str| self.known_task(id).ok();
        match news {
            News::Task(_) => false,
            News::Slots(slots) => is_other(&mut self.slots, Some((*slots).max(1))),
            News::File(NewFile { name, bytes }) => {
                file(name).is_some_and(|at| is_other(&mut self.files[at].told, Some(*bytes)))
            }
            News::Target(name) => {
                file(name).is_some_and(|at| is_other(&mut self.files[at].target, true))
            }
            News::Removed(name) => file(name).is_some_and(|at| self.is_gone(at, true)),
            News::Started(id) => task(id).is_some_and(|at| {
                self.tasks[at].state == State::Waits && self.is_now(at, State::Runs { since: now })
            }),
            News::Failed(id) => task(id).is_some_and(|at| {
                matches!(self.tasks[at].state, State::Runs { .. }) && self.is_now(at, State::Waits)
            }),
            News::Finished(wrote) => {
                task(&wrote.id).is_some_and(|at| self.finished(at, wrote, now))
            }
        }
    }

    fn finished(&mut self, task: usize, wrote: &Wrote, now: Time) -> bool {
        let ends = match self.tasks[task].state {
            State::Waits => Some(None),
            State::Runs { since } => Some(Some(now - since)),
            State::Finished { .. } => None,
        };
        let mut is_news = ends.is_some_and(|took| self.is_now(task, State::Finished { took }));
        let begins_anew = is_news;
        for NewFile { name, bytes } in &wrote.files {
            let Ok(at) = self.known_file(name) else { continue };
            let before = self.files[at].seen.unwrap_or(0);
            let is_seen = is_other(&mut self.files[at].seen, Some(*bytes));
            self.counts.written = self.counts.written - before + bytes;
            if self.files[at].removed {
                self.counts.removed = self.counts.removed - before + bytes;
            }
            // What was gone was written anew; told once more of the same it is still gone.
            is_news |= is_seen | ((begins_anew || is_seen) && self.is_gone(at, false));
        }
        is_news
    }

    /// Whether a task was in another state.
    fn is_now(&mut self, task: usize, state: State) -> bool {
        let before = std::mem::replace(&mut self.tasks[task].state, state);
        for (state, sign) in [(before, -1), (state, 1)] {
            match state {
                State::Waits => {}
                State::Runs { .. } => self.counts.running += sign,
                State::Finished { .. } => self.counts.finished += sign,
            }
        }
        before != state
    }

    /// Whether a file was there, or was not, before.
    pub(super) fn is_gone(&mut self, file: usize, removed: bool) -> bool {
        let known = &mut self.files[file];
        let is_other = is_other(&mut known.removed, removed);
        let bytes = known.writer.and(known.seen).unwrap_or(0);
        match (is_other, removed) {
            (false, _) => {}
            (true, true) => self.counts.removed += bytes,
            (true, false) => self.counts.removed -= bytes,
        }
        is_other
    }

    fn known_task(&self, id: &str) -> Result<usize, GraphError> {
        let known = self.task_numbers.get(id).copied();
        known.ok_or_else(|| GraphError::Unknown { kind: "task", name: id.to_owned() })
    }

    pub(super) fn known_file(&self, name: &str) -> Result<usize, GraphError> {
        let known = self.file_numbers.get(name).copied();
        known.ok_or_else(|| GraphError::Unknown { kind: "file", name: name.to_owned() })
    }
}

fn is_other<T: PartialEq>(known: &mut T, told: T) -> bool {
    let is_other = *known != told;
    *known = told;
    is_other
}

fn check(task: &NewTask) -> Result<(), GraphError> {
    short(&task.id)?;
    short(&task.kind)?;
    sized(&task.id, task.bytes_most.unwrap_or(0))?;
    match task.seconds {
        Some(seconds) if !(0.0..=SECONDS_MOST).contains(&seconds) => {
            let value = format!("{seconds} s");
            Err(GraphError::Range { what: "the time", name: task.id.clone(), value })
        }
        _ => Ok(()),
    }
}

fn sized(name: &str, bytes: u64) -> Result<u64, GraphError> {
    let range = || {
        let value = format!("{bytes} bytes");
        GraphError::Range { what: "the size", name: name.to_owned(), value }
    };
    // All files together stay countable.
    (bytes as f64 <= BYTES_MOST / FILES_MOST as f64).then_some(bytes).ok_or_else(range)
}

fn short(name: &str) -> Result<(), GraphError> {
    let (bytes, most) = (name.len(), NAME_BYTES_MOST);
    if bytes > most { Err(GraphError::Name { bytes, most }) } else { Ok(()) }
}

fn few(what: &'static str, count: usize, most: usize) -> Result<(), GraphError> {
    if count > most { Err(GraphError::TooMany { what, count, most }) } else { Ok(()) }
}
