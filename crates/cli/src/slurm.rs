//! The job of Slurm that this process runs in: its nodes, and the memory that it has on each of them.

use std::io::Write;
use std::net::{IpAddr, ToSocketAddrs};
use std::process::{Command, Stdio};

use tidefs_model::ByteSize;

use crate::failure::Failure;
use crate::search_path;

/// What says in a job which nodes it has.
const NODES: &str = "SLURM_JOB_NODELIST";

/// A job, as seen from one of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub job: String,
    /// Its nodes without this one.
    pub others: Vec<String>,
    /// On each node; `None` where Slurm does not count memory.
    pub memory: Option<ByteSize>,
}

impl Allocation {
    /// # Errors
    /// Where this is no node of a job.
    pub fn here() -> Result<Allocation, Failure> {
        Allocation::of(|name| std::env::var(name).ok().filter(|it| !it.is_empty()), names_of)
    }

    fn of(
        variable: impl Fn(&str) -> Option<String>,
        names_of: impl Fn(&str) -> Result<Vec<String>, Failure>,
    ) -> Result<Allocation, Failure> {
        let (job, list) = match (variable("SLURM_JOB_ID"), variable(NODES)) {
            (Some(job), Some(list)) => (job, list),
            _ => return Err(Failure::NoAllocation),
        };
        let nodes = names_of(&list)?;
        let here = variable("SLURMD_NODENAME").filter(|here| nodes.contains(here));
        let here = here.ok_or_else(|| Failure::NotOnANodeOfTheJob { job: job.clone() })?;
        let others = nodes.into_iter().filter(|node| *node != here).collect();
        Ok(Allocation { job, others, memory: memory(&variable) })
    }

    /// What a node of the file system takes on each: what is asked for, if the job has it, or else half of what the
    /// job has, since its programs need memory too. `None`: what is free says it.
    pub fn share(
        &self,
        asked: Option<ByteSize>,
        least: ByteSize,
    ) -> Result<Option<ByteSize>, Failure> {
        let Some(has) = self.memory else { return Ok(asked) };
        match asked {
            Some(asked) if asked > has => Err(Failure::MoreThanTheJobHas { asked, has }),
            Some(asked) => Ok(Some(asked)),
            None if has.0 / 2 < least.0 => Err(Failure::JobOfLittleMemory { has, least }),
            None => Ok(Some(ByteSize(has.0 / 2))),
        }
    }
}

/// In variables it is counted in MiB.
fn memory(variable: &impl Fn(&str) -> Option<String>) -> Option<ByteSize> {
    let mebibytes = |name: &str| variable(name)?.parse().ok().filter(|it: &u64| *it > 0);
    let of_cpus = || {
        let each = mebibytes("SLURM_MEM_PER_CPU")?;
        let counts = variable("SLURM_JOB_CPUS_PER_NODE")?;
        // `2(x3),1`: the least of all nodes.
        let count = |part: &str| part.split('(').next().and_then(|it| it.parse::<u64>().ok());
        Some(each * counts.split(',').filter_map(count).min()?)
    };
    mebibytes("SLURM_MEM_PER_NODE").or_else(of_cpus).map(|it| ByteSize(it.saturating_mul(1 << 20)))
}

/// The names that a list such as `n[01-16]` stands for, as Slurm reads it.
fn names_of(list: &str) -> Result<Vec<String>, Failure> {
    let said = says("scontrol", &["show", "hostnames", list], None);
    let said = said.map_err(|why| Failure::SlurmSilent { why })?;
    Ok(said.split_whitespace().map(str::to_owned).collect())
}

/// By which other nodes reach this one; `None` where Slurm does not say, or the name leads nowhere else.
pub fn own_address() -> Option<IpAddr> {
    let node = std::env::var("SLURMD_NODENAME").ok()?;
    let said = says("scontrol", &["--oneliner", "show", "node", &node], None).ok()?;
    let found = (address_in(&said)?, 0).to_socket_addrs().ok()?;
    found.map(|at| at.ip().to_canonical()).find(|ip| !ip.is_loopback())
}

