//! Carries jobs out on whichever nodes hold their partitions, and follows them where they move.
//!
//! All nodes are served at the same time from the calling thread. What a node refuses for the
//! moment is asked again after a pause, what moved is asked elsewhere, what got lost is repeated
//! when that does no harm; all of it within the reply time-out, or twice that where links are slow, and once more in
//! any case after a first refusal. What each answer and each loss means is in `verdict`.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_store::StoreError;

use crate::awake::Awake;
use crate::exchange::exchange;
use crate::given_up::GivenUp;
use crate::job::{Job, JobResult};
use crate::lane::Lane;
use crate::pool::{Access, Node};
use crate::told::Failures;
use crate::topology::{Map, Topology};
use crate::verdict::Verdict;

/// Redirections that are followed without a pause; more are a cluster in disorder.
const HASTY_ROUNDS: u32 = 3;
const PAUSE_MAX: Duration = Duration::from_millis(64);
/// Whoever waits for a connection of one of several nodes looks this soon whether another one has one.
const OTHERS_AFTER: Duration = Duration::from_millis(50);

/// Jobs, by number, that are to go elsewhere than to the owner for once.
type Detours = Vec<(usize, Arc<Node>)>;

pub struct Client {
    pub topology: Topology,
    pub access: Arc<Access>,
    /// What programs were told of.
    pub failures: Failures,
    pub given_up: GivenUp,
}

impl Client {
    pub fn new(topology: Topology, access: Arc<Access>) -> Client {
        let (failures, given_up) = (Failures::default(), GivenUp::default());
        Client { topology, access, failures, given_up }
    }

    /// Carries all jobs out. Each that succeeds has its answer, which is no error.
    ///
    /// # Errors
    /// The error of the first job that failed; the others were carried out as far as possible.
    pub fn perform(&self, jobs: &mut [Job<'_>]) -> Result<(), StoreError> {
        let begun = Instant::now();
        let reply = self.access.timeouts.reply;
        let mut deadline = Awake::now() + reply;
        // A slow link is no reason to be refused less often: the time of rounds in which all answered does not
        // count. So it is for one reply time-out in all, since a node may refuse slowly, too.
        let mut allowance = reply;
        let mut detours = Detours::new();
        for round in 0.. {
            let (map, visited) = (self.topology.map(), Awake::now());
            self.visit_owners(&map, jobs, &detours);
            self.take_detours(jobs, &detours);
            let are_answered = jobs.iter().all(Job::is_settled);
            if are_answered {
                let took = allowance.min(Awake::now().since(visited));
                (deadline, allowance) = (deadline + took, allowance - took);
            }
            let (again, pause) = self.judge_all(jobs, &mut detours, begun);
            if !again {
                break;
            }
            // However long the first answer took, what it says of where to ask is worth one more question.
            let is_first_answer = round == 0 && are_answered;
            if Awake::now() >= deadline && !is_first_answer {
                let open = jobs.iter_mut().filter(|job| job.is_open());
                open.for_each(|job| self.give_up(job, begun));
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

    /// Whoever waits for a connection holds none: those that are free are used first, and then one of the others at a
    /// time is waited for, for a moment, all of them for as long as one. So a node whose connections are all in use
    /// keeps nobody from other nodes, and no two callers wait for each other.
    fn visit(&self, mut visits: Vec<(&Arc<Node>, &mut Job<'_>)>, asking: bool) {
        // Before any connection is taken.
        visits.retain_mut(|(node, job)| self.may_follow(node, job));
        visits.sort_by_key(|(node, _)| node.id);
        let reply = self.access.timeouts.reply;
        let until = Awake::now() + reply;
        let mut parties = parties(visits);
        while !parties.is_empty() {
            let (mut lanes, mut others) = (Vec::with_capacity(1), Vec::new());
            for (node, jobs) in parties {
                match node.lease_free() {
                    Some(lease) => lanes.push(Lane::new(lease, jobs, asking, reply)),
                    None => others.push((node, jobs)),
                }
            }
            if lanes.is_empty() {
                let (node, jobs) = others.remove(0);
                let lease = match others.is_empty() {
                    true => node.lease_until(until).map(Some),
                    false => node.lease_within(OTHERS_AFTER, until),
                };
                match lease {
                    Ok(Some(lease)) => lanes.push(Lane::new(lease, jobs, asking, reply)),
                    Ok(None) => others.push((node, jobs)),
                    Err(fault) => {
                        for job in jobs {
                            job.result = JobResult::Unreached(fault.clone());
                        }
                    }
                }
            }
            exchange(lanes);
            parties = others;
        }
    }

    /// A change is not sent where an earlier one of its partition may still be carried out elsewhere.
    fn may_follow(&self, node: &Arc<Node>, job: &mut Job<'_>) -> bool {
        if !job.changes {
            return true;
        }
        let fenced = self.fence(job.partition, Some(node));
        if let Err((node, fault)) = fenced {
            (job.node, job.result) = (Some(node), JobResult::Unreached(fault));
            return false;
        }
        true
    }

    /// Looks at what came of the round; answers whether there is more to do, and after a pause.
    fn judge_all(
        &self,
        jobs: &mut [Job<'_>],
        detours: &mut Detours,
        begun: Instant,
    ) -> (bool, bool) {
        detours.clear();
        let (mut again, mut pause) = (false, false);
        for (number, job) in jobs.iter_mut().enumerate() {
            match self.judge(job) {
                Verdict::Done => {}
                Verdict::Failed(error) => {
                    self.failures.tell(job, &error, begun);
                    job.result = JobResult::Failed(error);
                }
                Verdict::Again { pause: wait, at } => {
                    job.result = JobResult::Open;
                    detours.extend(at.map(|node| (number, node)));
                    (again, pause) = (true, pause || wait);
                }
            }
        }
        (again, pause)
    }

    /// The time is over.
    fn give_up(&self, job: &mut Job<'_>, begun: Instant) {
        let error = match &job.node {
            Some(node) => StoreError::Unavailable { endpoint: node.name() },
            None => StoreError::Unplaced { partition: job.partition.number() },
        };
        self.failures.tell(job, &error, begun);
        job.result = JobResult::Failed(error);
    }
}

/// A node, and all that is asked of it.
type Party<'v, 'j, 'a> = (&'v Arc<Node>, Vec<&'j mut Job<'a>>);

/// Of visits in the order of the nodes.
fn parties<'v, 'j, 'a>(visits: Vec<(&'v Arc<Node>, &'j mut Job<'a>)>) -> Vec<Party<'v, 'j, 'a>> {
    let mut parties: Vec<Party<'v, 'j, 'a>> = Vec::with_capacity(1);
    for (node, job) in visits {
        job.node = Some(Arc::clone(node));
        match parties.last_mut().filter(|(last, _)| last.id == node.id) {
            Some((_, jobs)) => jobs.push(job),
            None => parties.push((node, vec![job])),
        }
    }
    parties
}
