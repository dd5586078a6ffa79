//! When the file system grows and shrinks by itself, and by how much: the policies of MemEFS
//! (section 3.4.3), with every number free to be set.
//!
//! | name | when | by how much |
//! | --- | --- | --- |
//! | `cso` | 95 % in use | half of the nodes that it started with |
//! | `nso` | 95 % in use | as many nodes as it started with |
//! | `aso` | 95 % in use | as many nodes as there are |
//! | `csi` | below 75 %, for a quiet period | a quarter of the nodes leave |
//! | `asi` | below 50 %, for a quiet period | half of the nodes leave |
//!
//! `forecast` follows a workflow's graph (see `forecast`), and falls back to `nso+asi` or to what it is
//! joined with when the graph is wrong. `static` neither grows nor shrinks unless it is asked to.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::words::count_of_nodes;

/// Which number of nodes a step is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The nodes that the file system started with.
    Initial,
    /// The nodes that there are.
    Current,
}

impl Basis {
    fn of(self, initial: u16, current: u16) -> u16 {
        match self {
            Basis::Initial => initial,
            Basis::Current => current,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleOut {
    /// Grow when more than this share of all memory is in use.
    pub threshold_percent: u8,
    pub basis: Basis,
    /// The step, as a share of the basis; at least one node.
    pub step_percent: u16,
    /// The step in nodes, in place of a share.
    pub step_nodes: Option<u16>,
    /// Grow before that, where at the present rate it would be reached before nodes have come.
    pub ahead: bool,
}

impl ScaleOut {
    pub const CONSERVATIVE: ScaleOut = ScaleOut {
        threshold_percent: 95,
        basis: Basis::Initial,
        step_percent: 50,
        step_nodes: None,
        ahead: false,
    };
    pub const NEUTRAL: ScaleOut = ScaleOut { step_percent: 100, ..Self::CONSERVATIVE };
    pub const AGGRESSIVE: ScaleOut = ScaleOut { basis: Basis::Current, ..Self::NEUTRAL };

    /// How many nodes to add.
    pub fn step(&self, initial: u16, current: u16) -> u16 {
        let share = || part(self.basis.of(initial, current), self.step_percent);
        self.step_nodes.unwrap_or_else(share)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleIn {
    /// Shrink when less than this share of all memory is in use.
    pub threshold_percent: u8,
    pub basis: Basis,
    /// The step, as a share of the basis; at least one node.
    pub step_percent: u16,
    /// The step in nodes, in place of a share.
    pub step_nodes: Option<u16>,
    /// The nodes that stay must not be fuller than this. A quarter less nodes at 75 % would be full,
    /// and the next write would make them grow again.
    pub ceiling_percent: u8,
    /// For how long usage must have been low, without growing.
    pub quiet: Duration,
}

impl ScaleIn {
    pub const CONSERVATIVE: ScaleIn = ScaleIn {
        threshold_percent: 75,
        basis: Basis::Current,
        step_percent: 25,
        step_nodes: None,
        ceiling_percent: 85,
        quiet: Duration::from_secs(45),
    };
    pub const AGGRESSIVE: ScaleIn =
        ScaleIn { threshold_percent: 50, step_percent: 50, ..Self::CONSERVATIVE };

    /// How many nodes to remove at most.
    pub fn step(&self, initial: u16, current: u16) -> u16 {
        let share = || part(self.basis.of(initial, current), self.step_percent);
        self.step_nodes.unwrap_or_else(share)
    }
}

/// A share of a number of nodes, rounded down, but at least one.
fn part(nodes: u16, percent: u16) -> u16 {
    let part = u32::from(nodes) * u32::from(percent) / 100;
    u16::try_from(part).unwrap_or(u16::MAX).max(1)
}

/// Both may be absent: then the number of nodes changes only by hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub scale_out: Option<ScaleOut>,
    pub scale_in: Option<ScaleIn>,
    /// A forecast is asked first, as long as it can be believed.
    pub forecast: bool,
}

impl Policy {
    /// Changes only by hand.
    pub const STATIC: Policy = Policy { scale_out: None, scale_in: None, forecast: false };

    /// What a forecast falls back to unless something else is said.
    const FALL_BACK: Policy = Policy {
        scale_out: Some(ScaleOut::NEUTRAL),
        scale_in: Some(ScaleIn::AGGRESSIVE),
        forecast: true,
    };
}

/// The text names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParsePolicyError {
    #[error(
        "{name:?} is not a policy; write static, forecast, or one of cso, nso, aso (grow) and one of \
         csi, asi (shrink) joined by +, such as nso+asi"
    )]
    Unknown { name: String },
    #[error("{first} and {second} both say how to {direction}; keep one of them")]
    Twice { first: &'static str, second: &'static str, direction: &'static str },
    #[error("static changes nothing by itself and cannot be joined with {other}")]
    StaticJoined { other: &'static str },
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Static,
    Forecast,
    Out(ScaleOut),
    In(ScaleIn),
}

const PARTS: [(&str, Part); 7] = [
    ("static", Part::Static),
    ("forecast", Part::Forecast),
    ("cso", Part::Out(ScaleOut::CONSERVATIVE)),
    ("nso", Part::Out(ScaleOut::NEUTRAL)),
    ("aso", Part::Out(ScaleOut::AGGRESSIVE)),
    ("csi", Part::In(ScaleIn::CONSERVATIVE)),
    ("asi", Part::In(ScaleIn::AGGRESSIVE)),
];

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Policy, ParsePolicyError> {
        let known = |name: &str| {
            let name = name.trim().to_ascii_lowercase();
            let found = PARTS.iter().find(|(known, _)| *known == name).copied();
            found.ok_or(ParsePolicyError::Unknown { name })
        };
        let parts = text.split('+').map(known).collect::<Result<Vec<_>, _>>()?;
        let is_static = parts.iter().any(|(_, part)| *part == Part::Static);
        if let (true, [(first, _), (second, _), ..]) = (is_static, parts.as_slice()) {
            let other = if *first == "static" { second } else { first };
            return Err(ParsePolicyError::StaticJoined { other });
        }
        let grows = |part: &Part| matches!(part, Part::Out(_));
        let shrinks = |part: &Part| matches!(part, Part::In(_));
        only_one(&parts, grows, "grow")?;
        only_one(&parts, shrinks, "shrink")?;
        let forecast = parts.iter().any(|(_, part)| *part == Part::Forecast);
        let mut policy = if forecast { Policy::FALL_BACK } else { Policy::STATIC };
        for (_, part) in parts {
            match part {
                Part::Static | Part::Forecast => {}
                Part::Out(scale_out) => policy.scale_out = Some(scale_out),
                Part::In(scale_in) => policy.scale_in = Some(scale_in),
            }
        }
        Ok(policy)
    }
}

fn only_one(
    parts: &[(&'static str, Part)],
    kind: impl Fn(&Part) -> bool,
    direction: &'static str,
) -> Result<(), ParsePolicyError> {
    let mut found = parts.iter().filter(|(_, part)| kind(part));
    match (found.next(), found.next()) {
        (Some((first, _)), Some((second, _))) => {
            Err(ParsePolicyError::Twice { first, second, direction })
        }
        _ => Ok(()),
    }
}

/// In the words that are read, with what differs from the named policies.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.forecast {
            f.write_str("forecast")?;
            if *self == Policy::FALL_BACK {
                return Ok(());
            }
            f.write_str("+")?;
        }
        match (self.scale_out, self.scale_in) {
            (None, None) => f.write_str("static"),
            (Some(scale_out), None) => scale_out.fmt(f),
            (None, Some(scale_in)) => scale_in.fmt(f),
            (Some(scale_out), Some(scale_in)) => write!(f, "{scale_out}+{scale_in}"),
        }
    }
}

impl fmt::Display for ScaleOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nodes) = self.step_nodes {
            return write!(f, "grow by {}", count_of_nodes(nodes));
        }
        let name = match (self.basis, self.step_percent) {
            (Basis::Initial, 50) => "cso",
            (Basis::Initial, 100) => "nso",
            (Basis::Current, 100) => "aso",
            (Basis::Initial, step) => return write!(f, "grow by {step} % of the first nodes"),
            (Basis::Current, step) => return write!(f, "grow by {step} %"),
        };
        f.write_str(name)
    }
}

