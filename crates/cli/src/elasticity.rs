//! How many nodes a file system may have and who changes their number, as people say it.

mod range;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tidefs_control::{
    Basis, Capacity, OwnShare, Policy, Settings, SettingsError, Watch, count_of_nodes,
};
use tidefs_model::ByteSize;

pub use self::range::{NODES_MAX, NodeRange};

/// So far below the threshold of growing nodes are filled by shrinking, in per cent of their memory.
const FILL_BELOW_GROWTH: u8 = 10;
/// How often nodes are observed unless something else is asked for.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same where nodes are asked for ahead: a small node is full within a second.
const INTERVAL_AHEAD: Duration = Duration::from_millis(200);
/// What a range of nodes does unless something else is asked for.
const POLICY_OF_A_RANGE: &str = "nso+asi";

/// What the nodes' shares of the data follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Placement {
    Memory,
    Bandwidth,
}

impl From<Placement> for Capacity {
    fn from(placement: Placement) -> Capacity {
        match placement {
            Placement::Memory => Capacity::Memory,
            Placement::Bandwidth => Capacity::Bandwidth,
        }
    }
}

/// When the number of nodes changes, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Growing and shrinking")]
pub struct Elasticity {
    /// Start with so many nodes of the range that --nodes gives [default: its least]
    #[arg(long, value_name = "N")]
    #[serde(default)]
    pub start: Option<u16>,

    /// static (only by hand), forecast, or one that grows joined by + to one that shrinks
    /// [default: nso+asi for a range of nodes, else static]
    ///   cso  adds half as many nodes as it started with, above 95 % in use
    ///   nso  adds as many nodes as it started with, above 95 %
    ///   aso  adds as many nodes as there are, above 95 %
    ///   csi  removes a quarter of the nodes, below 75 % for the quiet period
    ///   asi  removes half of the nodes, below 50 % for the quiet period
    #[arg(long, value_name = "NAME", value_parser = policy_name, verbatim_doc_comment)]
    pub policy: Option<String>,

    /// The workflow that a forecast follows: WfFormat, or what `snakemake --dry-run` printed; without it,
    /// thresholds decide until `tidefs workflow` tells of one
    #[arg(long, value_name = "FILE")]
    pub workflow: Option<PathBuf>,

    /// Grow when more of all memory than this is in use [default: 95]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub scale_out_at: Option<u8>,

    /// Add this share of the nodes it started with, or that there are, at once [default: 50 for cso,
    /// 100 for nso and aso]
    #[arg(long, value_name = "PERCENT")]
    pub scale_out_by: Option<u16>,

    /// Add so many nodes at once, whatever the policy says
    #[arg(long, value_name = "N", value_parser = step, conflicts_with = "scale_out_by")]
    #[serde(default)]
    pub scale_out_nodes: Option<u16>,

    /// Grow before that, where at the present rate it would be reached before nodes have come: as long as
    /// the last growth took, and two seconds before the first one
    #[arg(long)]
    #[serde(default)]
    pub scale_out_ahead: bool,

    /// Shrink when less of all memory than this is in use [default: 75 for csi, 50 for asi]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub scale_in_at: Option<u8>,

    /// Remove at most this share of the nodes at once [default: 25 for csi, 50 for asi]
    #[arg(long, value_name = "PERCENT")]
    pub scale_in_by: Option<u16>,

    /// Remove at most so many nodes at once, whatever the policy says
    #[arg(long, value_name = "N", value_parser = step, conflicts_with = "scale_in_by")]
    #[serde(default)]
    pub scale_in_nodes: Option<u16>,

    /// Remove no more nodes than that the others are filled to this
    /// [default: 85, or 10 below --scale-out-at where that is less, 1 at least]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub scale_in_fill: Option<u8>,

    /// How long usage must be low before nodes are removed, in seconds [default: 45]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub quiet_period: Option<Duration>,

