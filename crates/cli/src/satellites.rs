//! Hosts as jobs of Slurm of their own: what is submitted for one, and how it stands with it. One host is a job by that
//! host's name; the name is drawn, so that no other job has it.

use std::net::SocketAddr;
use std::path::PathBuf;

use tidefs_model::ByteSize;

use crate::agents::this_program;
use crate::lending;
use crate::slurm;

/// Programs that have to be in the search path.
pub const PROGRAMS: [&str; 4] = ["sbatch", "scancel", "scontrol", "squeue"];
/// Before the time of a job ends, its agent is told to leave.
const NOTICE_SECONDS: u32 = 120;
/// Of the environment, as far as it is set: what the agent goes by.
const INHERITED: [&str; 3] = ["HOME", "PATH", "TIDEFS_SERVER"];

/// A host that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Satellite {
    pub name: String,
    /// Where it joins.
    pub address: SocketAddr,
    /// In hexadecimal digits.
    pub secret: String,
    /// Of its node.
    pub memory: ByteSize,
}

/// How it stands with a job, as `squeue` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// For this reason.
    Pending(String),
    Runs,
    /// Ended, or about to.
    Over,
}

impl Satellite {
    /// What `sbatch` is told; `options` are the user's, and nothing of theirs changes how many hosts it is and how it is
    /// called.
    pub fn words(&self, options: &str, is_set: impl Fn(&str) -> bool) -> Vec<String> {
        let inherited: Vec<_> = INHERITED.into_iter().filter(|name| is_set(name)).collect();
        let memory = format!("--mem={}M", self.job_memory().0.div_ceil(1 << 20));
        let notice = format!("--signal=B:USR1@{NOTICE_SECONDS}");
        let usual = [memory, notice, "--output=/dev/null".to_owned(), "--chdir=/".to_owned()];
        let own = [
            "--parsable".to_owned(),
            format!("--job-name={}", self.name),
            "--nodes=1".to_owned(),
            "--ntasks=1".to_owned(),
            "--no-requeue".to_owned(),
            format!("--export={}", inherited.join(",")),
        ];
        let asked = options.split_whitespace().map(str::to_owned);
        usual.into_iter().chain(asked).chain(own).collect()
    }

    /// The node's, what its server and agent take beside it, and what is kept free on any host: a sixteenth, and so much at
    /// least.
    fn job_memory(&self) -> ByteSize {
        ByteSize(self.memory.0 + self.memory.0 / 8 + ByteSize::mib(192).0)
    }

    /// Which the job runs. The secret is in no argument and in no file of the host's; what is kept there has a place of its
    /// own, since another satellite may have the same host.
    pub fn script(&self) -> String {
        let Satellite { name, address, secret, memory } = self;
        let words = format!(
            "--state /tmp/{name} join {address} --secret-file /dev/fd/3 --memory {} --provided {name}",
            memory.0
        );
        let program = this_program(&words);
        format!("#!/bin/sh\numask 77\nexec 3<<'END'\n{secret}\nEND\n{program}\n")
    }

    /// From what a provision command finds in its environment.
    ///
    /// # Errors
    /// What is missing or wrong there.
    pub fn of(
        name: &str,
        variable: impl Fn(&str) -> Option<String>,
        read: impl Fn(PathBuf) -> std::io::Result<String>,
    ) -> anyhow::Result<Satellite> {
        let wanted =
            |name: &str| variable(name).ok_or_else(|| anyhow::anyhow!("{name} is not set"));
        let address: SocketAddr = wanted("TIDEFS_JOIN_ADDRESS")?.parse()?;
        let secret = read(wanted("TIDEFS_JOIN_SECRET_FILE")?.into())?.trim().to_owned();
        lending::secret_of(&secret)?;
        let memory = ByteSize(wanted("TIDEFS_JOIN_MEMORY")?.parse()?);
        Ok(Satellite { name: name.to_owned(), address, secret, memory })
    }
}

