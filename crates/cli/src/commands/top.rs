//! `tidefs top`: the status again and again.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use crate::arguments::running::Top;
use crate::control::{self, Answer, Request};
use crate::failure::Failure;
use crate::signals::Signals;
use crate::state;
use crate::view::StatusView;

/// The manager looks as often.
const EVERY: Duration = Duration::from_secs(1);

pub fn top(options: &Top, asked: Option<&Path>) -> anyhow::Result<()> {
    let running = state::find(asked)?;
    let signals = Signals::catch().context("cannot catch signals")?;
    let terminal = std::io::stdout().is_terminal();
    let _screen = (terminal && options.times.is_none()).then(Screen::take);
    let mut left = options.times;
    loop {
        let Answer::Status(status) = control::ask(&running.paths, &Request::Status)? else {
            return Err(Failure::Silent(running.paths.directory).into());
        };
        // From the upper left corner, and nothing of the last look stays behind.
        let text = match terminal {
            true => format!("\x1b[H{}\x1b[J", on_screen(&status, size())),
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

/// The terminal's other screen; what was there before comes back at the end.
struct Screen;

impl Screen {
    fn take() -> Screen {
        let _ = std::io::stdout().write_all(b"\x1b[?1049h");
        Screen
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = std::io::stdout().write_all(b"\x1b[?1049l");
        let _ = std::io::stdout().flush();
    }
}

/// Rows and columns of the terminal; as many as terminals have at least where it does not say.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let size = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
    size.map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()))
}

/// The last column stays free: what clears the rest of a row would take a letter there.
fn on_screen(status: &StatusView, (rows, columns): (usize, usize)) -> String {
    let columns = columns.saturating_sub(1);
    cut(&status.text(columns), (rows, columns))
}

/// The first lines, as far as they go, and how many there are besides: more would scroll.
fn cut(text: &str, (rows, columns): (usize, usize)) -> String {
    let line = |line: &str| line.chars().take(columns).collect::<String>() + "\x1b[K";
    let lines: Vec<_> = text.trim_end().lines().map(line).collect();
    if lines.len() < rows {
        return lines.join("\n") + "\n";
    }
    let shown = rows.saturating_sub(2);
    let more = lines.len() - shown;
    format!("{}\n... and {more} more lines\x1b[K", lines[..shown].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_the_terminal_is_cut_and_counted() {
        assert_eq!(cut("a\nbcd\n", (24, 2)), "a\x1b[K\nbc\x1b[K\n");
        let many = "line\n".repeat(30);
        let said = cut(&many, (10, 80));
        assert_eq!((said.lines().count(), said.matches("line\x1b").count()), (9, 8));
        assert!(said.contains("and 22 more lines"), "{said}");
    }
}
