//! What people want of the controller, and which wishes contradict each other.

use std::time::Duration;

use tidefs_model::ByteSize;

use crate::bandwidth::Watch;
use crate::capacity::Capacity;
use crate::own_share::OwnShare;
use crate::policy::{Policy, ScaleIn, ScaleOut};

/// What was observed is decided on for so many intervals.
const GOOD_FOR_INTERVALS: u32 = 5;
/// A loaded machine delays an observation by seconds.
const GOOD_FOR_LEAST: Duration = Duration::from_secs(5);

/// Every node gets at least 16 of the partitions that hold metadata.
pub const NODES_MOST: u16 = tidefs_model::METADATA_PARTITIONS / 16;

/// How partitions are spread and moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spreading {
    /// A node takes partitions until this share of its memory is in use: copies are made of data
    /// that is still being written, and what is written meanwhile needs room too.
    pub fill_percent: u8,
    /// The same for what comes from a node that leaves: nothing of it may stay behind.
    pub leaving_fill_percent: u8,
    /// At most so many bytes are on their way at a time; then what has happened meanwhile is heard.
    pub step_bytes: u64,
    /// At most so many partitions are on their way at a time.
    pub step_partitions: u16,
    /// Data is written while it is moved. So the first round moves this much of what it would, in per
    /// cent, and what is left is planned once more, when it is known where most of it was written: then
    /// it need not be moved back.
    pub first_round_percent: u8,
    /// What the nodes' shares of the data follow.
    pub by: Capacity,
    /// What part of the data lies on own nodes while there are victim nodes, as far as memory allows;
    /// `None` spreads it over both by memory.
    pub own_share: Option<OwnShare>,
}

impl Spreading {
    /// Where nodes leave.
    pub fn for_leaving(self) -> Spreading {
        Spreading { fill_percent: self.fill_percent.max(self.leaving_fill_percent), ..self }
    }

    /// Up to where a node of this capacity takes partitions.
    pub fn limit(&self, capacity_bytes: u64) -> u64 {
        (u128::from(capacity_bytes) * u128::from(self.fill_percent) / 100) as u64
    }
}

impl Default for Spreading {
    fn default() -> Spreading {
        Spreading {
            fill_percent: 95,
            leaving_fill_percent: 98,
            step_bytes: 128 << 20,
            step_partitions: 16_384,
            first_round_percent: 90,
            by: Capacity::Memory,
            own_share: None,
        }
    }
}

/// Waits between tries: each twice as long as the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    pub first: Duration,
    pub longest: Duration,
}

impl BackOff {
    /// The wait after so many failures in a row.
    pub fn wait(&self, failures: u32) -> Duration {
        let doubled = self.first.saturating_mul(1 << failures.saturating_sub(1).min(20));
        doubled.min(self.longest)
    }
}

impl Default for BackOff {
    fn default() -> BackOff {
        BackOff { first: Duration::from_millis(500), longest: Duration::from_secs(60) }
    }
}

/// All of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub policy: Policy,
    pub nodes_min: u16,
    pub nodes_max: u16,
    /// How many nodes the file system started with.
    pub nodes_initial: u16,
    /// The memory of a node that is added.
    pub node_memory: ByteSize,
    /// What every node keeps free for deletes, truncates and metadata.
    pub head_room: ByteSize,
    pub spreading: Spreading,
    /// How the nodes' bandwidths are watched; `None`: they are not measured.
    pub watch: Option<Watch>,
    pub back_off: BackOff,
    /// Between two observations of the nodes.
    pub observed_every: Duration,
    /// So often a failed step of a reconfiguration is tried again before it is given up.
    pub tries: u32,
}

impl Settings {
    /// A policy within `nodes_min..=nodes_max`, starting with the least; all else as usual.
    pub fn new(policy: Policy, nodes_min: u16, nodes_max: u16, node_memory: ByteSize) -> Settings {
        Settings {
            policy,
            nodes_min,
            nodes_max,
            nodes_initial: nodes_min,
            node_memory,
            head_room: ByteSize::mib(8),
            spreading: Spreading::default(),
            watch: None,
            back_off: BackOff::default(),
            observed_every: Duration::from_secs(1),
            tries: 5,
        }
    }

    /// What a node that is added may hold of data.
    pub fn node_capacity(&self) -> ByteSize {
        ByteSize(self.node_memory.0.saturating_sub(self.head_room.0))
    }

    /// Nothing is decided on an observation that is older.
    pub fn observed_good_for(&self) -> Duration {
        (self.observed_every * GOOD_FOR_INTERVALS).max(GOOD_FOR_LEAST)
    }