impl Seen {
    /// From `%T %r` of `squeue`; nothing is said of a job that is over.
    pub fn of(said: &str) -> Seen {
        match said.trim().split_once(' ') {
            Some(("PENDING", reason)) => Seen::Pending(reason.trim().to_owned()),
            Some(("RUNNING" | "CONFIGURING" | "SUSPENDED", _)) => Seen::Runs,
            _ => Seen::Over,
        }
    }
}

/// How it stands with a job.
///
/// # Errors
/// Where Slurm does not say it.
pub fn seen(job: &str) -> Result<Seen, String> {
    let words = ["--noheader", "--format=%T %r", &format!("--jobs={job}")];
    match slurm::says("squeue", &words, None) {
        Ok(said) => Ok(Seen::of(&said)),
        // It has forgotten a job that ended some time ago.
        Err(why) if why.contains("Invalid job id") => Ok(Seen::Over),
        Err(why) => Err(why),
    }
}

/// Jobs by this name, also those that are ending.
///
/// # Errors
/// Where Slurm does not say it.
pub fn jobs_of(name: &str) -> Result<Vec<String>, String> {
    let words = ["--noheader", "--format=%A", &format!("--name={name}")];
    let said = slurm::says("squeue", &words, None)?;
    Ok(said.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn satellite() -> Satellite {
        let secret = "0f".repeat(32);
        let variable = |name: &str| match name {
            "TIDEFS_JOIN_ADDRESS" => Some("10.0.0.1:7400".to_owned()),
            "TIDEFS_JOIN_SECRET_FILE" => Some("/secret".to_owned()),
            "TIDEFS_JOIN_MEMORY" => Some("67108864".to_owned()),
            _ => None,
        };
        Satellite::of("tide-1-2", variable, |_| Ok(format!("{secret}\n"))).unwrap()
    }

    #[test]
    fn the_options_of_the_user_come_before_what_they_may_not_change() {
        let words = satellite().words("-A me  --nodes=7 --mem=1G", |name| name != "TIDEFS_SERVER");
        let at = |word: &str| {
            words.iter().position(|it| it == word).unwrap_or_else(|| panic!("{word} in {words:?}"))
        };
        assert!(at("-A") + 1 == at("me") && at("--mem=264M") < at("--mem=1G"));
        assert!(at("--nodes=7") < at("--nodes=1"));
        assert!(at("me") < at("--job-name=tide-1-2") && at("--export=HOME,PATH") > 0);
        assert!(at("--signal=B:USR1@120") < at("-A"));
    }

    #[test]
    fn the_secret_is_in_no_argument() {
        let (satellite, script) = (satellite(), satellite().script());
        let lines: Vec<_> = script.lines().filter(|it| it.contains(&satellite.secret)).collect();
        assert_eq!(lines, [satellite.secret.as_str()]);
        assert!(script.contains(
            "join 10.0.0.1:7400 --secret-file /dev/fd/3 --memory 67108864 --provided tide-1-2"
        ));
        assert!(!satellite.words("", |_| true).join(" ").contains(&satellite.secret));
        assert!(Satellite::of("x", |_| None, |_| Ok(String::new())).is_err());
        let short = |_: PathBuf| Ok("0f".to_owned());
        assert!(Satellite::of("x", |_| Some("10.0.0.1:1".to_owned()), short).is_err());
    }

    #[test]
    fn a_job_is_pending_runs_or_is_over() {
        let reason = "QOSMaxJobsPerUserLimit".to_owned();
        assert_eq!(Seen::of("PENDING QOSMaxJobsPerUserLimit\n"), Seen::Pending(reason));
        assert_eq!(Seen::of("RUNNING None"), Seen::Runs);
        for over in ["", "COMPLETING None", "CANCELLED None"] {
            assert_eq!(Seen::of(over), Seen::Over, "{over}");
        }
    }
}
