//! A cluster in memory whose nodes hold content, and hands on it that may die at any effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use tidefs_control::{
    BackOff, EMPTY_NODE_BYTES, Failure, Held, Move, Moved, Node, NodeState, Settings, Spreading,
};
use tidefs_manager::{
    Carried, Handle, Hands, Journal, Loss, Manager, ManagerError, Parts, Provisioner, Survey,
    Wanted,
};
use tidefs_model::{ByteSize, Clock, NodeClass, NodeId, StripeSize, Time};
use tidefs_store::Embedded;

use crate::store::Mortal;

pub const MIB: u64 = 1 << 20;
pub const NODE_BYTES: u64 = 256 * MIB;
/// Generous, for loaded machines; only a failing test takes as long.
const LONG: Duration = Duration::from_secs(120);

pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        SystemTime::now().into()
    }
}

/// How many effects a manager has before it dies.
#[derive(Debug)]
pub struct Life {
    left: AtomicI64,
    dead: AtomicBool,
}

impl Life {
    pub fn of(effects: i64) -> Arc<Life> {
        Arc::new(Life { left: AtomicI64::new(effects), dead: AtomicBool::new(false) })
    }

    pub fn without_end() -> Arc<Life> {
        Life::of(i64::MAX)
    }

    pub fn is_over(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// The dead see nothing.
    pub fn look(&self) -> Result<(), Failure> {
        if self.is_over() { Err(Failure::new("killed")) } else { Ok(()) }
    }

    /// The last effect that is allowed is made, the next is not.
    pub fn act(&self) -> Result<(), Failure> {
        if self.left.fetch_sub(1, Ordering::AcqRel) <= 0 {
            self.dead.store(true, Ordering::Release);
        }
        self.look()
    }
}

/// Members, processes, and what lies on them.
#[derive(Debug, Default)]
pub struct World {
    pub members: BTreeSet<NodeId>,
    pub processes: BTreeSet<NodeId>,
    pub owners: Vec<NodeId>,
    content: BTreeMap<NodeId, BTreeMap<usize, u64>>,
    /// Copied, and perhaps switched, but not deleted at the source.
    half: Option<(usize, NodeId, NodeId)>,
    born: u64,
    pub starts_that_fail: u32,
    pub moves_that_fail: u32,
    pub nothing_is_put_right: bool,
    /// What a predecessor left is put right once the nodes have been observed.
    pub is_put_right_late: bool,
    looks: u64,
    /// No move begins.
    pub moves_rest: bool,
    pub losses: Vec<Loss>,
    /// The node that the journal lies on, and how often it is used until the node ends.
    pub journal: Option<(NodeId, u32)>,
}

/// What a use of the journal comes upon.
pub struct JournalUse {
    /// Its node ends now.
    pub has_ended: bool,
    /// Nobody else holds it yet.
    pub is_out_of_reach: bool,
}

impl World {
    fn new(nodes: usize, partitions: usize) -> World {
        let mut world = World::default();
        for _ in 0..nodes {
            let id = world.birth();
            world.members.insert(id);
        }
        let members: Vec<_> = world.members.iter().copied().collect();
        for partition in 0..partitions {
            let owner = members[partition % members.len()];
            world.owners.push(owner);
            world.content.entry(owner).or_default().insert(partition, MIB);
        }
        world
    }

