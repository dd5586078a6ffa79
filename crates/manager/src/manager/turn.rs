//! The manager's loop: it hears what happened, has the controller decide, and has it done.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::Sender;
use tidefs_control::{
    Action, Answer, Command, Controller, Event, Failure, Growth, Phase, Record, RequestId, Summary,
    Task, Verdict,
};
use tidefs_model::{Clock, NodeId, Time};
use tidefs_store::Store;

use super::{Manager, ManagerError};
use crate::handle::lock;
use crate::hands::{Hands, Provisioner};
use crate::message::Message;
use crate::perform::Performer;
use crate::status::{Beside, Traffic, status};

/// Back-off and requests to stop are noticed this often.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// Writers that wait for an answer; those beyond it hear nothing and ask again.
const ALARMS_MOST: usize = 256;

/// The loop while it runs.
pub(crate) struct Turn<'m, H, P, S, C> {
    manager: &'m Manager<H, P, S, C>,
    performer: &'m Performer<'m, H, P, S>,
    controller: Controller,
    /// Never goes back, also when the machine's clock does.
    now: Time,
    /// Actions under way.
    running: usize,
    replies: BTreeMap<RequestId, Sender<Answer>>,
    /// Writers that wait to hear whether there will be room; those who do not wait any more have gone.
    alarms: Vec<Sender<Growth>>,
    moving_since: Option<Time>,
    traffic: Traffic,
    /// The kind of decision that was logged last.
    said: Option<String>,
    /// Has the nodes observed at once.
    look: Sender<()>,
}

