//! `tidefs up`: start a file system that stays.

use std::path::Path;

use crate::arguments::Up;
use crate::cleanup::{MARK, STATE};
use crate::commands::daemon::Order;
use crate::control::{self, Answer, Request};
use crate::failure::Failure;
use crate::launch::{Overdue, launch};
use crate::metrics;
use crate::mount_point::{Missing, MountPoint};
use crate::preparation;
use crate::say;
use crate::state::{Base, Paths, in_the_way};
use crate::wall_clock;

pub fn up(options: &Up, state: Option<&Path>, verbose: u8) -> anyhow::Result<()> {
    // What carries a run's mark is ended with the run, whatever it serves.
    if std::env::var_os(MARK).is_some() {
        let run = std::env::var_os(STATE).unwrap_or_default();
        return Err(Failure::UpInRun(run.into()).into());
    }
    let base = Base::named(state)?;
    let paths = Paths::new(base.path.join(super::daemon::NAME));
    // What a killed one left has been cleared by now.
    if paths.record().exists() {
        return Err(in_the_way(&paths.directory).into());
    }
    let point = MountPoint::check(&options.storage.mount, Missing::Make)?;
    let (size, hosts) = preparation::check(&options.storage)?;
    preparation::warn_of_server(size.server.as_ref());
    let metrics = metrics::check(&options.storage.metrics)?;
    let serving = options.storage.serving;
    let order = Order { base: base.path, size, hosts, point, serving, metrics };
    launch("daemon", verbose, &order, &paths.log(), Overdue::Killed)?;
    say::answer(format!(
        "{} mounted on {}",
        preparation::describe(&order.size),
        order.point.path.display()
    ));
    preparation::joining(&order.size, &paths).into_iter().for_each(say::answer);
    if (order.metrics.is_some() || order.hosts.is_some())
        && let Ok(Answer::Status(status)) = control::ask(&paths, &Request::Status)
    {
        status.metrics.iter().for_each(|it| say::answer(format!("metrics at {it}")));
        status
            .hosts
            .iter()
            .for_each(|it| say::answer(format!("host {} at {}", it.name, it.address)));
        status.absent_hosts.iter().for_each(say::note);
        for (host, ahead) in status.hosts.iter().filter_map(|host| Some((host, host.clock()?))) {
            let (name, means) = (&host.name, wall_clock::MEANS);
            tracing::warn!("the clock of {name} is {ahead} of this host's: {means}");
        }
    }
    let stop = stop_command(state);
    say::answer(format!("state in {}; stop it with: {stop}", paths.directory.display()));
    Ok(())
}

/// As a shell takes it for one word.
fn quoted(path: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "/._-+=:,@%".contains(it);
    match path.chars().all(is_plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

/// As it is typed in the shell in which `up` was.
fn stop_command(state: Option<&Path>) -> String {
    let is_usual = |state: &&Path| std::env::var_os(STATE).is_some_and(|usual| usual == **state);
    match state.filter(|state| !is_usual(state)) {
        Some(state) => format!("tidefs --state {} down", quoted(&state.display().to_string())),
        None => "tidefs down".to_owned(),
    }
}
