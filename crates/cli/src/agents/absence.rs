//! Why a host is not there, as a fact, from what its connection and its agent said.

use std::io;
use std::process::ExitStatus;

use super::way::Way;
use crate::finding::Finding;

/// By which a shell says that there is no such program, and `ssh` that there is no connection.
const NO_PROGRAM: i32 = 127;
const NO_CONNECTION: i32 = 255;
/// By which this program says that it does not know a word.
const MISUSED: i32 = 2;
/// Of what others say, for a line.
const LETTERS_MOST: usize = 300;
/// In what `ssh` says, and nothing else does.
const OTHER_KEY: &str = "REMOTE HOST IDENTIFICATION HAS CHANGED";

/// Why a host is not there.
#[derive(Debug, thiserror::Error)]
pub enum Absence {
    #[error("cannot run {program}: {cause}; install an SSH client, or name one in TIDEFS_SSH")]
    NoWay { program: String, cause: io::Error },
    #[error("no answer in {seconds} s{}; see that the host runs", behind(.said))]
    NoAnswer { seconds: u64, said: Vec<String> },
    #[error(
        "it shows another host key than ssh knows it by; where the host was made anew, forget the old one: \
         ssh-keygen -R {host}"
    )]
    OtherKey { host: String },
    #[error("no connection{}; make this work: ssh -o BatchMode=yes {host} true", behind(.said))]
    NoConnection { host: String, said: Vec<String> },
    #[error("tidefs is not in the search path there; install the package of this version")]
    NoProgram,
    #[error("tidefs {there} is there and {here} here; have the same version on all hosts")]
    OtherVersion { there: String, here: String },
    #[error("the tidefs that is there is an earlier one; have the same version on all hosts")]
    EarlierVersion,
    #[error("it is this host, under another name; call it as `hostname` does, or leave it out")]
    ThisHost,
    #[error("{0}")]
    Refuses(String),
    #[error("its agent ended{}", behind(.said))]
    Ended { said: Vec<String> },
}

impl Absence {
    /// Of an agent that said nothing of a reason.
    pub fn of_ended(way: &Way, status: Option<ExitStatus>, said: &[String]) -> Absence {
        let (host, said) = (way.name().to_owned(), said.to_vec());
        match status.and_then(|status| status.code()) {
            Some(NO_CONNECTION) if said.iter().any(|line| line.contains(OTHER_KEY)) => {
                Absence::OtherKey { host }
            }
            Some(NO_CONNECTION) => Absence::NoConnection { host, said },
            Some(NO_PROGRAM) => Absence::NoProgram,
            Some(MISUSED) if said.iter().any(|line| line.contains("unrecognized subcommand")) => {
                Absence::EarlierVersion
            }
            _ => Absence::Ended { said },
        }
    }
}

impl Absence {
    /// In the same words, for whoever looks at hosts before they are wanted.
    pub fn finding(&self) -> Finding {
        let subject = match self {
            Absence::NoWay { .. }
            | Absence::NoAnswer { .. }
            | Absence::OtherKey { .. }
            | Absence::NoConnection { .. } => "connection",
            Absence::NoProgram
            | Absence::OtherVersion { .. }
            | Absence::EarlierVersion
            | Absence::Ended { .. } => "tidefs",
            Absence::ThisHost => "host",
            Absence::Refuses(_) => "run --hosts",
        };
        Finding::of_refusal(subject, &self.to_string())
    }
}

/// The last line that says something; another machine's words do nothing to this terminal.
fn last(said: &[String]) -> String {
    let line = said.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty());
    let letters = line.unwrap_or_default().chars();
    letters.map(|it| if it.is_control() { ' ' } else { it }).take(LETTERS_MOST).collect()
}

fn behind(said: &[String]) -> String {
    match last(said) {
        nothing if nothing.is_empty() => String::new(),
        line => format!(": {line}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::ssh::SshHost;

    fn told(code: i32, said: &[&str]) -> String {
        let way = Way::Ssh(SshHost("me@n1".to_owned()));
        let said: Vec<_> = said.iter().map(|line| (*line).to_owned()).collect();
        Absence::of_ended(&way, Some(ExitStatus::from_raw(code << 8)), &said).to_string()
    }

    #[test]
    fn what_ssh_and_shells_say_is_told_with_what_to_do() {
        for (code, said, says) in [
            (255, &["n1: no route\x1b[2J", ""][..], "n1: no route [2J; make this work"),
            (255, &["@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @"], "ssh-keygen -R n1"),
            (127, &["sh: 1: tidefs: not found"], "not in the search path"),
            (2, &["error: unrecognized subcommand 'agent'"], "an earlier one"),
            (1, &["it broke"], "its agent ended: it broke"),
            (1, &[], "its agent ended"),
        ] {
            let told = told(code, said);
            assert!(told.contains(says), "{told}");
        }
    }
}
