//! What people and programs are told. A reader that has gone away is never a reason to stop, and
//! least of all before everything is cleaned up.

use std::fmt::Display;
use std::io::Write;

use crate::own_log;

/// A line of our own on standard error, where the command of a run may write too.
pub fn note(text: impl Display) {
    // The name comes with each line, so that it can be told from the command's words.
    let text = text.to_string();
    let lines: String = text.lines().map(|line| format!("tidefs: {line}\n")).collect();
    if !own_log::add(lines.as_bytes()) {
        let _ = std::io::stderr().write_all(lines.as_bytes());
    }
}

/// A line of the answer on standard output.
pub fn answer(text: impl Display) {
    let _ = std::io::stdout().write_all(format!("{text}\n").as_bytes());
}
