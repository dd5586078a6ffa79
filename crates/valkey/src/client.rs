//! Carries jobs out on whichever nodes hold their partitions, and follows them where they move.
//!
//! All nodes are served at the same time from the calling thread. What a node refuses for the
//! moment is asked again after a pause, what moved is asked elsewhere, what got lost is repeated
//! when that does no harm; all of it within the reply time-out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_model::Partition;
use tidefs_store::StoreError;

use crate::connection::refusal;
use crate::exchange::exchange;
use crate::fault::Fault;
use crate::job::{Job, JobResult};
use crate::lane::Lane;
use crate::pool::{Access, Node};
use crate::topology::{Map, Topology};
use crate::view::parse_address;

/// A job that got lost this often is given up.
const LOSSES_MAX: u8 = 2;
/// Redirections that are followed without a pause; more are a cluster in disorder.
const HASTY_ROUNDS: u32 = 3;
const PAUSE_MAX: Duration = Duration::from_millis(64);

/// Jobs, by number, that are to go elsewhere than to the owner for once.
type Detours = Vec<(usize, Arc<Node>)>;

pub struct Client {
    pub topology: Topology,
    pub access: Arc<Access>,
}

/// What becomes of a job after a round.
enum Verdict {
    Done,
    /// To be tried again, at the owner or at the node that was named.
    Again {
        pause: bool,
        at: Option<Arc<Node>>,
    },
    Failed(StoreError),
}

