//! The workflow that a running file system was told of, and what its manager is to hear of it. The graph
//! itself is `tidefs_control::graph`; nothing is decided here.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidefs_control::graph::{DeadFile, Graph, GraphError, Progress, Rest};
use tidefs_model::{ByteSize, Time};

use crate::failure::Failure;

/// A manager is told no more often: each time it expects anew what is to come.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// What is said of a workflow to a running file system.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Telling {
    /// Nothing; only an answer is wanted.
    Look,
    /// A whole graph, in place of any other.
    Graph(String),
    /// News of the graph that is there.
    News(String),
}

/// Which graph it is, and how often there was news of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub graph: u64,
    pub telling: u64,
}

/// What the manager hears.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Told {
    pub version: Version,
    pub rest: Rest,
}

/// How far a workflow is, for people and programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowView {
    pub tasks: usize,
    pub tasks_running: usize,
    pub tasks_finished: usize,
    pub files: usize,
    /// Of files that tasks were seen to have written.
    pub written_bytes: u64,
    /// Of them, removed since.
    pub removed_bytes: u64,
    /// The forecast has heard all of it.
    pub is_followed: bool,
}

impl WorkflowView {
    fn of(progress: Progress, is_followed: bool) -> WorkflowView {
        WorkflowView {
            tasks: progress.tasks,
            tasks_running: progress.running,
            tasks_finished: progress.finished,
            files: progress.files,
            written_bytes: progress.bytes_seen,
            removed_bytes: progress.bytes_removed,
            is_followed,
        }
    }
}

impl fmt::Display for WorkflowView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkflowView { tasks, tasks_running, tasks_finished, .. } = self;
        let (written, removed) = (ByteSize(self.written_bytes), ByteSize(self.removed_bytes));
        write!(f, "{tasks_finished} of {tasks} tasks have ended, {tasks_running} run; ")?;
        write!(f, "they wrote {written}, of which {removed} is removed")
    }
}

/// A file that no task will read again; see [`tidefs_control::graph::DeadFile`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    pub name: String,
    pub bytes: Option<u64>,
    pub written_beside: Vec<String>,
}

impl From<DeadFile<'_>> for Dead {
    fn from(file: DeadFile<'_>) -> Dead {
        let DeadFile { name, bytes, written_beside } = file;
        let written_beside = written_beside.into_iter().map(str::to_owned).collect();
        Dead { name: name.to_owned(), bytes, written_beside }
    }
}

/// What this file system removed since no task would read it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    pub files: u64,
    pub bytes: u64,
}

/// The graph, if one was told.
#[derive(Debug, Default)]
pub struct LiveWorkflow {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    graph: Option<Graph>,
    version: Version,
    told: Option<Instant>,
    deleted: Deleted,
}

impl LiveWorkflow {
    /// Takes a telling in; `follows` is what the manager has heard until now.
    ///
    /// # Errors
    /// When it is refused; then all is as it was.
    pub fn hear(
        &self,
        telling: &Telling,
        follows: Option<Version>,
        now: Time,
    ) -> Result<WorkflowView, Failure> {
        let refused = |error: GraphError| Failure::Refused(error.to_string());
        let mut known = self.known();
        match telling {
            Telling::Look => {}
            Telling::Graph(text) => {
                known.graph = Some(Graph::read(text, now).map_err(refused)?);
                known.version = Version { graph: known.version.graph + 1, telling: 0 };
            }
            Telling::News(text) => {
                let graph = known.graph.as_mut().ok_or_else(no_workflow)?;
                let is_news = graph.hear_lines(text, now).map_err(refused)?;
                known.version.telling += u64::from(is_news);
            }
        }
        let graph = known.graph.as_ref().ok_or_else(no_workflow)?;
        Ok(WorkflowView::of(graph.progress(), follows == Some(known.version)))
    }

    /// What the manager is to hear now, if it has not heard all and was not told a moment ago.
    pub fn due(&self, follows: Option<Version>, now: Time, at: Instant) -> Option<Told> {
        let mut known = self.known();
        let was_told = known.told.is_some_and(|told| at.duration_since(told) < TOLD_EVERY);
        if was_told || follows == Some(known.version) {
            return None;
        }
        let told = Told { version: known.version, rest: known.graph.as_ref()?.rest(now) };
        known.told = Some(at);
        Some(told)
    }

    /// Files that no task will read again, and of which version of the graph; `None` where nothing
    /// was told since that one.
    pub fn dead(&self, seen: Version) -> Option<(Version, Vec<Dead>)> {
        let known = self.known();
        let graph = known.graph.as_ref().filter(|_| seen != known.version)?;
        Some((known.version, graph.dead().map(Dead::from).collect()))
    }

    /// One of them is gone, with what it held.
    pub fn has_deleted(&self, graph: u64, name: &str, bytes: u64) {
        let mut known = self.known();
        known.deleted.files += 1;
        known.deleted.bytes += bytes;
        known.version.telling += 1;
        // In a graph that came meanwhile the file may be another one.
        if known.version.graph == graph {
            known.graph.iter_mut().for_each(|graph| graph.has_removed(name));
        }
    }

    /// Whether a file of this graph is dead still.
    pub fn is_dead(&self, graph: u64, name: &str) -> bool {
        let known = self.known();
        let is_there = known.version.graph == graph;
        is_there && known.graph.as_ref().is_some_and(|graph| graph.is_dead(name))
    }

    pub fn is_told(&self) -> bool {
        self.known().graph.is_some()
    }

    /// `None` where no workflow was told of.
    pub fn deleted(&self) -> Option<Deleted> {
        let known = self.known();
        known.graph.as_ref().map(|_| known.deleted)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_workflow() -> Failure {
    let why = "no workflow was told of yet; give its graph with: tidefs workflow --graph FILE";
    Failure::Refused(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(text: &str) -> Telling {
        Telling::Graph(text.to_owned())
    }

    #[test]
    fn a_manager_hears_each_version_once_and_a_new_manager_all_again() {
        let live = LiveWorkflow::default();
        let (now, at) = (Time(0), Instant::now());
        let later = |seconds| at + Duration::from_secs(seconds);
        assert!(live.due(None, now, at).is_none(), "nothing was told");
        assert!(live.hear(&Telling::News("{\"slots\": 1}".to_owned()), None, now).is_err());
        live.hear(&graph("{\"task\": {\"id\": \"a\"}}"), None, now).expect("a graph");
        let told = live.due(None, now, at).expect("a graph").version;
        assert_eq!(told, Version { graph: 1, telling: 0 });
        assert!(live.due(None, now, at).is_none(), "it was told a moment ago");
        assert!(live.due(Some(told), now, later(2)).is_none(), "it has heard all");
        assert!(live.due(None, now, later(2)).is_some(), "another manager has heard nothing");
        let started = Telling::News("{\"started\": \"a\"}".to_owned());
        let view = live.hear(&started, Some(told), now).expect("news");
        assert_eq!((view.tasks_running, view.is_followed), (1, false));
        let next = live.due(Some(told), now, later(4)).expect("news").version;
        assert_eq!(next, Version { graph: 1, telling: 1 });
        live.hear(&started, Some(next), now).expect("news that is none");
        assert!(live.due(Some(next), now, later(6)).is_none(), "told once more it is no news");
        assert!(live.hear(&graph("nonsense"), None, now).is_err());
        assert_eq!(live.hear(&Telling::Look, Some(next), now).expect("as before").tasks, 1);
    }
}
