//! A change of the nodes that is asked for by hand, and its progress while it is under way.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::control::{self, Answer, CHANGE_WAIT, Request};
use crate::failure::Failure;
use crate::say;
use crate::state;

/// Between two looks at how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Between two lines where nobody watches a terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Asks, shows progress, and returns when it is done.
pub fn change(request: &Request, json: bool, asked: Option<&Path>) -> anyhow::Result<()> {
    let running = state::find(asked)?;
    let (sender, done) = channel();
    let (paths, request) = (running.paths.clone(), request.clone());
    std::thread::spawn(move || {
        let _ = sender.send(control::ask_within(&paths, &request, CHANGE_WAIT));
    });
    let mut shown = Progress::new();
    let answer = loop {
        match done.recv_timeout(LOOK_EVERY) {
            Ok(answer) => break answer,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::Silent(running.paths.directory).into());
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Ok(Answer::Status(status)) = control::ask(&running.paths, &Request::Status) {
                    match (&status.recovery, &status.reconfiguration) {
                        (Some(recovery), _) => shown.show(recovery),
                        (None, Some(under_way)) => shown.show(under_way),
                        (None, None) => {}
                    }
                }
            }
        }
    };
    shown.end();
    match answer? {
        Answer::Changed(done) if json => {
            say::answer(serde_json::to_string_pretty(&done).context("cannot print JSON")?);
            Ok(())
        }
        Answer::Changed(done) => {
            say::answer(done);
            Ok(())
        }
        _ => Err(Failure::Silent(running.paths.directory).into()),
    }
}

/// How wide the terminal is; as wide as terminals are at least where it does not say.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| size.ws_col.into()).filter(|&columns| columns > 0).unwrap_or(80)
}

/// What is said in one row of a terminal: a second one would stay when the first is written over.
fn in_a_row(said: &impl std::fmt::Display, columns: usize) -> String {
    let said = said.to_string();
    let lines: Vec<_> = said.lines().map(str::trim).collect();
    lines.join("; ").chars().take(columns.saturating_sub(1)).collect()
}

/// One line that changes on a terminal, a line now and then elsewhere.
struct Progress {
    terminal: bool,
    last: Option<Instant>,
}

impl Progress {
    fn new() -> Progress {
        Progress { terminal: std::io::stderr().is_terminal(), last: None }
    }

    fn show(&mut self, under_way: &impl std::fmt::Display) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", in_a_row(under_way, columns()));
        } else if self.last.is_none_or(|last| last.elapsed() >= LINE_EVERY) {
            say::note(under_way);
        } else {
            return;
        }
        self.last = Some(Instant::now());
    }

    fn end(&self) {
        if self.terminal && self.last.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress_view::ReconfigurationView;

    #[test]
    fn progress_keeps_to_one_row_of_the_terminal() {
        let said = "failed once, trying again\n           nothing else is changed";
        let row = in_a_row(&said, 200);
        assert_eq!(row, "failed once, trying again; nothing else is changed");
        assert_eq!(in_a_row(&said, 11), "failed onc");
    }

    /// As long as it gets with the words that there are, and as usual.
    #[test]
    fn a_terminal_of_80_columns_shows_the_time_left_and_the_bytes() {
        let row = |nodes_before, seconds_left, bytes_planned| {
            let under_way = ReconfigurationView {
                kind: "decommission".to_owned(),
                nodes_before,
                phase: "moving partitions".to_owned(),
                bytes_moved: bytes_planned / 9,
                bytes_planned,
                bytes_per_second: Some(bytes_planned / 10),
                seconds_left: Some(seconds_left),
                ..ReconfigurationView::default()
            };
            in_a_row(&under_way, 80)
        };
        let longest = row(64, 86_400.0, 1023 << 29);
        assert!(longest.contains("86400 s left"), "{longest}");
        let usual = row(4, 12.4, 126 << 20);
        assert!(usual.contains("12 s left, 14 MiB of 126 MiB "), "{usual}");
    }
}
