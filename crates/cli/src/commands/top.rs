//! `tidefs top`: the status again and again; on a terminal with bars, the last minutes and keys.

mod screen;
mod shown;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use crate::arguments::running::{By, Top};
use crate::control::{self, Answer, Request};
use crate::failure::Failure;
use crate::signals::Signals;
use crate::state::{self, Paths};
use crate::view::StatusView;

/// The manager looks as often.
const EVERY: Duration = Duration::from_secs(1);

pub fn top(options: &Top, asked: Option<&Path>) -> anyhow::Result<()> {
    let running = state::find(asked)?;
    let signals = Signals::catch().context("cannot catch signals")?;
    match options.times.is_none() && can_be_drawn_on() {
        true => screen::watch(&running.paths, &signals, options.by),
        false => plainly(&running.paths, &signals, options),
    }
}

/// A terminal that can place its cursor, has a keyboard and says how large it is.
fn can_be_drawn_on() -> bool {
    let is_able = |name: &std::ffi::OsString| !name.is_empty() && name != "dumb";
    let term = std::env::var_os("TERM");
    term.as_ref().is_some_and(is_able)
        && std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
        && columns() != usize::MAX
}

fn look(paths: &Paths) -> anyhow::Result<StatusView> {
    match control::ask(paths, &Request::Status)? {
        Answer::Status(status) => Ok(*status),
        _ => Err(Failure::Silent(paths.directory.clone()).into()),
    }
}

/// One text below the other, as wide as there is room for.
fn plainly(paths: &Paths, signals: &Signals, options: &Top) -> anyhow::Result<()> {
    let columns = columns();
    let mut left = options.times;
    loop {
        let status = look(paths)?;
        let text = match options.by {
            By::Node => format!("{}\n", status.text(columns)),
            By::Command => format!("{}\n", status.commands_text(columns)),
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

/// Of the terminal, of which the last stays free; as many as one likes where there is none.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.filter(|size| size.ws_col > 0).map_or(usize::MAX, |size| usize::from(size.ws_col) - 1)
}
