//! `tidefs fsck`: what killed mounts left, and damage.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::arguments::running::Fsck;
use crate::control::{self, Answer, CHANGE_WAIT, Request};
use crate::failure::{FAILED, Failure};
use crate::say;
use crate::state;

pub fn fsck(options: &Fsck, asked: Option<&Path>) -> anyhow::Result<ExitCode> {
    let running = state::find(asked)?;
    let request = Request::Check { repair: options.repair };
    // Everything is walked, several times.
    let answer = control::ask_within(&running.paths, &request, CHANGE_WAIT)?;
    let Answer::Checked(found) = answer else {
        return Err(Failure::Silent(running.paths.directory).into());
    };
    if options.json {
        say::answer(serde_json::to_string_pretty(&found).context("cannot print JSON")?);
    } else {
        say::answer(&found);
    }
    Ok(if found.clean { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