    /// Finds the first wish that cannot be granted together with the others.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.check_nodes()?;
        if self.node_memory.0 <= self.head_room.0.saturating_mul(2) {
            let (memory, head_room) = (self.node_memory, self.head_room);
            let least = ByteSize(head_room.0.saturating_mul(2));
            return Err(SettingsError::NodeMemory { memory, head_room, least });
        }
        within("fill of a node", self.spreading.fill_percent.into(), 10, 100)?;
        if let Some(watch) = &self.watch {
            within("change of a bandwidth (--bandwidth-drop)", watch.drop_percent.into(), 1, 90)?;
        }
        if let Some(scale_out) = &self.policy.scale_out {
            check_out(scale_out)?;
        }
        if let Some(scale_in) = &self.policy.scale_in {
            check_in(scale_in, self.policy.scale_out.as_ref())?;
            let (ceiling, fill) = (scale_in.ceiling_percent, self.spreading.fill_percent);
            if ceiling > fill {
                return Err(SettingsError::CeilingAboveFill { ceiling, fill });
            }
        }
        Ok(())
    }

    fn check_nodes(&self) -> Result<(), SettingsError> {
        let (min, max, initial) = (self.nodes_min, self.nodes_max, self.nodes_initial);
        if min == 0 {
            return Err(SettingsError::NoNode);
        }
        if max < min {
            return Err(SettingsError::MaximumBelowMinimum { min, max });
        }
        if max > NODES_MOST {
            return Err(SettingsError::TooManyNodes { max, most: NODES_MOST });
        }
        if !(min..=max).contains(&initial) {
            return Err(SettingsError::InitialOutside { initial, min, max });
        }
        Ok(())
    }
}

fn check_out(scale_out: &ScaleOut) -> Result<(), SettingsError> {
    within("scale-out threshold (--scale-out-at)", scale_out.threshold_percent.into(), 1, 100)?;
    within_nodes("scale-out step (--scale-out-nodes)", scale_out.step_nodes)?;
    within("scale-out step (--scale-out-by)", scale_out.step_percent, 1, 1_000)
}

fn check_in(scale_in: &ScaleIn, scale_out: Option<&ScaleOut>) -> Result<(), SettingsError> {
    within("scale-in threshold (--scale-in-at)", scale_in.threshold_percent.into(), 1, 99)?;
    within_nodes("scale-in step (--scale-in-nodes)", scale_in.step_nodes)?;
    within("scale-in step (--scale-in-by)", scale_in.step_percent, 1, 99)?;
    let ceiling = scale_in.ceiling_percent;
    let sound = || within("fill by shrinking (--scale-in-fill)", ceiling.into(), 1, 99);
    let Some(ScaleOut { threshold_percent: grow_above, .. }) = scale_out.copied() else {
        return sound();
    };
    if scale_in.threshold_percent >= grow_above {
        let shrink_below = scale_in.threshold_percent;
        return Err(SettingsError::ThresholdsCross { shrink_below, grow_above });
    }
    sound()?;
    if ceiling >= grow_above {
        return Err(SettingsError::CeilingAboveGrowth { ceiling, grow_above });
    }
    Ok(())
}

fn within_nodes(what: &'static str, nodes: Option<u16>) -> Result<(), SettingsError> {
    match nodes {
        Some(nodes) if !(1..=NODES_MOST).contains(&nodes) => {
            Err(SettingsError::StepOutOfRange { what, nodes, most: NODES_MOST })
        }
        _ => Ok(()),
    }
}

fn within(what: &'static str, value: u16, least: u16, most: u16) -> Result<(), SettingsError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(SettingsError::OutOfRange { what, value, least, most })
}

