//! The manager as a process of its own, which the owner of the nodes starts again when it ends.
//!
//! So a manager that is killed takes nothing with it: nodes and mounts are this process's. The
//! kernel ends the manager when this process ends, however that comes.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::Signal;
use tidefs_manager::{Claim, ReportedReconfiguration};
use tidefs_model::NodeId;
use tidefs_store::Room;
use tidefs_valkey::Valkey;

use super::LocalNodes;
use super::lent;
use super::link::{FromManager, FromOwner, ManagerView, Order, ToManager, ToOwner};
use super::remembered::Remembered;
use super::room::{self, Hope};
use crate::change_view::ChangeView;
use crate::control::CHANGE_WAIT;
use crate::failure::Failure;
use crate::file_system::Size;
use crate::lending::Presence;
use crate::live_workflow::{Told, Version};
use crate::process::ProcessId;
use crate::provision::Provider;
use crate::state::Paths;
use crate::steady_clock::SteadyClock;
use crate::{lines, logging, own_log};

/// A manager that lived this long is started again at once.
const LIVED: Duration = Duration::from_secs(1);
/// Before one is started that ended sooner; doubles from one to the next.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Between two looks whether whoever claims the nodes is there.
const RIVAL_LOOK: Duration = Duration::from_secs(1);
/// Between two looks whether more than half of those that vote hear this process.
const VOTERS_LOOK: Duration = Duration::from_millis(250);
/// The manager's loop never waits, so an answer takes milliseconds.
const HOPE_WAIT: Duration = Duration::from_secs(4);
const LOOK_WAIT: Duration = Duration::from_secs(2);
/// Between two tries to reach a manager that is being started again.
const RETRY: Duration = Duration::from_millis(50);
/// A manager that cannot be reached for so long will not come back soon.
const RETURNS_WITHIN: Duration = Duration::from_secs(60);
/// Managers that ended one after the other while one thing was wanted of them: the next will, too.
const ENDED_MOST: u32 = 32;
/// Writers that have not asked for so long do not wait any more.
const ALARMED_FOR: Duration = Duration::from_secs(20);

/// Answers whether the owner that claims so is there.
pub type Rival = dyn Fn(&Claim) -> Presence + Send + Sync;

/// Answers with the claim of somebody who has the nodes, as those know that vote.
pub type Others = dyn Fn() -> Option<Claim> + Send + Sync;

pub struct Managed {
    supervision: Arc<Supervision>,
    thread: JoinHandle<()>,
}

/// What the supervising thread shares.
pub struct Supervision {
    paths: Paths,
    order: Order,
    nodes: LocalNodes,
    /// What is seen of whoever claims the nodes.
    rival: Box<Rival>,
    others: Box<Others>,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    process: Option<ProcessId>,
    stopping: bool,
    /// Counts the managers that were started.
    life: u64,
    seen: ManagerView,
    /// How many reconfigurations that life has told of.
    known: usize,
    finished: Remembered,
    alarm: Option<Alarm>,
    /// A manager met this claim, and ended.
    met: Option<Claim>,
    /// Who claims the nodes does not answer, and may have them.
    awaits: Option<Claim>,
    /// Somebody else has the nodes: no manager is started any more.
    outlived: Option<Claim>,
    /// More than half of those that vote do not hear this process: nothing is decided, and its own nodes stand still.
    stands_still: bool,
    /// They did at some time; whoever takes over waits until they do.
    was_heard: bool,
}

/// Writers that wait for room, as seen by whoever has the manager.
struct Alarm {
    told: Instant,
    /// The manager that there was, and how many reconfigurations had ended, when it began.
    life: u64,
    finished: u64,
}

impl State {
    /// How many managers have ended since writers began to wait without having added a node, if it is
    /// so many that no other one will.
    fn ended_in_vain(&mut self, now: Instant) -> Option<u64> {
        let (life, finished) = (self.life, self.finished.count());
        let goes_on = |it: &Alarm| now - it.told < ALARMED_FOR && it.finished == finished;
        let before = self.alarm.take().filter(goes_on);
        let alarm = before.unwrap_or(Alarm { told: now, life, finished });
        let ended = life - alarm.life;
        self.alarm = Some(Alarm { told: now, ..alarm });
        (ended > ENDED_MOST.into()).then_some(ended)
    }
}

