//! The problem of rescaling as Pufferscale states it (section III), widened to hosts that differ.
//!
//! Buckets lie on hosts and are to lie on those that stay, so that load and bytes are even and the
//! transfers take little time. A bucket is a partition with a size and a load; a host is a node as
//! this problem sees it. Nothing here knows metadata, servers or files.

use std::collections::BTreeSet;

use tidefs_model::NodeClass;

use super::parts::Parts;

/// Hosts of a kind. The file system knows two; another service may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(pub u16);

impl From<NodeClass> for Class {
    fn from(class: NodeClass) -> Class {
        match class {
            NodeClass::Own => Class(0),
            NodeClass::Victim => Class(1),
        }
    }
}

/// Where a bucket may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    Any,
    Only(Class),
}

/// What is placed and moved as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    pub bytes: u64,
    /// In any unit that can be summed, such as requests a second.
    pub load: f64,
    /// The host that it lies on.
    pub from: u16,
    pub home: Home,
}

/// A node of the problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    pub class: Class,
    /// Holds buckets afterwards.
    pub stays: bool,
    /// Came for this reconfiguration and is taken to hold nothing before.
    pub newcomer: bool,
    /// What part of all load and of all bytes it should hold beside others of its class, and beside all
    /// where nothing binds more to a class than that; in any unit. Of a host that leaves, what it should
    /// have held.
    pub weight: f64,
    /// Bytes a second that it can send, and receive at the same time.
    pub bandwidth: f64,
    /// Bytes of buckets that it can hold.
    pub limit_bytes: u64,
}

impl Host {
    pub fn takes(&self, home: Home) -> bool {
        self.stays && (home == Home::Any || home == Home::Only(self.class))
    }
}

/// Buckets and hosts that fit together.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    buckets: Vec<Bucket>,
    hosts: Vec<Host>,
    load: f64,
    bytes: u64,
    parts: Parts,
}

/// The buckets and the hosts make no problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    #[error("bucket {bucket} lies on host {host}, and there are {hosts} hosts")]
    UnknownHost { bucket: usize, host: u16, hosts: usize },
    #[error("the load of bucket {bucket} is negative or not a number")]
    Load { bucket: usize },
    #[error("the weight or the bandwidth of host {host} is not a positive number")]
    Host { host: usize },
    #[error("no host stays that may hold bucket {bucket}")]
    Homeless { bucket: usize },
    #[error("all buckets together have more bytes or more load than can be summed")]
    TooLarge,
    #[error(
        "there are {hosts} hosts and {buckets} buckets; at most 65535 hosts and 4294967295 buckets can \
         be planned"
    )]
    TooMany { hosts: usize, buckets: usize },
}

impl Problem {
    pub fn new(buckets: Vec<Bucket>, hosts: Vec<Host>) -> Result<Problem, Unsound> {
        if hosts.len() > usize::from(u16::MAX) || u32::try_from(buckets.len()).is_err() {
            return Err(Unsound::TooMany { hosts: hosts.len(), buckets: buckets.len() });
        }
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let sound =
            |host: &Host| positive(host.bandwidth) && (!host.stays || positive(host.weight));
        if let Some(host) = hosts.iter().position(|host| !sound(host)) {
            return Err(Unsound::Host { host });
        }
        let able: BTreeSet<Class> =
            hosts.iter().filter(|host| host.stays).map(|host| host.class).collect();
        let homeless = |home: Home| match home {
            Home::Any => able.is_empty(),
            Home::Only(class) => !able.contains(&class),
        };
        for (at, bucket) in buckets.iter().enumerate() {
            if usize::from(bucket.from) >= hosts.len() {
                let (host, hosts) = (bucket.from, hosts.len());
                return Err(Unsound::UnknownHost { bucket: at, host, hosts });
            }
            if !bucket.load.is_finite() || bucket.load < 0.0 {
                return Err(Unsound::Load { bucket: at });
            }
            if homeless(bucket.home) {
                return Err(Unsound::Homeless { bucket: at });
            }
        }
        let load: f64 = buckets.iter().map(|bucket| bucket.load).sum();
        let bytes = buckets.iter().try_fold(0_u64, |all, bucket| all.checked_add(bucket.bytes));
        let bytes = bytes.filter(|_| load.is_finite()).ok_or(Unsound::TooLarge)?;
        let parts = Parts::new(&buckets, &hosts, |host| host.stays);
        Ok(Problem { buckets, hosts, load, bytes, parts })
    }

    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Of all buckets together.
    pub fn load(&self) -> f64 {
        self.load
    }

    /// Of all buckets together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The part of all load that a host should hold, 0 for one that leaves.
    pub fn load_part(&self, host: usize) -> f64 {
        self.parts.load[host]
    }

    /// The part of all bytes that a host should hold, 0 for one that leaves.
    pub fn bytes_part(&self, host: usize) -> f64 {
        self.parts.bytes[host]
    }

    /// Where the buckets lie.
    pub fn start(&self) -> Vec<u16> {
        self.buckets.iter().map(|bucket| bucket.from).collect()
    }
}
