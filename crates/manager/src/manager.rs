//! The manager: what it is made of, how it starts and how it ends.
//!
//! One thread runs the loop and owns the controller, one observes the nodes, and each action has a
//! thread while it is under way; there are never more actions than nodes that start or leave at a
//! time. When the loop is stopped it waits for these threads. What is under way then stays in the
//! journal, and the next manager goes on with it.

mod turn;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select};
use tidefs_control::forecast::Forecaster;
use tidefs_control::{Controller, Observation, Settings, SettingsError};
use tidefs_model::{Clock, NodeClass};
use tidefs_store::Store;

use self::turn::{TICK, Turn};
use crate::claim::Claim;
use crate::finished::Finished;
use crate::handle::{Handle, Shared, lock};
use crate::hands::{Hands, Provisioner, Wanted};
use crate::journal::{Journal, JournalError, Opened};
use crate::message::Message;
use crate::perform::{Performer, put_right, tell_the_dead};
use crate::status::{Beside, RecoveryStatus, status};

/// Messages that wait for the loop; it never waits for anything itself.
const MESSAGES_MOST: usize = 256;

/// A fall of bandwidth must be seen several times before it counts.
const MEASURED_IN_A_WINDOW: u32 = 10;
/// Not more often than this, and not less often.
const MEASURED_MOST: Duration = Duration::from_secs(1);
const MEASURED_LEAST: Duration = Duration::from_secs(60);

/// What the manager acts with.
#[derive(Debug)]
pub struct Parts<H, P, S, C> {
    pub hands: H,
    pub provisioner: P,
    /// Holds the journal.
    pub store: S,
    pub clock: C,
}

/// A manager that does not run yet.
#[derive(Debug)]
pub struct Manager<H, P, S, C> {
    pub(crate) parts: Parts<H, P, S, C>,
    pub(crate) settings: Settings,
    interval: Duration,
    pub(crate) shared: Arc<Shared>,
    pub(crate) receiver: Receiver<Message>,
    pub(crate) sender: Sender<Message>,
    pub(crate) forecaster: Option<Forecaster>,
    claim: Claim,
}

/// Why a manager ended without having been asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagerError {
    #[error("another manager has taken over")]
    Superseded,
    #[error("another owner has the nodes (its claim is {0})")]
    Outlived(Claim),
    #[error(
        "the journal cannot be read: {0}; no node comes or goes any more, and files can still be \
         used: copy what is needed to another place, then `tidefs down`"
    )]
    Journal(#[source] JournalError),
}

