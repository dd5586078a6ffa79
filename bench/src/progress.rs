//! Says on standard error what is being measured: one changing line on a terminal, a line for each
//! round elsewhere.

use std::io::{IsTerminal, Write};

use crate::figures::Subject;
use crate::order::Order;

pub struct Progress {
    terminal: bool,
    /// The last round that got a line.
    shown: std::cell::Cell<Option<(usize, usize)>>,
}

impl Progress {
    pub fn new() -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { terminal, shown: std::cell::Cell::new(None) }
    }

    pub fn starting(&self, subject: Subject) {
        self.line(&format!("starting {}", subject.name()));
    }

    /// `round` counts from 0.
    pub fn show(&self, round: usize, rounds: usize, order: Order, subject: Subject) {
        if self.terminal {
            let (order, subject) = (order.name(), subject.name());
            self.line(&format!("round {} of {rounds}: {order} on {subject}", round + 1));
        } else if self.shown.replace(Some((round, rounds))) != Some((round, rounds)) {
            eprintln!("round {} of {rounds}", round + 1);
        }
    }

    fn line(&self, text: &str) {
        if self.terminal {
            eprint!("\r\x1b[K{text}");
            let _ = std::io::stderr().flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line("");
    }
}