impl Client {
    /// Carries all jobs out. Each that succeeds has its answer, which is no error.
    ///
    /// # Errors
    /// The error of the first job that failed; the others were carried out as far as possible.
    pub fn perform(&self, jobs: &mut [Job<'_>]) -> Result<(), StoreError> {
        let deadline = Instant::now() + self.access.timeouts.reply;
        let mut detours = Detours::new();
        for round in 0.. {
            let map = self.topology.map();
            self.visit_owners(&map, jobs, &detours);
            self.take_detours(jobs, &detours);
            let (again, pause) = self.judge_all(jobs, &mut detours);
            if !again {
                break;
            }
            if Instant::now() >= deadline {
                jobs.iter_mut().filter(|job| job.is_open()).for_each(give_up);
                break;
            }
            if pause || round >= HASTY_ROUNDS {
                sleep(PAUSE_MAX.min(Duration::from_millis(1 << round.min(6))));
            }
        }
        jobs.iter().find_map(Job::failure).map_or(Ok(()), Err)
    }

    /// Sends every open job to the owner of its partition, in as many lanes as there are owners.
    fn visit_owners(&self, map: &Map, jobs: &mut [Job<'_>], detours: &Detours) {
        let mut visits = Vec::with_capacity(jobs.len());
        for (at, job) in jobs.iter_mut().enumerate().filter(|(_, job)| job.is_open()) {
            if detours.iter().any(|(job, _)| *job == at) {
                continue;
            }
            match map.owner(job.partition) {
                Some(owner) => visits.push((&map.members[owner].node, job)),
                None => job.result = JobResult::Unplaced,
            }
        }
        self.visit(visits, false);
    }

    /// Sends jobs to where their keys are on the way to.
    fn take_detours(&self, jobs: &mut [Job<'_>], detours: &Detours) {
        let visits = jobs.iter_mut().enumerate().filter_map(|(at, job)| {
            let (_, node) = detours.iter().find(|(job, _)| *job == at)?;
            Some((node, job))
        });
        if !detours.is_empty() {
            self.visit(visits.collect(), true);
        }
    }

    /// Leases connections in the order of the nodes' ids; see the pool.
    fn visit(&self, mut visits: Vec<(&Arc<Node>, &mut Job<'_>)>, asking: bool) {
        visits.sort_by_key(|(node, _)| node.id);
        let mut lanes = Vec::with_capacity(1);
        let mut visits = visits.into_iter().peekable();
        while let Some((node, first)) = visits.next() {
            let mut jobs = vec![first];
            while let Some((_, job)) = visits.next_if(|(next, _)| next.id == node.id) {
                jobs.push(job);
            }
            jobs.iter_mut().for_each(|job| job.node = Some(Arc::clone(node)));
            match node.lease() {
                Ok(lease) => lanes.push(Lane::new(lease, jobs, asking, self.access.timeouts.reply)),
                Err(fault) => {
                    for job in jobs {
                        job.result = JobResult::Unreached(fault.clone());
                    }
                }
            }
        }
        exchange(lanes);
    }

    /// Looks at what came of the round; answers whether there is more to do, and after a pause.
    fn judge_all(&self, jobs: &mut [Job<'_>], detours: &mut Detours) -> (bool, bool) {
        detours.clear();
        let (mut again, mut pause) = (false, false);
        for (number, job) in jobs.iter_mut().enumerate() {
            match self.judge(job) {
                Verdict::Done => {}
                Verdict::Failed(error) => job.result = JobResult::Failed(error),
                Verdict::Again { pause: wait, at } => {
                    job.result = JobResult::Open;
                    detours.extend(at.map(|node| (number, node)));
                    (again, pause) = (true, pause || wait);
                }
            }
        }
        (again, pause)
    }

    fn judge(&self, job: &mut Job<'_>) -> Verdict {
        match &job.result {
            JobResult::Open => Verdict::Again { pause: true, at: None },
            JobResult::Failed(_) => Verdict::Done,
            JobResult::Answered(_) => match job.error() {
                None => Verdict::Done,
                Some(text) => self.judge_error(job, text),
            },
            JobResult::Unplaced => {
                self.topology.refresh_if_old(None);
                match self.topology.map().owner(job.partition) {
                    Some(_) => Verdict::Again { pause: false, at: None },
                    None => Verdict::Failed(unplaced(job.partition)),
                }
            }
            JobResult::Unreached(fault) => {
                let fault = fault.clone();
                self.judge_unreached(job, fault)
            }
            JobResult::Lost { fault, sent } => {
                let (fault, sent) = (fault.clone(), *sent);
                job.losses += 1;
                self.judge_loss(job, fault, sent)
            }
        }
    }

    /// The node cannot be reached; somebody else may hold the partition by now.
    fn judge_unreached(&self, job: &Job<'_>, fault: Fault) -> Verdict {
        // A map from before the node went away says nothing of where its partitions are now.
        match job.node.as_ref().and_then(|node| node.down_since()) {
            Some(since) => self.topology.refresh_since(since, job.node.as_ref()),
            None => self.topology.refresh_if_old(job.node.as_ref()),
        }
        let map = self.topology.map();
        let owner = map.owner(job.partition).map(|owner| &map.members[owner].node);
        match (owner, &job.node) {
            (Some(owner), Some(node)) if owner.id != node.id => {
                Verdict::Again { pause: false, at: None }
            }
            _ => failed(job, fault),
        }
    }

    fn judge_loss(&self, job: &Job<'_>, fault: Fault, sent: bool) -> Verdict {
        let passing = matches!(fault, Fault::Broken | Fault::TimedOut);
        if sent && !job.repeatable && !self.has_left(job, &fault) {
            let endpoint = job.node.as_deref().map_or("a node".into(), Node::name);
            return Verdict::Failed(StoreError::Indeterminate { endpoint });
        }
        if passing && job.losses <= LOSSES_MAX {
            Verdict::Again { pause: false, at: None }
        } else {
            failed(job, fault)
        }
    }

    /// The node ended because it was removed from the cluster. It then held nothing for a while,
    /// and had sent all its replies before: what got lost with it was not carried out.
    fn has_left(&self, job: &Job<'_>, fault: &Fault) -> bool {
        let Some(node) = job.node.as_ref().filter(|_| *fault == Fault::Broken) else {
            return false;
        };
        self.topology.refresh_since(Instant::now(), Some(node));
        !self.topology.map().members.iter().any(|member| member.node.id == node.id)
    }

    fn judge_error(&self, job: &Job<'_>, text: &[u8]) -> Verdict {
        let line = String::from_utf8_lossy(text);
        let mut words = line.split(' ');
        match words.next().unwrap_or_default() {
            "MOVED" => {
                let Some(address) = redirection(words) else { return malformed(job) };
                self.topology.moved(job.partition, address);
                Verdict::Again { pause: false, at: None }
            }
            "ASK" => {
                let Some(address) = redirection(words) else { return malformed(job) };
                let at = self.topology.node_at(address);
                Verdict::Again { pause: at.is_none(), at }
            }
            "TRYAGAIN" | "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "BUSY" => {
                Verdict::Again { pause: true, at: None }
            }
            "OOM" => match &job.node {
                Some(node) => Verdict::Failed(StoreError::Full { endpoint: node.name() }),
                None => malformed(job),
            },
            _ => {
                let fault = refusal(text);
                tracing::warn!(partition = job.partition.number(), %fault, "a request was refused");
                failed(job, fault)
            }
        }
    }
}

/// `slot address`.
fn redirection<'w>(mut words: impl Iterator<Item = &'w str>) -> Option<SocketAddr> {
    parse_address(words.nth(1)?).ok()?
}

fn failed(job: &Job<'_>, fault: Fault) -> Verdict {
    let endpoint = job.node.as_deref().map_or("a node".into(), Node::name);
    Verdict::Failed(fault.into_store_error(endpoint))
}

fn malformed(job: &Job<'_>) -> Verdict {
    failed(job, Fault::Malformed(crate::wire::Malformed::Unexpected))
}

fn unplaced(partition: Partition) -> StoreError {
    StoreError::Unplaced { partition: partition.number() }
}

fn give_up(job: &mut Job<'_>) {
    job.result = JobResult::Failed(match &job.node {
        Some(node) => StoreError::Unavailable { endpoint: node.name() },
        None => unplaced(job.partition),
    });
}
