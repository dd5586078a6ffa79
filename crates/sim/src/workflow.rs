//! Workflows that are simulated: those of the papers, and those that are read.

mod built_in;

pub use built_in::{BuiltIn, ParseBuiltInError};
pub use tidefs_control::workflow::{
    Cleanup, Doubt, FileNumber, Task, TaskNumber, WfError, Workflow, WorkflowError,
};