    /// How often the nodes are looked at, in seconds, from 0.1 to 60; nothing is decided in between but
    /// what is asked for and what full nodes need [default: 1, or 0.2 with
    /// --scale-out-ahead, or half of a shorter --quiet-period]
    #[arg(long, value_name = "SECONDS", value_parser = observe_every)]
    pub observe_every: Option<Duration>,

    /// Part of the data, 0 to 1, that lies on own nodes while others lend memory; metadata always does
    /// [default: in proportion to memory]
    #[arg(long, value_name = "PART", value_parser = own_share)]
    pub own_share: Option<String>,

    /// What the nodes' shares of the data follow: memory, or bandwidth as far as memory allows
    /// [default: bandwidth with --host-commands, else memory]
    #[arg(long, value_name = "NAME")]
    pub placement: Option<Placement>,

    /// For how long a node's bandwidth must have changed before shares follow it, in seconds
    /// [default: 900]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub bandwidth_window: Option<Duration>,

    /// By how much it must have fallen [default: 20]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub bandwidth_drop: Option<u8>,

    /// Nodes run on several hosts, so that there is a network between them.
    #[arg(skip)]
    pub several_hosts: bool,

    /// Others may lend nodes, from hosts of their own.
    #[arg(skip)]
    #[serde(default)]
    pub lenders_may_join: bool,

    /// Bytes a second that reconfigurations may move, such as 200MiB; a lender that wants its memory
    /// back does not wait for it, a partition moves whole, and what a manager that was killed left half
    /// done is finished without it [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    pub move_rate: Option<u64>,
}

impl Elasticity {
    /// Something was asked for that only nodes can do.
    pub fn is_asked_for(&self) -> bool {
        *self != Elasticity::default()
    }

    pub fn placement(&self) -> Placement {
        let usual = if self.several_hosts { Placement::Bandwidth } else { Placement::Memory };
        self.placement.unwrap_or(usual)
    }

    /// Between processes of one machine there is no bandwidth to speak of, unless somebody asks. What is
    /// measured is shown also where shares do not follow it.
    fn watch(&self) -> Option<Watch> {
        let usual = Watch::default();
        let is_watched =
            self.several_hosts || self.lenders_may_join || self.placement() == Placement::Bandwidth;
        is_watched.then(|| Watch {
            window: self.bandwidth_window.unwrap_or(usual.window),
            drop_percent: self.bandwidth_drop.unwrap_or(usual.drop_percent),
        })
    }

    /// Between two observations of the nodes. Usage that is low must be seen low more than once.
    pub fn interval(&self, settings: &Settings) -> Duration {
        let quiet = settings.policy.scale_in.map_or(INTERVAL, |scale_in| scale_in.quiet / 2);
        let most = if self.scale_out_ahead { INTERVAL_AHEAD } else { INTERVAL };
        self.observe_every.unwrap_or(quiet.clamp(*OBSERVE_EVERY.start(), most))
    }

    pub fn policy_name(&self, nodes: NodeRange) -> &str {
        let default = if nodes.changes() { POLICY_OF_A_RANGE } else { "static" };
        self.policy.as_deref().unwrap_or(default)
    }

    /// So many nodes there are at first.
    pub fn first(&self, nodes: NodeRange) -> u16 {
        self.start.unwrap_or(nodes.min)
    }

