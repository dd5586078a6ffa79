//! A workflow, its slots, nodes, links and the real controller on a clock that jumps from event to
//! event. One seed is one world.
//!
//! As in MemEFS, nodes compute and store: each has some slots, and more nodes are more slots. A task
//! reads, computes, then writes; when a node has no room, it waits and the controller is told. Reading
//! and writing go over a link that a node's slots share evenly, whether or not the others use it. A
//! reconfiguration moves partitions over the same links and halves what is left to tasks; or, as in
//! MemEFS, all input and output stands still until it is over. Policies are asked from when the input
//! is there: while it comes, what is in use grows.

mod events;
mod perform;
mod setup;
mod tasks;

use std::collections::VecDeque;
use std::time::Duration;

use tidefs_control::forecast::{Curve, Forecaster, Pace};
use tidefs_control::{Command, Controller, Event, Settings, SettingsError, Spreading};
use tidefs_model::{ByteSize, Time};

use crate::cluster::Cluster;
use crate::outcome::{Outcome, Reconfigured, Row};
use crate::random::Random;
use crate::workflow::{TaskNumber, Workflow};
use events::{Happening, Queue};
pub use setup::{Setup, Stuck};
use tasks::Tasks;

const DAYS_MOST: u64 = 90;
const SECOND: Duration = Duration::from_secs(1);

/// Runs a workflow to its end.
pub fn simulate(workflow: &Workflow, setup: &Setup) -> Result<Outcome, Stuck> {
    let mut world = World::new(workflow, *setup)?;
    world.stage_in()?;
    world.run()?;
    Ok(world.outcome)
}

fn controller(
    workflow: &Workflow,
    setup: &Setup,
    settings: Settings,
) -> Result<Controller, SettingsError> {
    let controller = Controller::new(settings)?;
    if !setup.policy.forecast {
        return Ok(controller);
    }
    let told = setup.disturbance.told(workflow, setup.seed);
    let start = Duration::try_from_secs_f64(setup.boot_seconds).unwrap_or_default();
    let pace = Pace::after_start(start);
    let machines = setup.compute.unwrap_or(setup.nodes_max.into());
    let part = setup.bandwidth / f64::from(setup.slots);
    let curve = Curve::new(&told, machines * setup.slots, part, pace);
    Ok(controller.with_forecast(Forecaster::new(curve)))
}

fn cluster(setup: &Setup, random: &mut Random) -> Cluster {
    let own = Cluster::new(setup.nodes_initial, setup.node_memory.0, random);
    match &setup.lent {
        Some(lent) => own.with_lent(lent),
        None => own,
    }
}

struct World<'w> {
    workflow: &'w Workflow,
    setup: Setup,
    settings: Settings,
    controller: Controller,
    cluster: Cluster,
    queue: Queue,
    now: Time,
    tasks: Tasks,
    /// Tasks with something to write and no room, and since when.
    waiting: VecDeque<(TaskNumber, Time)>,
    /// What was to happen while input and output stand still.
    held: Vec<Happening>,
    suspended_since: Option<Time>,
    moving: u32,
    /// When the steps that are under way are over.
    moving_until: Time,
    outcome: Outcome,
}

