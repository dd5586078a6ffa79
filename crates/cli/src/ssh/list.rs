//! A plain list of hosts as MPI users write it: `host`, `user@host`, `host slots=4 max_slots=8 memory=8GiB`,
//! `host:4`, or a nodelist such as `n[01-16],login`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tidefs_model::ByteSize;

use crate::failure::Failure;

/// More in one list is a mistake in a range.
const HOSTS_MOST: usize = 1_024;

/// A host as `ssh` is told: a name that its configuration may know, with a user where one was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshHost(pub String);

impl SshHost {
    /// Without the user.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('@').map_or(&self.0, |(_, name)| name)
    }
}

/// A host of a list, and what the list says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub host: SshHost,
    /// Of a node there.
    pub memory: Option<ByteSize>,
}

/// What is wrong with a list, and in which line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    #[error("there is no host in it")]
    Empty,
    #[error("line {line}: {word:?} is no host; give HOST, USER@HOST, or a range such as n[01-16]")]
    Host { line: usize, word: String },
    #[error("line {line}: {word:?} is no range; give numbers, such as n[01-16] or n[1,4-6]")]
    Range { line: usize, word: String },
    #[error(
        "line {line}: {word:?} is nothing that is said of a host; slots=N, max_slots=N and memory=SIZE may follow it"
    )]
    Word { line: usize, word: String },
    #[error("line {line}: {word:?} has no number of slots behind its colon, such as host:4")]
    Slots { line: usize, word: String },
    #[error("line {line}: {word:?} is in the list already")]
    Twice { line: usize, word: String },
    #[error("line {line}: these are more than {HOSTS_MOST} hosts")]
    TooMany { line: usize },
}

/// # Errors
/// When the file cannot be read or says something else.
pub fn read(path: &Path) -> Result<Vec<Listed>, Failure> {
    let path = || path.to_owned();
    let text = std::fs::read_to_string(path())
        .map_err(|cause| Failure::HostsUnreadable { path: path(), cause })?;
    parse(&text).map_err(|cause| Failure::SshHostsWrong { path: path(), cause })
}

fn parse(text: &str) -> Result<Vec<Listed>, ListError> {
    let mut hosts: Vec<Listed> = Vec::new();
    for (at, text) in text.lines().enumerate() {
        let line = at + 1;
        let mut words = text.split('#').next().unwrap_or_default().split_whitespace();
        let Some(names) = words.next() else { continue };
        let mut memory = None;
        for word in words {
            let known = said(word);
            memory = known.ok_or(ListError::Word { line, word: word.to_owned() })?.or(memory);
        }
        for part in apart(names) {
            for word in spread(without_slots(part, line)?, line)? {
                add(&mut hosts, word, memory, line)?;
            }
        }
    }
    if hosts.is_empty() { Err(ListError::Empty) } else { Ok(hosts) }
}

fn add(
    hosts: &mut Vec<Listed>,
    word: String,
    memory: Option<ByteSize>,
    line: usize,
) -> Result<(), ListError> {
    if !is_host(&word) {
        return Err(ListError::Host { line, word });
    }
    let host = SshHost(word);
    if hosts.iter().any(|it| it.host == host) {
        return Err(ListError::Twice { line, word: host.0 });
    }
    if hosts.len() == HOSTS_MOST {
        return Err(ListError::TooMany { line });
    }
    hosts.push(Listed { host, memory });
    Ok(())
}

/// The parts of a nodelist as Slurm writes it, between commas that are in no brackets.
fn apart(names: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    names.split(move |letter| {
        is_inside = letter == '[' || is_inside && letter != ']';
        letter == ',' && !is_inside
    })
}

/// `host:4` says how many slots a host has; an address of version 6 has more than one colon.
fn without_slots(word: &str, line: usize) -> Result<&str, ListError> {
    match word.split_once(':') {
        Some((name, slots)) if !slots.contains(':') => match is_count(slots) {
            true => Ok(name),
            false => Err(ListError::Slots { line, word: word.to_owned() }),
        },
        _ => Ok(word),
    }
}

