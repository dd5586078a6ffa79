//! What news change in a graph, and what makes them refused.

use tidefs_model::Time;

use super::news::{NewFile, NewTask, News, Wrote};
use super::{
    FILES_MOST, File, Graph, GraphError, Known, MENTIONS_MOST, NAME_BYTES_MOST, State, TASKS_MOST,
};
use crate::workflow::{BYTES_MOST, SECONDS_MOST};

impl Graph {
    /// The graph with news. Tasks may be told of in any order within one telling.
    ///
    /// # Errors
    /// When one of them names what nobody knows or cannot be; then none of them counts.
    pub fn hear(&self, news: &[News], now: Time) -> Result<Graph, GraphError> {
        let mut graph = self.clone();
        let before = graph.tasks.len();
        for one in news {
            if let News::Task(task) = one {
                graph.add(task)?;
            }
        }
        graph.put_in_order(before)?;
        for one in news {
            graph.learn(one, now)?;
        }
        Ok(graph)
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
        for &file in &writes {
            let file = &mut self.files[file];
            if let Some(first) = file.writer.replace(number) {
                let (file, first) = (file.name.clone(), self.tasks[first].told.id.clone());
                return Err(GraphError::TwoWriters { file, first, second: task.id.clone() });
            }
            file.temporary = task.temporary.contains(&file.name);
        }
        let written = |name: &&String| !task.writes.contains(name);
        if let Some(file) = task.temporary.iter().find(written) {
            return Err(GraphError::NotWritten { task: task.id.clone(), file: file.clone() });
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

    /// What tasks come after, when all of one telling are known: news of a writer may come after those of its reader.
    fn put_in_order(&mut self, before: usize) -> Result<(), GraphError> {
        if before == self.tasks.len() {
            return Ok(());
        }
        for at in 0..self.tasks.len() {
            let task = &self.tasks[at];
            let mut after: Vec<usize> =
                task.reads.iter().filter_map(|&file| self.files[file].writer).collect();
            for name in &task.told.after {
                let (task, after_name) = (task.told.id.clone(), name.clone());
                let known = self.task_numbers.get(name).copied();
                after.push(known.ok_or(GraphError::UnknownAfter { task, after: after_name })?);
            }
            after.sort_unstable();
            after.dedup();
            self.tasks[at].after = after;
        }
        let circle = self.circle().map(|at| self.tasks[at].told.id.clone());
        circle.map_or(Ok(()), |id| Err(GraphError::Circle(id)))
    }

    fn circle(&self) -> Option<usize> {
        let mut waits: Vec<usize> = self.tasks.iter().map(|task| task.after.len()).collect();
        let mut followers = vec![Vec::new(); self.tasks.len()];
        for (at, task) in self.tasks.iter().enumerate() {
            task.after.iter().for_each(|&before| followers[before].push(at));
        }
        let mut ready: Vec<usize> = (0..waits.len()).filter(|&at| waits[at] == 0).collect();
        while let Some(at) = ready.pop() {
            for &follower in &followers[at] {
                waits[follower] -= 1;
                if waits[follower] == 0 {
                    ready.push(follower);
                }
            }
        }
        waits.iter().position(|&waits| waits > 0)
    }

    fn learn(&mut self, news: &News, now: Time) -> Result<(), GraphError> {
        match news {
            News::Task(_) => {}
            News::Slots(slots) => self.slots = Some((*slots).max(1)),
            News::File(NewFile { name, bytes }) => {
                let bytes = sized(name, *bytes)?;
                self.known_file(name)?.told = Some(bytes);
            }
            News::Target(name) => self.known_file(name)?.target = true,
            News::Removed(name) => self.known_file(name)?.removed = true,
            News::Started(id) => {
                let task = self.known_task(id)?;
                if self.tasks[task].state == State::Waits {
                    self.tasks[task].state = State::Runs { since: now };
                }
            }
            News::Failed(id) => {
                let task = self.known_task(id)?;
                if matches!(self.tasks[task].state, State::Runs { .. }) {
                    self.tasks[task].state = State::Waits;
                }
            }
            News::Finished(wrote) => self.finished(wrote, now)?,
        }
        Ok(())
    }

    fn finished(&mut self, wrote: &Wrote, now: Time) -> Result<(), GraphError> {
        let number = self.known_task(&wrote.id)?;
        for NewFile { name, bytes } in &wrote.files {
            let bytes = sized(name, *bytes)?;
            let file = self.known_file(name)?;
            if file.writer != Some(number) {
                let (task, file) = (wrote.id.clone(), name.clone());
                return Err(GraphError::NotWritten { task, file });
            }
            file.seen = Some(bytes);
        }
        let state = &mut self.tasks[number].state;
        *state = match *state {
            State::Waits => State::Finished { took: None },
            State::Runs { since } => State::Finished { took: Some(now - since) },
            finished => finished,
        };
        Ok(())
    }

    fn known_task(&self, id: &str) -> Result<usize, GraphError> {
        let known = self.task_numbers.get(id).copied();
        known.ok_or_else(|| GraphError::Unknown { kind: "task", name: id.to_owned() })
    }

    fn known_file(&mut self, name: &str) -> Result<&mut File, GraphError> {
        match self.file_numbers.get(name) {
            Some(&known) => Ok(&mut self.files[known]),
            None => Err(GraphError::Unknown { kind: "file", name: name.to_owned() }),
        }
    }
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
