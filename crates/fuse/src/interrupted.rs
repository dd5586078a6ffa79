//! Whether a program that waits for an answer has been sent a signal.
//!
//! The kernel would say so in a message of its own, which the session refuses, after which
//! none comes any more. What the kernel shows of the thread says the same: a signal that is pending
//! and not blocked. One for the process as a whole goes to its first thread where that takes it; for
//! another thread it does not count, since it need not be its own.

/// `thread` is the number in a request; unknown threads are not interrupted.
pub fn is_interrupted(thread: u32) -> bool {
    if thread == 0 {
        return false;
    }
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"));
    status.is_ok_and(|status| has_signal(&status))
}

/// Whether the program of a thread is asked to end, or is ending because a signal killed it. Other
/// signals end no wait for room: on a disk they do not end a write either, and programs do not expect
/// it. A program that ends by itself closes its files as if it had called for it, and waits.
pub fn is_ending(thread: u32) -> bool {
    if thread == 0 {
        return false;
    }
    let about = |file: &str| std::fs::read_to_string(format!("/proc/{thread}/{file}"));
    let Ok(status) = about("status") else { return false };
    // Asking for `stat` waits for a program that begins another one, which closes files, and may wait
    // here for that.
    is_asked_to_end(&status)
        || has_no_memory(&status) && about("stat").is_ok_and(|stat| was_killed(&stat))
}

/// The program has given its memory back: it is on its way out, and begins no other one.
fn has_no_memory(status: &str) -> bool {
    field(status, "VmSize").is_none()
}

fn has_signal(status: &str) -> bool {
    pending(status) != 0
}

/// A signal that nobody catches ends all threads with one that nobody can.
fn is_asked_to_end(status: &str) -> bool {
    let asks = ENDING.iter().fold(0, |mask, signal| mask | bit(*signal));
    pending(status) & !signals(status, "SigIgn") & asks != 0
}

/// What people and batch systems end programs with.
const ENDING: [libc::c_int; 5] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGKILL, libc::SIGTERM];

fn bit(signal: libc::c_int) -> u64 {
    1 << (signal - 1)
}

/// Those that the thread would take now.
fn pending(status: &str) -> u64 {
    let is_first = field(status, "Tgid").is_some() && field(status, "Tgid") == field(status, "Pid");
    let shared = if is_first { signals(status, "ShdPnd") } else { 0 };
    (signals(status, "SigPnd") | shared) & !signals(status, "SigBlk")
}

fn signals(status: &str, name: &str) -> u64 {
    field(status, name).and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0)
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

/// The place in `stat`, after the program's name, of the kernel's flags.
const FLAGS: usize = 6;
/// Of those: the thread is on its way out, and a signal killed it.
const IS_EXITING: u64 = 0x4;
const WAS_SIGNALED: u64 = 0x400;

fn was_killed(stat: &str) -> bool {
    // The name may have blanks and brackets.
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let flags = rest.split_ascii_whitespace().nth(FLAGS).and_then(|it| it.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & IS_EXITING != 0 && flags & WAS_SIGNALED != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(thread: u32, own: u64, shared: u64, blocked: u64) -> String {
        format!(
            "Name:\tx\nTgid:\t7\nPid:\t{thread}\nThreads:\t2\nSigQ:\t0/1\n\
             SigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n"
        )
    }

    #[test]
    fn a_pending_signal_interrupts_unless_it_is_blocked() {
        assert!(!has_signal(&status(7, 0, 0, 0)));
        assert!(has_signal(&status(7, 0b100, 0, 0)));
        assert!(has_signal(&status(7, 0, 0b100, 0b1000)));
        assert!(!has_signal(&status(7, 0b100, 0b100, 0b100)));
    }

    #[test]
    fn a_signal_to_the_process_is_its_first_threads() {
        assert!(!has_signal(&status(8, 0, 0b100, 0)));
        assert!(has_signal(&status(8, 0b100, 0, 0)));
    }

    fn asked(signal: libc::c_int, ignored: u64, blocked: u64) -> bool {
        let status = status(7, 0, bit(signal), blocked) + &format!("SigIgn:\t{ignored:016x}\n");
        is_asked_to_end(&status)
    }

    #[test]
    fn what_people_end_programs_with_ends_a_wait_and_other_signals_do_not() {
        assert!(ENDING.iter().all(|signal| asked(*signal, 0, 0)));
        for harmless in [libc::SIGALRM, libc::SIGCHLD, libc::SIGUSR1, libc::SIGURG, libc::SIGSTOP] {
            assert!(!asked(harmless, 0, 0), "{harmless}");
        }
        assert!(!asked(libc::SIGINT, bit(libc::SIGINT), 0), "ignored");
        assert!(!asked(libc::SIGTERM, 0, bit(libc::SIGTERM)), "blocked");
        assert!(is_asked_to_end(&status(8, bit(libc::SIGKILL), 0, 0)), "killed with its process");
    }

    #[test]
    fn who_was_killed_does_not_wait_for_its_files_and_who_ends_by_itself_does() {
        let stat = |flags: u64| format!("7 (a ) name) D 1 7 7 0 -1 {flags} 0 0\n");
        assert!(was_killed(&stat(IS_EXITING | WAS_SIGNALED | 64)));
        assert!(!was_killed(&stat(IS_EXITING | 64)), "it ended by itself");
        assert!(!was_killed(&stat(WAS_SIGNALED)));
        assert!(!was_killed("") && !was_killed("7 (x) D"));
    }

    #[test]
    fn a_program_that_goes_on_has_memory() {
        assert!(!has_no_memory(&std::fs::read_to_string("/proc/self/status").unwrap()));
        assert!(has_no_memory(&status(7, 0, 0, 0)));
    }

    #[test]
    fn the_kernel_says_both_of_a_living_thread() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let rest = stat.rsplit_once(')').unwrap().1;
        assert!(rest.split_ascii_whitespace().count() > FLAGS);
        assert!(!is_ending(std::process::id()));
    }

    #[test]
    fn who_is_not_there_is_not_interrupted() {
        assert!(!is_interrupted(0));
        assert!(!is_interrupted(u32::MAX));
        assert!(!has_signal(""));
    }
}
