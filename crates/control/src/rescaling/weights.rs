//! How much each aim weighs, and the targets that follow (Pufferscale, equations 16 to 19).

use std::fmt;
use std::str::FromStr;

use super::problem::{Bucket, Problem};
use super::quality::Bounds;

/// *W_L*, *W_D* and *W_T*: the higher, the more the aim matters. The larger of the first two is 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    pub load: f64,
    pub data: f64,
    pub time: f64,
}

/// The weight of an aim that is not looked at; a weight of 0 would be divided by.
const IGNORED: f64 = 0.01;

impl Weights {
    pub const L: Weights = Weights { load: 1.0, data: IGNORED, time: IGNORED };
    pub const LT: Weights = Weights { load: 1.0, data: IGNORED, time: 1.0 };
    pub const DT: Weights = Weights { load: IGNORED, data: 1.0, time: 1.0 };
    pub const LDT: Weights = Weights { load: 1.0, data: 1.0, time: 1.0 };

    /// Checks section V.C: all above 0, and the larger of load and data is 1.
    pub fn new(load: f64, data: f64, time: f64) -> Result<Weights, ParseWeightsError> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if ![load, data, time].into_iter().all(positive) || load.max(data) != 1.0 {
            return Err(ParseWeightsError::Unsound { load, data, time });
        }
        Ok(Weights { load, data, time })
    }
}

/// The text gives no weights.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParseWeightsError {
    #[error(
        "{text:?} is not a strategy; write l, lt, dt, ldt, or three weights of load, data and time \
         such as 1,0.5,2"
    )]
    Unknown { text: String },
    #[error(
        "weights of load {load}, data {data} and time {time} cannot be used: each must be above 0, \
         and the larger of load and data must be 1"
    )]
    Unsound { load: f64, data: f64, time: f64 },
}

impl FromStr for Weights {
    type Err = ParseWeightsError;

    fn from_str(text: &str) -> Result<Weights, ParseWeightsError> {
        let unknown = || ParseWeightsError::Unknown { text: text.to_owned() };
        match text.trim().to_ascii_lowercase().as_str() {
            "l" => return Ok(Weights::L),
            "lt" => return Ok(Weights::LT),
            "dt" => return Ok(Weights::DT),
            "ldt" => return Ok(Weights::LDT),
            _ => {}
        }
        let parts: Result<Vec<f64>, _> =
            text.split(',').map(|part| part.trim().parse::<f64>()).collect();
        match parts.map_err(|_| unknown())?.as_slice() {
            [load, data, time] => Weights::new(*load, *data, *time),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named =
            [(Weights::L, "l"), (Weights::LT, "lt"), (Weights::DT, "dt"), (Weights::LDT, "ldt")];
        match named.iter().find(|(weights, _)| weights == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{},{},{}", self.load, self.data, self.time),
        }
    }
}

/// *N_w* of equation 20, by bucket: how far it stands out by the load and the bytes that it has of all.
pub fn norms(problem: &Problem, weights: Weights) -> Vec<f64> {
    let per_load = if problem.load() > 0.0 { weights.load / problem.load() } else { 0.0 };
    let per_byte = weights.data / problem.bytes().max(1) as f64;
    let norm = |bucket: &Bucket| (bucket.load * per_load).hypot(bucket.bytes as f64 * per_byte);
    problem.buckets().iter().map(norm).collect()
}

/// What each aim is measured against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Targets {
    /// *L_tw / L_t*.
    pub load: f64,
    /// *D_tw / D_t*.
    pub data: f64,
    /// *T_tw*, in seconds; above 0.
    pub seconds: f64,
}

impl Targets {
    pub fn new(problem: &Problem, weights: Weights, seconds: f64) -> Targets {
        let hosts = problem.hosts();
        let before = hosts.iter().filter(|host| !host.newcomer).count().max(1) as f64;
        let after = hosts.iter().filter(|host| host.stays).count().max(1) as f64;
        // L_i / L_t and D_i / D_t: how much more a host held on average than it will.
        let initially = after / before;
        let relaxed = if weights.time < 1.0 {
            1.0
        } else {
            (1.0 - 1.0 / weights.time) * initially + 1.0 / weights.time
        };
        Targets {
            load: relaxed / weights.load,
            data: relaxed / weights.data,
            seconds: seconds / weights.time,
        }
    }

    /// With the target duration of the paper.
    pub fn of_paper(problem: &Problem, weights: Weights) -> Targets {
        let bounds = Bounds::new(problem);
        Targets::new(problem, weights, least_seconds(problem, bounds.seconds))
    }

    /// With a target duration that can be reached from where the buckets lie.
    pub fn reachable(problem: &Problem, weights: Weights) -> Targets {
        let bounds = Bounds::new(problem);
        let seconds = bounds.seconds.max(bounds.seconds_from_here);
        Targets::new(problem, weights, least_seconds(problem, seconds))
    }
}

/// A rebalance has a bound of 0; it is given the time to send a hundredth of a host's share.
fn least_seconds(problem: &Problem, seconds: f64) -> f64 {
    let share =
        |at: usize| problem.bytes_part(at) * problem.bytes() as f64 / problem.hosts()[at].bandwidth;
    let longest = (0..problem.hosts().len()).map(share).fold(0.0, f64::max);
    seconds.max(longest / 100.0).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_are_read_and_said_again() {
        for name in ["l", "lt", "dt", "ldt", "1,0.5,2"] {
            assert_eq!(name.parse::<Weights>().unwrap().to_string(), name);
        }
        for (text, says) in [
            ("", "is not a strategy"),
            ("tl", "is not a strategy"),
            ("1,1", "is not a strategy"),
            ("0.5,0.5,1", "the larger of load and data must be 1"),
            ("1,0,1", "above 0"),
            ("1,-1,1", "above 0"),
            ("1,1,NaN", "above 0"),
            ("1,1,inf", "above 0"),
        ] {
            let message = text.parse::<Weights>().unwrap_err().to_string();
            assert!(message.contains(says), "{text}: {message}");
        }
    }
}
