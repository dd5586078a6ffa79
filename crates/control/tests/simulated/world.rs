//! A cluster, a workload and a controller on a clock that moves by a tenth of a second. One seed is
//! one world.

use std::time::Duration;

use tidefs_control::{
    Action, Answer, Command, Controller, Done, Event, Failure, Kind, Outcome, Phase, Record,
    Request, RequestId, Settings, Summary, Task, TaskId,
};
use tidefs_model::{METADATA_PARTITIONS, NodeId, Time};

use crate::cluster::{Cluster, Hindrance, MIB, PARTITIONS};

const TICK: Duration = Duration::from_millis(100);
const TICKS_PER_SECOND: u64 = 10;

/// How often things fail, in per cent; the controller is killed so many times in ten thousand ticks.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub start: u64,
    pub step: u64,
    pub journal: u64,
    pub survey: u64,
    pub kill: u64,
}

impl Faults {
    pub const NONE: Faults = Faults { start: 0, step: 0, journal: 0, survey: 0, kill: 0 };
}

/// A task that ends at a tick.
struct Running {
    task: Task,
    ends: u64,
}

pub struct World {
    settings: Settings,
    controller: Controller,
    pub cluster: Cluster,
    pub faults: Faults,
    journal: Option<Vec<u8>>,
    running: Vec<Running>,
    tick: u64,
    seed: u64,
    wished: u64,
    answer: Option<Answer>,
    asked: u64,
    pub summaries: Vec<Summary>,
    pub starts: u32,
    pub kills: u32,
    /// Steps of plans that were carried out.
    pub carried: u32,
    pub refused_writes: u32,
    /// So often a writer met a full node.
    pub met_full: u32,
    /// Moves for which a target had no room.
    pub crowded: u32,
    /// Writers leave room for so many partitions of a step.
    pub room_for: Option<usize>,
    /// Ticks that every step takes longer.
    pub slowness: u64,
    /// The step under way ends before all its moves are made.
    broken_off: bool,
    /// A node may hold more than it may for a while.
    pub lenient: bool,
}

pub fn is_rolled_back(summary: &Summary) -> bool {
    matches!(summary.outcome, Outcome::RolledBack { .. })
}

impl World {
    pub fn new(settings: Settings, nodes: u16, faults: Faults, seed: u64) -> World {
        let settings = Settings { nodes_initial: nodes, ..settings };
        let mut world = World {
            controller: Controller::new(settings).expect("sound settings"),
            cluster: Cluster::new(usize::from(nodes), settings.node_memory.0),
            settings,
            faults,
            journal: None,
            running: Vec::new(),
            tick: 0,
            seed: seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(99),
            wished: 0,
            answer: None,
            asked: 0,
            summaries: Vec::new(),
            starts: 0,
            kills: 0,
            carried: 0,
            refused_writes: 0,
            met_full: 0,
            crowded: 0,
            room_for: None,
            slowness: 0,
            broken_off: false,
            lenient: false,
        };
        world.tell(Event::Opened(None));
        world
    }

