//! The names of commands, each with its place in the counts: as many as there is room for.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Commands that are counted apart; what comes later is counted together.
pub const COMMANDS_MOST: usize = 256;

/// The kernel itself, a program that is not seen from here, or one that has gone.
pub const UNKNOWN: usize = 0;
/// Commands of which there are too many.
pub const OTHERS: usize = 1;
const FIRST: usize = 2;

#[derive(Debug, Default)]
pub struct Names(Mutex<HashMap<String, usize>>);

impl Names {
    /// The place of the program that a thread is of; `None`: there is no such thread.
    pub fn of_thread(&self, thread: u32) -> Option<usize> {
        command_of(thread).map(|command| self.place(command))
    }

    fn place(&self, command: String) -> usize {
        let mut names = self.names();
        let next = FIRST + names.len();
        if let Some(&known) = names.get(&command) {
            return known;
        }
        if next - FIRST == COMMANDS_MOST {
            return OTHERS;
        }
        names.insert(command, next);
        next
    }

    /// All, with their places.
    pub fn all(&self) -> Vec<(usize, String)> {
        let named: Vec<_> = self.names().iter().map(|(name, &slot)| (slot, name.clone())).collect();
        [UNKNOWN, OTHERS].into_iter().map(|slot| (slot, name_of(slot))).chain(named).collect()
    }

    fn names(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of those that stand for others.
pub fn name_of(slot: usize) -> String {
    if slot == OTHERS { "(others)" } else { "(unknown)" }.to_owned()
}

/// What the leader of a thread's group is called: threads may have names of their own.
fn command_of(thread: u32) -> Option<String> {
    let leader = if is_leader(thread) { thread } else { leader_of(thread)? };
    let mut name = [0; NAME_BYTES_MAX];
    let length = File::open(format!("/proc/{leader}/comm")).ok()?.read(&mut name).ok()?;
    Some(printable(&name[..length]))
}

/// With its end of line.
const NAME_BYTES_MAX: usize = 64;

/// Cheaper by far than to ask who the leader is: most programs have one thread.
fn is_leader(thread: u32) -> bool {
    // SAFETY: signal 0 is sent to nobody; the kernel says whether this group has that thread.
    let found = unsafe { libc::syscall(libc::SYS_tgkill, thread, thread, 0) };
    found == 0 || io::Error::last_os_error().kind() == io::ErrorKind::PermissionDenied
}

fn leader_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// A program chooses its name, which is shown on terminals.
fn printable(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let name = name.strip_suffix('\n').unwrap_or(&name);
    name.chars().map(|it| if it.is_control() { '?' } else { it }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_for_its_program_whatever_it_is_called_itself() {
        let own = fs::read("/proc/self/comm").unwrap();
        let thread = std::thread::Builder::new().name("another".to_owned());
        let of_thread =
            thread.spawn(|| command_of(rustix::thread::gettid().as_raw_nonzero().get() as u32));
        assert_eq!(of_thread.unwrap().join().unwrap(), Some(printable(&own)));
        let leader = rustix::process::getpid().as_raw_nonzero().get() as u32;
        assert!(is_leader(leader) && !is_leader(u32::MAX));
        assert_eq!(command_of(leader), Some(printable(&own)));
        assert_eq!(command_of(u32::MAX), None);
        // Of another user, unless this is not root.
        assert!(is_leader(1));
    }

    #[test]
    fn there_are_only_so_many_names_and_none_drives_a_terminal() {
        let names = Names::default();
        let place = |number: usize| names.place(format!("c{number}"));
        let first: Vec<_> = (0..COMMANDS_MOST).map(place).collect();
        assert_eq!(first, (FIRST..FIRST + COMMANDS_MOST).collect::<Vec<_>>());
        assert_eq!((place(COMMANDS_MOST), place(7)), (OTHERS, first[7]));
        assert_eq!(names.all().len(), COMMANDS_MOST + 2);
        assert_eq!(printable(b"\x1b[2Jx\xff\n"), "?[2Jx\u{fffd}");
    }
}
