//! What each host of a list lacks: its agent is called as for a run, and asked to look instead of to join.

use std::io::{self, BufRead, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::Builder;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use tidefs_model::ByteSize;
use tidefs_valkey::HEAD_ROOM;

use crate::agents::{Agents, Found, Wanted, is_this_host, line};
use crate::failure::{FAILED, Failure};
use crate::finding::{Finding, Verdict};
use crate::join::{holds, node_wanted};
use crate::ssh::Listed;
use crate::state::Base;
use crate::{checks, preparation};

/// Of what others say, for a line.
const LETTERS_MOST: usize = 400;

/// How it stands with one host.
#[derive(Debug, Serialize)]
pub struct HostFindings {
    pub host: String,
    pub findings: Vec<Finding>,
}

/// # Errors
/// When the list has more hosts than a file system may have.
pub fn all(listed: &[Listed], state: Option<&Path>) -> Result<Vec<HostFindings>, Failure> {
    let agents = Agents::call(Wanted::to_look_at(listed)?, || Ok(()))?;
    let mut others = agents.look().into_iter();
    let findings = |it: &Listed| match is_this_host(it) {
        true => of_this_host(it.memory, state),
        false => others.next().unwrap_or_default().into_iter().map(Finding::plain).collect(),
    };
    let findings: Vec<_> = listed.iter().map(findings).collect();
    let named = listed.iter().map(|it| it.host.0.clone()).zip(findings);
    Ok(named.map(|(host, findings)| HostFindings { host, findings }).collect())
}

/// Nobody reaches it over a connection.
fn of_this_host(memory: Option<ByteSize>, state: Option<&Path>) -> Vec<Finding> {
    let refused = refused(memory, state);
    let refused = refused.map(|why| Finding::of_refusal("run --hosts", &why));
    refused.into_iter().chain(checks::all(state)).collect()
}

/// For whoever asks from another host: as long as he does. The end of the input ends this process.
pub fn for_another(
    memory_bytes: Option<u64>,
    state: Option<&Path>,
    input: impl BufRead + Send + 'static,
) -> anyhow::Result<Found> {
    // This process has made itself private, which some of what is looked at would take for a lack.
    let mut doctor = Command::new("/proc/self/exe");
    state.iter().for_each(|state| {
        doctor.arg("--state").arg(state);
    });
    doctor.args(["doctor", "--json"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let said = said_while_asked(&mut doctor, input).context("cannot look at this host")?;
    let findings = serde_json::from_slice(&said).context("cannot look at this host")?;
    Ok(Found { findings, refused: refused(memory_bytes.map(ByteSize), state) })
}

/// What a program says. A place that does not answer may hold it for ever, and whoever asked gives up some time.
fn said_while_asked(
    program: &mut Command,
    mut input: impl BufRead + Send + 'static,
) -> io::Result<Vec<u8>> {
    let mut child = program.process_group(0).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take();
    let ends = move || {
        let _ = line(&mut input);
        // With what it has started. What holds it may hold it also now, so nobody waits for it.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        std::process::exit(FAILED.into());
    };
    Builder::new().name("end of the input".to_owned()).spawn(ends)?;
    let mut said = Vec::new();
    output.map_or(Ok(0), |mut output| output.read_to_end(&mut said))?;
    Ok(said)
}

/// Why an agent here would not do what is ordered, before it knows more than the size of its node.
fn refused(memory: Option<ByteSize>, state: Option<&Path>) -> Option<String> {
    let fits = || -> anyhow::Result<()> {
        Base::named(state)?.check()?;
        preparation::mounting()?;
        let (memory, _) = node_wanted(memory)?;
        holds(memory, HEAD_ROOM)?;
        Ok(())
    };
    fits().err().map(|error| format!("{error:#}"))
}

impl Finding {
    /// Another machine's words do nothing to this terminal.
    fn plain(self) -> Finding {
        let Finding { subject, verdict, detail, fix } = self;
        let fix = fix.map(|fix| plain(&fix));
        Finding { subject: plain(&subject).into(), verdict, detail: plain(&detail), fix }
    }
}

impl HostFindings {
    pub fn lacks(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict == Verdict::Missing)
    }
}

/// In one line.
fn plain(text: &str) -> String {
    let letters = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    letters.take(LETTERS_MOST).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machines_words_do_nothing_to_this_terminal() {
        let finding = Finding::missing("server", "none\u{1b}[2J\nat all", "x\u{7}");
        let plain = finding.plain();
        assert_eq!((plain.detail.as_str(), plain.fix.as_deref()), ("none [2J at all", Some("x")));
        assert_eq!(
            Finding::missing("x", "y".repeat(9_999), "z").plain().detail.len(),
            LETTERS_MOST
        );
    }
}