    fn birth(&mut self) -> NodeId {
        self.born += 1;
        let mut id = [0; 20];
        id[..8].copy_from_slice(&self.born.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        self.processes.insert(NodeId(id));
        self.content.insert(NodeId(id), BTreeMap::new());
        NodeId(id)
    }

    /// What the partition's owner has of it.
    fn bytes(&self, partition: usize) -> Option<u64> {
        self.content.get(&self.owners[partition])?.get(&partition).copied()
    }

    fn used(&self, node: NodeId) -> u64 {
        EMPTY_NODE_BYTES + self.content.get(&node).map_or(0, |held| held.values().sum())
    }

    fn nodes(&self) -> Vec<Node> {
        let node = |&id: &NodeId| Node {
            id,
            class: NodeClass::Own,
            state: match self.processes.contains(&id) {
                true => NodeState::Serving,
                false => NodeState::Unreachable,
            },
            capacity_bytes: NODE_BYTES,
            used_bytes: self.used(id),
            partitions: self.owners.iter().filter(|owner| **owner == id).count() as u16,
            received_bytes: 0,
            sent_bytes: 0,
        };
        self.members.iter().map(node).collect()
    }

    /// Sets what each partition holds; `Err` names a node without room.
    pub fn fill(&mut self, bytes: u64) -> Result<(), NodeId> {
        for partition in 0..self.owners.len() {
            let owner = self.owners[partition];
            let held = self.bytes(partition).unwrap_or(0);
            if bytes > held && self.used(owner) + bytes - held > NODE_BYTES {
                return Err(owner);
            }
            self.content.entry(owner).or_default().insert(partition, bytes);
        }
        Ok(())
    }

    /// Ends a node's process; all that it holds is gone.
    pub fn kill(&mut self, node: NodeId) {
        self.processes.remove(&node);
        self.content.insert(node, BTreeMap::new());
        self.half = self.half.filter(|&(_, from, to)| node != from && node != to);
    }

    pub fn use_journal(&mut self) -> JournalUse {
        let Some((node, left)) = self.journal else {
            return JournalUse { has_ended: false, is_out_of_reach: false };
        };
        let has_ended = left == 0 && self.processes.contains(&node);
        if has_ended {
            self.kill(node);
        }
        self.journal = Some((node, left.saturating_sub(1)));
        let is_dead = self.members.contains(&node) && !self.processes.contains(&node);
        JournalUse { has_ended, is_out_of_reach: is_dead }
    }

    /// Members that have no process any more.
    fn ended(&self) -> Vec<NodeId> {
        self.members.difference(&self.processes).copied().collect()
    }

    /// Others hold what it held, empty.
    fn expunge(&mut self, dead: NodeId) -> Loss {
        self.members.remove(&dead);
        let heirs: Vec<_> = self.members.iter().copied().collect();
        let mut partitions = 0;
        for (partition, owner) in self.owners.iter_mut().enumerate() {
            if *owner == dead {
                *owner = heirs[partition % heirs.len()];
                self.content.entry(*owner).or_default().insert(partition, 0);
                partitions += 1;
            }
        }
        Loss { node: dead, partitions, bytes: None }
    }

    /// Each partition is on one member, whole; nothing lies anywhere else.
    pub fn assert_sound(&self, bytes: u64) {
        assert_eq!(self.half, None, "a move is half done");
        assert_eq!(self.processes, self.members, "processes that are no members, or the reverse");
        for partition in 0..self.owners.len() {
            assert!(self.members.contains(&self.owners[partition]), "{partition} is lost");
            assert_eq!(self.bytes(partition), Some(bytes), "{partition} is not whole");
        }
        let copies: usize = self.content.values().map(BTreeMap::len).sum();
        assert_eq!(copies, self.owners.len(), "copies were left behind");
    }

    pub fn assert_even(&self) {
        let numbers = self.nodes().into_iter().map(|node| node.partitions);
        let (least, most) = numbers
            .fold((u16::MAX, 0), |(least, most), number| (least.min(number), most.max(number)));
        assert!(most - least <= 1, "{least} to {most} partitions a node");
    }
}

pub type Shared = Arc<Mutex<World>>;

pub fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands and provisioner of one manager's life.
#[derive(Clone)]
pub struct Arms {
    world: Shared,
    life: Arc<Life>,
}

impl Hands for Arms {
    type Address = ();

    fn observe(&self) -> Result<Vec<Node>, Failure> {
        self.life.look()?;
        let mut world = lock(&self.world);
        world.looks += 1;
        Ok(world.nodes())
    }

