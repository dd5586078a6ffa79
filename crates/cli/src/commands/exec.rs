//! `tidefs exec`: a command on other hosts of a file system, reached as its start reached them.
//!
//! What each says comes line by line, behind its name where there are several; signals go to all of them; whatever ends
//! this ends what it started there.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ExitCode, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;

use crate::agents::{Reached, Task, say_word};
use crate::arguments::running::Exec;
use crate::cleanup::{MOUNT, STATE};
use crate::control::{self, Answer, Request};
use crate::failure::{FAILED, Failure};
use crate::host_view::AbsentView;
use crate::signals::Signals;
use crate::state::Paths;
use crate::supervise::exit_status;
use crate::{say, state};

/// Of a line that is passed on as one.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Between two looks at who has ended.
const LOOK: Duration = Duration::from_millis(20);

pub fn exec(options: &Exec, asked: Option<&Path>) -> anyhow::Result<ExitCode> {
    let running = state::find(asked)?;
    let absent = absent(&running.paths);
    if let Some(why) = absent.iter().find(|it| options.host.iter().any(|name| it.is_called(name))) {
        return Err(Failure::NotRunOn(why.clone()).into());
    }
    let (chosen, refusing) = chosen(options, Reached::read(&running.paths)?, &absent)?;
    refusing.iter().for_each(|why| say::note(Failure::NotRunOn(why.clone())));
    let signals = Signals::catch().context("cannot catch signals")?;
    let are_named = options.all || chosen.len() > 1;
    let tasks = chosen.iter().map(|host| Running::begin(host, options, are_named));
    let mut tasks: Vec<_> = tasks.collect::<anyhow::Result<_>>()?;
    while tasks.iter_mut().any(|task| task.status().is_none()) {
        if let Some(signal) = signals.wait(None, LOOK) {
            tasks.iter_mut().for_each(|task| task.tell(signal.signal));
        }
    }
    let mut worst = if refusing.is_empty() { 0 } else { FAILED };
    for task in tasks {
        let (host, status) = task.end();
        if status != 0 && are_named {
            say::note(format!("{host}: exit status {status}"));
        }
        // The first of the list that did not do what it should.
        worst = if worst == 0 { status } else { worst };
    }
    Ok(ExitCode::from(worst))
}

/// Hosts that the file system was to have and has not, which nothing is sent to.
fn absent(paths: &Paths) -> Vec<AbsentView> {
    match control::ask(paths, &Request::Absent) {
        Ok(Answer::Absent(absent)) => absent,
        // Whoever would say so has gone; the connection says what becomes of the command.
        _ => Vec::new(),
    }
}

/// And those of all that are absent by now.
fn chosen(
    options: &Exec,
    reached: Vec<Reached>,
    absent: &[AbsentView],
) -> Result<(Vec<Reached>, Vec<AbsentView>), Failure> {
    let why = |host: &Reached| absent.iter().find(|it| it.name == host.way.name()).cloned();
    if options.all {
        let refusing = reached.iter().filter_map(why).collect();
        return Ok((reached.into_iter().filter(|host| why(host).is_none()).collect(), refusing));
    }
    let find = |name: &String| {
        let found = reached.iter().find(|host| host.is_called(name)).cloned();
        let known = || reached.iter().map(|host| host.way.name().to_owned()).collect();
        let found =
            found.ok_or_else(|| Failure::NoSuchHost { name: name.clone(), known: known() })?;
        why(&found).map_or(Ok(found), |why| Err(Failure::NotRunOn(why)))
    };
    let found = options.host.iter().map(find).collect::<Result<_, _>>()?;
    Ok((found, Vec::new()))
}

/// A command on a host.
struct Running {
    host: String,
    child: Child,
    status: Option<u8>,
    readers: Vec<JoinHandle<()>>,
}

impl Running {
    fn begin(host: &Reached, options: &Exec, is_named: bool) -> anyhow::Result<Running> {
        let program = host.way.program();
        let failed = |cause| Failure::CommandNotRun { command: program.clone(), cause };
        let mut command = host.way.command("task").map_err(failed)?;
        if !is_named {
            command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
        }
        let mut child = command.spawn().map_err(failed)?;
        let environment = vec![
            (MOUNT.to_owned(), host.mount.clone()),
            (STATE.to_owned(), host.directory.clone()),
        ];
        let here = std::env::current_dir().ok();
        let directories = here.into_iter().chain([host.mount.clone()]).collect();
        let task = Task { words: options.command.clone(), environment, directories };
        // What cannot be said is noticed by its end.
        let _ = child.stdin.as_mut().map(|input| say_word(input, &task));
        let name = host.way.name().to_owned();
        let outputs = [
            child.stdout.take().map(|from| passes_on(&name, from, io::stdout())),
            child.stderr.take().map(|from| passes_on(&name, from, io::stderr())),
        ];
        let readers = outputs.into_iter().flatten().collect::<io::Result<_>>()?;
        Ok(Running { host: name, child, status: None, readers })
    }

    fn tell(&mut self, signal: i32) {
        let _ = self.child.stdin.as_mut().map(|input| say_word(input, &signal));
    }

    fn status(&mut self) -> Option<u8> {
        if self.status.is_none() {
            self.status = match self.child.try_wait() {
                Ok(ended) => ended.map(exit_status),
                Err(_) => Some(FAILED),
            };
        }
        self.status
    }

    /// When all that it said has been passed on.
    fn end(self) -> (String, u8) {
        for reader in self.readers {
            let _ = reader.join();
        }
        (self.host, self.status.unwrap_or(FAILED))
    }
}

/// Lines, each behind the name; a long one in pieces.
fn passes_on(
    name: &str,
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let name = name.to_owned();
    std::thread::Builder::new().name("output of a host".to_owned()).spawn(move || {
        let mut from = BufReader::new(from);
        let mut said = Vec::new();
        while from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut said).is_ok_and(|it| it > 0)
        {
            let mut row = format!("{name}: ").into_bytes();
            row.append(&mut said);
            if row.last() != Some(&b'\n') {
                row.push(b'\n');
            }
            // A reader that has gone is no reason to stop the command.
            let _ = to.write_all(&row);
        }
    })
}
