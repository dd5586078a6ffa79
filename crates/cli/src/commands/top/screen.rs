//! The terminal of `top`: drawn anew with each look and each key, and as it was before at the end.

use std::io::Stdout;
use std::time::{Duration, Instant};

use anyhow::Context;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::shown::{Key, Shown};
use super::{EVERY, look};
use crate::signals::Signals;
use crate::state::Paths;

/// Signals are looked for as often.
const TICK: Duration = Duration::from_millis(200);

/// Shows it until somebody has had enough.
pub fn watch(paths: &Paths, signals: &Signals) -> anyhow::Result<()> {
    // Before the screen is taken: where nothing answers, that is to be read.
    let mut shown = Shown::new(look(paths)?, draws_blocks());
    let mut looked = Instant::now();
    let mut screen = Screen::take().context("cannot draw on this terminal")?;
    let mut is_new = true;
    loop {
        if std::mem::take(&mut is_new) {
            screen.0.draw(|frame| shown.draw(frame)).context("cannot draw on this terminal")?;
        }
        let next = EVERY.saturating_sub(looked.elapsed());
        if event::poll(next.min(TICK)).context("cannot read keys")? {
            let event = event::read().context("cannot read keys")?;
            is_new = true;
            if let Event::Key(pressed) = event
                && let Some(key) = key(pressed)
                && shown.press(key).is_break()
            {
                return Ok(());
            }
        }
        if signals.wait(None, Duration::ZERO).is_some_and(|it| it.asks_to_stop()) {
            return Ok(());
        }
        if looked.elapsed() >= EVERY {
            looked = Instant::now();
            if !shown.is_paused() {
                shown.saw(look(paths)?);
                is_new = true;
            }
        }
    }
}

fn key(pressed: KeyEvent) -> Option<Key> {
    let is_control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    match pressed.code {
        _ if pressed.kind == KeyEventKind::Release => None,
        KeyCode::Char('c' | 'd') if is_control => Some(Key::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('p' | ' ') => Some(Key::Pause),
        KeyCode::Char('s') => Some(Key::Sort),
        KeyCode::Char('k') | KeyCode::Up => Some(Key::Up),
        KeyCode::Char('j') | KeyCode::Down => Some(Key::Down),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        _ => None,
    }
}

/// Blocks are letters that only UTF-8 has.
fn draws_blocks() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
    locale.is_some_and(|it| it.to_ascii_lowercase().replace('-', "").contains("utf8"))
}

/// The terminal's other screen, without echo; what was there before comes back at the end.
struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    fn take() -> std::io::Result<Screen> {
        let terminal = Terminal::new(CrosstermBackend::new(std::io::stdout()))?;
        enable_raw_mode()?;
        let screen = Screen(terminal);
        execute!(std::io::stdout(), EnterAlternateScreen)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(std::io::stdout(), LeaveAlternateScreen);
        let _ = self.0.show_cursor();
        let _ = disable_raw_mode();
    }
}
