//! `tidefs top`: the status again and again.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use crate::arguments::Top;
use crate::control::{self, Answer, Request};
use crate::failure::Failure;
use crate::signals::Signals;
use crate::state;

/// The manager looks as often.
const EVERY: Duration = Duration::from_secs(1);

pub fn top(options: &Top, asked: Option<&Path>) -> anyhow::Result<()> {
    let running = state::find(asked)?;
    let signals = Signals::catch().context("cannot catch signals")?;
    let terminal = std::io::stdout().is_terminal();
    let mut left = options.times;
    loop {
        let Answer::Status(status) = control::ask(&running.paths, &Request::Status)? else {
            return Err(Failure::Silent(running.paths.directory).into());
        };
        // From the upper left corner, and nothing of the last look stays behind.
        let text = match terminal {
            true => format!("\x1b[H{}\x1b[J", status.to_string().replace('\n', "\x1b[K\n")),
            false => format!("{status}\n"),
        };
        if std::io::stdout().write_all(text.as_bytes()).is_err() {
            return Ok(());
        }
        let _ = std::io::stdout().flush();
        left = left.map(|left| left.saturating_sub(1));
        if left == Some(0) || signals.wait(None, EVERY).is_some_and(|it| it.asks_to_stop()) {
            return Ok(());
        }
    }
}
