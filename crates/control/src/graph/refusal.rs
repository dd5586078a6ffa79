//! Why a telling about a workflow is refused.

/// What is wrong, with the line, the task or the file that it is about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error("line {line} is no news of a workflow: {why}")]
    Line { line: usize, why: String },
    #[error("it is not WfFormat that can be followed: {0}")]
    WfFormat(String),
    #[error("it has no tasks")]
    NoTasks,
    #[error("{kind} {name:?} is not in the graph; tell of it first")]
    Unknown { kind: &'static str, name: String },
    #[error("task {task:?} comes after {after:?}, which is not in the graph")]
    UnknownAfter { task: String, after: String },
    #[error("task {task:?} does not write {file:?}")]
    NotWritten { task: String, file: String },
    #[error("task {0:?} was told of otherwise before; give a whole new graph")]
    ToldOtherwise(String),
    #[error("file {file:?} is written by {first:?} and by {second:?}")]
    TwoWriters { file: String, first: String, second: String },
    #[error("task {0:?} waits for itself, by way of others or at once")]
    Circle(String),
    #[error("{what} of {name:?} is {value}, which is more than can be followed")]
    Range { what: &'static str, name: String, value: String },
    #[error("a name of {bytes} bytes is longer than the {most} that names may have")]
    Name { bytes: usize, most: usize },
    #[error("there are {count} {what}, more than the {most} that can be followed")]
    TooMany { what: &'static str, count: usize, most: usize },
}
