//! `tidefs mount`: one more mount of a running file system.

use std::path::Path;

use crate::arguments::running::Mount;
use crate::commands::holder::Order;
use crate::control::{self, Request};
use crate::launch::launch;
use crate::mount_point::{Missing, MountPoint};
use crate::say;
use crate::{preparation, state};

pub fn mount(options: &Mount, asked: Option<&Path>, verbose: u8) -> anyhow::Result<()> {
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
        let order = Order { directory: running.paths.directory, point, serving };
        launch("holder", verbose, &order, &log)?;
    }
    say::answer(format!("mounted on {shown}"));
    Ok(())
}
