//! What is written down about a reconfiguration before it starts, so that whoever comes after a
//! crash can finish it or undo it.
//!
//! The record says which nodes come and go, not which partitions move: where those lie is known by
//! the nodes themselves, and the rest of the way is planned again from there.

use std::fmt;
use std::str::FromStr;

use tidefs_model::{NodeId, Time};

/// What a reconfiguration does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Brings nodes into service.
    Commission,
    /// Takes nodes out of service for good.
    Decommission,
    /// Only moves partitions.
    Rebalance,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Commission, Kind::Decommission, Kind::Rebalance];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Commission => "commission",
            Kind::Decommission => "decommission",
            Kind::Rebalance => "rebalance",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A reconfiguration under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: Kind,
    pub started_at: Time,
    /// How many nodes are to be started.
    pub add: u16,
    pub nodes_before: Vec<NodeId>,
    /// Nodes that are to hold nothing and to be removed.
    pub leaving: Vec<NodeId>,
    /// It was given up, and what was moved for it is being spread again.
    pub undoing: bool,
    /// Why it was decided, for people.
    pub reason: String,
}

/// The bytes are no record of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal holds a reconfiguration that this version cannot read (line {line})")]
pub struct RecordError {
    /// Counts from 1.
    pub line: usize,
}

const VERSION: &str = "reconfiguration 1";

impl Record {
    /// A line for each fact, in a fixed order.
    pub fn encode(&self) -> Vec<u8> {
        let ids =
            |nodes: &[NodeId]| nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(" ");
        let lines = [
            VERSION.to_owned(),
            self.kind.to_string(),
            self.started_at.0.to_string(),
            self.add.to_string(),
            ids(&self.nodes_before),
            ids(&self.leaving),
            self.undoing.to_string(),
            self.reason.replace('\n', " "),
        ];
        lines.join("\n").into_bytes()
    }

    pub fn decode(bytes: &[u8]) -> Result<Record, RecordError> {
        let text = std::str::from_utf8(bytes).map_err(|_| RecordError { line: 1 })?;
        let mut lines = Lines { lines: text.split('\n'), line: 0 };
        lines.read(|version| (version == VERSION).then_some(()))?;
        Ok(Record {
            kind: lines.read(|name| Kind::ALL.into_iter().find(|kind| kind.name() == name))?,
            started_at: Time(lines.parse()?),
            add: lines.parse()?,
            nodes_before: lines.read(ids)?,
            leaving: lines.read(ids)?,
            undoing: lines.parse()?,
            reason: lines.read(|reason| Some(reason.to_owned()))?,
        })
    }
}

fn ids(line: &str) -> Option<Vec<NodeId>> {
    line.split_whitespace().map(|id| id.parse().ok()).collect()
}

struct Lines<'t> {
    lines: std::str::Split<'t, char>,
    line: usize,
}

impl Lines<'_> {
    fn read<T>(&mut self, understand: impl Fn(&str) -> Option<T>) -> Result<T, RecordError> {
        self.line += 1;
        self.lines.next().and_then(understand).ok_or(RecordError { line: self.line })
    }

    fn parse<T: FromStr>(&mut self) -> Result<T, RecordError> {
        self.read(|text| text.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_bytes() {
        let record = Record {
            kind: Kind::Decommission,
            started_at: Time(17),
            add: 0,
            nodes_before: vec![NodeId([1; 20]), NodeId([2; 20])],
            leaving: vec![NodeId([2; 20])],
            undoing: true,
            reason: "12 % in use".to_owned(),
        };
        assert_eq!(Record::decode(&record.encode()), Ok(record.clone()));
        let none = Record { leaving: Vec::new(), reason: String::new(), ..record };
        assert_eq!(Record::decode(&none.encode()), Ok(none));
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_line() {
        for (bytes, line) in [
            (&b""[..], 1),
            (b"\xff", 1),
            (b"reconfiguration 2\ncommission", 1),
            (b"reconfiguration 1\ndance", 2),
            (b"reconfiguration 1\ncommission\n1\n2\nxyz", 5),
            (b"reconfiguration 1\ncommission\n1\n2\n\n\ntrue", 8),
        ] {
            assert_eq!(Record::decode(bytes), Err(RecordError { line }), "{bytes:?}");
        }
    }
}
