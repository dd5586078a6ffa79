//! `tidefs workflow`: tells a running file system what of a workflow is to run, and how far it is.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::Context;

use crate::arguments::running::Workflow;
use crate::control::{self, Answer, Request};
use crate::failure::{FAILED, Failure};
use crate::live_workflow::{Telling, WorkflowView};
use crate::say;
use crate::state::{self, Paths};

/// Standard input.
const INPUT: &str = "-";
/// No telling is longer, as it is sent.
const BYTES_MOST: usize = 15 << 20;
/// Lines that wait to be told; whoever writes more waits.
const LINES_MOST: usize = 10_000;

pub fn workflow(options: &Workflow, asked: Option<&Path>) -> anyhow::Result<ExitCode> {
    let paths = state::find(asked)?.paths;
    let view = match (&options.graph, &options.news) {
        (Some(file), _) => tell(&paths, Telling::Graph(read(file)?))?,
        (None, Some(file)) if file.as_os_str() == INPUT => return follow(&paths),
        (None, Some(file)) => tell(&paths, Telling::News(read(file)?))?,
        (None, None) => tell(&paths, Telling::Look)?,
    };
    if options.json {
        say::answer(serde_json::to_string_pretty(&view).context("cannot print JSON")?);
    } else {
        say::answer(view);
    }
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> Result<String, Failure> {
    let text = match file.as_os_str() == INPUT {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    text.map_err(|error| Failure::Unplannable(format!("{}: {error}", file.display())))
}

fn tell(paths: &Paths, telling: Telling) -> Result<WorkflowView, Failure> {
    let request = Request::Workflow(telling);
    let bytes = serde_json::to_vec(&request).map_or(0, |text| text.len());
    if bytes > BYTES_MOST {
        let why = format!("{bytes} bytes are more than the {BYTES_MOST} that can be told at once");
        return Err(Failure::Unplannable(why));
    }
    match control::ask(paths, &request)? {
        Answer::Workflow(view) => Ok(view),
        _ => Err(Failure::Silent(paths.directory.clone())),
    }
}

/// Tells of lines as they come, until there are no more. A line that is refused is named, and those after
/// it count.
fn follow(paths: &Paths) -> anyhow::Result<ExitCode> {
    let mut is_whole = true;
    let lines = lines();
    while let Ok(first) = lines.recv() {
        let came: Vec<String> =
            std::iter::once(first).chain(lines.try_iter().take(LINES_MOST)).collect();
        match tell(paths, Telling::News(came.join("\n"))) {
            Ok(_) => {}
            Err(Failure::Refused(why)) if came.len() == 1 => {
                say::note(why);
                is_whole = false;
            }
            Err(Failure::Refused(_)) => {
                for line in came {
                    match tell(paths, Telling::News(line)) {
                        Ok(_) => {}
                        Err(Failure::Refused(why)) => {
                            say::note(why);
                            is_whole = false;
                        }
                        Err(other) => return Err(other.into()),
                    }
                }
            }
            Err(other) => return Err(other.into()),
        }
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Read by a thread of their own, so that those which came meanwhile are told together.
fn lines() -> Receiver<String> {
    let (sender, lines) = sync_channel(LINES_MOST);
    std::thread::spawn(move || {
        let input = BufReader::new(std::io::stdin());
        for line in input.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