impl<H, P, S, C> Manager<H, P, S, C>
where
    H: Hands,
    P: Provisioner<Address = H::Address>,
    S: Store,
    C: Clock,
{
    /// `interval` is how often the nodes are observed; a second is usual.
    ///
    /// # Errors
    /// When the settings contradict each other.
    pub fn new(
        parts: Parts<H, P, S, C>,
        settings: Settings,
        interval: Duration,
    ) -> Result<(Self, Handle), SettingsError> {
        let settings = Settings { observed_every: interval, ..settings };
        let controller = Controller::new(settings)?;
        let now = parts.clock.now();
        let shared = Arc::new(Shared {
            status: Mutex::new(status(&controller, now, &Beside::default())),
            finished: Mutex::new(Finished::default()),
            requests: AtomicU64::new(1),
        });
        let (sender, receiver) = bounded(MESSAGES_MOST);
        let handle = Handle { shared: Arc::clone(&shared), sender: sender.clone() };
        let manager = Manager {
            parts,
            settings,
            interval,
            shared,
            receiver,
            sender,
            forecaster: None,
            claim: Claim::default(),
        };
        Ok((manager, handle))
    }

    /// The forecast is asked before the thresholds are.
    pub fn with_forecast(self, forecaster: Forecaster) -> Self {
        Manager { forecaster: Some(forecaster), ..self }
    }

    /// For an owner of the nodes that others may have claimed before.
    pub fn of_owner(self, claim: Claim) -> Self {
        Manager { claim, ..self }
    }

    /// Runs until `stop` is set, and then until nothing is in hand.
    pub fn run(self, stop: &AtomicBool) -> Result<(), ManagerError> {
        let Some(Opened { journal, record, last }) = self.open(stop)? else { return Ok(()) };
        last.into_iter().for_each(|last| lock(&self.shared.finished).push(last));
        let (superseded, copied) = (AtomicBool::new(false), AtomicU64::new(0));
        let bandwidths = match self.settings.watch {
            Some(_) => self.parts.hands.measure(),
            None => Vec::new(),
        };
        // The actions stop when the loop does, also when it stops by itself.
        let (ending, broken_off) = (AtomicBool::new(false), AtomicBool::new(false));
        let performer = Performer {
            hands: &self.parts.hands,
            provisioner: &self.parts.provisioner,
            journal: &journal,
            wanted: Wanted { class: NodeClass::Own, memory: self.settings.node_capacity() },
            stop: &ending,
            broken_off: &broken_off,
            copied: &copied,
            superseded: &superseded,
        };
        thread::scope(|scope| {
            let (quit, quitting) = bounded::<()>(0);
            let (look, looks) = bounded(1);
            let observer = &self;
            let until = quitting.clone();
            scope.spawn(move || observer.watch(&until, &looks));
            let until = quitting.clone();
            scope.spawn(move || observer.watch_bandwidths(&until));
            let looks_after = &performer;
            scope.spawn(move || observer.watch_journal(looks_after, &quitting));
            let turn = Turn::new(&self, &performer, look);
            let result = turn.go(scope, record, bandwidths, stop);
            drop(quit);
            result
        })
    }

    /// Tries until the journal is open; `None` when it is stopped before.
    fn open(&self, stop: &AtomicBool) -> Result<Option<Opened<'_, S>>, ManagerError> {
        let mut failures = 0;
        while !stop.load(Ordering::Acquire) {
            match Journal::open(&self.parts.store, self.parts.clock.now(), &self.claim) {
                Ok(opened) => return Ok(Some(opened)),
                Err(JournalError::Outlived { by }) => return Err(ManagerError::Outlived(by)),
                Err(
                    error @ (JournalError::Record(_)
                    | JournalError::Last(_)
                    | JournalError::Owner(_)
                    | JournalError::Term { .. }),
                ) => {
                    return Err(ManagerError::Journal(error));
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, failures, "the journal cannot be opened yet");
                    // It may lie on a node that has ended.
                    if let Err(failure) = put_right(&self.parts.hands, &self.parts.provisioner) {
                        tracing::warn!(%failure, "what is wrong cannot be put right yet");
                    }
                    let wait = self.settings.back_off.wait(failures).min(10 * TICK);
                    lock(&self.shared.status).recovery = Some(RecoveryStatus {
                        failures,
                        last_failure: format!("the journal cannot be opened: {error}"),
                        retry_in: Some(wait),
                    });
                    thread::sleep(wait);
                }
            }
        }
        Ok(None)
    }

    /// Looks whether another manager has the journal, until the loop ends: one that has nothing to do writes nothing.
    fn watch_journal(&self, performer: &Performer<'_, H, P, S>, quitting: &Receiver<()>) {
        while let Err(RecvTimeoutError::Timeout) = quitting.recv_timeout(self.interval) {
            performer.look_at_journal();
        }
    }

    /// Measures bandwidths several times within the window of the watch, until the loop ends.
    fn watch_bandwidths(&self, quitting: &Receiver<()>) {
        let Some(watch) = self.settings.watch else { return };
        let every = (watch.window / MEASURED_IN_A_WINDOW).clamp(MEASURED_MOST, MEASURED_LEAST);
        while let Err(RecvTimeoutError::Timeout) = quitting.recv_timeout(every) {
            let rates = Message::Measured(self.parts.hands.measure());
            if self.sender.send_timeout(rates, self.interval).is_err() {
                tracing::debug!("measured bandwidths were not heard");
            }
        }
    }

    /// Observes the nodes until the loop ends, at once where it asks for a look.
    fn watch(&self, quitting: &Receiver<()>, looks: &Receiver<()>) {
        loop {
            let begun = self.parts.clock.now();
            let observed = self.parts.hands.observe().and_then(|mut nodes| {
                tell_the_dead(&mut nodes, &self.parts.provisioner)?;
                let guests = self.parts.provisioner.guests()?;
                let observation = Observation::new(nodes).with_guests(guests);
                let is_asked = self.settings.policy.scale_out.is_some_and(|out| out.ahead);
                let takes = if is_asked { self.parts.provisioner.start_takes()? } else { None };
                Ok(observation.with_start_takes(takes))
            });
            if self.sender.send_timeout(Message::Observed(begun, observed), self.interval).is_err()
            {
                tracing::debug!("an observation was not heard");
            }
            select! {
                recv(quitting) -> _ => return,
                // The loop has ended where nobody asks any more.
                recv(looks) -> look => if look.is_err() { return },
                default(self.interval) => {}
            }
        }
    }
}
