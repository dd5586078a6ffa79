//! Handing a mount over: one session gives its connection away, and another one, in another process, goes on
//! with it. Programs wait meanwhile; no call of theirs fails.
//!
//! The one that gives stops reading, ends what is under way, and has `give` hand on what it has collected. If
//! that fails it goes on as if nothing had been. Requests that were read and not answered, those for locks above
//! all, the kernel sends again to whoever goes on.

mod pause;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use tidefs_fs::{Fs, HandOverError};
use tidefs_session::{Agreed, Errno, Halt, InitFlags};
use tidefs_store::Store;

use super::{Served, Session};
use crate::adapter::Adapter;
use crate::device;
use crate::error::MountError;
use crate::kernel::Kernel;
use crate::mounts::{self, Mount};
use crate::options::MountOptions;
use crate::passthrough::kernel_release;
use crate::quiet::Rests;
use crate::turns::Turns;
pub(crate) use pause::Gives;
use pause::Pause;

/// The first kernel that sends requests again.
const SENDS_AGAIN_SINCE: (u32, u32) = (6, 9);

/// Whether mounts that are made here could be handed over, for whoever asks before there is one; a mount goes by
/// what its kernel offers.
pub fn kernel_sends_again() -> bool {
    kernel_release() >= SENDS_AGAIN_SINCE
}

/// Why a session was not handed over. It goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GiveError {
    #[error("the mount has requests by rings; mount with --rings off to hand it over")]
    Rings,
    #[error(
        "this kernel cannot send requests again (Linux 6.9 can), so the mount cannot change hands"
    )]
    NoResend,
    #[error("a mount of this kind is not handed over")]
    NotOurs,
    #[error(
        "requests take long, on a full store or at a node that does not answer; try again when they are done"
    )]
    Busy,
    #[error(transparent)]
    FileSystem(#[from] HandOverError),
    #[error("the kernel cannot be asked to send requests again")]
    Kernel { source: Errno },
    /// Whoever was to go on has not.
    #[error("nobody took it over")]
    NotTaken,
}

/// What goes to whoever goes on with a session.
#[derive(Debug)]
pub struct Handed<'s> {
    pub connection: BorrowedFd<'s>,
    pub agreed: Agreed,
    /// For [`Fs::take_over`].
    pub state: Vec<u8>,
}

/// What a session needs to be given away.
pub(crate) struct Givable {
    pub fs: Arc<dyn Gives>,
    pub rests: Arc<dyn Rests>,
}

/// The way to a session's threads and its connection.
pub(super) struct Reins {
    pub halt: Halt,
    pub connection: OwnedFd,
    pub agreed: Agreed,
    pub givable: Option<Givable>,
}

impl Session {
    /// Whether the mount could be handed over at all; no promise that it can at a moment.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn can_be_handed_over(&self) -> Result<(), GiveError> {
        self.givable().map(drop)
    }

    fn givable(&self) -> Result<&Givable, GiveError> {
        let Reins { agreed, givable, .. } = &self.reins;
        match givable {
            _ if self.is_by_rings() => Err(GiveError::Rings),
            _ if !agreed.flags.contains(InitFlags::HAS_RESEND) => Err(GiveError::NoResend),
            givable => givable.as_ref().ok_or(GiveError::NotOurs),
        }
    }

    /// Stops serving and has `give` hand on what another process needs to go on. `true`: that goes on, and this
    /// session is over; the mount stays. Answers for how long requests waited until then.
    ///
    /// # Errors
    /// When there is nothing to hand over or `give` answers `false`. The session goes on then.
    pub fn hand_over(
        &mut self,
        give: impl FnOnce(&Handed<'_>) -> bool,
    ) -> Result<Duration, GiveError> {
        let Givable { fs, rests } = self.givable()?;
        let (fs, rests) = (fs.clone(), rests.clone());
        let paused = self.ticker.pause();
        let given = self.give(&*fs, &*rests, give);
        if given.is_ok() {
            paused.for_good();
            self.reins.halt.end();
            rests.close();
            fs.let_go();
            self.ended = true;
        } else {
            fs.keep();
        }
        given
    }

    fn give(
        &self,
        fs: &dyn Gives,
        rests: &dyn Rests,
        give: impl FnOnce(&Handed<'_>) -> bool,
    ) -> Result<Duration, GiveError> {
        let Reins { halt, connection, agreed, .. } = &self.reins;
        let pause = Pause {
            fs,
            rests,
            halt,
            lapse: &|left| {
                self.kernel.wait_for_all_answers();
                std::thread::sleep(left);
            },
            send_again: &|| self.kernel.send_again(),
        };
        let (begun, state) = pause.begin()?;
        let handed = Handed { connection: connection.as_fd(), agreed: *agreed, state };
        if give(&handed) {
            return Ok(begun.elapsed());
        }
        pause.end();
        Err(GiveError::NotTaken)
    }
}

/// A session that was taken over and is not served yet.
pub struct TakenOver<S: Store> {
    session: tidefs_session::Session<Adapter<S>>,
    turns: Arc<Turns>,
    fs: Arc<Fs<S>>,
    kernel: Arc<Kernel>,
    mount: Mount,
    options: MountOptions,
    givable: Givable,
}

impl<S: Store> std::fmt::Debug for TakenOver<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TakenOver").field("mount", &self.mount).finish_non_exhaustive()
    }
}

impl<S: Store> TakenOver<S> {
    /// Makes all ready to go on with a mount. Whoever gave the connection may still call it off, and serve the mount
    /// itself, until it has agreed to [`TakenOver::serve`].
    ///
    /// # Errors
    /// When it is not the connection of the mount with that number.
    pub fn begin(
        fs: Arc<Fs<S>>,
        options: &MountOptions,
        connection: OwnedFd,
        agreed: Agreed,
    ) -> Result<TakenOver<S>, MountError> {
        let path = options.mountpoint.clone();
        let top = mounts::on(&path)
            .map_err(|source| MountError::MountPoint { path: path.clone(), source })?;
        let mount = top.filter(|mount| mount.is(options.number));
        let mount = mount.ok_or(MountError::NotThere { path: path.clone() })?;
        if !device::is_connection_of(&connection, &mount) {
            return Err(MountError::NotItsConnection { path });
        }
        let kernel = Arc::new(Kernel::default());
        let (adapter, turns) = super::adapter(&fs, &kernel, options);
        let givable = Givable { fs: fs.clone(), rests: adapter.quiet() };
        let session = tidefs_session::Session::go_on(adapter, connection, agreed);
        kernel.set_notifier(session.notifier());
        let options = options.clone();
        Ok(TakenOver { session, turns, fs, kernel, mount, options, givable })
    }

    /// Serves the mount from here on.
    ///
    /// # Errors
    /// When threads cannot be started; nobody serves the mount then.
    pub fn serve(self) -> Result<Session, MountError> {
        let TakenOver { session, turns, fs, kernel, mount, options, givable } = self;
        fs.goes_on();
        let served: Arc<dyn Served> = fs;
        Session::serve(session, Some(turns), served, kernel, mount, (&options, Some(givable)))
    }
}
