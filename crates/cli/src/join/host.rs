//! This host while it belongs to a file system that runs elsewhere: its session, node and mount, in the order
//! in which they come and go.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::Signal;
use tidefs_model::ByteSize;
use tidefs_valkey::NODE_MEMORY_MIN;

use super::{Home, JOINED, Member, Reach, Relay, Seen, Session, Successor};
use crate::arguments::serving::Serving;
use crate::failure::Failure;
use crate::lend::Ended;
use crate::memory::Memory;
use crate::mount_point::MountPoint;
use crate::mounting::{END_WAIT, ServedMount};
use crate::signals::Signals;
use crate::state::{Base, Paths};
use crate::storage::{Storage, choose_server};
use crate::view::ServerView;
use crate::{preparation, say};

/// Between two looks at what was started.
const LOOK: Duration = Duration::from_millis(250);
/// The same while the node is being emptied.
const QUICK_LOOK: Duration = Duration::from_millis(20);

const LEAVING: &str =
    "leaving the file system; asked to once more it ends at once, and what only lies here is lost";

/// What a node offers here, and the server that it runs.
pub fn node_wanted(memory: Option<ByteSize>) -> anyhow::Result<(ByteSize, ServerView)> {
    let memory = Memory::of_this_machine().share(1, memory)?;
    let server = ServerView::from(choose_server(None)?);
    preparation::warn_of_server(Some(&server));
    Ok((memory, server))
}

/// What a node holds of the memory that it has.
pub fn holds(memory: ByteSize, head_room: ByteSize) -> Result<ByteSize, Failure> {
    let holds = ByteSize(memory.0.saturating_sub(head_room.0));
    if holds < NODE_MEMORY_MIN {
        let least = ByteSize(NODE_MEMORY_MIN.0 + head_room.0);
        return Err(Failure::NodeTooSmall { memory, head_room, least });
    }
    Ok(holds)
}

/// What a look found.
enum Look {
    GoesOn,
    Left,
    Over(Ended),
}

struct Unmounting {
    quit: Box<dyn Fn() + Send>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Unmounting {
    fn of(mount: ServedMount) -> Unmounting {
        Unmounting { quit: mount.quitter(), thread: std::thread::spawn(|| mount.end()) }
    }

    /// What has to be stored yet is given up; the directory goes that was made for the mount.
    fn hasten(self) {
        (self.quit)();
        let until = Instant::now() + END_WAIT;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(QUICK_LOOK);
        }
    }
}

/// This host while it belongs to the file system.
pub struct Host {
    reach: Reach,
    session: Session,
    // In this order: what was started has ended before the directory goes.
    member: Option<Member>,
    mount: Arc<Mutex<Option<ServedMount>>>,
    /// While the mount is being taken away.
    unmounting: Option<Unmounting>,
    /// What it could not store; the node is emptied all the same.
    unstored: anyhow::Result<()>,
    head_room: ByteSize,
    /// None where nobody takes the file system over.
    successor: Option<Successor>,
    home: Home,
}

impl Host {
    /// Enters the file system; what is kept of it here has this name in the base.
    pub fn begin(reach: Reach, base: &Base, name: &str) -> anyhow::Result<Host> {
        let here = reach.own_address()?;
        let home = Home::make(base, name)?;
        // A run ends with whoever started it.
        let is_heir = name == JOINED;
        let begin = || Successor::begin(here, &reach.secret, reach.ballot.clone(), home.paths());
        let successor = is_heir.then(begin).transpose()?;
        successor.iter().for_each(|it| reach.listens(it.address().port()));
        let (channel, entered) = reach.enter()?;
        home.fill(&entered)?;
        let head_room = ByteSize(entered.head_room_bytes);
        let (heir, told) = (successor.clone(), reach.clone());
        let take_over = move |legacy: &_, keys: &_, nodes: &_, succession| {
            let heir = heir.as_ref().context("this host is not there for that")?;
            heir.take_over(legacy, keys, nodes, succession, told.age())
        };
        let session =
            Session::keep(reach.clone(), home.paths(), channel, entered, Box::new(take_over))?;
        let mount = Arc::new(Mutex::new(None));
        Relay::serve(reach.clone(), home.paths(), Arc::clone(&mount))?;
        Ok(Host {
            reach,
            session,
            member: None,
            mount,
            unmounting: None,
            unstored: Ok(()),
            head_room,
            successor,
            home,
        })
    }

    fn paths(&self) -> &Paths {
        self.home.paths()
    }

    /// Where programs of this host find the file system.
    pub fn directory(&self) -> &Path {
        &self.paths().directory
    }

    /// Offers a node: for now, or for when the file system grows.
    pub fn offer(
        &mut self,
        memory: ByteSize,
        server: &ServerView,
        is_reserve: bool,
    ) -> anyhow::Result<()> {
        let holds = holds(memory, self.head_room)?;
        let (place, secret) = (self.reach.place.clone(), self.reach.secret);
        let provided = self.reach.provided().cloned();
        let path = server.path.clone();
        let member = Member::begin(place, secret, path, holds, is_reserve, provided)?;
        self.session.set_own(member.node())?;
        self.member = Some(member);
        Ok(())
    }