/// The wishes cannot be granted together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("at least one node is needed; the minimum given is 0")]
    NoNode,
    #[error("the maximum of {max} nodes is below the minimum of {min}")]
    MaximumBelowMinimum { min: u16, max: u16 },
    #[error("a maximum of {max} nodes is more than the {most} that a file system can have")]
    TooManyNodes { max: u16, most: u16 },
    #[error("{initial} nodes to start with are not within {min}..{max}")]
    InitialOutside { initial: u16, min: u16, max: u16 },
    #[error(
        "{memory} a node is too small: {head_room} of it are kept free for deletes and metadata, and \
         it must be more than {least}"
    )]
    NodeMemory { memory: ByteSize, head_room: ByteSize, least: ByteSize },
    #[error("the {what} of {value} % is not within {least} to {most} %")]
    OutOfRange { what: &'static str, value: u16, least: u16, most: u16 },
    #[error("a {what} of {nodes} nodes is not within 1 to {most}")]
    StepOutOfRange { what: &'static str, nodes: u16, most: u16 },
    #[error(
        "shrinking below {shrink_below} % in use (--scale-in-at) contradicts growing above \
         {grow_above} % (--scale-out-at): the first must be the lower"
    )]
    ThresholdsCross { shrink_below: u8, grow_above: u8 },
    #[error(
        "nodes filled to {ceiling} % by shrinking (--scale-in-fill) would grow again, which happens \
         above {grow_above} % (--scale-out-at)"
    )]
    CeilingAboveGrowth { ceiling: u8, grow_above: u8 },
    #[error(
        "shrinking may not fill nodes to {ceiling} % (--scale-in-fill): they take data until {fill} % \
         of their memory are in use"
    )]
    CeilingAboveFill { ceiling: u8, fill: u8 },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> Settings {
        Settings::new("nso+asi".parse().unwrap(), 1, 6, ByteSize::mib(256))
    }

    fn with_policy(change: impl Fn(&mut ScaleOut, &mut ScaleIn)) -> Settings {
        let mut settings = usual();
        let policy = &mut settings.policy;
        change(policy.scale_out.as_mut().unwrap(), policy.scale_in.as_mut().unwrap());
        settings
    }

    #[test]
    fn usual_settings_agree() {
        for policy in ["static", "cso+csi", "nso+asi", "aso+asi", "csi"] {
            let policy = policy.parse().unwrap();
            assert_eq!(Settings { policy, ..usual() }.check(), Ok(()));
        }
    }

    #[test]
    fn contradictions_are_refused_with_their_numbers() {
        let table = [
            (Settings { nodes_min: 0, ..usual() }, "the minimum given is 0"),
            (Settings { nodes_min: 7, ..usual() }, "maximum of 6 nodes is below the minimum of 7"),
            (Settings { nodes_max: 65, ..usual() }, "65 nodes is more than the 64"),
            (Settings { nodes_initial: 9, ..usual() }, "9 nodes to start with are not within 1..6"),
            (Settings { node_memory: ByteSize::mib(12), ..usual() }, "12 MiB a node is too small"),
            (with_policy(|_, shrink| shrink.threshold_percent = 95), "below 95 % in use"),
            (with_policy(|grow, _| grow.threshold_percent = 40), "growing above 40 %"),
            (
                with_policy(|grow, shrink| {
                    (grow.threshold_percent, shrink.ceiling_percent) = (9, 0)
                }),
                "growing above 9 % (--scale-out-at)",
            ),
            (with_policy(|_, shrink| shrink.ceiling_percent = 0), "(--scale-in-fill) of 0 %"),
            (with_policy(|_, shrink| shrink.ceiling_percent = 96), "filled to 96 %"),
            (
                with_policy(|grow, _| grow.threshold_percent = 0),
                "threshold (--scale-out-at) of 0 %",
            ),
            (with_policy(|_, shrink| shrink.step_percent = 100), "step (--scale-in-by) of 100 %"),
            (with_policy(|grow, _| grow.step_nodes = Some(0)), "(--scale-out-nodes) of 0 nodes"),
            (with_policy(|_, shrink| shrink.step_nodes = Some(65)), "(--scale-in-nodes) of 65"),
        ];
        for (settings, says) in table {
            let message = settings.check().unwrap_err().to_string();
            assert!(message.contains(says), "{message:?} should say {says:?}");
        }
    }

    #[test]
    fn shrinking_does_not_fill_nodes_beyond_what_they_take() {
        let mut settings = Settings { policy: "csi".parse().unwrap(), ..usual() };
        let filled_to = |settings: &mut Settings, percent| {
            settings.policy.scale_in.as_mut().unwrap().ceiling_percent = percent;
            settings.check()
        };
        assert_eq!(filled_to(&mut settings, 95), Ok(()));
        let message = filled_to(&mut settings, 99).unwrap_err().to_string();
        assert!(message.contains("99 %") && message.contains("95 %"), "{message}");
    }

    #[test]
    fn what_leaves_a_node_may_fill_the_others_further() {
        let filled = |fill_percent| {
            let spreading = Spreading { fill_percent, ..Spreading::default() };
            spreading.for_leaving().fill_percent
        };
        assert_eq!((filled(95), filled(100)), (98, 100));
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let back_off = BackOff::default();
        let waits: Vec<_> = (1..=9).map(|failures| back_off.wait(failures).as_millis()).collect();
        assert_eq!(waits[..3], [500, 1_000, 2_000]);
        assert_eq!(waits[8], 60_000);
        assert_eq!(back_off.wait(u32::MAX), back_off.longest);
    }
}
