//! `tidefs join`: this host's agent in a file system that runs elsewhere.
//!
//! What it starts is noted in this host's own directory, and undone when it is told to end, when it loses the
//! file system for good, and by the next command here when it is killed.

use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use tidefs_model::ByteSize;
use tidefs_valkey::NODE_MEMORY_MIN;

use crate::arguments::join::Join;
use crate::arguments::serving::Serving;
use crate::commands::lend::read_secret;
use crate::failure::Failure;
use crate::join::{Home, Member, Reach, Relay, Seen, Session};
use crate::lend::Ended;
use crate::memory::Memory;
use crate::mount_point::{Missing, MountPoint};
use crate::mounting::ServedMount;
use crate::signals::Signals;
use crate::state::{Base, Paths};
use crate::storage::{Storage, choose_server};
use crate::view::ServerView;
use crate::{lending, limits, preparation, privacy, say, scarcity, signals};

/// Between two looks at what was started.
const LOOK: Duration = Duration::from_millis(250);
/// The same while the node is being emptied.
const QUICK_LOOK: Duration = Duration::from_millis(20);

pub fn join(options: &Join, state: Option<&Path>) -> anyhow::Result<()> {
    let secret = secret(&options.secret_file)?;
    let base = Base::named(state)?;
    let wants_mount = options.mount.as_deref();
    let point = wants_mount.map(|at| MountPoint::check(at, Missing::Make)).transpose()?;
    point.iter().try_for_each(|_| preparation::mounting())?;
    let node = (!options.mount_only).then(|| node_wanted(options.memory)).transpose()?;
    limits::raise_open_files();
    scarcity::serve();
    privacy::guard();
    let signals = Signals::catch().context("cannot catch signals")?;
    if options.reads_stdin() {
        stop_at_end_of_input();
    }
    let mut agent = [0; 16];
    getrandom::fill(&mut agent).context("no random numbers")?;
    let reach = Reach { address: options.address, secret, agent: u128::from_ne_bytes(agent) };
    let mut host = Host::begin(reach, &base)?;
    if let Some((memory, server)) = node {
        host.offer(memory, &server)?;
    }
    if let Some(point) = point {
        host.mount(point, options.serving)?;
    }
    let address = options.address;
    say::note(format!("this host belongs to the file system at {address}; Ctrl-C has it leave"));
    host.serve(&signals)
}

/// What a node offers here, and the server that it runs.
fn node_wanted(memory: Option<ByteSize>) -> anyhow::Result<(ByteSize, ServerView)> {
    let memory = Memory::of_this_machine().share(1, memory)?;
    let server = ServerView::from(choose_server(None)?);
    preparation::warn_of_server(Some(&server));
    Ok((memory, server))
}

/// From a file, or from the first line of standard input.
fn secret(path: &Path) -> anyhow::Result<[u8; 32]> {
    if path != Path::new(Join::STDIN) {
        return Ok(read_secret(path)?);
    }
    let unusable =
        |cause: String| Failure::LendSecretUnusable { path: "standard input".into(), cause };
    // Nothing that comes after the line is taken for it.
    let mut line = String::new();
    let mut input = std::io::stdin().lock().take(256);
    input.read_line(&mut line).map_err(|error| unusable(error.to_string()))?;
    Ok(lending::secret_of(&line).map_err(|error| unusable(error.to_string()))?)
}

/// Whoever started this over a connection ends it by hanging up.
fn stop_at_end_of_input() {
    std::thread::spawn(|| {
        let mut rest = [0; 256];
        while std::io::stdin().read(&mut rest).is_ok_and(|bytes| bytes > 0) {}
        signals::ask_to_stop();
    });
}

/// What a look found.
enum Look {
    GoesOn,
    Left,
    Over(Ended),
}

/// This host while it belongs to the file system.
struct Host {
    reach: Reach,
    session: Session,
    // In this order: what was started has ended before the directory goes.
    member: Option<Member>,
    mount: Arc<Mutex<Option<ServedMount>>>,
    /// While the mount is being taken away.
    unmounting: Option<JoinHandle<anyhow::Result<()>>>,
    /// What it could not store; the node is emptied all the same.
    unstored: anyhow::Result<()>,
    head_room: ByteSize,
    home: Home,
}

impl Host {
    fn begin(reach: Reach, base: &Base) -> anyhow::Result<Host> {
        let (channel, entered) = reach.enter()?;
        let head_room = ByteSize(entered.head_room_bytes);
        let home = Home::make(base, &entered)?;
        let session = Session::keep(reach.clone(), home.paths(), channel, entered)?;
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
            home,
        })
    }

    fn paths(&self) -> &Paths {
        self.home.paths()
    }

    fn offer(&mut self, memory: ByteSize, server: &ServerView) -> anyhow::Result<()> {
        let holds = ByteSize(memory.0.saturating_sub(self.head_room.0));
        if holds < NODE_MEMORY_MIN {
            let head_room = self.head_room;
            let least = ByteSize(NODE_MEMORY_MIN.0 + head_room.0);
            return Err(Failure::NodeTooSmall { memory, head_room, least }.into());
        }
        let Reach { address, secret, .. } = self.reach;
        let member = Member::begin(address, secret, server.path.clone(), holds)?;
        self.session.set_own(member.node())?;
        self.member = Some(member);
        Ok(())
    }

    fn mount(&mut self, point: MountPoint, serving: Serving) -> anyhow::Result<()> {
        let shown = point.path.display().to_string();
        let storage = Storage::join(self.paths())?;
        let mount = ServedMount::begin(&storage, point, self.paths(), serving)?;
        *self.mount.lock().unwrap_or_else(PoisonError::into_inner) = Some(mount);
        say::answer(format!("mounted on {shown}"));
        Ok(())
    }

    /// Until a signal comes, or the file system has gone.
    fn serve(mut self, signals: &Signals) -> anyhow::Result<()> {
        let mut leaving = false;
        let mut beat = Instant::now();
        loop {
            let wait = if leaving { QUICK_LOOK } else { LOOK };
            if signals.wait(None, wait).is_some_and(|signal| signal.asks_to_stop()) {
                if leaving {
                    self.end_now();
                    return Err(Failure::EndedEarly.into());
                }
                leaving = true;
                say::note(
                    "leaving the file system; once more ends at once, and what only lies here is lost",
                );
                self.unmount();
            }
            if let Some(ended) = self.session.ended() {
                return self.over(ended);
            }
            if beat.elapsed() >= LOOK {
                beat = Instant::now();
                self.home.beat();
                self.drop_a_mount_that_was_taken_away();
            }
            match self.look(leaving)? {
                Look::GoesOn => {}
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
        self.unmounting = mount.map(|mount| std::thread::spawn(|| mount.end()));
    }

    fn is_unmounted(&mut self) -> bool {
        if self.unmounting.as_ref().is_some_and(|it| !it.is_finished()) {
            return false;
        }
        if let Some(Ok(Err(error))) = self.unmounting.take().map(JoinHandle::join) {
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
        let address = self.reach.address;
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

    /// What is not stored is given up.
    fn end_now(&mut self) {
        if let Some(mount) = self.mount.lock().unwrap_or_else(PoisonError::into_inner).take() {
            mount.give_up();
            drop(mount.end());
        }
        self.member = None;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.end_now();
    }
}
