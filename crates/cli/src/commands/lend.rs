//! `tidefs lend`: offer this machine's idle memory, and give it back when it is needed here.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use tidefs_control::yielding::{Lender, Lending, Limits, Need};
use tidefs_fuse::SystemClock;
use tidefs_model::{ByteSize, Clock};
use tidefs_valkey::LentUsage;

use crate::arguments::lend::Lend;
use crate::failure::Failure;
use crate::lend::{Ended, Group, Loan, Machine, Offer, budget};
use crate::lending::{Place, Purpose, State, secret_of};
use crate::memory::Memory;
use crate::preparation::warn_of_server;
use crate::privacy;
use crate::say;
use crate::signals::Signals;
use crate::storage::choose_server;
use crate::view::ServerView;

/// Between two words to the borrower.
const BEAT: Duration = Duration::from_millis(250);
/// While the node is being emptied.
const QUICK_BEAT: Duration = Duration::from_millis(20);
/// With less a node is of no use.
const BUDGET_MIN: ByteSize = ByteSize::mib(32);

pub fn lend(options: &Lend) -> anyhow::Result<()> {
    privacy::guard();
    let memory = Memory::of_this_machine();
    check(options.memory, memory)?;
    let secret = read_secret(&options.secret_file)?;
    let server = ServerView::from(choose_server(None)?);
    warn_of_server(Some(&server));
    say::note(format!("nodes that are lent run {}", server.said));
    let signals = Signals::catch().context("cannot catch signals")?;
    let reserve = options.keep_free.unwrap_or(memory.reserve());
    let mut machine = Machine::here();
    let mut lender = Lender::new(Limits {
        most: budget(options.memory),
        least: BUDGET_MIN,
        reserve,
        deadline: options.deadline,
        idle: options.idle,
    });
    let first = lender.first_offer(&machine.pressure(ByteSize(0)));
    let available = memory.available;
    let mut memory = first.ok_or(Failure::OfferNotFree { memory: options.memory, available })?;
    loop {
        let group = Group::make(options.memory).map_err(|why| Failure::NoControlGroup { why })?;
        let loan = Loan::begin(Offer {
            server: &server.path,
            place: Place::at(options.join),
            purpose: Purpose::Lend,
            secret: &secret,
            memory,
            is_reserve: false,
            provided: None,
            group: Some(group),
        })?;
        let node = &loan.id().to_string()[..12];
        let (address, join) = (loan.address(), options.join);
        say::note(format!("node {node} at {address} offers {memory} to {join}; Ctrl-C ends that"));
        lender.lent(memory);
        let mut keeping = Keeping::new(loan, options, reserve);
        let ended = keeping.keep(&mut lender, &mut machine, &signals);
        match ended {
            // The tenant waits for the memory: the node is not asked to end, it is ended.
            Why::Asked | Why::Needed { .. } => keeping.loan.end_empty(),
            _ => keeping.loan.end(),
        }
        match ended {
            Why::Asked => {
                say::note("the memory is given back");
                return Ok(());
            }
            Why::Early => return Err(Failure::EndedEarly.into()),
            Why::Borrower(ended) => return told(ended, options),
            Why::Needed { empty } => say::note(match empty {
                true => {
                    "the memory is given back; it is lent again when it has been free for a while"
                }
                false => "the node was ended before it was empty, and what it held is lost",
            }),
        }
        if keeping.is_asked {
            return Ok(());
        }
        lender.gone(SystemClock.steady());
        match wait_for_idle_memory(&mut lender, &mut machine, &signals) {
            Some(budget) => memory = budget,
            None => return Ok(()),
        }
    }
}

/// Until memory may be lent again; `None`: a signal came.
fn wait_for_idle_memory(
    lender: &mut Lender,
    machine: &mut Machine,
    signals: &Signals,
) -> Option<ByteSize> {
    loop {
        if signals.wait(None, BEAT).is_some_and(|signal| signal.asks_to_stop()) {
            return None;
        }
        if let Lending::Offer(budget) =
            lender.look(SystemClock.steady(), machine.pressure(ByteSize(0)))
        {
            return Some(budget);
        }
    }
}

fn check(offered: ByteSize, machine: Memory) -> Result<(), Failure> {
    let (usable, total) = (machine.usable(), machine.total);
    if offered > usable {
        return Err(Failure::OfferTooLarge { offered, usable, total });
    }
    Ok(())
}

/// Of lenders, or of hosts.
pub fn read_secret(path: &Path) -> Result<[u8; 32], Failure> {
    let unusable = |cause: String| Failure::LendSecretUnusable { path: path.to_owned(), cause };
    let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    secret_of(&text).map_err(|error| unusable(error.to_string()))
}

/// Why a loan is over.
enum Why {
    /// A signal came, and the node is empty.
    Asked,
    /// A second signal came before it was.
    Early,
    /// The machine needs its memory.
    Needed {
        empty: bool,
    },
    Borrower(Ended),
}

/// The node is to be emptied.
struct Leaving {
    since: Instant,
    /// Since when the tenant has had less than the reserve; now, where it has that.
    lacks: Instant,
    /// Not by a signal.
    needed: bool,
    is_late: bool,
}

/// A loan while it lasts.
struct Keeping {
    loan: Loan,
    deadline: Duration,
    /// Kept free for the tenant.
    reserve: ByteSize,
    leaving: Option<Leaving>,
    /// A signal came.
    is_asked: bool,
    /// As the node said last.
    held: ByteSize,
    /// Since when the node may hold less than it does, and how much.
    shrinking: Option<(Instant, ByteSize)>,
    state: Option<State>,
}