fn address_in(said: &str) -> Option<&str> {
    said.split_whitespace().find_map(|word| word.strip_prefix("NodeAddr="))
}

/// What a program of Slurm's answers, given this on its standard input.
///
/// # Errors
/// What it says where it fails.
pub fn says(program: &str, words: &[&str], input: Option<&str>) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{program}: {error}");
    let mut command = Command::new(search_path::find(program.as_ref()).map_err(failed)?);
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().map_err(failed)?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // One that does not read it says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let said = child.wait_with_output().map_err(failed)?;
    match said.status.success() {
        true => Ok(String::from_utf8_lossy(&said.stdout).into_owned()),
        false => Err(match String::from_utf8_lossy(&said.stderr).trim() {
            "" => format!("{program}: {}", said.status),
            why => why.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(variables: &[(&str, &str)]) -> Result<Allocation, Failure> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Allocation::of(variable, |list| Ok(list.split(',').map(str::to_owned).collect()))
    }

    const JOB: [(&str, &str); 3] =
        [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n1,n2,n3"), ("SLURMD_NODENAME", "n2")];

    #[test]
    fn a_job_is_seen_from_one_of_its_nodes() {
        let job = seen(&JOB).unwrap();
        assert_eq!((job.job.as_str(), job.others), ("7", vec!["n1".to_owned(), "n3".to_owned()]));
        assert!(matches!(seen(&[]), Err(Failure::NoAllocation)));
        assert!(matches!(seen(&JOB[..2]), Err(Failure::NotOnANodeOfTheJob { .. })));
        let elsewhere = [JOB[0], JOB[1], ("SLURMD_NODENAME", "login")];
        assert!(matches!(seen(&elsewhere), Err(Failure::NotOnANodeOfTheJob { .. })));
    }

    #[test]
    fn a_program_that_fails_says_why() {
        assert_eq!(says("cat", &[], Some("a script")), Ok("a script".to_owned()));
        let failed = says("sh", &["-c", "echo no account >&2; exit 1"], None);
        assert_eq!(failed, Err("no account".to_owned()));
        assert!(says("sh", &["-c", "exit 3"], None).unwrap_err().contains("exit status: 3"));
        assert_eq!(address_in("NodeName=n1 NodeAddr=10.0.0.1 NodeHostName=n1"), Some("10.0.0.1"));
    }

    #[test]
    fn nodes_take_half_of_the_memory_that_the_job_has_on_each() {
        let with = |more: &[(&str, &str)]| seen(&[&JOB[..], more].concat()).unwrap();
        let least = ByteSize::mib(32);
        let per_node = with(&[("SLURM_MEM_PER_NODE", "600")]);
        assert_eq!(per_node.share(None, least).unwrap(), Some(ByteSize::mib(300)));
        assert_eq!(
            per_node.share(Some(ByteSize::mib(500)), least).unwrap(),
            Some(ByteSize::mib(500))
        );
        let refused = per_node.share(Some(ByteSize::mib(700)), least).unwrap_err();
        assert!(matches!(refused, Failure::MoreThanTheJobHas { .. }), "{refused}");
        let per_cpu = [("SLURM_MEM_PER_CPU", "100"), ("SLURM_JOB_CPUS_PER_NODE", "4(x2),2")];
        assert_eq!(with(&per_cpu).memory, Some(ByteSize::mib(200)));
        let little = with(&[("SLURM_MEM_PER_NODE", "60")]).share(None, least).unwrap_err();
        assert!(matches!(little, Failure::JobOfLittleMemory { .. }), "{little}");
        let uncounted = with(&[("SLURM_MEM_PER_NODE", "0")]);
        assert_eq!(uncounted.share(None, least).unwrap(), None);
    }
}