impl Managed {
    /// `start`: what the start of the first nodes took; `rival`: asked where another owner claims the nodes.
    pub fn start(
        nodes: &LocalNodes,
        paths: &Paths,
        size: &Size,
        start: Duration,
        rival: Box<Rival>,
        others: Box<Others>,
    ) -> anyhow::Result<Managed> {
        let listener = std::os::unix::net::UnixListener::bind(paths.provisioner());
        let listener = listener.context("cannot listen to the manager")?;
        let order = Order {
            directory: paths.directory.clone(),
            secret: nodes.secrets().admin.reveal().to_owned(),
            size: size.clone(),
            clock: SteadyClock::start(),
            age: nodes.age(),
            claim: nodes.claimed(),
            start,
        };
        let supervision = Arc::new(Supervision {
            paths: paths.clone(),
            order,
            nodes: nodes.clone(),
            rival,
            others,
            state: Mutex::default(),
            ended: Condvar::new(),
        });
        let hears = Arc::clone(&supervision);
        let busy = || FromOwner::Failed("too many requests are being served".to_owned());
        lines::serve(listener, busy, move |request: ToOwner| {
            let until = || hears.nodes.hosts().may_decide_until();
            lent::answer(&hears.nodes, |by| hears.state().met = Some(by), until, request)
        });
        let supervised = Arc::clone(&supervision);
        let watched = Arc::downgrade(&supervision);
        let thread = std::thread::Builder::new().name("voters".to_owned());
        let watch = move || {
            while watched.upgrade().is_some_and(|it| it.watch_voters()) {
                std::thread::sleep(VOTERS_LOOK);
            }
        };
        thread.spawn(watch).context("no thread")?;
        // The kernel ends the manager with the thread that started it, so one thread starts them all.
        let thread = std::thread::Builder::new().name("manager's supervisor".to_owned());
        let thread = thread.spawn(move || supervised.run()).context("no thread")?;
        Ok(Managed { supervision, thread })
    }

    pub fn supervision(&self) -> &Arc<Supervision> {
        &self.supervision
    }

    /// What writers of this process wait at.
    pub fn room(&self, store: &Arc<Valkey>) -> Arc<dyn Room> {
        room::managed(Arc::clone(&self.supervision), Arc::clone(store))
    }

    /// Ends the manager. What it had under way stays as it is, and the nodes are about to end too.
    pub fn stop(self) {
        let mut state = self.supervision.state();
        state.stopping = true;
        if let Some(process) = state.process {
            process.send(Signal::KILL);
        }
        let stands_still = state.stands_still;
        drop(state);
        if stands_still {
            self.supervision.nodes.send(Signal::KILL);
        }
        self.supervision.ended.notify_all();
        let _ = self.thread.join();
    }
}