    /// # Errors
    /// When wishes contradict each other.
    pub fn settings(&self, nodes: NodeRange, memory: ByteSize) -> Result<Settings, SettingsError> {
        let mut policy: Policy = self.policy_name(nodes).parse().expect("checked when it was read");
        if let Some(scale_out) = &mut policy.scale_out {
            scale_out.threshold_percent = self.scale_out_at.unwrap_or(scale_out.threshold_percent);
            scale_out.step_percent = self.scale_out_by.unwrap_or(scale_out.step_percent);
            scale_out.step_nodes = self.scale_out_nodes;
            scale_out.ahead = self.scale_out_ahead;
        }
        let grow_above = policy.scale_out.map_or(100, |scale_out| scale_out.threshold_percent);
        if let Some(scale_in) = &mut policy.scale_in {
            scale_in.threshold_percent = self.scale_in_at.unwrap_or(scale_in.threshold_percent);
            scale_in.step_percent = self.scale_in_by.unwrap_or(scale_in.step_percent);
            scale_in.step_nodes = self.scale_in_nodes;
            let below_growth = grow_above.saturating_sub(FILL_BELOW_GROWTH).max(1);
            let usual = scale_in.ceiling_percent.min(below_growth);
            scale_in.ceiling_percent = self.scale_in_fill.unwrap_or(usual);
            scale_in.quiet = self.quiet_period.unwrap_or(scale_in.quiet);
        }
        let mut settings = Settings::new(policy, nodes.min, nodes.max, memory);
        settings.nodes_initial = self.first(nodes);
        let own_share = self.own_share.as_ref();
        settings.spreading.own_share =
            own_share.map(|share| share.parse().expect("checked as well"));
        settings.spreading.by = self.placement().into();
        settings.watch = self.watch();
        settings.check().map(|()| settings)
    }
}

/// The numbers that a policy goes by; nothing for one that only does as it is told.
pub fn policy_in_words(policy: &Policy) -> String {
    let of = |basis| match basis {
        Basis::Initial => "the first nodes",
        Basis::Current => "the nodes",
    };
    let step = |nodes: Option<u16>, percent: u16, basis| match nodes {
        Some(nodes) => count_of_nodes(nodes),
        None => format!("{percent} % of {}", of(basis)),
    };
    let grows = policy.scale_out.map(|it| {
        let (above, step) = (it.threshold_percent, step(it.step_nodes, it.step_percent, it.basis));
        let ahead = if it.ahead { ", ahead of what is written" } else { "" };
        format!("grows above {above} %{ahead} by {step}")
    });
    let shrinks = policy.scale_in.map(|it| {
        let (below, step) = (it.threshold_percent, step(it.step_nodes, it.step_percent, it.basis));
        let (quiet, fill) = (it.quiet.as_secs_f64(), it.ceiling_percent);
        format!("shrinks below {below} % for {quiet} s by {step}, to {fill} % at most")
    });
    let said: Vec<_> = grows.into_iter().chain(shrinks).collect();
    if said.is_empty() { String::new() } else { format!(" ({})", said.join("; ")) }
}

/// How often nodes are observed: oftener would keep them busy, more rarely is no watch.
const OBSERVE_EVERY: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(60);

fn observe_every(text: &str) -> Result<Duration, String> {
    let every = seconds(text)?;
    let (least, most) = (OBSERVE_EVERY.start().as_secs_f64(), OBSERVE_EVERY.end().as_secs_f64());
    match OBSERVE_EVERY.contains(&every) {
        true => Ok(every),
        false => Err(format!("give {least} to {most} seconds; 1 is usual")),
    }
}

fn step(text: &str) -> Result<u16, String> {
    let usual = || format!("give a number of nodes, 1 to {NODES_MAX}");
    text.parse().ok().filter(|nodes| (1..=NODES_MAX).contains(nodes)).ok_or_else(usual)
}

fn percent(text: &str) -> Result<u8, String> {
    let usual = || "give a whole number of per cent, 1 to 100".to_owned();
    text.parse::<u8>().ok().filter(|percent| *percent <= 100).ok_or_else(usual)
}

