//! How a file system was found to differ from the model, told so that a person can see it.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Errno, Facts, Fd, Kind, Path, Reply, Stamp, Step};

/// What was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Path(Path),
    Open(Fd),
}

/// One thing that is not as the model has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A step answered something else.
    Reply {
        expected: Result<Reply, Errno>,
        found: Result<Reply, Errno>,
    },
    /// What is there cannot be looked at.
    Unreadable {
        subject: Subject,
        error: Errno,
    },
    Facts {
        subject: Subject,
        expected: Facts,
        found: Facts,
    },
    /// An inode's number changed while it lived.
    Renumbered {
        subject: Subject,
        before: u64,
        found: u64,
    },
    /// Two inodes have the same number.
    Confused {
        subject: Subject,
        ino: u64,
    },
    Time {
        subject: Subject,
        name: &'static str,
        expected: ExpectedTime,
        found: u64,
    },
    Entries {
        at: Path,
        expected: Vec<(String, Kind)>,
        found: Vec<(String, Kind)>,
    },
    Bytes {
        subject: Subject,
        expected: Vec<u8>,
        found: Vec<u8>,
    },
    Target {
        at: Path,
        expected: String,
        found: String,
    },
    Xattrs {
        at: Path,
        expected: BTreeMap<String, Vec<u8>>,
        found: BTreeMap<String, Vec<u8>>,
    },
    /// More is left of an empty tree than an empty tree needs.
    Left {
        keys: u64,
        at_most: u64,
    },
    /// What is left after a failure is neither the tree before the step nor the one after it.
    Torn {
        found: String,
        expected: String,
    },
    Panicked,
}

/// What a time could have been, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedTime {
    pub stamp: Stamp,
    /// The value at the last look, if the inode was there then.
    pub before: Option<u64>,
    /// Earliest and latest time of the last step.
    pub window: Option<(u64, u64)>,
}

/// A difference, and the steps that led to it.
#[derive(Clone, Debug)]
pub struct Failure {
    pub steps: Vec<Step>,
    pub difference: Box<Difference>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "after step {} the file system differs from the model:", self.steps.len())?;
        writeln!(f, "  {}", self.difference)?;
        writeln!(f, "steps:")?;
        self.steps.iter().try_for_each(|step| writeln!(f, "    {step:?},"))
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Reply {
                expected: Ok(Reply::Bytes(expected)),
                found: Ok(Reply::Bytes(found)),
            } => {
                write!(f, "the bytes read: {}", FirstDifference(expected, found))
            }
            Difference::Reply { expected, found } => {
                write!(f, "the answer is {}, not {}", Brief(found), Brief(expected))
            }
            Difference::Bytes { subject, expected, found } => {
                write!(f, "bytes of {subject:?}: {}", FirstDifference(expected, found))
            }
            Difference::Torn { found, expected } => {
                write!(f, "what is left is\n{found}\nand none of\n{expected}")
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// An answer without the bytes, which may be many.
struct Brief<'a>(&'a Result<Reply, Errno>);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ok(Reply::Bytes(bytes)) => write!(f, "{} bytes", bytes.len()),
            Ok(reply) => write!(f, "{reply:?}"),
            Err(error) => write!(f, "{error:?}"),
        }
    }
}

struct FirstDifference<'a>(&'a [u8], &'a [u8]);

impl fmt::Display for FirstDifference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FirstDifference(expected, found) = *self;
        let at = expected.iter().zip(found).take_while(|(one, two)| one == two).count();
        let from = |bytes: &[u8]| bytes[at..bytes.len().min(at + 8)].to_vec();
        write!(
            f,
            "{} bytes expected, {} found; from byte {at} on {:?} expected, {:?} found",
            expected.len(),
            found.len(),
            from(expected),
            from(found)
        )
    }
}
