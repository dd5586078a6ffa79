//! The one binary, `tidefs`.
//!
//! Modules by layer, from the ground up: `process`, `signals`, `memory`, `mount_table`, `limits`
//! and `logging` speak with the machine; `state` keeps what is known of running file systems;
//! `nodes`, `storage`, `mounting` and `file_system` are one of them; `commands` has one file for each word
//! of the command line. Everything that is started is noted first, and undone in the end,
//! whatever happens in between.

mod admission;
mod arguments;
mod change;
mod change_view;
mod check_view;
mod checking;
mod checks;
mod cleanup;
mod commands;
mod control;
mod control_groups;
mod death;
mod elasticity;
mod failure;
mod file_system;
mod foresight;
mod fresh;
mod history;
mod hosts;
mod kept_logs;
mod launch;
mod lend;
mod lending;
mod limits;
mod lines;
mod log_file;
mod logging;
mod lost;
mod memory;
mod monitor;
mod mount_point;
mod mount_table;
mod mounting;
mod node_names;
mod nodes;
mod planning;
mod preparation;
mod privacy;
mod process;
mod progress_view;
mod reporting;
mod say;
mod scarcity;
mod signals;
mod staging;
mod state;
mod status_text;
mod steady_clock;
mod storage;
mod summary;
mod supervise;
mod view;
mod wish;
mod without_effect;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};
use crate::failure::{FAILED, Failure};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let kept = matches!(
        arguments.command,
        Command::Daemon | Command::Holder | Command::Manager { kept: true }
    );
    logging::begin(arguments.verbose, kept);
    commands::dispatch(&arguments).unwrap_or_else(|error| {
        say::note(format!("{error:#}"));
        let status = error.downcast_ref::<Failure>().map_or(FAILED, Failure::exit_status);
        ExitCode::from(status)
    })
}
