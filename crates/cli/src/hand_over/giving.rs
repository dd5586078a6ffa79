//! The giver: listens for takers while it serves its mount.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rustix::fs::MemfdFlags;
use tidefs_fs::HAND_OVER_VERSION;

use super::words::{Asked, Line, Listener, Parcel, Told};
use crate::mounting::{Handed, ServedMount, Watcher};
use crate::signals;

/// A taker says at once what it wants.
const ASK_WAIT: Duration = Duration::from_secs(5);
/// Who ask at a time; all but one are refused.
const ASKERS_MAX: usize = 8;
/// Programs wait for so long at most until it has all, or the giver goes on. Less than a mount may be silent.
const TAKE_WAIT: Duration = Duration::from_secs(8);

/// The taker notes that it serves the mount, and hangs up.
const NOTE_WAIT: Duration = Duration::from_secs(10);

/// A mount that others may take.
#[derive(Clone)]
pub struct Giver(Arc<Inner>);

struct Inner {
    /// `None`: it was given away. Whoever hands it over has it all the while.
    mount: Mutex<Option<ServedMount>>,
    is_gone: Watcher,
    taker: Taker,
    socket: PathBuf,
    is_asked: AtomicBool,
    askers: AtomicUsize,
}

impl Giver {
    /// Listens from here on for whoever wants the mount. Where that cannot be it is served all the same.
    pub fn begin(mount: ServedMount) -> Giver {
        let socket = mount.hand_over_socket();
        let (is_asked, askers) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (is_gone, taker) = (mount.watcher(), Taker::default());
        let mount = Mutex::new(Some(mount));
        let inner = Inner { mount, is_gone, taker, socket, is_asked, askers };
        let giver = Giver(Arc::new(inner));
        if let Err(error) = giver.begin_to_listen() {
            tracing::warn!(%error, "nobody can take this mount over");
        }
        giver
    }

    fn begin_to_listen(&self) -> std::io::Result<()> {
        let listener = Listener::at(&self.0.socket)?;
        let listening = self.clone();
        let thread = std::thread::Builder::new().name("tidefs-giver".to_owned());
        thread.spawn(move || listening.listen(&listener)).map(drop)
    }

    /// It is served here, and has not ended by somebody else's doing.
    pub fn is_served(&self) -> bool {
        !(self.0.is_gone)()
    }

    /// Ends the mount, unless it was given away; nobody gets it any more that has yet to say that it has all.
    /// `give_up`: what waits for room is not worth it.
    pub fn end(&self, give_up: bool) -> anyhow::Result<()> {
        self.0.taker.send_away();
        let Some(mount) = self.mount().take() else { return Ok(()) };
        let _ = std::fs::remove_file(&self.0.socket);
        if give_up {
            mount.give_up();
        }
        mount.end()
    }

    fn mount(&self) -> MutexGuard<'_, Option<ServedMount>> {
        self.0.mount.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, listener: &Listener) {
        loop {
            let line = match listener.accept() {
                Ok(line) => line,
                Err(error) => {
                    tracing::warn!(%error, "nobody can take this mount over any more");
                    return;
                }
            };
            let giver = self.clone();
            let count = self.0.askers.fetch_add(1, Ordering::SeqCst);
            let line = Arc::new(line);
            let answer = move || {
                giver.answer(&line);
                giver.0.askers.fetch_sub(1, Ordering::SeqCst);
            };
            // Whoever is one too many finds the line cut.
            if count >= ASKERS_MAX || std::thread::Builder::new().spawn(answer).is_err() {
                self.0.askers.fetch_sub(1, Ordering::SeqCst);
                tracing::warn!("too many want this mount, or there is no thread for one");
            }
        }
    }

    fn answer(&self, line: &Arc<Line>) {
        let (versions, build) = match line.hear(ASK_WAIT) {
            _ if !line.is_trusted() => return refuse(line, "it is another user's"),
            Ok((Asked::TakeOver { versions, build }, _)) => (versions, build),
            Ok(_) | Err(_) => return refuse(line, "that is no request to take it over"),
        };
        if !versions.contains(&HAND_OVER_VERSION) {
            let found = format!(
                "{build} does not understand how version {} keeps a mount (it knows {versions:?}, and this is \
                 {HAND_OVER_VERSION}); unmount it and mount it again with the other program",
                crate::version::line()
            );
            return refuse(line, &found);
        }
        if self.0.is_asked.swap(true, Ordering::SeqCst) {
            return refuse(line, "another process is taking it over");
        }
        self.give(line, &build);
        self.0.is_asked.store(false, Ordering::SeqCst);
    }

    fn give(&self, line: &Arc<Line>, build: &str) {
        let mut mount = self.mount();
        let Some(served) = mount.as_mut() else { return refuse(line, "it was given away") };
        match served.hand_over(|handed| give(&self.0.taker, line, handed)) {
            Ok(paused) => {
                tracing::info!(%build, ?paused, "another process serves this mount from here on");
                drop(mount.take());
                // While this process is there nobody takes the mount for a dead one's.
                let _noted_or_gone = line.hear::<Asked>(NOTE_WAIT);
                signals::ask_to_stop();
            }
            Err(error) => {
                tracing::info!("the mount stays here: {error:#}");
                refuse(line, &format!("{error:#}"));
            }
        }
    }
}

