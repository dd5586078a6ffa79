//! Which other hosts are wanted, from the options of `run` and `up`.

use std::net::IpAddr;

use tidefs_model::ByteSize;

use super::way::Way;
use crate::arguments::{NODE_MEMORY_MIN, StorageOptions};
use crate::failure::Failure;
use crate::slurm::Allocation;
use crate::ssh::{self, Listed};
use crate::without_effect::WithoutEffect;

/// As many as their sessions and nodes are served at the same time.
const OTHERS_MOST: usize = 120;

/// Hosts that are to join.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Wanted {
    pub others: Vec<Other>,
    /// So many hosts have to be there, with this one; none: all.
    pub required: Option<usize>,
    /// Of this host's own node, as the list says.
    pub here_bytes: Option<u64>,
    /// Of nodes whose host says nothing else.
    pub each_bytes: Option<u64>,
    /// There is a node on each host, since nothing else is asked for.
    pub one_each: bool,
}

/// Another host.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Other {
    pub way: Way,
    pub node_bytes: Option<u64>,
}

impl Wanted {
    /// `None`: no other host is asked for.
    pub fn of(options: &StorageOptions) -> Result<Option<Wanted>, Failure> {
        let required = options.hosts.hosts_required.map(usize::from);
        let one_each = options.nodes.is_none();
        let wanted = match (&options.hosts.hosts, options.hosts.slurm) {
            (Some(path), _) => Wanted::of_list(ssh::read(path)?, options.node_memory),
            (None, true) => Wanted::of_job(&Allocation::here()?, options.node_memory)?,
            (None, false) => match required {
                Some(required) => return Err(without_effect(required)),
                None => return Ok(None),
            },
        };
        let all = wanted.within_bounds()?;
        match required {
            Some(required) if required > all => Err(Failure::MoreHostsRequired { required, all }),
            _ => Ok(Some(Wanted { required, one_each, ..wanted })),
        }
    }

    /// The others of a list, of which none has to be there.
    pub fn to_look_at(listed: &[Listed]) -> Result<Wanted, Failure> {
        let wanted = Wanted { required: Some(1), ..Wanted::of_list(listed.to_vec(), None) };
        wanted.within_bounds().map(|_| wanted)
    }

    /// How many hosts they are with this one.
    fn within_bounds(&self) -> Result<usize, Failure> {
        let (hosts, most) = (self.others.len() + 1, OTHERS_MOST + 1);
        if hosts > most { Err(Failure::TooManyHosts { hosts, most }) } else { Ok(hosts) }
    }

    fn of_list(listed: Vec<Listed>, each: Option<ByteSize>) -> Wanted {
        let bytes = |memory: Option<ByteSize>| memory.map(|size| size.0);
        let (here, others): (Vec<_>, Vec<_>) = listed.into_iter().partition(is_this_host);
        let here_bytes = here.iter().find_map(|it| bytes(it.memory));
        let other = |it: Listed| Other { way: Way::Ssh(it.host), node_bytes: bytes(it.memory) };
        let others = others.into_iter().map(other).collect();
        Wanted { others, required: None, here_bytes, each_bytes: bytes(each), one_each: false }
    }

    fn of_job(job: &Allocation, asked: Option<ByteSize>) -> Result<Wanted, Failure> {
        let each_bytes = job.share(asked, NODE_MEMORY_MIN)?.map(|size| size.0);
        let way = |node: &String| Way::Srun { job: job.job.clone(), node: node.clone() };
        let other = |node: &String| Other { way: way(node), node_bytes: None };
        let others = job.others.iter().map(other).collect();
        Ok(Wanted { others, required: None, here_bytes: each_bytes, each_bytes, one_each: false })
    }

    /// Of the node of another host.
    pub fn bytes_of(&self, way: &Way) -> Option<u64> {
        let other = self.others.iter().find(|other| other.way == *way);
        other.and_then(|other| other.node_bytes).or(self.each_bytes)
    }
}

fn without_effect(required: usize) -> Failure {
    Failure::WithoutEffect(WithoutEffect {
        option: format!("--hosts-required {required}"),
        beside: "without --hosts or --slurm, for this host is the only one".to_owned(),
        advice: "give a list of hosts, or leave it out".to_owned(),
    })
}

/// By the name that it calls itself, or by an address of its own.
pub fn is_this_host(listed: &Listed) -> bool {
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = listed.host.name();
    match name.parse::<IpAddr>() {
        Ok(address) => tidefs_valkey::is_here(address),
        Err(_) => is_called(name, &own),
    }
}

/// With a domain or without.
fn is_called(name: &str, own: &str) -> bool {
    let (name, own) = (name.to_ascii_lowercase(), own.to_ascii_lowercase());
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let has_domain = |name: &str| name.contains('.');
    name == "localhost"
        || name == own
        || has_domain(&name) != has_domain(&own) && short(&name) == short(&own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_known_by_its_name_with_a_domain_or_without() {
        for name in ["n1", "N1", "n1.cluster", "localhost"] {
            assert!(is_called(name, "n1"), "{name}");
        }
        assert!(is_called("n1", "n1.cluster"));
        for name in ["n2", "n11", "n1x.cluster"] {
            assert!(!is_called(name, "n1"), "{name}");
        }
        assert!(!is_called("n1.other", "n1.cluster"));
    }
}