impl Keeping {
    fn new(loan: Loan, options: &Lend, reserve: ByteSize) -> Keeping {
        let deadline = options.deadline;
        let (leaving, shrinking, state, held) = (None, None, None, ByteSize(0));
        Keeping { loan, deadline, reserve, leaving, is_asked: false, held, shrinking, state }
    }

    fn keep(&mut self, lender: &mut Lender, machine: &mut Machine, signals: &Signals) -> Why {
        let (mut beat, mut wait) = (Instant::now(), QUICK_BEAT);
        loop {
            if signals.wait(None, wait).is_some_and(|signal| signal.asks_to_stop()) {
                if std::mem::replace(&mut self.is_asked, true) {
                    return Why::Early;
                }
                say::note(
                    "giving the memory back; once more ends the node at once, with what it holds",
                );
                if self.leaving.is_none() {
                    self.leave(false);
                }
            }
            let pressure = machine.pressure(self.loan.resident());
            if self.leaving.is_none() {
                self.obey(lender.look(SystemClock.steady(), pressure));
            }
            wait = if self.leaving.is_some() { QUICK_BEAT } else { lender.pause(&pressure) };
            // Before anything that somebody else may delay.
            if let Some(why) = self.look_at_the_clock(pressure.available) {
                return why;
            }
            if self.leaving.is_some() || beat.elapsed() >= BEAT {
                beat = Instant::now();
                if let Some(why) = self.beat() {
                    return why;
                }
            }
        }
    }

    fn leave(&mut self, needed: bool) {
        let since = Instant::now();
        self.leaving = Some(Leaving { since, lacks: since, needed, is_late: false });
        if needed {
            self.loan.hurry_most();
            self.loan.errands().hand_over();
        }
    }

    fn obey(&mut self, asked: Lending) {
        match asked {
            Lending::Keep | Lending::Offer(_) => {}
            Lending::Budget(budget) => {
                say::note(format!("the node may hold {budget} from now on"));
                self.loan.errands().set_budget(budget);
                self.shrinking = Some((Instant::now(), budget));
            }
            Lending::Leave(need) => {
                let why = match need {
                    Need::TooLittle => "too little is free for it".to_owned(),
                    Need::Sudden { within } => {
                        format!("memory would be used up in {:.1} s", within.as_secs_f64())
                    }
                    Need::LimitMet => "a limit of memory was met".to_owned(),
                };
                say::note(format!("this machine needs its memory: {why}; giving it back"));
                self.leave(true);
            }
        }
    }

    /// Says that the lender is there, and sees what has come of what was wanted.
    fn beat(&mut self) -> Option<Why> {
        let state = match self.loan.beat(self.leaving.is_some()) {
            Ok(state) => state,
            Err(Ended::Free(None)) => match self.leaving {
                Some(Leaving { needed: true, .. }) if !self.is_asked => {
                    return Some(Why::Needed { empty: true });
                }
                _ => return Some(Why::Asked),
            },
            Err(ended) => return Some(Why::Borrower(ended)),
        };
        if self.state != Some(state) && state == State::InUse {
            say::note("the node is in use");
        }
        self.state = Some(state);
        let matters = self.leaving.is_some() || self.shrinking.is_some();
        if let Some(usage) = matters.then(|| self.loan.errands().usage()).flatten() {
            self.held = usage.used;
            self.look_at_the_budget(usage);
        }
        None
    }

    /// What has become free goes back to the machine.
    fn look_at_the_budget(&mut self, usage: LentUsage) {
        let Some((_, budget)) = self.shrinking else { return };
        if usage.budget != budget {
            // It has not heard it yet.
            self.loan.errands().set_budget(budget);
        } else if usage.used <= budget {
            self.loan.errands().purge();
            self.shrinking = None;
        }
    }

    /// A node that is not relieved in time leaves, and one that is not empty in time is ended.
    fn look_at_the_clock(&mut self, available: ByteSize) -> Option<Why> {
        let is_late = |(since, budget): (Instant, ByteSize)| {
            since.elapsed() > self.deadline && self.loan.resident() > budget
        };
        if self.leaving.is_none() && self.shrinking.is_some_and(is_late) {
            self.shrinking = None;
            say::note("the node still holds more than it may; giving all of it back");
            self.leave(true);
        }
        let leaving = self.leaving.as_mut()?;
        // While the tenant has what was promised to it, nothing is lost for it.
        if available >= self.reserve {
            leaving.lacks = Instant::now();
        } else if leaving.lacks.elapsed() > self.deadline {
            return Some(Why::Needed { empty: false });
        }
        if leaving.since.elapsed() <= self.deadline {
            return None;
        }
        if !std::mem::replace(&mut leaving.is_late, true) {
            let held = self.held;
            let why = self.loan.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            say::note(format!(
                "the node holds about {held} still, and goes on giving it back{why}"
            ));
        }
        None
    }
}

/// What the borrower made of it.
fn told(ended: Ended, options: &Lend) -> anyhow::Result<()> {
    let address = options.join;
    match ended {
        Ended::Free(None) => Ok(()),
        Ended::Free(Some(why)) => Err(Failure::NotWanted { address, why }.into()),
        Ended::Closed => {
            say::note("the file system has ended, and the node with it");
            Ok(())
        }
        Ended::Broken => Err(Failure::ConnectionBroke { address }.into()),
        Ended::OutOfTouch => Err(Failure::OutOfTouch { address }.into()),
        Ended::NodeDied => Err(Failure::NodeDied.into()),
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
    }
}