fn refuse(line: &Line, why: &str) {
    if let Err(error) = line.say(&Told::Refused(why.to_owned()), &[]) {
        tracing::debug!(%error, "whoever wanted this mount has gone");
    }
}

/// `true`: the taker has all, and has been told that nobody else does anything.
fn give(taker: &Taker, line: &Arc<Line>, handed: &Handed<'_>) -> bool {
    let given = taker.while_it_comes(line, || try_to_give(line, handed));
    if let Err(error) = &given {
        tracing::info!("nobody took the mount over: {error:#}");
        let _ = line.say(&Told::Withdrawn, &[]);
    }
    given.is_ok()
}

fn try_to_give(line: &Line, handed: &Handed<'_>) -> anyhow::Result<()> {
    let state = in_memory(handed.state).context("no memory for the state")?;
    let Handed { record, serving, account, flags, write_bytes_max, connection, .. } = handed;
    let parcel = Parcel {
        record: record.clone(),
        serving: *serving,
        account: account.0.clone(),
        secret: account.1.clone(),
        flags: *flags,
        write_bytes_max: *write_bytes_max,
    };
    line.say(&Told::Parcel(Box::new(parcel)), &[*connection, state.as_fd()])?;
    match line.hear(TAKE_WAIT)? {
        (Asked::Took, _) => Ok(line.say(&Told::Yours, &[])?),
        (other, _) => anyhow::bail!("it says {other:?}"),
    }
}

/// Who is about to have the mount, unless it ends before.
#[derive(Default)]
struct Taker(Mutex<Coming>);

#[derive(Default)]
struct Coming {
    line: Option<Arc<Line>>,
    ends: bool,
}

impl Taker {
    /// Gives it what it needs.
    ///
    /// # Errors
    /// Also when the mount ends.
    fn while_it_comes(
        &self,
        line: &Arc<Line>,
        give: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        {
            let mut coming = self.coming();
            anyhow::ensure!(!coming.ends, "the mount ends");
            coming.line = Some(Arc::clone(line));
        }
        let given = give();
        self.coming().line = None;
        given
    }

    /// It hears no word that it is its mount, unless it has that.
    fn send_away(&self) {
        let mut coming = self.coming();
        coming.ends = true;
        coming.line.iter().for_each(|line| line.hear_no_more());
    }

    fn coming(&self) -> MutexGuard<'_, Coming> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that no name leads to.
fn in_memory(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("tidefs-hand-over", MemfdFlags::CLOEXEC)?;
    let file = std::fs::File::from(file);
    std::io::Write::write_all(&mut &file, bytes)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(20);

    /// A giver's end of a line, and what has to live beside it.
    fn line() -> (Arc<Line>, Line, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Listener::at(&path).unwrap();
        let theirs = Line::to(&path, WITHIN).unwrap();
        (Arc::new(listener.accept().unwrap()), theirs, folder)
    }

    #[test]
    fn a_taker_that_says_nothing_does_not_hold_up_the_end_of_the_mount() {
        let ((ours, theirs, _folder), taker) = (line(), Arc::new(Taker::default()));
        let ending = taker.clone();
        let given = taker.while_it_comes(&ours, || {
            let end = std::thread::spawn(move || ending.send_away());
            let kind = ours.hear::<Asked>(WITHIN).unwrap_err().kind();
            end.join().unwrap();
            assert_eq!(kind, std::io::ErrorKind::UnexpectedEof, "it is not waited for");
            ours.say(&Told::Withdrawn, &[])?;
            anyhow::bail!("it has not said that it has all")
        });
        assert!(given.is_err());
        assert!(matches!(theirs.hear::<Told>(WITHIN), Ok((Told::Withdrawn, _))));
    }

    #[test]
    fn nobody_gets_a_mount_that_ends() {
        let ((ours, _theirs, _folder), taker) = (line(), Taker::default());
        taker.send_away();
        assert!(taker.while_it_comes(&ours, || panic!("it ends")).is_err());
    }
}