fn policy_name(text: &str) -> Result<String, String> {
    text.parse::<Policy>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn own_share(text: &str) -> Result<String, String> {
    text.parse::<OwnShare>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn rate(text: &str) -> Result<u64, String> {
    match text.parse::<ByteSize>().map_err(|error| error.to_string())? {
        ByteSize(0) => Err("nothing could move; leave it out for no limit".to_owned()),
        ByteSize(bytes) => Ok(bytes),
    }
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    let duration = number.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "give seconds, such as 45 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_changes_by_itself_and_a_number_does_not() {
        let memory = ByteSize::mib(256);
        let settings = |text: &str| {
            let nodes = text.parse().unwrap();
            Elasticity::default().settings(nodes, memory).unwrap()
        };
        assert_eq!(settings("4").policy, Policy::STATIC);
        let range = settings("1..6");
        assert_eq!((range.nodes_min, range.nodes_initial, range.nodes_max), (1, 1, 6));
        assert_eq!(range.policy, "nso+asi".parse().unwrap());
    }

    #[test]
    fn a_range_may_start_within_it_and_change_by_numbers_of_nodes() {
        let nodes = NodeRange { min: 16, max: 64 };
        let wishes = Elasticity {
            start: Some(32),
            scale_out_nodes: Some(16),
            scale_in_nodes: Some(8),
            ..Elasticity::default()
        };
        let settings = wishes.settings(nodes, ByteSize::mib(256)).unwrap();
        assert_eq!((settings.nodes_min, settings.nodes_initial), (16, 32));
        let policy = settings.policy;
        let steps = (policy.scale_out.unwrap().step(32, 48), policy.scale_in.unwrap().step(32, 48));
        assert_eq!(steps, (16, 8));
        let said = policy_in_words(&policy);
        assert!(said.contains("by 16 nodes;") && said.contains("by 8 nodes,"), "{said}");
        let outside = Elasticity { start: Some(8), ..Elasticity::default() };
        let error = outside.settings(nodes, ByteSize::mib(256)).unwrap_err().to_string();
        assert!(error.contains("8 nodes to start with are not within 16..64"), "{error}");
        assert!(step("0").unwrap_err().contains("1 to 64") && step("65").is_err());
    }

    #[test]
    fn the_help_says_what_each_policy_does() {
        let mut command = <crate::arguments::Arguments as clap::CommandFactory>::command();
        let help = command.find_subcommand_mut("run").expect("a command").render_help().to_string();
        let line = |name: &str| {
            let begin = format!("{name}  ");
            let found = help.lines().find(|line| line.trim_start().starts_with(&begin));
            found.unwrap_or_else(|| panic!("nothing of {name} in {help}")).to_owned()
        };
        for (name, part) in
            [("cso", "half as many"), ("nso", "it started with"), ("aso", "there are")]
        {
            let above = name.parse::<Policy>().unwrap().scale_out.unwrap().threshold_percent;
            let line = line(name);
            assert!(line.contains(part) && line.contains(&format!("above {above} %")), "{line}");
        }
        for (name, part) in [("csi", "a quarter"), ("asi", "half")] {
            let below = name.parse::<Policy>().unwrap().scale_in.unwrap().threshold_percent;
            let line = line(name);
            assert!(line.contains(part) && line.contains(&format!("below {below} %")), "{line}");
        }
    }

    #[test]
    fn shares_follow_bandwidth_where_there_are_several_hosts() {
        let (nodes, memory) = (NodeRange { min: 2, max: 2 }, ByteSize::mib(256));
        let here = Elasticity::default().settings(nodes, memory).unwrap();
        assert_eq!((here.spreading.by, here.watch), (Capacity::Memory, None));
        let apart = Elasticity { several_hosts: true, ..Elasticity::default() };
        let settings = apart.settings(nodes, memory).unwrap();
        assert_eq!(settings.spreading.by, Capacity::Bandwidth);
        assert_eq!(settings.watch, Some(Watch::default()));
        let by_memory = Elasticity { placement: Some(Placement::Memory), ..apart };
        let settings = by_memory.settings(nodes, memory).unwrap();
        assert_eq!((settings.spreading.by, settings.watch.is_some()), (Capacity::Memory, true));
        let lent = Elasticity { lenders_may_join: true, ..Elasticity::default() };
        let settings = lent.settings(nodes, memory).unwrap();
        assert_eq!((settings.spreading.by, settings.watch.is_some()), (Capacity::Memory, true));
    }

    #[test]
    fn nodes_are_observed_every_second_or_as_asked() {
        let interval = |quiet: Option<f64>, every: Option<&str>| {
            let wishes = Elasticity {
                quiet_period: quiet.map(Duration::from_secs_f64),
                observe_every: every.map(|text| observe_every(text).unwrap()),
                ..Elasticity::default()
            };
            let nodes = NodeRange { min: 1, max: 2 };
            wishes.interval(&wishes.settings(nodes, ByteSize::mib(256)).unwrap()).as_secs_f64()
        };
        assert_eq!((interval(None, None), interval(Some(60.0), Some("5"))), (1.0, 5.0));
        assert_eq!((interval(Some(1.0), None), interval(Some(0.01), None)), (0.5, 0.1));
        for outside in ["0", "0.05", "61", "-1", "often"] {
            observe_every(outside).expect_err(outside);
        }
        assert!(observe_every("61").unwrap_err().contains("0.1 to 60"));
    }

    #[test]
    fn every_number_can_be_set_and_contradictions_are_refused() {
        let nodes = NodeRange { min: 1, max: 6 };
        let asked = Elasticity {
            policy: Some("aso+csi".to_owned()),
            workflow: None,
            scale_out_at: Some(90),
            scale_out_by: Some(30),
            scale_out_nodes: None,
            scale_out_ahead: true,
            scale_in_at: Some(60),
            scale_in_fill: Some(70),
            scale_in_by: Some(10),
            scale_in_nodes: None,
            start: None,
            quiet_period: Some(Duration::from_secs(3)),
            observe_every: Some(Duration::from_secs(2)),
            own_share: Some("0.25".to_owned()),
            move_rate: None,
            placement: Some(Placement::Bandwidth),
            bandwidth_window: Some(Duration::from_secs(60)),
            bandwidth_drop: Some(30),
            several_hosts: false,
            lenders_may_join: false,
        };
        let settings = asked.settings(nodes, ByteSize::mib(256)).unwrap();
        assert_eq!(settings.spreading.own_share.map(OwnShare::part), Some(0.25));
        assert_eq!(settings.spreading.by, Capacity::Bandwidth);
        let watch = Watch { window: Duration::from_secs(60), drop_percent: 30 };
        assert_eq!(settings.watch, Some(watch));
        let policy = settings.policy;
        let scale_out = policy.scale_out.unwrap();
        assert_eq!((scale_out.threshold_percent, scale_out.step_percent), (90, 30));
        assert!(scale_out.ahead);
        let scale_in = policy.scale_in.unwrap();
        assert_eq!(scale_in.ceiling_percent, 70);
        assert_eq!((scale_in.threshold_percent, scale_in.step_percent), (60, 10));
        assert_eq!(scale_in.quiet, Duration::from_secs(3));
        let crossed = Elasticity { scale_in_at: Some(92), ..asked.clone() };
        let error = crossed.settings(nodes, ByteSize::mib(256)).unwrap_err();
        assert!(matches!(error, SettingsError::ThresholdsCross { .. }), "{error}");
        let early = Elasticity { scale_out_at: Some(80), ..Elasticity::default() };
        let policy = early.settings(nodes, ByteSize::mib(256)).unwrap().policy;
        assert_eq!(policy.scale_in.unwrap().ceiling_percent, 70, "nodes do not grow right after");
        let rarely = Elasticity { scale_in_at: Some(4), scale_out_at: Some(5), ..early.clone() };
        let policy = rarely.settings(nodes, ByteSize::mib(256)).unwrap().policy;
        assert_eq!(policy.scale_in.unwrap().ceiling_percent, 1);
        assert_eq!(asked.interval(&settings), Duration::from_secs(2));
        let ahead = Elasticity { scale_out_ahead: true, ..Elasticity::default() };
        assert_eq!(ahead.interval(&settings), INTERVAL_AHEAD);
        assert!(rate("0").unwrap_err().contains("leave it out"));
        assert_eq!(rate("1KiB"), Ok(1024));
        let small = asked.settings(nodes, ByteSize::mib(8)).unwrap_err();
        assert!(matches!(small, SettingsError::NodeMemory { .. }), "{small}");
    }
}
