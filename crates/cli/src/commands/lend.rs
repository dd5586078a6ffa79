//! `tidefs lend`: offer this machine's idle memory.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use tidefs_model::ByteSize;

use crate::arguments::Lend;
use crate::failure::Failure;
use crate::lend::{Ended, Group, Loan, budget};
use crate::lending::{State, secret_of};
use crate::memory::Memory;
use crate::say;
use crate::signals::Signals;

/// Between two words to the borrower.
const BEAT: Duration = Duration::from_millis(250);
/// While the node is being emptied.
const QUICK_BEAT: Duration = Duration::from_millis(20);

pub fn lend(options: &Lend) -> anyhow::Result<()> {
    check(options.memory, Memory::of_this_machine())?;
    let secret = read_secret(&options.secret_file)?;
    let signals = Signals::catch().context("cannot catch signals")?;
    let group = Group::make(options.memory).map_err(|why| Failure::NoControlGroup { why })?;
    let mut loan = Loan::begin(options.join, &secret, options.memory, group)?;
    say::note(format!(
        "node {} at {} offers {} of {} to {}; Ctrl-C gives it back",
        &loan.id().to_string()[..12],
        loan.address(),
        budget(options.memory),
        options.memory,
        options.join
    ));
    let ended = until_ended(&mut loan, &signals, options.deadline);
    let outcome = told(ended, options.join);
    loan.end();
    outcome
}

fn check(offered: ByteSize, machine: Memory) -> Result<(), Failure> {
    let (usable, total) = (machine.usable(), machine.total);
    if offered > usable {
        return Err(Failure::OfferTooLarge { offered, usable, total });
    }
    if offered > machine.available {
        let available = machine.available;
        return Err(Failure::OfferNotFree { memory: offered, available });
    }
    Ok(())
}

fn read_secret(path: &Path) -> Result<[u8; 32], Failure> {
    let unusable = |cause: String| Failure::LendSecretUnusable { path: path.to_owned(), cause };
    let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    secret_of(&text).map_err(|error| unusable(error.to_string()))
}

/// `None`: a second signal came before the node was empty.
fn until_ended(loan: &mut Loan, signals: &Signals, deadline: Duration) -> Option<Ended> {
    let mut asked: Option<Instant> = None;
    let mut state = None;
    let mut is_late = false;
    loop {
        let wait = if asked.is_some() { QUICK_BEAT } else { BEAT };
        if signals.wait(None, wait).is_some_and(|signal| signal.asks_to_stop()) {
            if asked.is_some() {
                return None;
            }
            say::note(
                "giving the memory back; once more ends the node at once, with what it holds",
            );
            asked = Some(Instant::now());
        }
        let now = match loan.beat(asked.is_some()) {
            Ok(now) => now,
            Err(ended) => return Some(ended),
        };
        if state != Some(now) && now == State::InUse {
            say::note("the node is in use");
        }
        state = Some(now);
        if asked.is_some_and(|asked| asked.elapsed() > deadline) && !is_late {
            is_late = true;
            let held = loan.usage().map_or(ByteSize(0), |usage| usage.used);
            let why = loan.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            say::note(format!(
                "the node still holds about {held}, and goes on giving it back{why}"
            ));
        }
    }
}

fn told(ended: Option<Ended>, address: SocketAddr) -> anyhow::Result<()> {
    match ended {
        None => Err(Failure::EndedEarly.into()),
        Some(Ended::Free(None)) => {
            say::note("the memory is given back");
            Ok(())
        }
        Some(Ended::Free(Some(why))) => Err(Failure::NotWanted { address, why }.into()),
        Some(Ended::Closed) => {
            say::note("the file system has ended, and the node with it");
            Ok(())
        }
        Some(Ended::OutOfTouch) => Err(Failure::OutOfTouch { address }.into()),
        Some(Ended::NodeDied) => Err(Failure::NodeDied.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_machine_has_is_refused() {
        let machine = Memory { total: ByteSize::gib(4), available: ByteSize::gib(1) };
        assert!(check(ByteSize::mib(512), machine).is_ok());
        let refused = check(ByteSize::gib(4), machine).unwrap_err();
        assert!(matches!(refused, Failure::OfferTooLarge { .. }), "{refused}");
        let refused = check(ByteSize::gib(2), machine).unwrap_err();
        assert!(matches!(refused, Failure::OfferNotFree { .. }), "{refused}");
    }
}
