//! How a program is started on another host: by the user's own `ssh`.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::ssh::{self, SshHost};

/// For a connection.
const CONNECT_SECONDS: u32 = 10;
/// A connection over which nothing comes for three times this has ended.
const ALIVE_SECONDS: u32 = 5;

/// What reaches a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    Ssh(SshHost),
}

impl Way {
    /// As its user calls the host.
    pub fn name(&self) -> &str {
        match self {
            Way::Ssh(host) => host.name(),
        }
    }

    /// The program that reaches it.
    pub fn program(&self) -> String {
        match self {
            Way::Ssh(_) => ssh::program().to_string_lossy().into_owned(),
        }
    }

    /// What starts this program there with these words, which need no quotes. All of its streams are pipes, and
    /// it is told to end when the thread that starts it ends.
    pub fn command(&self, words: &str) -> Command {
        let mut command = match self {
            Way::Ssh(host) => {
                let mut command = Command::new(ssh::program());
                for option in [
                    "BatchMode=yes".to_owned(),
                    format!("ConnectTimeout={CONNECT_SECONDS}"),
                    format!("ServerAliveInterval={ALIVE_SECONDS}"),
                ] {
                    command.args(["-o", &option]);
                }
                command.args(["-T", "--", &host.0, &this_program(words)]);
                command
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let parent = rustix::process::getpid();
        // SAFETY: the closure makes plain system calls only, which is allowed after a fork.
        unsafe {
            command.pre_exec(move || {
                // What the terminal sends to the foreground is for whoever started this.
                rustix::process::setpgid(None, None)?;
                rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
                match rustix::process::getppid() == Some(parent) {
                    true => Ok(()),
                    false => Err(io::ErrorKind::BrokenPipe.into()),
                }
            });
        }
        command
    }
}

/// In a shell of another host: the program in the same place as here, where there is one, and otherwise the
/// one on the search path.
fn this_program(words: &str) -> String {
    let here = std::env::current_exe().ok();
    let here = here.as_deref().and_then(Path::to_str).filter(|path| is_plain(path));
    match here {
        Some(here) => {
            format!("sh -c 'if test -x {here}; then exec {here} {words}; fi; exec tidefs {words}'")
        }
        None => format!("exec tidefs {words}"),
    }
}

/// It means the same in any shell.
fn is_plain(path: &str) -> bool {
    path.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-+".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_means_the_same_in_any_shell_is_put_into_its_words() {
        assert!(is_plain("/usr/bin/tidefs") && is_plain("/home/me/t-1.0_x+y/tidefs"));
        for path in ["/home/m e/tidefs", "/a'b", "/a$b", "/tidefs (deleted)"] {
            assert!(!is_plain(path), "{path}");
        }
    }
}