    pub fn mount(&mut self, point: MountPoint, serving: Serving) -> anyhow::Result<()> {
        let storage = Storage::join(self.paths())?;
        let mount = ServedMount::begin(&storage, point, self.paths(), serving)?;
        *self.mount.lock().unwrap_or_else(PoisonError::into_inner) = Some(mount);
        Ok(())
    }

    /// Until a signal comes, or the file system has gone. Where it `is_over` when a signal comes, nothing is
    /// given back. `notice`: a signal that says that this host's time ends, and is no wish that all ends at once.
    pub fn serve(
        mut self,
        signals: &Signals,
        notice: Option<Signal>,
        is_over: impl Fn() -> bool,
    ) -> anyhow::Result<()> {
        self.reach.stays();
        let (mut leaving, mut asked) = (false, false);
        let mut beat = Instant::now();
        loop {
            let wait = if leaving { QUICK_LOOK } else { LOOK };
            let received = signals.wait(None, wait);
            let is_asked = received.is_some_and(|it| it.asks_to_stop());
            let is_told = received.is_some_and(|it| notice.map(Signal::as_raw) == Some(it.signal));
            if is_asked && is_over() {
                self.end_now();
                return Ok(());
            }
            if is_asked && asked {
                self.end_now();
                return Err(Failure::EndedEarly.into());
            }
            asked |= is_asked;
            if is_asked || is_told && !leaving {
                say::note(LEAVING);
            }
            if (is_asked || is_told) && !leaving {
                leaving = true;
                self.unmount();
            }
            if let Some(ended) = self.session.ended() {
                return self.over(ended);
            }
            if beat.elapsed() >= LOOK {
                beat = Instant::now();
                self.home.beat();
                self.successor.iter().for_each(Successor::gives_way);
                self.drop_a_mount_that_was_taken_away();
            }
            match self.look(leaving)? {
                Look::GoesOn => {}
                Look::Left if !leaving => {
                    // A host that was asked for goes with its node, and what its mount has yet to store goes to others.
                    leaving = true;
                    self.unmount();
                }
                Look::Left => return std::mem::replace(&mut self.unstored, Ok(())),
                Look::Over(ended) => return self.over(ended),
            }
        }
    }

    fn look(&mut self, leaving: bool) -> anyhow::Result<Look> {
        // What the mount has not stored yet may go to this host's own node.
        if leaving && self.is_unmounted() {
            match &mut self.member {
                Some(member) => member.leave(),
                None => return Ok(Look::Left),
            }
        }
        let Some(member) = &mut self.member else { return Ok(Look::GoesOn) };
        let seen = member.look()?;
        let node = member.node();
        Ok(match seen {
            Seen::AsBefore => Look::GoesOn,
            Seen::Changed => self.session.set_own(node).map(|()| Look::GoesOn)?,
            Seen::Left if !self.is_unmounted() => Look::GoesOn,
            Seen::Left => {
                say::note("nothing of the file system lies here any more");
                Look::Left
            }
            Seen::Over(ended) => Look::Over(ended),
        })
    }

    /// Nobody waits here: the node has to be kept meanwhile.
    fn unmount(&mut self) {
        let mount = self.mount.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.unmounting = mount.map(Unmounting::of);
    }

    fn is_unmounted(&mut self) -> bool {
        if self.unmounting.as_ref().is_some_and(|it| !it.thread.is_finished()) {
            return false;
        }
        if let Some(Ok(Err(error))) = self.unmounting.take().map(|it| it.thread.join()) {
            say::note(format!("{error:#}"));
            self.unstored = Err(error);
        }
        true
    }

    fn drop_a_mount_that_was_taken_away(&mut self) {
        let mut mount = self.mount.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mount) = mount.take_if(|mount| mount.is_over())
            && let Err(error) = mount.end()
        {
            tracing::warn!("the mount of this host: {error:#}");
        }
    }

    /// The file system is not there any more.
    fn over(&mut self, ended: Ended) -> anyhow::Result<()> {
        self.end_now();
        let address = self.reach.place.address();
        match ended {
            Ended::Closed | Ended::NodeDied => {
                say::note("the file system has ended, and what belonged to it here");
                Ok(())
            }
            Ended::Free(Some(why)) => Err(Failure::NotLetIn { address, why }.into()),
            Ended::Free(None) | Ended::Broken | Ended::OutOfTouch => {
                Err(Failure::HostCutOff { address }.into())
            }
        }
    }

    /// What is not stored is given up. The node goes first: whoever has the file system takes it for dead at a time that was
    /// agreed on, and a mount that ends may wait for one that does not answer.
    fn end_now(&mut self) {
        let mount = self.mount.lock().unwrap_or_else(PoisonError::into_inner).take();
        mount.iter().for_each(ServedMount::give_up);
        self.member = None;
        mount.map(ServedMount::end).into_iter().for_each(drop);
        self.unmounting.take().into_iter().for_each(Unmounting::hasten);
        self.successor.iter().for_each(Successor::end);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.end_now();
    }
}
