//! Inventory in, plan out: which bucket goes where when servers come and go.
//!
//! Where buckets should lie is decided by the planner of Tidefs, which weighs load, bytes and time; names
//! become numbers for it and come back as moves. Nothing is moved here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tidefs_control::rescaling::{
    Bounds, Bucket as Piece, Class, Home, Host, Problem, Quality, Unsound, rescale,
};

pub use tidefs_control::rescaling::{ParseWeightsError, Weights};

use crate::inventory::{Inventory, InventoryError, Server, check_server};

/// The servers that come and those that go. With neither, what there is is balanced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub start: Vec<Server>,
    /// Names of servers of the inventory.
    pub stop: Vec<String>,
}

/// One bucket to another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub bucket: String,
    pub from: String,
    pub to: String,
    pub bytes: u64,
}

/// How even buckets lie, and how long it takes to get there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measures {
    /// Load of the server that has most, over its even share; 1 is even.
    pub load_balance: f64,
    /// The same of bytes.
    pub data_balance: f64,
    /// What the busiest link needs for its bytes, in one of its directions.
    pub seconds: f64,
    pub bytes_moved: u64,
    pub buckets_moved: u64,
}

/// What no plan undercuts that ends with an even spread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Least {
    /// From one even spread to another.
    pub seconds: f64,
    /// From where buckets really lie.
    pub seconds_from_here: f64,
    pub bytes_moved: u64,
}

/// Which bucket goes where.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// In no order that matters.
    pub moves: Vec<Move>,
    /// As it is: nothing is moved.
    pub before: Measures,
    pub after: Measures,
    pub least: Least,
}

/// Nothing can be planned, and nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the inventory cannot be used: {0}")]
    Inventory(#[from] InventoryError),
    #[error("the first inventory could not be had: {why}")]
    NoInventory { why: String },
    #[error("bucket {bucket:?} lies on {first:?} and on {second:?}; take one of them away first")]
    BucketTwice { bucket: String, first: String, second: String },
    #[error("server {server:?} is to be started and to be stopped")]
    StartedAndStopped { server: String },
    #[error("there is no server {server:?} in the inventory that could be stopped")]
    NobodyToStop { server: String },
    #[error("no server would be left for buckets")]
    NobodyStays,
    #[error("bucket {bucket:?} may lie on servers of the class {class:?} only, and none stays")]
    Homeless { bucket: String, class: String },
    #[error(
        "server {server:?} would hold {bytes} bytes and has room for {capacity}: start more servers, or \
         stop fewer"
    )]
    NoRoom { server: String, bytes: u64, capacity: u64 },
    #[error("{0}")]
    Unsound(Unsound),
    #[error("the planner failed: {why}")]
    Planner { why: String },
}

/// Plans a change of servers that hold buckets.
///
/// A server of `change.start` that the inventory lists already is used as it is listed.
pub fn plan(inventory: &Inventory, change: &Change, weights: Weights) -> Result<Plan, Refused> {
    inventory.check()?;
    check_change(inventory, change)?;
    let stated = Stated::new(inventory, change)?;
    let placement = rescale(&stated.problem, weights);
    stated.check_room(&placement)?;
    Ok(stated.plan(inventory, &placement))
}

/// How even buckets lie on the servers that are not about to be stopped.
pub fn measures(inventory: &Inventory, stop: &[String]) -> Result<Measures, Refused> {
    inventory.check()?;
    let change = Change { start: Vec::new(), stop: stop.to_vec() };
    let stated = Stated::new(inventory, &change)?;
    Ok(stated.measures(&stated.problem.start()))
}

fn check_change(inventory: &Inventory, change: &Change) -> Result<(), Refused> {
    let there: HashSet<&str> = inventory.servers.iter().map(|it| it.name.as_str()).collect();
    let stop: HashSet<&str> = change.stop.iter().map(String::as_str).collect();
    let mut start = HashSet::new();
    for server in &change.start {
        check_server(server)?;
        if stop.contains(server.name.as_str()) {
            return Err(Refused::StartedAndStopped { server: server.name.clone() });
        }
        if !start.insert(server.name.as_str()) {
            return Err(InventoryError::ServerTwice { server: server.name.clone() }.into());
        }
    }
    match change.stop.iter().find(|name| !there.contains(name.as_str())) {
        Some(name) => Err(Refused::NobodyToStop { server: name.clone() }),
        None => Ok(()),
    }
}

/// The inventory in numbers: host *n* is server *n*, bucket *n* is bucket *n*.
struct Stated {
    problem: Problem,
    servers: Vec<Server>,
}

