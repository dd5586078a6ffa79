//! Signals as values in a pipe, so that the main loop waits for them beside everything else.
//!
//! The handler only writes to the pipe. Handlers do not survive an exec, so that commands and
//! nodes start with the default ones. A signal that was ignored when this program started (under
//! nohup, or in the background of a script) stays ignored.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

/// A signal that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    pub signal: i32,
    /// The terminal sent it, to every process in the foreground.
    pub from_terminal: bool,
}

impl Received {
    /// The wish that something ends.
    pub fn to_end() -> Received {
        Received { signal: libc::SIGTERM, from_terminal: false }
    }

    /// Signals that carry no wish to end are there for the command of a run.
    pub fn asks_to_stop(self) -> bool {
        !matches!(self.signal, libc::SIGUSR1 | libc::SIGUSR2)
    }
}

/// Signals that end this program in order, or go to the command.
const CAUGHT: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Write end of the pipe, for the handler; -1 until there is one. It stays open for good.
static WRITE_END: AtomicI32 = AtomicI32::new(-1);

/// The read end. There is one at a time in a program.
pub struct Signals {
    pipe: OwnedFd,
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let from_kernel = unsafe { (*info).si_code } == libc::SI_KERNEL;
    post(signal, from_kernel);
}

/// Only what a signal handler may do.
fn post(signal: i32, from_terminal: bool) {
    let message = [signal as u8, u8::from(from_terminal)];
    // SAFETY: write and the error number are safe in a handler; the buffer outlives the call.
    unsafe {
        let error = *libc::__errno_location();
        libc::write(WRITE_END.load(Ordering::Relaxed), message.as_ptr().cast(), message.len());
        *libc::__errno_location() = error;
    }
}

/// Acts as if this process had been sent a signal.
pub fn forward(signal: i32) {
    post(signal, false);
}

/// To which the handler writes, on whichever thread it runs.
pub fn descriptor() -> Option<i32> {
    Some(WRITE_END.load(Ordering::Relaxed)).filter(|it| *it >= 0)
}

/// Acts as if this process had been asked to terminate.
pub fn ask_to_stop() {
    post(libc::SIGTERM, false);
}

impl Signals {
    /// Begins to catch signals; without this they end the program at once.
    pub fn catch() -> io::Result<Signals> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        WRITE_END.store(write.into_raw_fd(), Ordering::Relaxed);
        CAUGHT.into_iter().try_for_each(install)?;
        Ok(Signals { pipe: read })
    }

    /// The next signal, or `None` when `also` has become readable or the time is over.
    pub fn wait(&self, also: Option<BorrowedFd<'_>>, timeout: Duration) -> Option<Received> {
        let mut watched = vec![PollFd::new(&self.pipe, PollFlags::IN)];
        if let Some(also) = &also {
            watched.push(PollFd::new(also, PollFlags::IN));
        }
        let timeout = Timespec::try_from(timeout).ok();
        // An interrupted wait is a signal whose message is in the pipe by now.
        let _ = poll(&mut watched, timeout.as_ref());
        self.take()
    }

    /// A signal that has come already.
    pub fn take(&self) -> Option<Received> {
        let mut message = [0; 2];
        match rustix::io::read(self.pipe.as_fd(), &mut message) {
            Ok(2) => {
                Some(Received { signal: i32::from(message[0]), from_terminal: message[1] == 1 })
            }
            _ => None,
        }
    }
}

fn install(signal: i32) -> io::Result<()> {
    // SAFETY: both structures are plain data that the calls fill or read; the handler keeps to
    // what a handler may do.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut old) != 0 {
            return Err(io::Error::last_os_error());
        }
        if old.sa_sigaction == libc::SIG_IGN {
            return Ok(());
        }
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handle as *const () as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        if libc::sigaction(signal, &new, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_sent_by_a_process_comes_out_of_the_pipe() {
        let signals = Signals::catch().unwrap();
        assert_eq!(signals.wait(None, Duration::ZERO), None);
        // SAFETY: the signal is caught by now.
        unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) };
        let received = signals.wait(None, Duration::from_secs(5)).unwrap();
        assert_eq!(received, Received { signal: libc::SIGUSR1, from_terminal: false });
        ask_to_stop();
        assert_eq!(signals.take().unwrap().signal, libc::SIGTERM);
    }
}
