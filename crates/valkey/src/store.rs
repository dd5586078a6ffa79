//! The store on a cluster: shards are hashes, stripes are strings.
//!
//! Calls turn into jobs here and answers back into what the trait promises; where the jobs go and
//! what happens when they meet trouble is the client's business. Stripes are read into the caller's
//! buffers and written from them without a copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidefs_model::{Granted, NodeId, Partition, Run, ShardKey, StripeKey};
use tidefs_store::StripeWrite;
use tidefs_store::{
    Batch, Cursor, Cut, KeyPage, Location, Outcome, Overview, Page, Store, StoreError, StripeRead,
};

use crate::batches;
use crate::client::Client;
use crate::cluster::ClusterDescription;
use crate::endpoint::{Account, Pass};
use crate::error::ConnectError;
use crate::function;
use crate::guard::Guard;
use crate::job::{Answer, Job};
use crate::key_listing;
use crate::listing;
use crate::login::Login;
use crate::losses;
use crate::near::Nearest;
use crate::options::Options;
use crate::overview;
use crate::places;
use crate::pool::{Access, Node};
use crate::probe::{Server, probe};
use crate::roster::Roster;
use crate::slot::{shard_name, stripe_name};
use crate::topology::{Member, Topology};
use crate::wire::{Reply, Request};

/// Nothing was cut since a loss.
const WHOLE: Cut = Cut { as_of: 0, from: 0 };

/// A [`Store`] whose nodes are servers of a Valkey Cluster.
pub struct Valkey {
    client: Client,
    server: Server,
    stripe_bytes: u32,
    nearest: Nearest,
}

impl Valkey {
    /// Connects to the nodes of a running cluster with the secret of the data account. Nodes that come
    /// later are not used.
    ///
    /// # Errors
    /// When no node answers, none lets the client in, or the servers are too old.
    pub fn connect(
        cluster: &ClusterDescription,
        pass: impl Into<Pass>,
        options: Options,
    ) -> Result<Valkey, ConnectError> {
        Valkey::follow(Arc::new(cluster.clone()), pass, options)
    }

    /// The nodes are about to be ended by whoever has this: requests that come too late are not told of.
    pub fn nodes_end(&self) {
        self.client.failures.end();
    }

    /// The same where nodes come and go: those on the roster are used, and no others.
    ///
    /// # Errors
    /// As [`Valkey::connect`].
    pub fn follow(
        roster: Arc<dyn Roster>,
        pass: impl Into<Pass>,
        options: Options,
    ) -> Result<Valkey, ConnectError> {
        Valkey::connect_as(Login::lasting(Account::data(pass)), roster, options)
    }

    /// The same with the secret of the account that may also list [`keys`](Store::keys).
    pub fn connect_to_check(
        roster: Arc<dyn Roster>,
        pass: impl Into<Pass>,
        options: Options,
    ) -> Result<Valkey, ConnectError> {
        Valkey::connect_as(Login::lasting(Account::check(pass)), roster, options)
    }

    /// The same with the account of one mount, which may be ended and [replaced](Valkey::log_in_as).
    pub fn connect_as_mount(
        roster: Arc<dyn Roster>,
        account: Account,
        options: Options,
    ) -> Result<Valkey, ConnectError> {
        Valkey::connect_as(Login::for_a_term(account), roster, options)
    }

    /// The term whose account this client logs in with.
    pub fn term(&self) -> u64 {
        self.client.access.login.term()
    }

    /// As whom it logs in now: for another process that goes on with what this one does.
    pub fn account(&self) -> Arc<Account> {
        self.client.access.login.account()
    }

    /// The account of before has been ended on all nodes; begins the next term with another one. Until
    /// [`Valkey::admit`] only work of that term is served, other callers wait, and work of terms before is
    /// refused for good.
    pub fn log_in_as(&self, account: Account) {
        self.client.access.login.begin_term(account);
        let map = self.client.topology.map();
        map.members.iter().for_each(|member| member.node.begin_anew());
    }

