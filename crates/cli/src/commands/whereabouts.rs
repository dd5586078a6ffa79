//! `tidefs where`: on which hosts and nodes the bytes of files lie. A mount is asked like by any program,
//! by an extended attribute; it may be another host's file system, or another user's.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Context;
use rustix::fs::getxattr;
use serde_json::{Value, json};

use crate::arguments::whereabouts::Where;
use crate::control::{self, Answer, Request};
use crate::failure::Failure;
use crate::mount_table;
use crate::state::all_running;

/// What the kernel lets the value of an attribute have at most.
const VALUE_BYTES_MAX: usize = 1 << 16;

/// Part of a file.
struct Part {
    bytes: u64,
    host: String,
    node: String,
}

pub fn whereabouts(options: &Where, asked: Option<&Path>) -> anyhow::Result<()> {
    let mut files = Vec::new();
    let numbers = if options.json { BTreeMap::new() } else { numbers(asked) };
    for path in &options.files {
        let parts = parts(path)?;
        match options.json {
            true => files.push(as_json(path, &parts)),
            false => {
                println!("{}", path.display());
                for Part { bytes, host, node } in parts {
                    match numbers.get(&node) {
                        Some(number) => println!("{bytes:>14} {host} node {number}"),
                        None => println!("{bytes:>14} {host} {node}"),
                    }
                }
            }
        }
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&json!({ "files": files }))?);
    }
    Ok(())
}

/// What `status` calls nodes, by their ids, of all file systems of this user that answer. Others' are not
/// known.
fn numbers(asked: Option<&Path>) -> BTreeMap<String, usize> {
    let running = all_running(asked).unwrap_or_default();
    let answers = running.iter().map(|it| control::ask(&it.paths, &Request::Status));
    let nodes = answers.filter_map(|answer| match answer {
        Ok(Answer::Status(status)) => Some(status.nodes),
        _ => None,
    });
    let known = nodes.flatten().filter(|node| node.number > 0);
    known.map(|node| (node.id, node.number)).collect()
}

/// The part with most bytes comes first.
fn parts(path: &Path) -> anyhow::Result<Vec<Part>> {
    let unknown = |cause: io::Error| Failure::WhereUnknown { path: path.to_owned(), cause };
    let real = fs::canonicalize(path).map_err(unknown)?;
    if !mount_table::holds_ours(&real) {
        return Err(Failure::PlacementElsewhere(path.to_owned()).into());
    }
    if !fs::metadata(&real).map_err(unknown)?.is_file() {
        return Err(Failure::WhereOfNoFile(path.to_owned()).into());
    }
    let mut value = vec![0; VALUE_BYTES_MAX];
    let length = getxattr(&real, OsStr::from_bytes(tidefs_fs::WHERE), &mut value)
        .map_err(|cause| unknown(cause.into()))?;
    let text = String::from_utf8_lossy(&value[..length]);
    let part = |line: &str| {
        let mut words = line.split(' ');
        let bytes = words.next()?.parse().ok()?;
        Some(Part { bytes, host: words.next()?.to_owned(), node: words.next()?.to_owned() })
    };
    text.lines().map(part).collect::<Option<_>>().with_context(|| {
        format!(
            "the mount of {} answers otherwise than this program expects; \
                                  use the program that it was mounted with",
            path.display()
        )
    })
}

fn as_json(path: &Path, parts: &[Part]) -> Value {
    let part =
        |Part { bytes, host, node }: &Part| json!({ "host": host, "node": node, "bytes": bytes });
    json!({
        "path": path.to_string_lossy(),
        "bytes": parts.iter().map(|part| part.bytes).sum::<u64>(),
        "parts": parts.iter().map(part).collect::<Vec<_>>(),
    })
}
