//! What the process that has the file system and the one that runs the program which provides hosts say to each other:
//! lines of JSON on the latter's standard input and output. The first line is the order, and the end of the input is
//! the end of the file system's process.

use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// No word is nearly as long.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// What is the same for all hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub program: PathBuf,
    /// Before those that each call adds.
    pub words: Vec<String>,
    /// That the program finds beside this process's own.
    pub environment: Vec<(String, String)>,
    /// For the program to take a host away.
    pub limit: Duration,
    /// As many files as the program may have open, unless there is no limit; this process may have more.
    pub open_files: Option<u64>,
    /// Whom the kernel ends first when memory ends: the program's score, where this process has another one.
    pub memory_score: Option<i32>,
    /// Hosts that are there stay when whoever has the file system ends without a word: one of them has it then.
    pub outlives: bool,
}

/// A host by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToRunner {
    Add(String),
    /// It is there.
    Came(String),
    Remove(String),
    /// All are to be taken away.
    End,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromRunner {
    /// The program has ended that was to provide it, and failed for this reason if it did.
    Added {
        name: String,
        failed: Option<String>,
    },
    Removed {
        name: String,
        failed: Option<String>,
    },
    /// A line that the program said.
    Said {
        name: String,
        line: String,
    },
}

/// The next line without its end; `None` at the end of what is said. Of one that is too long, what there is room for.
pub fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    bytes.pop_if(|last| *last == b'\n');
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// In one piece.
pub fn say(to: &mut impl Write, word: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}