    /// Everybody is served in this term; `refuse_earlier`: but for what programs asked for in an earlier one.
    pub fn admit(&self, refuse_earlier: bool) {
        self.client.access.login.admit(refuse_earlier);
    }

    fn connect_as(
        login: Login,
        roster: Arc<dyn Roster>,
        options: Options,
    ) -> Result<Valkey, ConnectError> {
        let Options { timeouts, connections_per_node, stripe_size } = options;
        let access =
            Arc::new(Access { login, timeouts, connections_per_node, guard: Guard::default() });
        let topology = Topology::new(roster, Arc::clone(&access));
        let known = topology.map();
        let nodes: Vec<_> = known.members.iter().map(|it| Arc::clone(&it.node)).collect();
        // As long as any other request may take.
        let server = probe(&nodes, timeouts.reply)?;
        topology.refresh()?;
        let stripe_bytes = stripe_size.bytes();
        Ok(Valkey {
            client: Client::new(topology, access),
            server,
            stripe_bytes,
            nearest: Nearest::default(),
        })
    }

    /// What the servers are and can do.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Asks the nodes anew who holds what; else [`overview`](Store::overview) may say what was so a
    /// second ago.
    ///
    /// # Errors
    /// The last node's when none answers.
    pub fn refresh(&self) -> Result<(), StoreError> {
        self.client.topology.refresh()
    }

    /// Counts the times at which this client learnt that partitions lie elsewhere than before.
    pub fn changes(&self) -> u64 {
        self.client.topology.changes()
    }

    /// The node that holds a partition, dead or alive, as far as this client knows.
    pub fn holder(&self, partition: Partition) -> Option<NodeId> {
        let map = self.client.topology.map();
        map.owner(partition).map(|owner| map.members[owner].node.id)
    }

    /// The node that errors call so; `None` where this client knows none.
    pub fn node_called(&self, name: &str) -> Option<NodeId> {
        let map = self.client.topology.map();
        let is_meant = |member: &&Member| *member.node.name() == *name;
        map.members.iter().find(is_meant).map(|member| member.node.id)
    }

    /// Partitions that were lost once, of those whose holders answer: what they held of inodes that
    /// had been granted is gone.
    pub fn losses(&self) -> BTreeMap<u16, Granted> {
        losses::marks(&self.client)
    }

    fn check_range(&self, offset: u32, length: usize) -> Result<(), StoreError> {
        let bytes = u64::from(offset) + length as u64;
        if bytes > u64::from(self.stripe_bytes) {
            return Err(StoreError::TooLarge { bytes });
        }
        Ok(())
    }

    /// A whole stripe is asked for by its name alone: newer servers then send it from where it lies.
    fn read_job<'r>(&self, read: &'r mut StripeRead<'_>) -> Job<'r> {
        let name = stripe_name(read.key);
        let length = read.buffer.len();
        let request = if read.offset == 0 && length == self.stripe_bytes as usize {
            Request::new("GET").word(&name).end()
        } else {
            let (first, last) =
                (u64::from(read.offset), u64::from(read.offset) + length as u64 - 1);
            Request::new("GETRANGE").word(&name).number(first).number(last).end()
        };
        Job::landing(read.key.partition(), request, read.buffer)
    }

