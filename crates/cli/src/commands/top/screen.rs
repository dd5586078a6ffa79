//! The terminal of `top`: drawn anew with each look and each key, and as it was before at the end.

use std::io::Stdout;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

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
use crate::arguments::running::By;
use crate::signals::Signals;
use crate::state::Paths;
use crate::view::StatusView;

/// Signals are looked for as often.
const TICK: Duration = Duration::from_millis(100);
/// Whoever has more to tell waits.
const TOLD_MOST: usize = 16;

enum News {
    Pressed(Key),
    /// The terminal has another size.
    Resized,
    Looked(anyhow::Result<Box<StatusView>>),
}

/// Shows it until somebody has had enough.
pub fn watch(paths: &Paths, signals: &Signals, by: By) -> anyhow::Result<()> {
    // Before the screen is taken: where nothing answers, that is to be read.
    let mut shown = Shown::new(look(paths)?, draws_blocks()).by(by);
    let mut screen = Screen::take().context("cannot draw on this terminal")?;
    let (tell, told) = sync_channel(TOLD_MOST);
    // Both may wait for longer than anybody who wants to end this, and end with the process.
    let (looks, paths) = (tell.clone(), paths.clone());
    thread::spawn(move || keep_looking(&paths, &looks));
    thread::spawn(move || keep_reading(&tell));
    loop {
        screen.0.draw(|frame| shown.draw(frame)).context("cannot draw on this terminal")?;
        let Some(news) = next(&told, signals) else { return Ok(()) };
        match news {
            News::Pressed(key) if shown.press(key).is_break() => return Ok(()),
            News::Looked(status) if !shown.is_paused() => shown.saw(*status?),
            News::Pressed(_) | News::Resized | News::Looked(_) => {}
        }
    }
}

/// `None`: a signal asks to stop, or nobody tells anything any more.
fn next(told: &Receiver<News>, signals: &Signals) -> Option<News> {
    loop {
        if signals.take().is_some_and(|it| it.asks_to_stop()) {
            return None;
        }
        match told.recv_timeout(TICK) {
            Ok(news) => return Some(news),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

fn keep_looking(paths: &Paths, tell: &SyncSender<News>) {
    loop {
        thread::sleep(EVERY);
        let looked = look(paths).map(Box::new);
        let has_ended = looked.is_err();
        if tell.send(News::Looked(looked)).is_err() || has_ended {
            return;
        }
    }
}

fn keep_reading(tell: &SyncSender<News>) {
    while let Ok(event) = event::read() {
        let news = match event {
            Event::Key(pressed) => key(pressed).map(News::Pressed),
            Event::Resize(..) => Some(News::Resized),
            _ => None,
        };
        if news.is_some_and(|news| tell.send(news).is_err()) {
            return;
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
        KeyCode::Char('b') => Some(Key::By),
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
