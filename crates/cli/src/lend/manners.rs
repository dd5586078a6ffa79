//! How a lender and its node stand beside the other programs of their machine: as batch tasks, the kernel
//! lets whoever runs go on when they wake up, and has them run when it is their turn. So the tenant is not
//! interrupted for each request that comes, and wakes up before them. What they may use is the same.

use std::fs;
use std::io;

/// How the kernel schedules a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// It interrupts nobody.
    Patient,
    /// Like every other program: it is to be emptied, and somebody waits for that.
    Usual,
}

impl Manners {
    /// Of all threads of a process, and of what they start from then on.
    pub fn have(self, process: u32) {
        if let Err(error) = self.set(process) {
            tracing::warn!("process {process} does not become {self:?} to other programs: {error}");
        }
    }

    /// A thread that ends meanwhile needs no manners.
    fn set(self, process: u32) -> io::Result<()> {
        for entry in fs::read_dir(format!("/proc/{process}/task"))? {
            let thread = entry?.file_name();
            let Some(thread) = thread.to_str().and_then(|name| name.parse().ok()) else { continue };
            match self.of_thread(thread) {
                Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn of_thread(self, thread: libc::pid_t) -> io::Result<()> {
        let policy = match self {
            Manners::Patient => libc::SCHED_BATCH,
            Manners::Usual => libc::SCHED_OTHER,
        };
        let priority = libc::sched_param { sched_priority: 0 };
        // SAFETY: the kernel reads the structure, which outlives the call.
        match unsafe { libc::sched_setscheduler(thread, policy, &raw const priority) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    /// Field 41 of proc_pid_stat(5); the name, which comes second, may hold spaces.
    fn policy(task: &str) -> i32 {
        let stat = fs::read_to_string(format!("/proc/{task}/stat")).unwrap();
        let mut fields = stat.rsplit_once(") ").unwrap().1.split(' ');
        fields.nth(38).unwrap().parse().unwrap()
    }

    #[test]
    fn all_threads_have_them_and_may_lose_them() {
        let script = "import threading; threading.Thread(target=input).start(); print(flush=True)";
        let mut child = Command::new("/usr/bin/python3")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let process = child.id();
        let threads = || {
            let entries = fs::read_dir(format!("/proc/{process}/task")).unwrap();
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        while threads().len() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let policies = || {
            threads().iter().map(|it| policy(&format!("{process}/task/{it}"))).collect::<Vec<_>>()
        };
        Manners::Patient.have(process);
        assert_eq!(policies(), [libc::SCHED_BATCH; 2]);
        Manners::Usual.have(process);
        assert_eq!(policies(), [libc::SCHED_OTHER; 2]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Manners::Usual.set(u32::MAX).is_err(), "nobody is there");
    }
}
