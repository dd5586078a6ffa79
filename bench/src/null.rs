//! The FUSE layer that does nothing, with a command inside it as `tidefs run` has one: layer and
//! command are two processes, so that a request costs the same switches between them.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use tidefs_fuse::{MountOptions, Rings};

use crate::stop::Stop;

/// What `tidefs run --rings` takes.
pub fn rings(word: &str) -> Result<Rings, String> {
    match word {
        "auto" => Ok(Rings::Auto),
        "on" => Ok(Rings::On),
        "off" => Ok(Rings::Off),
        _ => Err("auto, on or off".to_owned()),
    }
}

/// Mounts the layer, runs the command to its end and unmounts.
pub fn run(directory: &Path, rings: Rings, words: &[OsString]) -> anyhow::Result<()> {
    // The command ends when the driver does; until then no signal may end the mount under it.
    Stop::ignore()?;
    fs::create_dir(directory)?;
    // Only mounts of benches have such small numbers.
    let number = std::process::id().into();
    let options = MountOptions { rings, ..MountOptions::new(directory, number) };
    let mut session = tidefs_fuse::null::mount(&options).context("cannot mount the null layer")?;
    let status = Command::new(&words[0]).args(&words[1..]).status();
    session.unmount().context("cannot unmount the null layer")?;
    let status = status.context("cannot run the worker")?;
    ensure!(status.success(), "the worker ended with {status}");
    Ok(())
}
