//! Whether a program that waits for an answer has been sent a signal.
//!
//! The kernel would say so in a message of its own, which the FUSE library refuses, after which
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

fn has_signal(status: &str) -> bool {
    let field = |name: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    let signals = |name| field(name).and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let is_first = field("Tgid").is_some() && field("Tgid") == field("Pid");
    let own = signals("SigPnd").unwrap_or(0);
    let shared = signals("ShdPnd").filter(|_| is_first).unwrap_or(0);
    (own | shared) & !signals("SigBlk").unwrap_or(0) != 0
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

    #[test]
    fn who_is_not_there_is_not_interrupted() {
        assert!(!is_interrupted(0));
        assert!(!is_interrupted(u32::MAX));
        assert!(!has_signal(""));
    }
}
