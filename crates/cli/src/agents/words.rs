//! What an agent on another host and whoever started it there say to each other: lines of JSON on the agent's
//! standard input and output. A line on its input that is not the first, or the end of that, ends it.

use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::arguments::serving::Serving;
use crate::finding::Finding;
use crate::{version, wall_clock};

/// No word is nearly as long.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// On the input of an agent: it ends at once, and gives nothing back.
pub const END: &str = "end";
/// The same: from then on the end of the input does not end it.
pub const STAY: &str = "stay";

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromAgent {
    Hello(Hello),
    /// It has joined, has its mount, and its node waits.
    Ready(Ready),
    /// What it was asked to look at.
    Found(Found),
    /// The host is none of the file system's, for this reason.
    Failed(String),
}

/// What its host has and lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub findings: Vec<Finding>,
    /// Why the host would refuse an order.
    pub refused: Option<String>,
}

/// What an agent is told first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToAgent {
    Join(Box<Order>),
    /// What the host lacks for an order with a node of this size.
    Look {
        memory_bytes: Option<u64>,
    },
}

/// Who an agent is, before it knows what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: String,
    /// As the host calls itself.
    pub host: String,
    /// What tells its kernel and processes from those of other hosts.
    pub machine: String,
    /// From where it was reached, as that host sees it.
    pub caller: Option<IpAddr>,
    /// What the clock on its wall shows, in seconds since 1970.
    pub wall_seconds: Option<i64>,
}

/// What an agent has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    pub mount: PathBuf,
    /// Where programs there find the file system.
    pub directory: PathBuf,
}

/// What an agent is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Of what is kept of the file system there.
    pub name: String,
    pub address: SocketAddr,
    /// In hexadecimal digits.
    pub secret: String,
    pub mount: PathBuf,
    /// Of its node; none: a share of what is free there.
    pub memory_bytes: Option<u64>,
    pub serving: Serving,
}

/// A command that is run on another host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub words: Vec<OsString>,
    pub environment: Vec<(String, PathBuf)>,
    /// It runs in the first that is there.
    pub directories: Vec<PathBuf>,
}

impl Hello {
    pub fn of_this_host() -> Hello {
        Hello {
            version: version::line().to_owned(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            machine: machine(),
            caller: caller(|name| std::env::var(name).ok()),
            wall_seconds: Some(wall_clock::seconds()),
        }
    }
}

/// The boot of the kernel, and the space of process numbers.
fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), space.display())
}

/// As `srun` says it, or `sshd` to what it starts: address and port of both ends. What a job has from `sshd` is about
/// whoever submitted it.
fn caller(variable: impl Fn(&str) -> Option<String>) -> Option<IpAddr> {
    let said = variable("SLURM_LAUNCH_NODE_IPADDR").or_else(|| variable("SSH_CONNECTION"))?;
    // A link-local address is followed by the name of an interface here.
    let address = said.split_whitespace().next()?.split('%').next()?;
    address.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// The next line without its end; `None` at the end of what is said. What is too long is an error.
pub fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
    match bytes.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Some(last) if (bytes.len() as u64) < LINE_BYTES_MAX - 1 => {
            bytes.push(last);
            Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
        }
        Some(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// In one piece.
pub fn say(to: &mut impl Write, word: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_reached_a_host_is_seen_from_there() {
        let from = |of_ssh: &str| {
            let of_ssh = of_ssh.to_owned();
            caller(move |name| (name == "SSH_CONNECTION").then(|| of_ssh.clone()))
        };
        assert_eq!(from("10.0.0.1 40000 10.0.0.2 22"), Some("10.0.0.1".parse().unwrap()));
        assert_eq!(from("::ffff:10.0.0.1 1 ::1 22"), Some("10.0.0.1".parse().unwrap()));
        assert_eq!(from("fe80::1%eth0 1 fe80::2%eth0 22"), Some("fe80::1".parse().unwrap()));
        assert_eq!((from(""), from("here 1"), caller(|_| None)), (None, None, None));
        let in_a_job = caller(|name| {
            Some(if name.starts_with("SLURM") { "10.0.0.7" } else { "::1 9" }.into())
        });
        assert_eq!(in_a_job, Some("10.0.0.7".parse().unwrap()));
    }

    #[test]
    fn lines_are_read_to_their_end_and_no_further_than_a_word_is_long() {
        let mut said: &[u8] = b"one\ntwo";
        let mut next = || line(&mut said).unwrap();
        assert_eq!((next(), next(), next()), (Some("one".into()), Some("two".into()), None));
        let long = vec![b'x'; LINE_BYTES_MAX as usize + 1];
        assert!(line(&mut &long[..]).is_err());
    }
}
