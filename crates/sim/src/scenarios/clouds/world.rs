//! A workflow on machines whose links differ and may change, with the files in stripes on all of them.
//!
//! Machines compute and store. A task takes a slot of the machine with the most free ones, reads,
//! computes, writes; what readers and writers get is max-min fair. Where partitions follow bandwidth,
//! the real controller is told what each link carries, as the manager would measure it, and what it
//! asks for is done: while partitions move, half of each link is theirs.

mod manager;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tidefs_model::ByteSize;

use super::links::{Machine, Rates, fair};
use crate::Stuck;
use crate::cluster::Cluster;
use crate::random::Random;
use crate::workflow::{Cleanup, TaskNumber, Workflow};
pub(super) use manager::Follows;
use manager::Manager;

pub(super) const MACHINES: u16 = 32;
pub(super) const SLOTS: usize = 8;
const MEMORY: u64 = 20_000_000_000;
/// Less than this is nothing: sums are rounded.
const NOTHING: f64 = 1.0;

/// Links that are drawn, at the start and again each time so many seconds have passed.
pub(super) struct Links<'d> {
    pub draw: &'d mut dyn FnMut() -> Vec<f64>,
    pub every: Option<f64>,
}

/// How a run went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ran {
    pub seconds: f64,
    /// Bytes that came in over all links, which are as many as went out.
    pub carried: f64,
    /// What the links could have carried in one direction.
    pub could: f64,
    pub rebalances: u32,
}

/// Those of one machine that read, or those that write: all get the same.
#[derive(Default)]
struct Group {
    /// Bytes that each has got since the start.
    served: f64,
    /// When a task has got all, by what each has got then.
    ends: BinaryHeap<Reverse<(u64, TaskNumber)>>,
}

impl Group {
    /// Floats above 0 sort as their bits do.
    fn join(&mut self, task: TaskNumber, bytes: f64) {
        self.ends.push(Reverse(((self.served + bytes).to_bits(), task)));
    }

    fn left(&self) -> Option<f64> {
        self.ends.peek().map(|Reverse((end, _))| f64::from_bits(*end) - self.served)
    }

    fn leave(&mut self) -> Option<TaskNumber> {
        self.left().filter(|left| *left <= NOTHING)?;
        self.ends.pop().map(|Reverse((_, task))| task)
    }
}

#[derive(Default)]
struct At {
    link: f64,
    running: usize,
    reads: Group,
    writes: Group,
}

struct World<'w> {
    workflow: &'w Workflow,
    now: f64,
    cluster: Cluster,
    manager: Option<Manager>,
    machines: Vec<At>,
    /// By task, its machine.
    placed: Vec<u16>,
    /// Tasks that compute, and until when.
    computing: BinaryHeap<Reverse<(u64, TaskNumber)>>,
    ready: VecDeque<TaskNumber>,
    awaited: Vec<u32>,
    followers: Vec<Vec<TaskNumber>>,
    left_in_stage: Vec<u32>,
    ended: usize,
    ran: Ran,
}

/// Runs a workflow to its end, or until so many seconds have passed. The input is there at the start
/// and the partitions where they belong; `follows` says what these follow.
pub(super) fn run(
    workflow: &Workflow,
    links: Links<'_>,
    follows: Follows,
    until: f64,
) -> Result<Ran, Stuck> {
    let mut world = World::new(workflow, follows);
    world.set((links.draw)());
    world.open();
    let mut next = links.every.unwrap_or(f64::INFINITY);
    while world.ended < workflow.tasks.len() && world.now < until {
        world.start();
        world.go_on(next.min(until));
        if world.now >= next {
            world.set((links.draw)());
            next += links.every.unwrap_or(f64::INFINITY);
        }
        world.settle()?;
    }
    Ok(Ran { seconds: world.now, ..world.ran })
}

