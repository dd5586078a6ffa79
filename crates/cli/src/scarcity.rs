//! Whom the kernel ends first when the machine has no memory left.
//!
//! It takes the process that a score makes the largest, and a storage node is large: with it goes what
//! is nowhere else. So what serves the file system gets a lower score where this user may give one, and
//! the command of a run one that is above that of a full node, since only the command can be run again.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::sync::OnceLock;

use tidefs_model::ByteSize;

/// Of everything that serves; children inherit it. The kernel spares what has -1000 altogether, also
/// where it must end something.
const SERVING: i32 = -800;
/// By which the command is above a full node: what a node has beside its data.
const MARGIN: i32 = 100;
const SCORE_MAX: i32 = 1_000;

static BEFORE: OnceLock<i32> = OnceLock::new();

/// The score of this process. It stays open, since a process that guards its memory from others may not
/// open this file of its own any more.
pub struct Score {
    file: File,
    /// As this process found it.
    before: i32,
    /// What serves has a lower one.
    pub is_lowered: bool,
}

impl Score {
    /// Lowers the score of this process and of what it starts, where that is allowed.
    pub fn of_what_serves() -> io::Result<Score> {
        let mut file = File::options().read(true).write(true).open("/proc/self/oom_score_adj")?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let before = text.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        BEFORE.get_or_init(|| before);
        let mut score = Score { file, before, is_lowered: before <= SERVING };
        if !score.is_lowered {
            score.is_lowered = score.set(SERVING).is_ok();
        }
        Ok(score)
    }

    /// Has `start` start a process with the score of a command beside nodes of this size, on a machine
    /// with so much memory.
    pub fn for_a_command<T>(
        &mut self,
        node: ByteSize,
        machine: ByteSize,
        start: impl FnOnce() -> T,
    ) -> T {
        let serving = if self.is_lowered { self.before.min(SERVING) } else { self.before };
        let raised = self.set(of_a_command(self.before, node, machine));
        let started = start();
        if let Err(error) = raised.and_then(|()| self.set(serving)) {
            tracing::warn!(
                "the command of this run may outlive its nodes when memory ends: {error}"
            );
        }
        started
    }

    fn set(&mut self, score: i32) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(score.to_string().as_bytes())
    }
}

/// The kernel counts the memory of a process in thousandths of the machine's, and adds the score.
fn of_a_command(before: i32, node: ByteSize, machine: ByteSize) -> i32 {
    let thousandths = node.0.saturating_mul(1_000).div_ceil(machine.0.max(1));
    let thousandths = i32::try_from(thousandths).unwrap_or(SCORE_MAX).min(SCORE_MAX);
    before.saturating_add(thousandths).saturating_add(MARGIN).min(SCORE_MAX)
}

/// As this process found its own, where it has changed it.
pub fn before() -> Option<i32> {
    BEFORE.get().copied()
}

/// For whoever serves and starts no command.
pub fn serve() {
    if let Err(error) = Score::of_what_serves() {
        tracing::debug!("the kernel's score of this process stays: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_above_a_full_node() {
        let machine = ByteSize::gib(16);
        assert_eq!(of_a_command(0, ByteSize::gib(8), machine), 600);
        assert_eq!(of_a_command(200, ByteSize::gib(4), machine), 550);
        assert_eq!(of_a_command(0, ByteSize::gib(16), machine), SCORE_MAX);
        assert_eq!(of_a_command(0, ByteSize(u64::MAX), ByteSize(0)), SCORE_MAX);
        assert_eq!(of_a_command(-500, ByteSize(0), machine), -400);
    }

    #[test]
    fn a_command_starts_with_the_higher_score_and_this_process_keeps_its_own() {
        let read = || std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        let mut score = Score::of_what_serves().unwrap();
        let serving = read();
        let command = score.for_a_command(ByteSize::gib(1), ByteSize::gib(4), || {
            let mut cat = std::process::Command::new("cat");
            cat.arg("/proc/self/oom_score_adj").output().unwrap()
        });
        let command = String::from_utf8(command.stdout).unwrap();
        assert_eq!(read(), serving);
        let [command, serving] = [command, serving].map(|it| it.trim().parse::<i32>().unwrap());
        assert_eq!(command, of_a_command(score.before, ByteSize::gib(1), ByteSize::gib(4)));
        assert!(command > serving);
        assert_eq!(score.is_lowered, serving <= SERVING);
        // Of whatever other tests start.
        let _ = score.set(score.before);
    }
}
