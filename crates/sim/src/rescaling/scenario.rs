//! A scenario of section VII.B: warm up, then rescale, again and again.

use std::time::Duration;

use serde::Serialize;
use tidefs_control::rescaling::Weights;

use super::cluster::{Cluster, Planner, ratios};
use crate::quartiles::Quartiles;
use crate::random::Random;

/// What is measured, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    Commission(u16),
    Decommission(u16),
}

/// How an evaluation goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// Before the change.
    pub servers: u16,
    pub change: Change,
    pub buckets: u16,
    pub bytes: u64,
    /// Rescalings at random go to a number of servers from `least` to `most`.
    pub least: u16,
    pub most: u16,
    pub warmup: u32,
    /// Rescalings at random between two that are measured.
    pub between: u32,
    pub runs: u32,
    /// Rescalings at random follow this strategy instead of the measured one, and each run begins with
    /// buckets of its own (section VII.C, figure 4).
    pub warmed_by: Option<Weights>,
    pub seed: u64,
}

/// The numbers make no scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    #[error("{servers} servers cannot lose {leave}: at least one must stay")]
    NobodyStays { servers: u16, leave: u16 },
    #[error("there must be a server, a bucket and a run")]
    Nothing,
    #[error("{servers} servers are more than the {most} that can be planned for")]
    TooManyServers { servers: u32, most: u16 },
}

/// Servers that can be planned for.
const SERVERS_MOST: u16 = 32_768;

impl Scenario {
    /// Sizes of sections VII.B: 4,096 GB, 128 to 2,048 servers, 9 rescalings between two.
    pub fn new(servers: u16, change: Change, buckets: u16) -> Scenario {
        let (least, most) = (128, 2_048);
        let mut scenario = Scenario {
            servers,
            change,
            buckets,
            bytes: 4_096_000_000_000,
            least,
            most,
            warmup: 25,
            between: 9,
            runs: 100,
            warmed_by: None,
            seed: 1,
        };
        let after = scenario.after();
        scenario.least = least.min(servers).min(after);
        scenario.most = most.max(servers).max(after);
        if scenario.most <= 64 {
            scenario.least = 2.min(scenario.least);
        }
        scenario
    }

    pub fn after(&self) -> u16 {
        match self.change {
            Change::Commission(count) => self.servers.saturating_add(count),
            Change::Decommission(count) => self.servers.saturating_sub(count),
        }
    }

    pub fn check(&self) -> Result<(), ScenarioError> {
        let Scenario { servers, change, .. } = *self;
        if servers == 0 || self.buckets == 0 || self.runs == 0 {
            return Err(ScenarioError::Nothing);
        }
        match change {
            Change::Decommission(leave) if leave >= servers => {
                Err(ScenarioError::NobodyStays { servers, leave })
            }
            Change::Commission(more)
                if u32::from(servers) + u32::from(more) > SERVERS_MOST.into() =>
            {
                let servers = u32::from(servers) + u32::from(more);
                Err(ScenarioError::TooManyServers { servers, most: SERVERS_MOST })
            }
            _ => Ok(()),
        }
    }
}

/// One rescaling that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    pub plan_ms: f64,
    /// *L_max / L_t*.
    pub load_balance: f64,
    /// *D_max / D_t*.
    pub data_balance: f64,
    /// *T_max / T_t*.
    pub duration_ratio: f64,
    /// Over what any plan must move that ends even.
    pub moved_ratio: f64,
}

/// The box plots of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Results {
    pub plan_ms: Quartiles,
    pub load_balance: Quartiles,
    pub data_balance: Quartiles,
    pub duration_ratio: Quartiles,
    pub moved_ratio: Quartiles,
}

impl Results {
    pub fn new(measured: &[Measured]) -> Results {
        let of = |value: fn(&Measured) -> f64| Quartiles::new(measured.iter().map(value));
        Results {
            plan_ms: of(|measured| measured.plan_ms),
            load_balance: of(|measured| measured.load_balance),
            data_balance: of(|measured| measured.data_balance),
            duration_ratio: of(|measured| measured.duration_ratio),
            moved_ratio: of(|measured| measured.moved_ratio),
        }
    }
}

/// Runs a scenario. `clock` tells the time since any moment; it is asked around each plan that is
/// measured.
pub fn run(
    scenario: &Scenario,
    planner: Planner,
    weights: Weights,
    clock: &mut dyn FnMut() -> Duration,
) -> Result<Vec<Measured>, ScenarioError> {
    scenario.check()?;
    let mut random = Random::new(scenario.seed);
    let servers = usize::from(scenario.servers);
    let buckets = usize::from(scenario.buckets);
    let afresh = |random: &mut Random| Cluster::new(servers, buckets, scenario.bytes, random);
    let mut cluster = afresh(&mut random);
    let rescale = |cluster: &mut Cluster, servers: usize, random: &mut Random| {
        let problem = cluster.problem(&cluster.towards(servers, random));
        let placement = planner.plan(&problem, scenario.warmed_by.unwrap_or(weights));
        cluster.carry_out(&problem, &placement);
    };
    let wander = |cluster: &mut Cluster, times: u32, random: &mut Random| {
        for _ in 0..times {
            let servers = random.between(scenario.least.into(), scenario.most.into()) as usize;
            rescale(cluster, servers, random);
        }
        rescale(cluster, servers, random);
    };
    wander(&mut cluster, scenario.warmup, &mut random);
    let mut measured = Vec::new();
    for at in 0..scenario.runs {
        if at > 0 && scenario.warmed_by.is_some() {
            cluster = afresh(&mut random);
            wander(&mut cluster, scenario.warmup, &mut random);
        } else if at > 0 {
            wander(&mut cluster, scenario.between, &mut random);
        }
        let change = cluster.towards(scenario.after().into(), &mut random);
        let problem = cluster.problem(&change);
        let begun = clock();
        let placement = planner.plan(&problem, weights);
        let plan_ms = (clock().saturating_sub(begun)).as_secs_f64() * 1e3;
        let [load_balance, data_balance, duration_ratio, moved_ratio] =
            ratios(&problem, &placement);
        measured.push(Measured {
            plan_ms,
            load_balance,
            data_balance,
            duration_ratio,
            moved_ratio,
        });
        cluster.carry_out(&problem, &placement);
    }
    Ok(measured)
}