impl Stated {
    fn new(inventory: &Inventory, change: &Change) -> Result<Stated, Refused> {
        let there: HashSet<&str> = inventory.servers.iter().map(|it| it.name.as_str()).collect();
        let newcomers = change.start.iter().filter(|it| !there.contains(it.name.as_str()));
        let servers: Vec<Server> = inventory.servers.iter().chain(newcomers).cloned().collect();
        if servers.len() > usize::from(u16::MAX) {
            let (hosts, buckets) = (servers.len(), inventory.buckets.len());
            return Err(Refused::Unsound(Unsound::TooMany { hosts, buckets }));
        }
        let numbers: HashMap<&str, usize> =
            servers.iter().enumerate().map(|(at, it)| (it.name.as_str(), at)).collect();
        let stop: HashSet<&str> = change.stop.iter().map(String::as_str).collect();
        if servers.iter().all(|it| stop.contains(it.name.as_str())) {
            return Err(Refused::NobodyStays);
        }
        let classes = Classes::new(&servers);
        let begun: HashSet<&str> = change.start.iter().map(|it| it.name.as_str()).collect();
        let mut hosts: Vec<Host> = servers.iter().map(|it| classes.host(it, &stop)).collect();
        let counted = inventory.buckets.iter().all(|bucket| bucket.load == 0.0);
        let mut places: HashMap<&str, &str> = HashMap::new();
        let mut pieces = Vec::with_capacity(inventory.buckets.len());
        let mut holds = vec![false; servers.len()];
        for bucket in &inventory.buckets {
            if let Some(first) = places.insert(&bucket.name, &bucket.server) {
                let (first, second) = (first.to_owned(), bucket.server.clone());
                return Err(Refused::BucketTwice { bucket: bucket.name.clone(), first, second });
            }
            let from = numbers[bucket.server.as_str()];
            holds[from] = true;
            let home = match &bucket.class {
                None => Home::Any,
                Some(class) => Home::Only(classes.number(class)),
            };
            let load = if counted { 1.0 } else { bucket.load };
            pieces.push(Piece { bytes: bucket.bytes, load, from: from as u16, home });
        }
        for (at, server) in servers.iter().enumerate() {
            let listed = there.contains(server.name.as_str());
            hosts[at].newcomer = !holds[at] && (!listed || begun.contains(server.name.as_str()));
        }
        let problem = Problem::new(pieces, hosts).map_err(|unsound| match unsound {
            Unsound::Homeless { bucket } => {
                let bucket = &inventory.buckets[bucket];
                let class = bucket.class.clone().unwrap_or_default();
                Refused::Homeless { bucket: bucket.name.clone(), class }
            }
            other => Refused::Unsound(other),
        })?;
        Ok(Stated { problem, servers })
    }

    /// Memory is not given up for evenness: a plan that needs more than there is is none.
    fn check_room(&self, placement: &[u16]) -> Result<(), Refused> {
        let mut held = vec![0_u64; self.servers.len()];
        let mut comes = vec![false; self.servers.len()];
        for (bucket, &to) in self.problem.buckets().iter().zip(placement) {
            held[usize::from(to)] = held[usize::from(to)].saturating_add(bucket.bytes);
            comes[usize::from(to)] |= to != bucket.from;
        }
        let full = |at: &usize| comes[*at] && held[*at] > self.servers[*at].capacity_bytes;
        match (0..held.len()).find(full) {
            None => Ok(()),
            Some(at) => {
                let server = &self.servers[at];
                let (bytes, capacity) = (held[at], server.capacity_bytes);
                Err(Refused::NoRoom { server: server.name.clone(), bytes, capacity })
            }
        }
    }

    fn measures(&self, placement: &[u16]) -> Measures {
        let quality = Quality::new(&self.problem, placement);
        Measures {
            load_balance: quality.load_balance,
            data_balance: quality.data_balance,
            seconds: quality.seconds,
            bytes_moved: quality.bytes_moved,
            buckets_moved: u64::from(quality.buckets_moved),
        }
    }

    fn plan(&self, inventory: &Inventory, placement: &[u16]) -> Plan {
        let name = |host: u16| self.servers[usize::from(host)].name.clone();
        let moved = |((piece, bucket), &to): ((&Piece, &crate::Bucket), &u16)| {
            let (from, bytes) = (name(piece.from), piece.bytes);
            let moves = to != piece.from;
            moves.then(|| Move { bucket: bucket.name.clone(), from, to: name(to), bytes })
        };
        let pieces = self.problem.buckets().iter().zip(&inventory.buckets).zip(placement);
        let bounds = Bounds::new(&self.problem);
        Plan {
            moves: pieces.filter_map(moved).collect(),
            before: self.measures(&self.problem.start()),
            after: self.measures(placement),
            least: Least {
                seconds: bounds.seconds,
                seconds_from_here: bounds.seconds_from_here,
                bytes_moved: bounds.bytes_moved,
            },
        }
    }
}

/// Names of classes as numbers.
struct Classes<'a>(BTreeMap<&'a str, u16>);

impl<'a> Classes<'a> {
    fn new(servers: &'a [Server]) -> Classes<'a> {
        let names: BTreeSet<&str> = servers.iter().map(|it| it.class.as_str()).collect();
        Classes(names.into_iter().zip(0..).collect())
    }

    /// A class without servers has a number of its own, at which none is.
    fn number(&self, class: &str) -> Class {
        Class(self.0.get(class).copied().unwrap_or(u16::MAX))
    }

    fn host(&self, server: &Server, stop: &HashSet<&str>) -> Host {
        Host {
            class: self.number(&server.class),
            stays: !stop.contains(server.name.as_str()),
            newcomer: false,
            weight: server.weight,
            bandwidth: server.bandwidth,
            limit_bytes: server.capacity_bytes,
        }
    }
}