    fn survey(&self) -> Result<Survey, Failure> {
        self.life.look()?;
        let world = lock(&self.world);
        let held = |(partition, &owner): (usize, &NodeId)| Held {
            owner: Some(owner),
            bytes: world.bytes(partition),
        };
        let partitions = world.owners.iter().enumerate().map(held).collect();
        Ok(Survey { nodes: world.nodes(), partitions })
    }

    fn add_node(&self, node: NodeId, (): &()) -> Result<(), Failure> {
        self.life.act()?;
        let mut world = lock(&self.world);
        assert!(world.processes.contains(&node), "no process to let in");
        world.members.insert(node);
        Ok(())
    }

    fn remove_node(&self, node: NodeId) -> Result<(), Failure> {
        self.life.act()?;
        let mut world = lock(&self.world);
        assert!(!world.owners.contains(&node), "a node was removed that holds partitions");
        world.members.remove(&node);
        Ok(())
    }

    fn move_partitions(
        &self,
        moves: &[Move],
        progress: &(dyn Fn(u64) + Sync),
        stop: &AtomicBool,
    ) -> Carried {
        let mut carried = Carried::default();
        for step in moves {
            self.rest(stop);
            if stop.load(Ordering::Acquire) {
                return carried;
            }
            match self.carry(step) {
                Ok(bytes) => {
                    progress(bytes);
                    carried.moved.partitions += 1;
                    carried.moved.bytes += bytes;
                }
                Err(failure) => {
                    carried.failure = Some(failure);
                    break;
                }
            }
        }
        assert_eq!(carried.failure.is_none(), carried.moved == all(moves, carried.moved.bytes));
        carried
    }

    fn recover(&self, ended: &[NodeId]) -> Result<Vec<Loss>, Failure> {
        self.life.act()?;
        let waits = |world: &World| world.is_put_right_late && world.looks == 0;
        until("a look", || !waits(&lock(&self.world)), String::new);
        let mut world = lock(&self.world);
        if world.nothing_is_put_right {
            return Err(Failure::new("the heir does not answer"));
        }
        if let Some((partition, from, to)) = world.half.take() {
            let stale = if world.owners[partition] == to { from } else { to };
            world.content.get_mut(&stale).map(|held| held.remove(&partition));
        }
        Ok(ended.iter().map(|&dead| world.expunge(dead)).collect())
    }
}

fn all(moves: &[Move], bytes: u64) -> Moved {
    Moved { partitions: moves.len() as u32, bytes }
}

impl Arms {
    /// As a limit on the bytes a second has it.
    fn rest(&self, stop: &AtomicBool) {
        while lock(&self.world).moves_rest && !stop.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Copy, switch, delete: an effect each.
    fn carry(&self, step: &Move) -> Result<u64, Failure> {
        let partition = usize::from(step.partition.number());
        self.life.act()?;
        let bytes = {
            let mut world = lock(&self.world);
            assert_eq!(world.half, None, "something is on its way already");
            if world.owners[partition] != step.from || !world.processes.contains(&step.to) {
                return Err(Failure::new("the partition is elsewhere"));
            }
            if world.moves_that_fail > 0 {
                world.moves_that_fail -= 1;
                return Err(Failure::new("the line was cut"));
            }
            let bytes = world.bytes(partition).ok_or(Failure::new("the source is gone"))?;
            world.half = Some((partition, step.from, step.to));
            world.content.entry(step.to).or_default().insert(partition, bytes);
            bytes
        };
        self.life.act()?;
        {
            let mut world = lock(&self.world);
            if !world.processes.contains(&step.to) || world.owners[partition] != step.from {
                return Err(Failure::new("one of the two is gone"));
            }
            world.owners[partition] = step.to;
        }
        self.life.act()?;
        let mut world = lock(&self.world);
        world.content.entry(step.from).or_default().remove(&partition);
        world.half = None;
        Ok(bytes)
    }
}

impl Provisioner for Arms {
    type Address = ();

