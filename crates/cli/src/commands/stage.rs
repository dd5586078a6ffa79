//! `tidefs stage`: files between a disk or parallel file system and a mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use tidefs_stage::{Pair, parse_manifest};

use crate::arguments::stage::{Common, Direction, In, Out, Stage};
use crate::control::{self, Answer, Request};
use crate::failure::{FAILED, Failure, signalled};
use crate::mount_table;
use crate::say;
use crate::signals::Signals;
use crate::staging::{self, Piece};
use crate::state;

pub fn stage(options: &Stage, asked: Option<&Path>) -> anyhow::Result<ExitCode> {
    let (pieces, common) = match &options.direction {
        Direction::In(inward) => {
            (pieces_in(inward, &mount(&inward.common, asked)?)?, &inward.common)
        }
        Direction::Out(out) => (pieces_out(out, &mount(&out.common, asked)?)?, &out.common),
    };
    let signals = Signals::catch().context("cannot catch signals")?;
    let (report, stopped_by) = staging::copy(&pieces, &common.manner, &signals)?;
    if common.json {
        say::answer(serde_json::to_string_pretty(&report).context("cannot print JSON")?);
    } else {
        report.tell();
    }
    Ok(match stopped_by {
        Some(signal) => ExitCode::from(signalled(signal)),
        None if report.is_whole() => ExitCode::SUCCESS,
        None => ExitCode::from(FAILED),
    })
}

/// Where the file system is mounted. It is looked at first, so that nothing is written beneath one that
/// is gone.
fn mount(common: &Common, asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    let named = match &common.mount {
        Some(named) => named.clone(),
        None => first_mount(asked)?,
    };
    let real = fs::canonicalize(&named).map_err(|_| Failure::NotMounted(named.clone()))?;
    match mount_table::holds_ours(&real) {
        true => Ok(real),
        false => Err(Failure::NotMounted(named).into()),
    }
}

fn first_mount(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    let running = state::find(asked)?;
    let Answer::Status(status) = control::ask(&running.paths, &Request::Status)? else {
        return Err(Failure::Silent(running.paths.directory).into());
    };
    let first = status.mounts.into_iter().next();
    Ok(first.ok_or(Failure::NoMount(running.paths.directory))?)
}

fn pieces_in(options: &In, mount: &Path) -> anyhow::Result<Vec<Piece>> {
    let Some(source) = &options.source else {
        let inward = |it: &Pair| Piece::inward(&it.source, Some(&it.destination), mount);
        return listed(&options.common)?.iter().map(inward).collect();
    };
    Ok(vec![Piece::inward(source, options.destination.as_deref(), mount)?])
}

fn pieces_out(options: &Out, mount: &Path) -> anyhow::Result<Vec<Piece>> {
    let (Some(source), Some(destination)) = (&options.source, &options.destination) else {
        let outward =
            |it: &Pair| Piece::outward(&it.source.to_string_lossy(), &it.destination, mount);
        return listed(&options.common)?.iter().map(outward).collect();
    };
    Ok(vec![Piece::outward(source, destination, mount)?])
}

fn listed(common: &Common) -> anyhow::Result<Vec<Pair>> {
    let path = common.manifest.as_deref().context("a manifest or a source is required")?;
    let text = fs::read_to_string(path)
        .map_err(|cause| Failure::ManifestUnreadable { path: path.to_owned(), cause })?;
    parse_manifest(&text)
        .map_err(|cause| Failure::ManifestWrong { path: path.to_owned(), cause }.into())
}
