//! `tidefs mount`: one more mount of a running file system, or one that another process goes on with.

use std::path::Path;

use crate::arguments::running::Mount;
use crate::commands::holder::{Order, Task};
use crate::commands::umount::served;
use crate::control::{self, Request};
use crate::failure::Failure;
use crate::launch::{Overdue, launch};
use crate::mount_point::{Missing, MountPoint, absolute};
use crate::say;
use crate::{preparation, state};

pub fn mount(options: &Mount, asked: Option<&Path>, verbose: u8) -> anyhow::Result<()> {
    if options.takeover {
        return take_over(&options.directory, asked, verbose);
    }
    let running = state::find(asked)?;
    let point = MountPoint::check(&options.directory, Missing::Refuse)?;
    preparation::mounting()?;
    let serving = options.serving;
    let shown = point.path.display().to_string();
    if running.record.nodes.is_empty() {
        // Only the process that has the memory can serve it.
        control::ask(&running.paths, &Request::Mount { point, serving })?;
    } else {
        let log = running.paths.log();
        let directory = running.paths.directory;
        let order = Order { directory, task: Task::Mount { point, serving } };
        launch("holder", verbose, &order, &log, Overdue::Killed)?;
    }
    say::answer(format!("mounted on {shown}"));
    Ok(())
}

/// A new process of this program goes on with the mount.
fn take_over(directory: &Path, asked: Option<&Path>, verbose: u8) -> anyhow::Result<()> {
    let not_mounted = || Failure::NotMounted(directory.to_owned());
    let path = absolute(directory).map_err(|_| not_mounted())?;
    let noted = state::all_running(asked)?
        .into_iter()
        .find_map(|running| Some((served(&running, &path)?, running)));
    let (record, running) = noted.ok_or_else(not_mounted)?;
    if record.owner == running.record.owner {
        return Err(Failure::ServedByOwner(path).into());
    }
    let log = running.paths.log();
    let task = Task::TakeOver { number: record.id };
    let order = Order { directory: running.paths.directory, task };
    launch("holder", verbose, &order, &log, Overdue::Left)?;
    say::answer(format!("took over {}", path.display()));
    Ok(())
}