impl fmt::Display for ScaleIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nodes) = self.step_nodes {
            let below = self.threshold_percent;
            return write!(f, "shrink by {} below {below} %", count_of_nodes(nodes));
        }
        match (self.basis, self.threshold_percent, self.step_percent) {
            (Basis::Current, 75, 25) => f.write_str("csi"),
            (Basis::Current, 50, 50) => f.write_str("asi"),
            (Basis::Current, threshold, step) => {
                write!(f, "shrink by {step} % below {threshold} %")
            }
            (Basis::Initial, threshold, step) => {
                write!(f, "shrink by {step} % of the first nodes below {threshold} %")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_the_paper() {
        for (scale_out, initial, current, step) in [
            (ScaleOut::CONSERVATIVE, 8, 16, 4),
            (ScaleOut::CONSERVATIVE, 1, 1, 1),
            (ScaleOut::NEUTRAL, 8, 16, 8),
            (ScaleOut::AGGRESSIVE, 8, 16, 16),
        ] {
            assert_eq!(scale_out.step(initial, current), step, "{scale_out:?}");
        }
        assert_eq!(ScaleIn::CONSERVATIVE.step(8, 16), 4);
        assert_eq!(ScaleIn::CONSERVATIVE.step(8, 3), 1);
        assert_eq!(ScaleIn::AGGRESSIVE.step(8, 16), 8);
        let of_the_first = ScaleIn { basis: Basis::Initial, ..ScaleIn::AGGRESSIVE };
        assert_eq!(of_the_first.step(8, 16), 4);
    }

    #[test]
    fn a_step_may_be_a_number_of_nodes() {
        let plus = ScaleOut { step_nodes: Some(16), ..ScaleOut::AGGRESSIVE };
        let minus = ScaleIn { step_nodes: Some(8), ..ScaleIn::AGGRESSIVE };
        assert_eq!((plus.step(32, 64), minus.step(32, 64)), (16, 8));
        let policy = Policy { scale_out: Some(plus), scale_in: Some(minus), forecast: false };
        assert_eq!(policy.to_string(), "grow by 16 nodes+shrink by 8 nodes below 50 %");
    }

    #[test]
    fn names_are_read_and_said_again() {
        for name in [
            "static",
            "cso",
            "nso",
            "aso",
            "csi",
            "asi",
            "nso+asi",
            "cso+csi",
            "forecast",
            "forecast+cso+csi",
        ] {
            assert_eq!(name.parse::<Policy>().unwrap().to_string(), name);
        }
        assert_eq!(" ASI + nso ".parse(), "nso+asi".parse::<Policy>());
    }

    #[test]
    fn what_is_no_policy_is_refused_with_the_reason() {
        for (text, says) in [
            ("", "is not a policy"),
            ("nso+", "is not a policy"),
            ("fast", "\"fast\" is not a policy"),
            ("nso+cso", "nso and cso both say how to grow"),
            ("csi+asi", "both say how to shrink"),
            ("nso+nso", "both say how to grow"),
            ("nso+static", "cannot be joined with nso"),
            ("static+static", "cannot be joined with static"),
        ] {
            let message = text.parse::<Policy>().unwrap_err().to_string();
            assert!(message.contains(says), "{text}: {message}");
        }
    }
}
