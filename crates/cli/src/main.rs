//! The one binary, `tidefs`.
//!
//! Modules by layer, from the ground up: `process`, `signals`, `memory`, `mount_table`, `limits`
//! and `logging` speak with the machine; `state` keeps what is known of running file systems;
//! `nodes`, `storage`, `mounting` and `file_system` are one of them; `commands` has one file for each word
//! of the command line. Everything that is started is noted first, and undone in the end,
//! whatever happens in between.

mod admission;
mod age_clock;
mod agents;
mod apart;
mod arguments;
mod around;
mod change;
mod change_view;
mod check_view;
mod checking;
mod checks;
mod cleanup;
mod commands;
mod commands_text;
mod control;
mod control_groups;
mod dead_files;
mod death;
mod elasticity;
mod failure;
mod file_system;
mod finding;
mod foresight;
mod fresh;
mod hand_over;
mod history;
mod host_logs;
mod host_view;
mod hosts;
mod interrupts;
mod join;
mod joining_view;
mod judged_file;
mod kept_logs;
mod launch;
mod lend;
mod lending;
mod limits;
mod lines;
mod live_workflow;
mod log_file;
mod logging;
mod lost;
mod memory;
mod metrics;
mod metrics_view;
mod monitor;
mod mount_point;
mod mount_table;
mod mounting;
mod node_names;
mod nodes;
mod own_log;
mod planning;
mod preparation;
mod privacy;
mod process;
mod progress_view;
mod provided_view;
mod provision;
mod rarely;
mod remote_checks;
mod reporting;
mod roll;
mod satellites;
mod say;
mod scarcity;
mod search_path;
mod settings;
mod signals;
mod slurm;
mod ssh;
mod staging;
mod state;
mod status_text;
mod steady_clock;
mod storage;
mod strangers;
mod summary;
mod supervise;
mod tally;
mod version;
mod view;
mod wall_clock;
mod wish;
mod without_effect;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::arguments::{Arguments, Command};
use crate::failure::{FAILED, Failure, MISUSED};
use crate::settings::{Settings, Wrong};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if version::is_asked_as_json(&words) {
        let version = serde_json::to_string_pretty(&version::Version::here());
        say::answer(version.expect("strings and numbers"));
        return ExitCode::SUCCESS;
    }
    let mut settings = Settings::read();
    match settings.parse(&words) {
        Ok(arguments) => {
            begin_log(&arguments);
            act(arguments, &words, &mut settings)
        }
        Err(wrong) => refuse(wrong),
    }
}

fn begin_log(arguments: &Arguments) {
    let kept = matches!(
        arguments.command,
        Command::Daemon | Command::Holder | Command::Manager { kept: true }
    );
    logging::begin(arguments.verbose, kept);
}

/// Does what was asked; once more where a setting was in the way.
fn act(mut arguments: Arguments, words: &[OsString], settings: &mut Settings) -> ExitCode {
    let error = loop {
        match commands::dispatch(&arguments) {
            Ok(code) => return code,
            Err(error) if settings.give_up(&error) => match settings.parse(words) {
                Ok(without) => arguments = without,
                Err(wrong) => return refuse(wrong),
            },
            Err(error) => break error,
        }
    };
    say::note(format!("{error:#}"));
    let status = error.downcast_ref::<Failure>().map_or(FAILED, Failure::exit_status);
    if status == MISUSED
        && let Ok(Some(said)) = settings.said()
    {
        say::note(format!("these settings were used: {said}"));
    }
    ExitCode::from(status)
}

fn refuse(wrong: Wrong) -> ExitCode {
    say::note(wrong);
    ExitCode::from(MISUSED)
}