    fn write_jobs<'w>(&self, writes: &[StripeWrite<'w>]) -> Result<Vec<Job<'w>>, StoreError> {
        let jobs = writes.iter().filter(|write| !write.bytes.is_empty()).map(|write| {
            self.check_range(write.offset, write.bytes.len())?;
            Ok(self.write_job(write))
        });
        jobs.collect()
    }

    /// What came of writes, those that would leave a gap made now.
    fn end_writes(&self, writes: &[StripeWrite<'_>], jobs: Vec<Job<'_>>) -> Result<(), StoreError> {
        if let Some(error) = jobs.iter().find_map(Job::failure) {
            return Err(error);
        }
        let wanted = writes.iter().filter(|write| !write.bytes.is_empty());
        let mut gaps = Vec::new();
        for (write, job) in wanted.zip(jobs).filter(|(write, _)| write.offset > 0) {
            if job.reply(|reply| reply.integer())? < 0 {
                gaps.push(write);
            }
        }
        self.write_with_gaps(&gaps, WHOLE)
    }

    fn write_job<'w>(&self, write: &StripeWrite<'w>) -> Job<'w> {
        let name = stripe_name(write.key);
        // A whole stripe replaces what was there: the server keeps the bytes as they came instead
        // of copying them, and reserves no room for growth.
        let whole = write.offset == 0 && write.bytes.len() == self.stripe_bytes as usize;
        let request = match write.offset {
            0 if whole => Request::new("SET").word(&name),
            0 => Request::new("SETRANGE").word(&name).number(0),
            // Most writes leave no gap; one that would is not made yet.
            offset => function::write_request(&name, offset),
        };
        Job::new(write.key.partition(), request.payload(write.bytes), true)
    }

    fn stored_lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        let jobs = stripes.iter().map(|key| {
            let request = Request::new("STRLEN").word(&stripe_name(*key)).end();
            Job::reading(key.partition(), request)
        });
        let mut jobs: Vec<_> = jobs.collect();
        self.client.perform(&mut jobs)?;
        let length = |job: Job<'_>| {
            let bytes = job.reply(|reply| reply.integer())?;
            let too_large = StoreError::TooLarge { bytes: bytes.unsigned_abs() };
            u32::try_from(bytes).map_err(|_| too_large)
        };
        jobs.into_iter().map(length).collect()
    }

    /// A stripe of which something may be lost has its full length: what is lost is no hole, and
    /// whoever reads there is told so.
    fn claim_lost(&self, stripes: &[StripeKey], lengths: &mut [u32]) -> Result<(), StoreError> {
        let short = stripes.iter().zip(lengths.iter_mut());
        let short = short.filter(|(_, length)| **length < self.stripe_bytes);
        let (keys, lengths): (Vec<_>, Vec<_>) = short.map(|(key, length)| (*key, length)).unzip();
        let lost = losses::are_lost(&self.client, &keys, 0)?;
        let claimed = lengths.into_iter().zip(lost).filter(|(_, lost)| *lost);
        claimed.for_each(|(length, _)| *length = self.stripe_bytes);
        Ok(())
    }

    /// A gap reads as zeros from then on, so nothing in it may be lost.
    fn write_with_gaps<'w>(&self, writes: &[&StripeWrite<'w>], cut: Cut) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = writes.iter().map(|write| write.key).collect();
        losses::check(&self.client, &keys, cut.as_of)?;
        let job = |write: &&StripeWrite<'w>| {
            let request = Request::new("SETRANGE").word(&stripe_name(write.key));
            let request = request.number(write.offset.into()).payload(write.bytes);
            Job::new(write.key.partition(), request, true)
        };
        self.client.perform(&mut writes.iter().map(job).collect::<Vec<_>>())
    }
}