impl Supervision {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut pause = PAUSE;
        loop {
            let begun = Instant::now();
            let started = if self.may_spawn() { self.spawn() } else { Ok(None) };
            let ended = match started {
                Ok(None) => String::new(),
                Ok(Some(mut child)) => match child.wait() {
                    Ok(status) => status.to_string(),
                    Err(error) => error.to_string(),
                },
                Err(error) => format!("it cannot be started: {error:#}"),
            };
            let mut state = self.state();
            state.process = None;
            if state.stopping {
                return;
            }
            if let Some(by) = state.met.clone() {
                drop(state);
                if self.gives_way(by) {
                    return;
                }
                self.state().met = None;
                continue;
            }
            if state.stands_still {
                continue;
            }
            let lived = begun.elapsed() >= LIVED;
            pause = if lived { PAUSE } else { pause };
            tracing::warn!("the manager has ended ({ended}); it is started again");
            if !lived && state.life > 1 {
                let stopping = |state: &mut State| !state.stopping;
                let waited = self.ended.wait_timeout_while(state, pause, stopping);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// Waits until more than half of those that vote hear this process. `false`: no manager is wanted, or somebody else
    /// has the nodes.
    fn may_spawn(&self) -> bool {
        let mut state = self.state();
        while !state.stopping && state.met.is_none() {
            if self.nodes.hosts().may_decide() {
                return true;
            }
            let waited = self.ended.wait_timeout(state, VOTERS_LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Where too few hear this process, another may have the nodes: its own stand still, as those of a host that is alone
    /// end, and it asks who has them. `false`: nobody looks any more.
    fn watch_voters(&self) -> bool {
        let may_decide = self.nodes.hosts().may_decide();
        let (has_changed, is_known) = {
            let mut state = self.state();
            // Hosts that were told of the end go.
            let ends = state.stopping || self.nodes.hosts().is_over();
            if ends || state.outlived.is_some() {
                return false;
            }
            let before = std::mem::replace(&mut state.stands_still, !may_decide);
            state.was_heard |= may_decide;
            if let Some(process) = state.process.filter(|_| !may_decide) {
                process.send(Signal::KILL);
            }
            (before == may_decide && state.was_heard, state.met.is_some())
        };
        if has_changed {
            self.nodes.send(if may_decide { Signal::CONT } else { Signal::STOP });
            match may_decide {
                true => {
                    tracing::warn!("more than half of the hosts are heard again: this one goes on")
                }
                false => tracing::warn!(
                    "more than half of the hosts have not been heard: nothing is decided here, and nodes of this host stand \
                     still, as others may have the file system"
                ),
            }
        }
        if !may_decide
            && !is_known
            && let Some(by) = (self.others)()
        {
            self.state().met = Some(by);
            self.ended.notify_all();
        }
        true
    }

    /// More than half of those that vote do not hear this process.
    pub fn stands_still(&self) -> bool {
        self.state().stands_still
    }

    /// Another owner claims the nodes. `false`: it has ended, and this one claims more from now on.
    fn gives_way(&self, by: Claim) -> bool {
        loop {
            let presence = (self.rival)(&by);
            let mut state = self.state();
            state.awaits = None;
            match presence {
                _ if state.stopping => return true,
                Presence::There => {
                    state.outlived = Some(by);
                    return true;
                }
                Presence::Ended => {
                    self.nodes.claims_more_than(&by);
                    return false;
                }
                Presence::Silent => state.awaits = Some(by.clone()),
            }
            let stopping = |state: &mut State| !state.stopping;
            let waited = self.ended.wait_timeout_while(state, RIVAL_LOOK, stopping);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Who else has the nodes, for good: nothing is decided here any more.
    pub fn outlived(&self) -> Option<Claim> {
        self.state().outlived.clone()
    }

    /// Somebody else claims the nodes and is not known to have ended, or may have been elected: hosts may be his.
    pub fn is_rivalled(&self) -> bool {
        let state = self.state();
        let is_met = state.met.is_some() || state.awaits.is_some() || state.outlived.is_some();
        let hosts = self.nodes.hosts();
        is_met || state.stands_still || !hosts.is_over() && !hosts.may_decide()
    }

    /// Who claims the nodes and does not answer: nothing is decided before he does or has ended.
    pub fn awaits(&self) -> Option<Claim> {
        self.state().awaits.clone()
    }

    /// `None` when none is wanted any more.
    fn spawn(&self) -> anyhow::Result<Option<Child>> {
        let mut state = self.state();
        if state.stopping {
            return Ok(None);
        }
        (state.life, state.known) = (state.life + 1, 0);
        let mut command = Command::new("/proc/self/exe");
        command.arg0("tidefs").arg("manager").args((0..logging::verbosity()).map(|_| "-v"));
        command.args(logging::is_kept().then_some("--kept")).stderr(own_log::of_child());
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null());
        let parent = rustix::process::getpid();
        // SAFETY: the closure makes plain system calls only, which is allowed after a fork.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                if rustix::process::getppid() != Some(parent) {
                    return Err(std::io::ErrorKind::BrokenPipe.into());
                }
                Ok(())
            });
        }
        let mut child = command.spawn()?;
        child.stderr.take().into_iter().for_each(own_log::carry);
        state.process = ProcessId::of(child.id() as i32);
        let mut input = child.stdin.take().context("no standard input")?;
        // One that has died already is noticed by the wait for its end.
        let order = Order { claim: self.nodes.claimed(), ..self.order.clone() };
        let _ = input.write_all(&serde_json::to_vec(&order)?);
        Ok(Some(child))
    }

    /// Of the manager that runs.
    pub fn process(&self) -> Option<ProcessId> {
        self.state().process
    }

    fn ask(&self, request: &ToManager, wait: Duration) -> std::io::Result<FromManager> {
        lines::ask(&self.paths.manager(), request, wait)
    }

    /// How it stands; as it stood last while a manager is being started again.
    pub fn look(&self) -> ManagerView {
        let (life, known) = {
            let state = self.state();
            (state.life, state.known)
        };
        let answer = self.ask(&ToManager::Look { known }, LOOK_WAIT);
        let mut state = self.state();
        match answer {
            Ok(FromManager::Seen(mut seen)) if (life, known) == (state.life, state.known) => {
                state.known += seen.finished.len();
                for one in std::mem::take(&mut seen.finished) {
                    state.finished.hear(one);
                }
                state.seen = *seen;
            }
            Ok(_) => {}
            Err(error) => tracing::debug!("the manager does not answer: {error}"),
        }
        state.seen.clone()
    }

    /// What the manager was seen to have heard of a workflow.
    pub fn follows(&self) -> Option<Version> {
        self.state().seen.follows
    }

    /// Has the manager follow what of a workflow is still to come; it is told again where it does not hear.
    pub fn follow(&self, told: Told) {
        match self.ask(&ToManager::Follow(Box::new(told)), LOOK_WAIT) {
            Ok(FromManager::Followed) => {}
            Ok(other) => tracing::warn!("the manager follows no workflow: {other:?}"),
            Err(error) => tracing::debug!("the manager does not answer: {error}"),
        }
    }

    /// The reconfigurations that have been told of, of all managers, and how many there were besides.
    pub fn finished(&self) -> (Vec<ReportedReconfiguration>, u64) {
        let state = self.state();
        (state.finished.kept().to_vec(), state.finished.left_out())
    }

    /// A writer met a full node, this one where it is known. While there is no manager, or it has too much to do, nobody can say.
    pub fn hope_for_room(&self, node: Option<NodeId>) -> Hope {
        if let Some(ended) = self.state().ended_in_vain(Instant::now()) {
            let why = format!("{ended} managers have ended and none of them has added a node");
            return Hope::None(why);
        }
        match self.ask(&ToManager::Full { node: node.map(|id| id.to_string()) }, HOPE_WAIT) {
            // One that has given up for now takes in what comes.
            Ok(FromManager::Room { hope: Hope::None(_) }) if self.awaits_hosts() => Hope::Sure,
            Ok(FromManager::Room { hope }) => hope,
            Ok(_) | Err(_) if self.state().stopping => {
                Hope::None("the file system is stopping".to_owned())
            }
            Ok(_) | Err(_) => Hope::Untold,
        }
    }

    fn awaits_hosts(&self) -> bool {
        self.nodes.provider().is_some_and(Provider::are_on_their_way)
    }

    /// Has the nodes changed, and answers when that is done; asks again where the manager ended
    /// meanwhile, for its successor goes on with what it began.
    pub fn change(&self, request: &ToManager) -> Result<ChangeView, Failure> {
        self.change_while(request, || true)
    }

    /// The same; it is asked again only where that is still wanted.
    pub fn change_while(
        &self,
        request: &ToManager,
        is_wanted: impl Fn() -> bool,
    ) -> Result<ChangeView, Failure> {
        let mut asked_again = false;
        let mut ended = 0;
        let mut lost = Instant::now();
        loop {
            match self.ask(request, CHANGE_WAIT) {
                Ok(FromManager::Changed(done)) => return Ok(*done),
                // The successor has finished what was asked for before.
                Ok(FromManager::Gone(_)) if asked_again => {
                    return Ok(ChangeView::nothing(self.look().nodes.len() as u16));
                }
                Ok(FromManager::Gone(why) | FromManager::Refused(why)) => {
                    return Err(Failure::Refused(why));
                }
                Ok(FromManager::Unseen(why)) => return Err(Failure::NodesUnseen(why)),
                Ok(_) => return Err(Failure::Silent(self.paths.directory.clone())),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                // It had been asked, and ended.
                Err(_) => (asked_again, ended, lost) = (true, ended + 1, Instant::now()),
            }
            let is_hopeless = lost.elapsed() > RETURNS_WITHIN || ended > ENDED_MOST;
            if self.state().stopping || is_hopeless {
                return Err(Failure::Silent(self.paths.directory.clone()));
            }
            if asked_again && !is_wanted() {
                return Ok(ChangeView::nothing(self.look().nodes.len() as u16));
            }
            std::thread::sleep(RETRY);
        }
    }
}

#[cfg(test)]
mod tests;
