//! A request to stop, by Ctrl-C or SIGTERM: whoever waits looks here, so that everything ends in
//! order and nothing is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

const SIGNALS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
}

impl Stop {
    /// Takes the signals from now on. The second one ends the process at once.
    pub fn catch() -> anyhow::Result<Stop> {
        let stop = Stop::default();
        for signal in SIGNALS {
            let asked = Arc::clone(&stop.asked);
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))?;
            signal_hook::flag::register(signal, asked)?;
        }
        Ok(stop)
    }

    /// Takes the signals and does nothing about them, for who ends when somebody else does.
    pub fn ignore() -> anyhow::Result<()> {
        for signal in SIGNALS {
            signal_hook::flag::register(signal, Arc::default())?;
        }
        Ok(())
    }

    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.asked.load(Ordering::Relaxed), "interrupted");
        Ok(())
    }
}
