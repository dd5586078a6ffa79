//! `tidefs status`: nodes, usage, partitions and mounts.

use std::path::Path;

use anyhow::Context;

use crate::arguments::running::Status;
use crate::control::{self, Answer, Request};
use crate::failure::Failure;
use crate::say;
use crate::state;

pub fn status(options: &Status, asked: Option<&Path>) -> anyhow::Result<()> {
    let running = state::find(asked)?;
    let Answer::Status(status) = control::ask(&running.paths, &Request::Status)? else {
        return Err(Failure::Silent(running.paths.directory).into());
    };
    if options.json {
        say::answer(serde_json::to_string_pretty(&status).context("cannot print JSON")?);
    } else {
        say::answer(status);
    }
    Ok(())
}
