//! What this process has said, for those who ask on another host: the last of it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// Remembered at most.
const BYTES_MAX: usize = 64 << 10;
/// Of a line.
const LINE_BYTES_MAX: usize = 4 << 10;

static SAID: Mutex<Said> = Mutex::new(Said::new());

/// Where lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// To standard error alone.
    Plain,
    /// They are remembered as well.
    Both,
    /// They are remembered alone: somebody else carries them to where standard error would have gone.
    Carried,
}

struct Said {
    course: Course,
    /// The number of the line that comes next.
    next: u64,
    /// Of the first line that nobody is known to have carried.
    not_carried: u64,
    lines: VecDeque<String>,
    bytes: usize,
}

/// From now on lines go there. Those that were to be carried and were not go to standard error then.
pub fn take(course: Course) {
    let left = said().take(course);
    let text: String = left.iter().map(|line| format!("{line}\n")).collect();
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Somebody has carried all lines before the one with this number.
pub fn is_carried(next: u64) {
    said().is_carried(next);
}

/// A line or several; `true`: standard error need not have them.
pub fn add(text: &[u8]) -> bool {
    said().add(text)
}

/// What was said from the line with this number on, as far as it is remembered, and the number of the next line.
pub fn from(number: u64) -> (Vec<String>, u64) {
    said().from(number)
}

/// Where a process that this one starts is to say what it says: where lines are remembered, its own are as well.
pub fn of_child() -> Stdio {
    if said().course == Course::Plain { Stdio::inherit() } else { Stdio::piped() }
}

/// Has lines of such a process go where those of this one go, until it ends.
pub fn carry(from: impl Read + Send + 'static) {
    let carries = move || {
        each_line(from, |line| {
            if !add(line) {
                let _ = std::io::stderr().write_all(line);
            }
        });
    };
    // Where there is no thread, that process finds that nobody reads, and its lines are lost.
    let _ = Builder::new().name("carries".to_owned()).spawn(carries);
}

/// Of a longer line its parts.
fn each_line(from: impl Read, mut hear: impl FnMut(&[u8])) {
    let (mut from, mut line) = (BufReader::new(from), Vec::new());
    let most = LINE_BYTES_MAX as u64;
    while from.by_ref().take(most).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        hear(&line);
        line.clear();
    }
}

fn said() -> MutexGuard<'static, Said> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Said {
    const fn new() -> Said {
        Said { course: Course::Plain, next: 0, not_carried: 0, lines: VecDeque::new(), bytes: 0 }
    }

    /// Answers what nobody carries any more.
    fn take(&mut self, course: Course) -> Vec<String> {
        let before = std::mem::replace(&mut self.course, course);
        let ends = before == Course::Carried && course != Course::Carried;
        if ends { self.from(self.not_carried).0 } else { Vec::new() }
    }

    fn is_carried(&mut self, next: u64) {
        self.not_carried = self.not_carried.max(next);
    }

    fn add(&mut self, text: &[u8]) -> bool {
        if self.course == Course::Plain {
            return false;
        }
        for line in String::from_utf8_lossy(text).lines() {
            let line: String = line.chars().take(LINE_BYTES_MAX / 4).collect();
            (self.next, self.bytes) = (self.next + 1, self.bytes + line.len());
            self.lines.push_back(line);
        }
        while self.bytes > BYTES_MAX {
            self.bytes -= self.lines.pop_front().map_or(self.bytes, |line| line.len());
        }
        self.course == Course::Carried
    }

    fn from(&self, number: u64) -> (Vec<String>, u64) {
        let first = self.next - self.lines.len() as u64;
        let known = number.saturating_sub(first) as usize;
        (self.lines.iter().skip(known).cloned().collect(), self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_carried_is_left_when_nobody_does_any_more() {
        let mut said = Said::new();
        assert!(said.take(Course::Both).is_empty());
        said.add(b"on standard error\n");
        assert!(said.take(Course::Carried).is_empty());
        said.is_carried(1);
        said.add(b"carried\nnot carried\nnor this\n");
        said.is_carried(2);
        // Another one is told all of it again.
        said.is_carried(1);
        assert_eq!(said.take(Course::Plain), ["not carried", "nor this"]);
        assert!(said.take(Course::Plain).is_empty() && !said.add(b"after\n"));
    }

    #[test]
    fn what_another_process_says_comes_line_by_line() {
        let (long, mut heard) = ("x".repeat(LINE_BYTES_MAX + 1), Vec::new());
        each_line(format!("one\ntwo\n{long}\nrest").as_bytes(), |line| {
            heard.push(String::from_utf8(line.to_vec()).unwrap());
        });
        assert_eq!(heard, ["one\n", "two\n", &long[1..], "x\n", "rest"]);
    }

    #[test]
    fn the_last_of_what_is_said_is_remembered_by_number() {
        let mut said = Said::new();
        assert!(!said.add(b"before\n") && said.from(0) == (vec![], 0));
        said.course = Course::Both;
        assert!(!said.add(b"one\ntwo\n"));
        said.course = Course::Carried;
        assert!(said.add(b"three"));
        assert_eq!(said.from(0), (vec!["one".into(), "two".into(), "three".into()], 3));
        assert_eq!(said.from(2), (vec!["three".into()], 3));
        assert_eq!((said.from(3).0, said.from(9).0), (Vec::<String>::new(), Vec::new()));
        for _ in 0..BYTES_MAX {
            said.add(b"xxxxxxxx\n");
        }
        let (lines, next) = said.from(0);
        assert_eq!((lines.len() * 8, next), (BYTES_MAX, 3 + BYTES_MAX as u64));
        said.add(&[b'y'; 2 * BYTES_MAX]);
        assert!(said.from(next).0[0].len() <= LINE_BYTES_MAX);
    }
}