impl<'w> World<'w> {
    fn new(workflow: &'w Workflow, follows: Follows) -> World<'w> {
        let mut cluster = Cluster::new(MACHINES, MEMORY, &mut Random::new(1));
        cluster.bytes = workflow.input_bytes();
        let mut world = World {
            workflow,
            now: 0.0,
            manager: Manager::new(follows, MACHINES, ByteSize(MEMORY)),
            cluster,
            machines: (0..MACHINES).map(|_| At::default()).collect(),
            placed: vec![0; workflow.tasks.len()],
            computing: BinaryHeap::new(),
            ready: VecDeque::new(),
            awaited: workflow.tasks.iter().map(|task| task.after.len() as u32).collect(),
            followers: vec![Vec::new(); workflow.tasks.len()],
            left_in_stage: vec![0; workflow.stages.len()],
            ended: 0,
            ran: Ran::default(),
        };
        for (at, task) in workflow.tasks.iter().enumerate() {
            let number = at as TaskNumber;
            task.after.iter().for_each(|&it| world.followers[it as usize].push(number));
            world.left_in_stage[usize::from(task.stage)] += 1;
            if task.after.is_empty() {
                world.ready.push_back(number);
            }
        }
        world
    }

    fn set(&mut self, links: Vec<f64>) {
        self.machines.iter_mut().zip(links).for_each(|(machine, link)| machine.link = link);
    }

    fn links(&self) -> Vec<f64> {
        self.machines.iter().map(|machine| machine.link).collect()
    }

    /// The manager measures and spreads before anything else; that is before the clock starts.
    fn open(&mut self) {
        let links = self.links();
        if let Some(manager) = &mut self.manager {
            manager.open(&links, &mut self.cluster);
        }
    }

    /// Each task that is ready takes a slot of the machine that runs the fewest.
    fn start(&mut self) {
        while !self.ready.is_empty() {
            let freest = (0..self.machines.len()).min_by_key(|&at| self.machines[at].running);
            let at = freest.expect("there are machines");
            if self.machines[at].running >= SLOTS {
                return;
            }
            let number = self.ready.pop_front().expect("one is ready");
            self.placed[number as usize] = at as u16;
            let bytes = self.workflow.bytes(&self.workflow.tasks[number as usize].reads);
            self.machines[at].running += 1;
            self.machines[at].reads.join(number, bytes as f64);
        }
    }

    fn rates(&self) -> Vec<Rates> {
        let moving = self.manager.as_ref().is_some_and(Manager::is_moving);
        let parts = self.cluster.parts_by_node();
        let machine = |(at, part): (&At, f64)| Machine {
            link: if moving { at.link / 2.0 } else { at.link },
            part,
            readers: at.reads.ends.len(),
            writers: at.writes.ends.len(),
        };
        fair(&self.machines.iter().zip(parts).map(machine).collect::<Vec<_>>())
    }

    /// Time passes until the next thing happens, and at most until then.
    fn go_on(&mut self, until: f64) {
        let rates = self.rates();
        let mut next = until;
        if let Some(Reverse((end, _))) = self.computing.peek() {
            next = next.min(f64::from_bits(*end));
        }
        if let Some(manager) = &self.manager {
            next = next.min(manager.wakes_at());
        }
        for (machine, rates) in self.machines.iter().zip(&rates) {
            for (group, rate) in [(&machine.reads, rates.read), (&machine.writes, rates.write)] {
                if let Some(left) = group.left() {
                    next = next.min(self.now + left.max(0.0) / rate);
                }
            }
        }
        let seconds = (next - self.now).max(0.0);
        for (machine, rates) in self.machines.iter_mut().zip(&rates) {
            let users = [machine.reads.ends.len(), machine.writes.ends.len()];
            machine.reads.served += rates.read * seconds;
            machine.writes.served += rates.write * seconds;
            let each = users[0] as f64 * rates.read + users[1] as f64 * rates.write;
            self.ran.carried += each * seconds;
            self.ran.could += machine.link * seconds;
        }
        self.now = next;
    }

    /// What is over is followed by what comes next.
    fn settle(&mut self) -> Result<(), Stuck> {
        for at in 0..self.machines.len() {
            while let Some(task) = self.machines[at].reads.leave() {
                let end = self.now + self.workflow.tasks[task as usize].seconds;
                self.computing.push(Reverse((end.to_bits(), task)));
            }
            while let Some(task) = self.machines[at].writes.leave() {
                self.end(task, at);
            }
        }
        while let Some(&Reverse((end, task))) = self.computing.peek()
            && f64::from_bits(end) <= self.now
        {
            self.computing.pop();
            self.write(task)?;
        }
        let links = self.links();
        if let Some(manager) = &mut self.manager {
            manager.go_on(self.now, &links, &mut self.cluster);
            self.ran.rebalances = manager.rebalances();
        }
        Ok(())
    }

    /// Takes the room for what a task writes.
    fn write(&mut self, task: TaskNumber) -> Result<(), Stuck> {
        let stated = &self.workflow.tasks[task as usize];
        let bytes = self.workflow.bytes(&stated.writes);
        if !self.cluster.has_room_for(bytes, 0) {
            return Err(Stuck::NoRoom {
                at: self.now,
                task: self.workflow.name_of(task),
                stage: self.workflow.stages[usize::from(stated.stage)].clone(),
                wanted: ByteSize(bytes),
                held: ByteSize(self.cluster.bytes),
                nodes: MACHINES,
                each: ByteSize(MEMORY),
            });
        }
        self.cluster.bytes += bytes;
        let at = usize::from(self.placed[task as usize]);
        self.machines[at].writes.join(task, bytes as f64);
        Ok(())
    }

    fn end(&mut self, number: TaskNumber, at: usize) {
        self.machines[at].running -= 1;
        self.ended += 1;
        for &follower in &self.followers[number as usize] {
            let awaited = &mut self.awaited[follower as usize];
            *awaited -= 1;
            if *awaited == 0 {
                self.ready.push_back(follower);
            }
        }
        let stage = self.workflow.tasks[number as usize].stage;
        let left = &mut self.left_in_stage[usize::from(stage)];
        *left -= 1;
        if let (0, Cleanup::AfterStage(rules)) = (*left, &self.workflow.cleanup) {
            let due = rules.iter().filter(|(after, _)| *after == stage);
            self.cluster.bytes -= due.map(|(_, files)| self.workflow.bytes(files)).sum::<u64>();
        }
    }
}