impl Store for Valkey {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        batches::batch(&self.client, shard, batch)
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        batches::batches(&self.client, batches)
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        listing::list(&self.client, shards)
    }

    /// Denied to the account of mounts.
    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        key_listing::keys(&self.client, cursor)
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        let unlink = |shard: &ShardKey| {
            let request = Request::new("UNLINK").word(&shard_name(*shard)).end();
            Job::new(shard.partition(), request, true)
        };
        self.client.perform(&mut shards.iter().map(unlink).collect::<Vec<_>>())
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        for read in &*reads {
            self.check_range(read.offset, read.buffer.len())?;
        }
        self.read_cut(reads, WHOLE)
    }

    fn read_cut(&self, reads: &mut [StripeRead<'_>], cut: Cut) -> Result<(), StoreError> {
        let wanted = reads.iter_mut().filter(|read| !read.buffer.is_empty());
        let (keys, mut jobs): (Vec<_>, Vec<_>) =
            wanted.map(|read| (read.key, self.read_job(read))).unzip();
        self.client.perform(&mut jobs)?;
        let mut short = Vec::new();
        for (key, job) in keys.into_iter().zip(jobs) {
            if fill_with_zeros(job)? {
                short.push(key);
            }
        }
        losses::check(&self.client, &short, cut.as_of)
    }

    /// What lies before the cut must be there where the write is to leave a gap, or it would become zeros.
    fn write_cut(&self, writes: &[StripeWrite<'_>], cut: Cut) -> Result<(), StoreError> {
        let keys: Vec<_> = writes.iter().map(|write| write.key).collect();
        let lengths = self.stored_lengths(&keys)?;
        let (gaps, others): (Vec<_>, Vec<_>) = writes
            .iter()
            .zip(lengths)
            .partition(|(write, stored)| *stored < write.offset && !write.bytes.is_empty());
        self.write(&others.into_iter().map(|(write, _)| *write).collect::<Vec<_>>())?;
        for (write, _) in &gaps {
            self.check_range(write.offset, write.bytes.len())?;
        }
        let lacks = |(write, stored): &(&StripeWrite<'_>, u32)| {
            (*stored < cut.from.min(write.offset)).then_some(write.key)
        };
        losses::check(&self.client, &gaps.iter().filter_map(lacks).collect::<Vec<_>>(), 0)?;
        let gaps: Vec<_> = gaps.into_iter().map(|(write, _)| write).collect();
        self.write_with_gaps(&gaps, cut)
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        let mut jobs = self.write_jobs(writes)?;
        // Each job tells what became of it.
        drop(self.client.perform(&mut jobs));
        self.end_writes(writes, jobs)
    }

    fn write_and_batch(
        &self,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> (Result<(), StoreError>, Result<Outcome, StoreError>) {
        let (mut jobs, job) = match (self.write_jobs(writes), batches::job(shard, batch)) {
            (Ok(jobs), Ok(job)) => (jobs, job),
            (Err(error), _) => return (Err(error), self.batch(shard, batch)),
            (_, Err(error)) => return (self.write(writes), Err(error)),
        };
        jobs.push(job);
        drop(self.client.perform(&mut jobs));
        let job = jobs.pop().expect("the batch's job");
        (self.end_writes(writes, jobs), batches::end(&self.client, shard, batch, job))
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        let jobs = trims.iter().map(|(key, length)| {
            let request = function::trim_request(&stripe_name(*key), *length);
            Job::new(key.partition(), request, true)
        });
        self.client.perform(&mut jobs.collect::<Vec<_>>())
    }

    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        let mut lengths = self.stored_lengths(stripes)?;
        self.claim_lost(stripes, &mut lengths)?;
        Ok(lengths)
    }

    fn fence(&self, stripes: &[StripeKey]) -> Result<(), StoreError> {
        stripes.iter().try_for_each(|stripe| {
            let fenced = self.client.fence(stripe.partition(), None);
            fenced.map_err(|(node, fault)| node.store_error(fault))
        })
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        Ok(overview::overview(&self.client, &self.server))
    }

    fn near(&self, asker: u64, chance: u64) -> Option<Run> {
        self.nearest.run(self.client.topology.map(), asker, chance)
    }

    fn places(&self, partitions: &[Partition]) -> Vec<Option<Location>> {
        places::places(&self.client, partitions)
    }
}

/// What lies beyond the stored bytes was never written, or is lost. `true` where there is any.
fn fill_with_zeros(mut job: Job<'_>) -> Result<bool, StoreError> {
    let buffer = job.buffer.take().unwrap_or_default();
    let node = job.node.clone();
    let stored = match job.answer()? {
        Answer::Landed(bytes) => bytes,
        Answer::Reply(Reply::Nil) => 0,
        Answer::Reply(_) => {
            let endpoint = node.as_deref().map_or("a node".into(), Node::name);
            return Err(StoreError::Malformed { endpoint });
        }
    };
    buffer[stored..].fill(0);
    Ok(stored < buffer.len())
}
