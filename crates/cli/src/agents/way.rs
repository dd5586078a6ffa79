//! How a program is started on another host: by the user's own `ssh`, or in a job by Slurm's `srun`.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::search_path;
use crate::ssh::{self, SshHost};

/// For a connection.
const CONNECT_SECONDS: u32 = 10;
/// A connection over which nothing comes for three times this has ended.
const ALIVE_SECONDS: u32 = 5;

const SRUN: &str = "srun";
/// What a job asks for, which a step of one task would ask for as well.
const OF_THE_JOB: [&str; 9] = [
    "SLURM_CPUS_PER_TASK",
    "SLURM_DISTRIBUTION",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_NNODES",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
];

/// What reaches a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    Ssh(SshHost),
    /// A node of a job that this host belongs to as well.
    Srun {
        job: String,
        node: String,
    },
}

impl Way {
    /// As its user calls the host.
    pub fn name(&self) -> &str {
        match self {
            Way::Ssh(host) => host.name(),
            Way::Srun { node, .. } => node,
        }
    }

    /// The program that reaches it.
    pub fn program(&self) -> String {
        match self {
            Way::Ssh(_) => ssh::program().to_string_lossy().into_owned(),
            Way::Srun { .. } => SRUN.to_owned(),
        }
    }

    /// What starts this program there with these words, which need no quotes. All of its streams are pipes, and
    /// it is told to end when the thread that starts it ends.
    ///
    /// # Errors
    /// There is no program for that, or none that root trusts.
    pub fn command(&self, words: &str) -> io::Result<Command> {
        let mut command = match self {
            Way::Ssh(host) => {
                let mut command = Command::new(search_path::find(&ssh::program())?);
                for option in [
                    "BatchMode=yes".to_owned(),
                    format!("ConnectTimeout={CONNECT_SECONDS}"),
                    format!("ServerAliveInterval={ALIVE_SECONDS}"),
                ] {
                    command.args(["-o", &option]);
                }
                let words = format!("sh -c '{}'", this_program(words));
                command.args(["-T", "--", &host.0, &words]);
                command
            }
            Way::Srun { job, node } => {
                let mut command = Command::new(search_path::find(SRUN.as_ref())?);
                OF_THE_JOB.iter().for_each(|name| {
                    command.env_remove(name);
                });
                command.args([
                    "--quiet",
                    "--overlap",
                    "--nodes=1",
                    "--ntasks=1",
                    "--cpu-bind=none",
                ]);
                command.args(["--mem=0", &format!("--jobid={job}"), &format!("--nodelist={node}")]);
                command.args(["/bin/sh", "-c", &this_program(words)]);
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
        Ok(command)
    }
}

/// For a shell of another host, without quotes: the program in the same place as here, where there is one, and
/// otherwise the one on the search path.
pub fn this_program(words: &str) -> String {
    let here = std::env::current_exe().ok();
    let here = here.as_deref().and_then(Path::to_str).filter(|path| is_plain(path));
    let same = here.map(|here| format!("if test -x {here}; then exec {here} {words}; fi; "));
    format!("{}exec tidefs {words}", same.unwrap_or_default())
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