    pub fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.random(100) < percent
    }

    fn now(&self) -> Time {
        Time::from_unix(1_000, 0) + TICK * self.tick as u32
    }

    /// The workload writes or deletes until it has this much.
    pub fn wish_mib(&mut self, mib: u64) {
        self.wished = mib * MIB;
    }

    pub fn used_mib(&self) -> u64 {
        self.cluster.content() / MIB
    }

    pub fn nodes(&self) -> usize {
        self.cluster.members.len()
    }

    pub fn own_nodes(&self) -> usize {
        self.nodes() - self.cluster.victims.len()
    }

    pub fn first_node(&self) -> NodeId {
        *self.cluster.members.keys().next().expect("a node")
    }

    pub fn is_idle(&self) -> bool {
        self.controller.is_idle()
    }

    pub fn step_bytes(&self) -> u64 {
        self.settings.spreading.step_bytes
    }

    pub fn waits_for_a_look(&self) -> bool {
        self.controller.waits_for_a_look()
    }

    pub fn moving(&self) -> bool {
        self.controller
            .reconfiguration()
            .is_some_and(|under_way| under_way.phase() == Phase::Moving)
    }

    pub fn shrinking(&self) -> bool {
        self.moving()
            && self.controller.reconfiguration().is_some_and(|it| it.kind() == Kind::Decommission)
    }

    pub fn decision(&self) -> String {
        self.controller.last_decision().map(ToString::to_string).unwrap_or_default()
    }

    pub fn run(&mut self, seconds: u64) {
        self.run_ticks(seconds * TICKS_PER_SECOND);
    }

    pub fn run_ticks(&mut self, ticks: u64) {
        (0..ticks).for_each(|_| self.step());
    }

    pub fn run_until(&mut self, seconds: u64, there: impl Fn(&World) -> bool) {
        for _ in 0..seconds * TICKS_PER_SECOND {
            self.step();
            if there(self) {
                return;
            }
        }
        panic!(
            "not there after {seconds} s: {} nodes, {} MiB, {}, {:?}, last {:#?}",
            self.nodes(),
            self.used_mib(),
            self.decision(),
            self.controller.reconfiguration(),
            self.summaries.last(),
        );
    }

    /// A writer met this node full.
    pub fn alarm(&mut self, node: NodeId) {
        self.tell(Event::NodeFull(Some(node)));
    }

    /// Asks by hand; a controller that is killed meanwhile answers nobody.
    pub fn submit(&mut self, request: Request) {
        self.asked += 1;
        self.answer = None;
        self.tell(Event::Request(RequestId(self.asked), request));
    }

    /// Asks by hand and waits for the answer.
    pub fn ask(&mut self, request: Request) -> Answer {
        self.submit(request);
        self.run_until(300, |world| world.answer.is_some());
        self.answer.take().expect("an answer")
    }

    fn step(&mut self) {
        self.tick += 1;
        self.work();
        if self.random(10_000) < self.faults.kill {
            self.kill();
        }
        let (ended, running) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|running| running.ends <= self.tick);
        self.running = running;
        let ended: Vec<Running> = ended;
        for Running { task, .. } in ended {
            let (id, result) = (task.id, self.perform(task));
            self.tell(Event::Ended(id, result));
        }
        if self.tick.is_multiple_of(TICKS_PER_SECOND) {
            self.tell(Event::Observed(self.now(), self.cluster.observe()));
        }
        self.tell(Event::Tick);
        self.assert_sound();
    }

    /// The workload: up to 4 MiB a tick, and an alarm when a node has no room.
    fn work(&mut self) {
        for _ in 0..8 {
            let number = METADATA_PARTITIONS
                + self.random(u64::from(PARTITIONS - METADATA_PARTITIONS)) as u16;
            let content = self.cluster.content();
            if content + MIB / 2 <= self.wished {
                if let Err(node) = self.cluster.write(number, MIB / 2) {
                    self.met_full += 1;
                    self.tell(Event::NodeFull(Some(node)));
                    if self.controller.waits_for_a_look() {
                        self.tell(Event::Observed(self.now(), self.cluster.observe()));
                    }
                    if self.controller.growth().is_some_and(|growth| !growth.is_hopeful()) {
                        self.refused_writes += 1;
                    }
                }
            } else if content > self.wished {
                let bytes = &mut self.cluster.bytes[usize::from(number)];
                *bytes -= (*bytes).min(2 * MIB);
            }
        }
    }

    /// The controller dies, and what it asked for happens or does not.
    pub fn kill(&mut self) {
        self.kills += 1;
        self.broken_off = false;
        for Running { task, .. } in std::mem::take(&mut self.running) {
            if self.happens(50) {
                let _ = self.perform(task);
            }
        }
        self.controller = Controller::new(self.settings).expect("sound settings");
        let record =
            self.journal.as_deref().map(|bytes| Record::decode(bytes).expect("a sound record"));
        self.tell(Event::Opened(record));
    }

    fn tell(&mut self, event: Event) {
        let now = self.now();
        for command in self.controller.apply(now, event) {
            match command {
                Command::Do(task) => {
                    let takes = match task.action {
                        Action::StartNode | Action::TakeIn => 5 + self.random(20),
                        Action::Move(_) => self.slowness + 2 + self.random(5),
                        _ => 1 + self.random(3),
                    };
                    self.running.push(Running { task, ends: self.tick + takes });
                }
                Command::BreakOff => self.break_off(),
                Command::Answer(_, answer) => self.answer = Some(answer),
                Command::Finished(summary) => self.summaries.push(summary),
            }
        }
    }

    fn break_off(&mut self) {
        let is_move = |running: &&mut Running| matches!(running.task.action, Action::Move(_));
        let moving = self.running.iter_mut().find(is_move).expect("a move to break off");
        moving.ends = self.tick + 1;
        self.broken_off = true;
    }

    fn perform(&mut self, Task { id: TaskId(_), action }: Task) -> Result<Done, Failure> {
        let refuse = |what: &str| Err(Failure::new(what));
        let intended = self.journal.is_some();
        match action {
            Action::Record(_) | Action::Erase(_) if self.happens(self.faults.journal) => {
                refuse("the journal cannot be written")
            }
            Action::Record(record) => {
                self.journal = Some(record.encode());
                Ok(Done::Recorded)
            }
            Action::Erase(_) => {
                self.journal = None;
                Ok(Done::Erased)
            }
            Action::Recover => Ok(Done::Recovered),
            Action::Survey if self.happens(self.faults.survey) => refuse("a node is slow"),
            Action::Survey => Ok(Done::Surveyed(self.cluster.survey())),
            Action::StartNode => {
                assert!(intended, "a node is started without a record");
                self.starts += 1;
                if self.happens(self.faults.start) {
                    return refuse("no port is free");
                }
                Ok(Done::Started(self.cluster.add(self.settings.node_memory.0)))
            }
            Action::TakeIn => {
                assert!(intended, "a node is taken in without a record");
                if self.happens(self.faults.start) {
                    return refuse("the lender has gone");
                }
                Ok(Done::Started(self.cluster.add_victim(self.settings.node_memory.0)))
            }
            Action::Move(step) => {
                assert!(intended, "partitions move without a record");
                self.carried += 1;
                let fails = self.happens(self.faults.step);
                let len = step.moves.len() as u64;
                let most = if fails { self.random(len) as usize } else { usize::MAX };
                let broken_off = std::mem::take(&mut self.broken_off);
                let most = if broken_off { self.random(len) as usize } else { most };
                let (moved, hindrance) = match self.room_for {
                    Some(room) if room < step.moves.len() => {
                        let moved = self.cluster.carry(&step.moves, room).0;
                        (moved, Some(Hindrance::NoRoom("writers filled it".to_owned())))
                    }
                    _ => self.cluster.carry(&step.moves, most),
                };
                let hindrance = hindrance.filter(|_| !broken_off || moved.partitions < most as u32);
                let (failure, crowded) = match hindrance {
                    None => (None, None),
                    Some(Hindrance::Failed(what)) => (Some(Failure::new(what)), None),
                    Some(Hindrance::NoRoom(what)) => (None, Some(Failure::new(what))),
                };
                self.crowded += u32::from(crowded.is_some());
                Ok(Done::Moved { moved, failure, crowded })
            }
            Action::RemoveNode(node) => {
                assert!(intended, "a node is removed without a record");
                self.cluster.remove(node);
                Ok(Done::Removed)
            }
        }
    }

    fn assert_sound(&self) {
        for owner in &self.cluster.owners {
            assert!(self.cluster.members.contains_key(owner), "a partition lies on no node");
        }
        let metadata = &self.cluster.owners[..usize::from(METADATA_PARTITIONS)];
        let lent = metadata.iter().filter(|owner| self.cluster.victims.contains(owner));
        assert_eq!(lent.count(), 0, "metadata lies on victims");
        for (&node, &capacity) in &self.cluster.members {
            let used = self.cluster.used(node);
            assert!(self.lenient || used <= capacity, "{node} holds {used} of {capacity}");
        }
        let (nodes, most) = (self.own_nodes(), usize::from(self.settings.nodes_max));
        assert!(nodes <= most, "{nodes} nodes, at most {most}");
        assert!(nodes >= usize::from(self.settings.nodes_min), "{nodes} nodes are too few");
    }

    /// Every node is within 2 % of the mean, or two of the largest partitions.
    pub fn assert_even(&self) {
        let largest = self.cluster.bytes.iter().max().copied().unwrap_or(0);
        let used = self.cluster.members.keys().map(|&node| self.cluster.used(node));
        let used: Vec<_> = used.collect();
        let mean = used.iter().sum::<u64>() / used.len() as u64;
        for bytes in used {
            let off = bytes.abs_diff(mean);
            assert!(off <= mean / 50 + 2 * largest, "{bytes} is off {mean} by {off}");
        }
    }
}