    fn start(&self, _wanted: Wanted, _stop: &AtomicBool) -> Result<(NodeId, ()), Failure> {
        self.life.act()?;
        let mut world = lock(&self.world);
        if world.starts_that_fail > 0 {
            world.starts_that_fail -= 1;
            return Err(Failure::new("no port is free"));
        }
        Ok((world.birth(), ()))
    }

    fn stop(&self, node: NodeId) -> Result<(), Failure> {
        self.life.act()?;
        let mut world = lock(&self.world);
        assert!(!world.members.contains(&node), "a member's process was stopped");
        world.processes.remove(&node);
        world.content.remove(&node);
        Ok(())
    }

    fn ended(&self) -> Result<Vec<NodeId>, Failure> {
        self.life.look()?;
        Ok(lock(&self.world).ended())
    }

    fn bury(&self, loss: Loss) -> Result<(), Failure> {
        self.life.act()?;
        let mut world = lock(&self.world);
        world.content.remove(&loss.node);
        world.losses.push(loss);
        Ok(())
    }

    fn started(&self) -> Result<Vec<NodeId>, Failure> {
        self.life.look()?;
        Ok(lock(&self.world).processes.iter().copied().collect())
    }
}

/// A world, the store with its journal, and managers that come and go.
pub struct Stage {
    pub world: Shared,
    store: Arc<Embedded>,
    pub settings: Settings,
}

impl Stage {
    pub fn new(settings: Settings, nodes: usize, partitions: usize) -> Stage {
        let spreading =
            Spreading { step_partitions: 12, step_bytes: 64 * MIB, ..settings.spreading };
        let back_off =
            BackOff { first: Duration::from_millis(2), longest: Duration::from_millis(20) };
        let nodes_initial = settings.nodes_initial.max(nodes as u16);
        let settings = Settings { spreading, back_off, nodes_initial, ..settings };
        let store = Arc::new(Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT));
        Stage { world: Arc::new(Mutex::new(World::new(nodes, partitions))), store, settings }
    }

    pub fn start(&self, life: &Arc<Life>) -> Running {
        self.start_looking_every(life, Duration::from_millis(10))
    }

    pub fn start_looking_every(&self, life: &Arc<Life>, interval: Duration) -> Running {
        let arms = Arms { world: Arc::clone(&self.world), life: Arc::clone(life) };
        let world = Arc::clone(&self.world);
        let store = Mortal { inner: Arc::clone(&self.store), life: Arc::clone(life), world };
        let parts = Parts { hands: arms.clone(), provisioner: arms, store, clock: SystemClock };
        let (manager, handle) =
            Manager::new(parts, self.settings, interval).expect("sound settings");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || manager.run(&stopped));
        Running { handle, stop, thread: Some(thread) }
    }

    pub fn nodes(&self) -> usize {
        lock(&self.world).members.len()
    }

    pub fn journal_is_empty(&self) -> bool {
        Journal::look(&self.store).expect("a journal").is_none()
    }
}

/// A manager that runs; it is stopped when this goes.
pub struct Running {
    pub handle: Handle,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), ManagerError>>>,
}

impl Running {
    pub fn stop(mut self) -> Result<(), ManagerError> {
        self.stop.store(true, Ordering::Release);
        self.join()
    }

    /// It has ended by itself, or is about to.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(|thread| thread.is_finished())
    }

    /// Waits for it to end by itself.
    pub fn join(&mut self) -> Result<(), ManagerError> {
        self.thread.take().map_or(Ok(()), |thread| thread.join().expect("a manager's thread"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let ended = self.join();
        if let (Err(error), false) = (ended, thread::panicking()) {
            panic!("the manager ended: {error}");
        }
    }
}

/// Waits until it is so; says what is instead when that takes too long.
pub fn until(what: &str, mut is: impl FnMut() -> bool, instead: impl Fn() -> String) {
    let end = Instant::now() + LONG;
    while !is() {
        assert!(Instant::now() < end, "{what} has not come: {}", instead());
        thread::sleep(Duration::from_millis(1));
    }
}
