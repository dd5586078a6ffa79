//! Which other hosts are wanted, from the options of `run` and `up`.

use std::net::IpAddr;

use tidefs_model::ByteSize;

use super::way::Way;
use crate::arguments::StorageOptions;
use crate::failure::Failure;
use crate::ssh::{self, Listed};

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
    /// `None`: no list is given.
    pub fn of(options: &StorageOptions) -> Result<Option<Wanted>, Failure> {
        let Some(path) = &options.hosts.hosts else { return Ok(None) };
        let listed = ssh::read(path)?;
        let (here, others): (Vec<_>, Vec<_>) = listed.into_iter().partition(is_this_host);
        let bytes = |memory: Option<ByteSize>| memory.map(|size| size.0);
        let here_bytes = here.iter().find_map(|it| bytes(it.memory));
        let other = |it: Listed| Other { way: Way::Ssh(it.host), node_bytes: bytes(it.memory) };
        let others: Vec<_> = others.into_iter().map(other).collect();
        if others.len() > OTHERS_MOST {
            return Err(Failure::TooManyHosts { hosts: others.len() + 1, most: OTHERS_MOST + 1 });
        }
        let required = options.hosts.hosts_required.map(usize::from);
        let all = others.len() + 1;
        match required {
            Some(required) if required > all => Err(Failure::MoreHostsRequired { required, all }),
            _ => {
                let (each_bytes, one_each) = (bytes(options.node_memory), options.nodes.is_none());
                Ok(Some(Wanted { others, required, here_bytes, each_bytes, one_each }))
            }
        }
    }

    /// Of the node of another host.
    pub fn bytes_of(&self, way: &Way) -> Option<u64> {
        let other = self.others.iter().find(|other| other.way == *way);
        other.and_then(|other| other.node_bytes).or(self.each_bytes)
    }
}

/// By the name that it calls itself, or by an address of its own.
fn is_this_host(listed: &Listed) -> bool {
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
