//! How many nodes there may be, as people say it: a number, or the least and the most. Not with how many
//! it starts, nor when their number changes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Most nodes that one machine is asked to run; each is a process with its own sockets.
pub const NODES_MAX: u16 = 64;

/// The least and the most nodes; it starts with the least unless told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRange {
    pub min: u16,
    pub max: u16,
}

impl NodeRange {
    pub fn changes(self) -> bool {
        self.min < self.max
    }
}

impl fmt::Display for NodeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeRange { min: 1, max: 1 } => f.write_str("1 node"),
            NodeRange { min, max } if min == max => write!(f, "{min} nodes"),
            NodeRange { min, max } => write!(f, "{min} to {max} nodes"),
        }
    }
}

/// `N` or `MIN..MAX`.
impl FromStr for NodeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeRange, String> {
        let range = match text.split_once("..") {
            None => count(text).map(|nodes| NodeRange { min: nodes, max: nodes })?,
            Some((min, max)) => NodeRange { min: count(min)?, max: count(max)? },
        };
        match range {
            NodeRange { min: 0, .. } => {
                Err("give at least 1, or leave --nodes out to use this process's memory".to_owned())
            }
            NodeRange { min, max } if max < min => {
                Err(format!("the maximum of {max} nodes is below the minimum of {min}"))
            }
            NodeRange { max, .. } if max > NODES_MAX => {
                Err(format!("one machine runs at most {NODES_MAX} nodes"))
            }
            range => Ok(range),
        }
    }
}

fn count(text: &str) -> Result<u16, String> {
    text.trim().parse().map_err(|_| "give a number, such as 4, or a range, such as 2..8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_a_number_or_a_range() {
        assert_eq!("4".parse(), Ok(NodeRange { min: 4, max: 4 }));
        assert_eq!("2..8".parse(), Ok(NodeRange { min: 2, max: 8 }));
        for (text, says) in [
            ("0", "at least 1"),
            ("0..4", "at least 1"),
            ("8..2", "maximum of 2 nodes is below the minimum of 8"),
            ("1..65", "at most 64"),
            ("2..", "a number"),
            ("many", "a number"),
            ("2..4..8", "a number"),
        ] {
            let error = text.parse::<NodeRange>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