fn is_count(text: &str) -> bool {
    text.bytes().all(|it| it.is_ascii_digit()) && text.parse::<u32>().is_ok_and(|it| it > 0)
}

/// A word that `ssh` could take for an option, or a shell for more than a name, is no host.
fn is_host(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-@:%".contains(letter);
    !word.is_empty()
        && !word.starts_with(['-', '@'])
        && !word.ends_with('@')
        && word.chars().all(is_plain)
}

/// The memory that a word behind a host gives it; `None` where it says nothing known. Slots are for MPI.
fn said(word: &str) -> Option<Option<ByteSize>> {
    match word.split_once('=')? {
        ("slots" | "max_slots" | "max-slots", slots) => is_count(slots).then_some(None),
        ("memory", size) => size.parse::<ByteSize>().ok().filter(|size| size.0 > 0).map(Some),
        _ => None,
    }
}

/// The names that a word with ranges in brackets stands for.
fn spread(word: &str, line: usize) -> Result<Vec<String>, ListError> {
    let Some((before, rest)) = word.split_once('[') else { return Ok(vec![word.to_owned()]) };
    let wrong = || ListError::Range { line, word: word.to_owned() };
    let (inside, after) = rest.split_once(']').ok_or_else(wrong)?;
    let after = spread(after, line)?;
    let mut names = Vec::new();
    for part in inside.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
            is_number.then(|| text.parse::<u32>().ok()).flatten().ok_or_else(wrong)
        };
        let (from, to) = (number(first)?, number(last)?);
        if from > to {
            return Err(wrong());
        }
        for number in from..=to {
            for end in &after {
                if names.len() == HOSTS_MOST {
                    return Err(ListError::TooMany { line });
                }
                // As many digits as the first number was written with.
                names.push(format!("{before}{number:0width$}{end}", width = first.len()));
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_as_mpi_users_and_schedulers_write_them() {
        let text = "# ours\n\nhead\nme@login slots=4 max_slots=8 memory=8GiB # big\nn[09-11,20]\nr[1-2]c[1-2].x\n\
             a:4 max-slots=4\nme@b:2\nfe80::1\nm[1-2]:8,k,l[07]:1\n";
        let listed = parse(text).unwrap();
        assert_eq!((listed[0].memory, listed[1].memory), (None, Some(ByteSize::gib(8))));
        assert_eq!((listed[0].host.name(), listed[1].host.name()), ("head", "login"));
        let hosts: Vec<_> = listed.into_iter().map(|it| it.host.0).collect();
        let expected = [
            "head", "me@login", "n09", "n10", "n11", "n20", "r1c1.x", "r1c2.x", "r2c1.x", "r2c2.x",
            "a", "me@b", "fe80::1", "m1", "m2", "k", "l07",
        ];
        assert_eq!(hosts, expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, says) in [
            ("# nobody\n", "no host"),
            ("-oProxyCommand=x\n", "line 1: \"-oProxyCommand=x\" is no host"),
            ("@h\n", "is no host"),
            ("a;b\n", "is no host"),
            ("\nh1 10.0.0.1 nsenter\n", "line 2: \"10.0.0.1\" is nothing that is said"),
            ("h slots=0\n", "slots=0"),
            ("h\nk max_slots=+1\n", "line 2: \"max_slots=+1\" is nothing that is said"),
            ("h slots=4 cores=2\n", "line 1: \"cores=2\" is nothing that is said"),
            ("h:0\n", "line 1: \"h:0\" has no number of slots"),
            ("h:\n", "has no number of slots"),
            ("h,,k\n", "\"\" is no host"),
            ("h memory=lots\n", "memory=lots"),
            ("n[3-1]\n", "is no range"),
            ("n[1-\n", "is no range"),
            ("n[+1]\n", "is no range"),
            ("n[1-99999]\n", "more than 1024"),
            ("n[1-999]x[1-999]\n", "more than 1024"),
            ("n1\nn[0-2]\n", "line 2: \"n1\" is in the list"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