impl<'m, H, P, S, C> Turn<'m, H, P, S, C>
where
    H: Hands,
    P: Provisioner<Address = H::Address>,
    S: Store,
    C: Clock,
{
    pub fn new(
        manager: &'m Manager<H, P, S, C>,
        performer: &'m Performer<'m, H, P, S>,
        look: Sender<()>,
    ) -> Turn<'m, H, P, S, C> {
        let controller = Controller::new(manager.settings).expect("settings that were checked");
        Turn {
            manager,
            performer,
            controller: match &manager.forecaster {
                Some(forecaster) => controller.with_forecast(forecaster.clone()),
                None => controller,
            },
            now: Time(0),
            running: 0,
            replies: BTreeMap::new(),
            alarms: Vec::new(),
            moving_since: None,
            traffic: Traffic::default(),
            said: None,
            look,
        }
    }

    pub fn go<'s>(
        mut self,
        scope: &'s Scope<'s, 'm>,
        record: Option<Record>,
        bandwidths: Vec<(NodeId, u64)>,
        stop: &AtomicBool,
    ) -> Result<(), ManagerError>
    where
        'm: 's,
    {
        // What a predecessor left half done is planned anew, with shares as before.
        self.tell(scope, Event::Measured(bandwidths));
        self.tell(scope, Event::Opened(record));
        loop {
            let superseded = self.performer.superseded.load(Ordering::Acquire);
            if stop.load(Ordering::Acquire) || superseded {
                self.performer.stop.store(true, Ordering::Release);
                self.performer.broken_off.store(true, Ordering::Release);
                self.end();
                return if superseded { Err(ManagerError::Superseded) } else { Ok(()) };
            }
            let event = match self.manager.receiver.recv_timeout(self.wait()) {
                Ok(message) => self.hear(message),
                Err(_) => Event::Tick,
            };
            self.tell(scope, event);
            self.answer_alarms();
        }
    }

    /// Those who met a full node are told when it was decided on that.
    fn answer_alarms(&mut self) {
        let Some(growth) = self.controller.growth() else {
            self.alarms.truncate(ALARMS_MOST);
            return;
        };
        for reply in self.alarms.drain(..) {
            // Whoever asked may have gone.
            let _ = reply.try_send(growth.clone());
        }
    }

    fn wait(&mut self) -> Duration {
        let now = self.time();
        self.controller.wake_at().map_or(TICK, |at| (at - now).min(TICK))
    }

    fn time(&mut self) -> Time {
        self.now = self.now.max(self.manager.parts.clock.now());
        self.now
    }

    fn hear(&mut self, message: Message) -> Event {
        match message {
            Message::Observed(begun, Ok(observed)) => {
                self.traffic.observe(begun, &observed);
                Event::Observed(begun, observed)
            }
            Message::Observed(_, Err(failure)) => {
                tracing::warn!(%failure, "the nodes cannot be observed");
                Event::NotObserved(failure)
            }
            Message::Measured(rates) => Event::Measured(rates),
            Message::Foreseen { rest, anew } => {
                self.controller.foresee(*rest, anew);
                Event::Tick
            }
            Message::Full { node, reply } => {
                self.alarms.push(reply);
                Event::NodeFull(node)
            }
            Message::Request { id, request, reply } => {
                self.replies.insert(id, reply);
                Event::Request(id, request)
            }
            Message::Ended(task, result) => {
                self.running -= 1;
                if let Err(failure) = &result {
                    tracing::warn!(%failure, "an action failed");
                }
                Event::Ended(task, result)
            }
        }
    }

    fn tell<'s>(&mut self, scope: &'s Scope<'s, 'm>, event: Event)
    where
        'm: 's,
    {
        let now = self.time();
        let mut commands = self.controller.apply(now, event);
        // Whoever is answered looks next, and must see what the answer says.
        commands.sort_by_key(|command| matches!(command, Command::Answer(..)));
        self.publish(now);
        if self.controller.waits_for_a_look() {
            // One that is asked for already will do.
            let _ = self.look.try_send(());
        }
        for command in commands {
            match command {
                Command::Do(task) => self.spawn(scope, task),
                Command::BreakOff => self.performer.broken_off.store(true, Ordering::Release),
                Command::Answer(id, answer) => {
                    if let Some(reply) = self.replies.remove(&id) {
                        // Whoever asked may have gone.
                        let _ = reply.try_send(answer);
                    }
                }
                Command::Finished(summary) => {
                    log(&summary);
                    lock(&self.manager.shared.finished).push((&summary).into());
                }
            }
        }
    }

    fn spawn<'s>(&mut self, scope: &'s Scope<'s, 'm>, task: Task)
    where
        'm: 's,
    {
        self.running += 1;
        if matches!(task.action, Action::Move(_)) {
            self.performer.broken_off.store(false, Ordering::Release);
        }
        let (performer, sender) = (self.performer, self.manager.sender.clone());
        scope.spawn(move || {
            // An action that panics has failed: the loop would wait for its end for ever.
            let act = AssertUnwindSafe(|| performer.perform(task.action));
            let result = catch_unwind(act)
                .unwrap_or_else(|_| Err(Failure::new("the action panicked; see the log")));
            // The loop hears everything until no action is under way.
            let _ = sender.send(Message::Ended(task.id, result));
        });
    }

    fn publish(&mut self, now: Time) {
        let phase = self.controller.reconfiguration().map(|under_way| under_way.phase());
        match phase {
            Some(Phase::Moving) => _ = self.moving_since.get_or_insert(now),
            Some(_) => {}
            None => self.moving_since = None,
        }
        self.say();
        let beside = Beside {
            copied: self.performer.copied.load(Ordering::Relaxed),
            moving_since: self.moving_since,
            bytes_per_second_most: self.manager.parts.hands.bytes_per_second(),
            traffic: Some(&self.traffic),
        };
        let status = status(&self.controller, now, &beside);
        *lock(&self.manager.shared.status) = status;
    }

    /// Logs a decision when it is another than before; its numbers change all the time.
    fn say(&mut self) {
        let Some(decision) = self.controller.last_decision() else { return };
        let kind = match &decision.verdict {
            Verdict::Hold(hold) => format!("{:?}", std::mem::discriminant(hold)),
            Verdict::Grow { .. }
            | Verdict::Shrink { .. }
            | Verdict::TakeIn
            | Verdict::Replace { .. }
            | Verdict::Rebalance { .. }
            | Verdict::Expunge { .. } => {
                format!("{:?}", decision.at)
            }
        };
        if self.said.as_ref() != Some(&kind) {
            tracing::info!(%decision, "decided");
            self.said = Some(kind);
        }
    }

    /// Waits for the actions under way; what they did is not acted upon any more.
    fn end(&mut self) {
        while self.running > 0 {
            if let Ok(Message::Ended(..)) = self.manager.receiver.recv_timeout(TICK) {
                self.running -= 1;
            }
        }
    }
}

/// Says where the time went as well.
fn log(summary: &Summary) {
    let phases = summary.phase_seconds().map(|(phase, seconds)| format!("{phase} {seconds:.3} s"));
    let phases = phases.collect::<Vec<_>>().join(", ");
    tracing::info!(
        kind = %summary.kind, outcome = ?summary.outcome, nodes = summary.nodes_after,
        partitions_moved = summary.partitions_moved, bytes_moved = summary.bytes_moved,
        bytes_minimum = summary.bytes_minimum, imbalance_percent = summary.imbalance_percent,
        seconds = summary.took.as_secs_f64(), phases,
        "a reconfiguration is over"
    );
}
