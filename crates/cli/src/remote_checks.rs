//! What each host of a list lacks: its agent is called as for a run, and asked to look instead of to join.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use serde::Serialize;
use tidefs_model::ByteSize;
use tidefs_valkey::HEAD_ROOM;

use crate::agents::{Agents, Found, Wanted, is_this_host};
use crate::failure::Failure;
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

/// For whoever asks from another host.
pub fn for_another(memory_bytes: Option<u64>, state: Option<&Path>) -> anyhow::Result<Found> {
    // This process has made itself private, which some of what is looked at would take for a lack.
    let mut doctor = Command::new("/proc/self/exe");
    state.iter().for_each(|state| {
        doctor.arg("--state").arg(state);
    });
    doctor.args(["doctor", "--json"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let said = doctor.output().context("cannot look at this host")?;
    let findings = serde_json::from_slice(&said.stdout).context("cannot look at this host")?;
    Ok(Found { findings, refused: refused(memory_bytes.map(ByteSize), state) })
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
