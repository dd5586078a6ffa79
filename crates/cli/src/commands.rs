//! What each word of the command line does, one file each.

mod agent;
mod daemon;
mod doctor;
mod down;
mod drain;
mod exec;
mod fsck;
mod holder;
mod join;
mod lend;
mod list;
mod logs;
mod manager;
mod mount;
mod pages;
mod placement;
mod plan;
mod provision_runner;
mod run;
mod satellite;
mod scale;
mod sim;
mod stage;
mod status;
mod task;
mod top;
mod umount;
mod up;
mod whereabouts;
mod workflow;

use std::process::ExitCode;

use crate::arguments::{Arguments, Command};
use crate::cleanup;

/// Does what was asked. The exit code is that of `run`'s command, or of what `doctor` found.
pub fn dispatch(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let state = arguments.state.as_deref();
    // What only computes touches nothing, and a process of `tidefs` itself was started by a command
    // that has cleaned up already.
    let computes = matches!(
        arguments.command,
        Command::Plan(_)
            | Command::Sim(_)
            | Command::Lend(_)
            | Command::Placement(_)
            | Command::Where(_)
            | Command::Stage(_)
            | Command::Pages(_)
    );
    let is_ours = matches!(
        arguments.command,
        Command::Daemon
            | Command::Holder
            | Command::Task
            | Command::ProvisionRunner
            | Command::Satellite(_)
            | Command::Manager { .. }
    );
    if !computes && !is_ours {
        cleanup::sweep(state);
    }
    match &arguments.command {
        Command::Run(options) => return run::run(options, state),
        Command::Up(options) => up::up(options, state, arguments.verbose)?,
        Command::Down(_) => down::down(state)?,
        Command::Mount(options) => mount::mount(options, state, arguments.verbose)?,
        Command::Umount(options) => umount::umount(options, state)?,
        Command::Status(options) => status::status(options, state)?,
        Command::List(options) => list::list(options, state)?,
        Command::Fsck(options) => return fsck::fsck(options, state),
        Command::Scale(options) => scale::scale(options, state)?,
        Command::Workflow(options) => return workflow::workflow(options, state),
        Command::Drain(options) => drain::drain(options, state)?,
        Command::Join(options) => join::join(options, state)?,
        Command::Lend(options) => lend::lend(options)?,
        Command::Placement(options) => placement::placement(options)?,
        Command::Where(options) => whereabouts::whereabouts(options, state)?,
        Command::Stage(options) => return stage::stage(options, state),
        Command::Top(options) => top::top(options, state)?,
        Command::Plan(options) => return plan::plan(options),
        Command::Sim(options) => sim::sim(options)?,
        Command::Doctor(options) => return doctor::doctor(options, state),
        Command::Exec(options) => return exec::exec(options, state),
        Command::Logs(options) => logs::logs(options, state)?,
        Command::Task => return task::task(),
        Command::Agent => agent::agent(state)?,
        Command::Daemon => return daemon::daemon(),
        Command::Holder => return holder::holder(),
        Command::ProvisionRunner => return provision_runner::run(),
        Command::Satellite(options) => satellite::satellite(options)?,
        Command::Pages(options) => pages::pages(options)?,
        Command::Manager { .. } => return manager::manager(),
    }
    Ok(ExitCode::SUCCESS)
}