impl<'w> World<'w> {
    fn new(workflow: &'w Workflow, setup: Setup) -> Result<World<'w>, Stuck> {
        // While everything stands still, there is nobody to be heard between two steps, and nothing is
        // written during a round.
        let usual = Spreading::default();
        let (at_a_time, first_round_percent) = match setup.suspends {
            true => (u64::from(setup.nodes_max), 100),
            false => (1, usual.first_round_percent),
        };
        let step_bytes = at_a_time * setup.node_memory.0;
        let settings = Settings {
            nodes_initial: setup.nodes_initial,
            spreading: Spreading { step_bytes, first_round_percent, ..usual },
            ..Settings::new(setup.policy, setup.nodes_min, setup.nodes_max, setup.node_memory)
        };
        let mut random = Random::new(setup.seed);
        let mut world = World {
            workflow,
            setup,
            settings,
            controller: controller(workflow, &setup, settings)?,
            cluster: cluster(&setup, &mut random),
            queue: Queue::default(),
            now: Time(0),
            tasks: Tasks::new(workflow),
            waiting: VecDeque::new(),
            held: Vec::new(),
            suspended_since: None,
            moving: 0,
            moving_until: Time(0),
            outcome: Outcome {
                makespan_seconds: 0.0,
                timeline: Vec::new(),
                reconfigurations: Vec::new(),
                suspended_seconds: 0.0,
                waited_seconds: 0.0,
                peak_bytes: 0,
            },
        };
        world.tell(Event::Opened(None));
        Ok(world)
    }

    /// The input comes over one link; tasks start when it is there.
    fn stage_in(&mut self) -> Result<(), Stuck> {
        let input = self.workflow.input_bytes();
        if !self.cluster.has_room_for(input, self.settings.head_room.0) {
            let (nodes, each) = (self.cluster.nodes(), self.setup.node_memory);
            return Err(Stuck::InputTooLarge { input: ByteSize(input), nodes, each });
        }
        let seconds = input as f64 / self.setup.bandwidth;
        self.cluster.bytes = input;
        self.row();
        self.after(seconds, Happening::Staged);
        self.queue.push(self.now + SECOND, Happening::Look);
        Ok(())
    }

    fn run(&mut self) -> Result<(), Stuck> {
        let all = self.workflow.tasks.len();
        while self.tasks.ended < all {
            let (at, happening) = self.queue.pop().expect("it is looked at every second");
            self.now = at;
            if self.seconds() > (DAYS_MOST * 86_400) as f64 {
                return Err(Stuck::Endless { days: DAYS_MOST });
            }
            self.happens(happening)?;
        }
        self.row();
        self.outcome.makespan_seconds = self.seconds();
        Ok(())
    }

    fn happens(&mut self, happening: Happening) -> Result<(), Stuck> {
        match happening {
            Happening::Staged => self.start_tasks(),
            Happening::Look => self.look()?,
            Happening::Done(task) => self.done(*task),
            Happening::Computed(_) | Happening::Written(_) if self.suspended_since.is_some() => {
                self.held.push(happening);
            }
            Happening::Computed(task) => self.write(task),
            Happening::Written(task) => self.written(task),
        }
        Ok(())
    }

    /// Once a second: the nodes are observed, and who waits tries again.
    fn look(&mut self) -> Result<(), Stuck> {
        self.row();
        if self.is_staged() {
            let observed = self.cluster.observe();
            self.tell(Event::Observed(self.now, observed));
            self.tell(Event::Tick);
        }
        self.try_again();
        if !self.waiting.is_empty() {
            let fullest = self.cluster.fullest();
            self.tell(Event::NodeFull(Some(fullest)));
            self.check_stuck()?;
        }
        self.queue.push(self.now + SECOND, Happening::Look);
        Ok(())
    }

    /// Everything that runs waits for room, and there will be none.
    fn check_stuck(&mut self) -> Result<(), Stuck> {
        let Some(&(task, _)) = self.waiting.front() else { return Ok(()) };
        let all_wait = self.waiting.len() as u32 == self.tasks.running;
        let grows = self.controller.growth().is_none_or(|growth| growth.is_hopeful());
        if !all_wait || grows || self.suspended_since.is_some() {
            return Ok(());
        }
        let stated = &self.workflow.tasks[task as usize];
        Err(Stuck::NoRoom {
            at: self.seconds(),
            task: self.workflow.name_of(task),
            stage: self.workflow.stages[usize::from(stated.stage)].clone(),
            wanted: ByteSize(self.workflow.bytes(&stated.writes)),
            held: ByteSize(self.cluster.bytes),
            nodes: self.cluster.nodes(),
            each: self.setup.node_memory,
        })
    }

    /// Tasks that run at a time, at most.
    fn slots(&self) -> u32 {
        self.setup.compute.unwrap_or(self.cluster.nodes().into()) * self.setup.slots
    }

    fn seconds(&self) -> f64 {
        self.now.0 as f64 / 1e9
    }

    fn after(&mut self, seconds: f64, happening: Happening) {
        self.queue.push(self.now + Duration::from_secs_f64(seconds), happening);
    }

    fn row(&mut self) {
        let nodes = self.cluster.nodes();
        let row = Row {
            t: self.seconds(),
            used_bytes: self.cluster.bytes,
            allocated_bytes: self.cluster.memory(),
            nodes,
        };
        self.outcome.peak_bytes = self.outcome.peak_bytes.max(row.used_bytes);
        self.outcome.timeline.push(row);
    }

    /// Seconds on one slot's part of a link.
    fn transfer(&self, bytes: u64) -> f64 {
        let part = self.setup.bandwidth / f64::from(self.setup.slots);
        let seconds = bytes as f64 / part;
        // Half of the link until the step is over: half a second is lost with each.
        let moves_on = if self.moving > 0 { self.moving_until - self.now } else { Duration::ZERO };
        seconds + seconds.min(moves_on.as_secs_f64() / 2.0)
    }

    fn tell(&mut self, event: Event) {
        for command in self.controller.apply(self.now, event) {
            match command {
                Command::Do(task) => self.begin(task),
                Command::Finished(summary) => self.reconfigured(summary),
                // A simulated step has its end when it begins.
                Command::BreakOff | Command::Answer(..) => {}
            }
        }
    }

    fn reconfigured(&mut self, summary: tidefs_control::Summary) {
        self.outcome.reconfigurations.push(Reconfigured {
            kind: match summary.kind {
                tidefs_control::Kind::Commission => "commission",
                tidefs_control::Kind::Decommission => "decommission",
                tidefs_control::Kind::Rebalance => "rebalance",
            },
            reason: summary.reason,
            started_at: summary.started_at.0 as f64 / 1e9,
            seconds: summary.took.as_secs_f64(),
            nodes_before: summary.nodes_before,
            nodes_after: summary.nodes_after,
            partitions_moved: summary.partitions_moved,
            bytes_moved: summary.bytes_moved,
            bytes_minimum: summary.bytes_minimum,
        });
        self.resume();
        self.row();
        self.try_again();
        self.start_tasks();
    }
}
