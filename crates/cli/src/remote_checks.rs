//! What each host of a list lacks: `doctor` is run there, over `ssh`, and its answer is told here.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Deserializer, Value};

use crate::checks::{Finding, Verdict};
use crate::ssh::{Said, SshHost, on_each};

/// The version first; what `doctor` finds missing makes it fail, and is told all the same.
const WORDS: &str = "tidefs --version --json; tidefs doctor --json";
const WITHIN: Duration = Duration::from_secs(30);
/// By which a shell says that there is no such program, and `ssh` that there is no connection.
const NO_PROGRAM: i32 = 127;
const NO_CONNECTION: i32 = 255;
/// Of what others say, for a line.
const LETTERS_MOST: usize = 400;

/// How it stands with one host.
#[derive(Debug, Serialize)]
pub struct HostFindings {
    pub host: String,
    pub findings: Vec<Finding>,
}

pub fn all(hosts: &[SshHost]) -> Vec<HostFindings> {
    let said = on_each(hosts, WORDS, WITHIN);
    let each = hosts.iter().zip(said);
    each.map(|(host, said)| HostFindings { host: host.0.clone(), findings: found(said) }).collect()
}

fn found(said: io::Result<Said>) -> Vec<Finding> {
    let reach = |detail: String, fix: &str| vec![Finding::missing("connection", detail, fix)];
    let said = match said {
        Ok(said) => said,
        Err(error) => {
            let program = crate::ssh::program();
            let detail = format!("cannot run {}: {error}", program.display());
            return reach(detail, "install an SSH client, or name one in TIDEFS_SSH");
        }
    };
    let words = plain(&said.errors);
    match said.status.map(|status| status.code()) {
        None => {
            let detail = format!("no answer in {} s {words}", WITHIN.as_secs());
            reach(detail.trim_end().to_owned(), "see that the host runs, or leave it out")
        }
        Some(Some(NO_CONNECTION)) => reach(
            format!("ssh: {words}"),
            "make `ssh -o BatchMode=yes HOST true` work, or leave the host out",
        ),
        Some(Some(NO_PROGRAM)) => vec![Finding::missing(
            "tidefs",
            format!("it is not in the PATH of programs that ssh starts: {words}"),
            "install the package of this version there",
        )],
        _ => told(&said.output).unwrap_or_else(|| {
            let detail = format!("the answer is not understood: {words} {}", plain(&said.output));
            vec![Finding::missing("tidefs", detail, "install the package of this version there")]
        }),
    }
}

/// Shells may have said something before it.
fn told(output: &str) -> Option<Vec<Finding>> {
    let from = output.find('{')?;
    let mut answers = Deserializer::from_str(&output[from..]).into_iter::<Value>();
    let version = answers.next()?.ok()?;
    let findings: Vec<Finding> = serde_json::from_value(answers.next()?.ok()?).ok()?;
    let mut all = vec![agrees(version["version"].as_str()?, version["format"].as_u64()?)];
    all.extend(findings.into_iter().map(Finding::plain));
    Some(all)
}

/// Programs of one format mount what the others have started.
fn agrees(version: &str, format: u64) -> Finding {
    let (here, ours) = (env!("CARGO_PKG_VERSION"), u64::from(tidefs_fs::FORMAT_VERSION));
    let version = plain(version);
    if format != ours {
        let detail = format!("version {version} has format {format}; this one, {here}, has {ours}");
        return Finding::missing("tidefs", detail, "install the same version everywhere");
    }
    if version != here {
        let detail = format!("version {version}, and {here} here; they understand each other");
        return Finding::limited("tidefs", detail, Some("install the same version everywhere"));
    }
    Finding::good("tidefs", format!("version {version}"))
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
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn said(code: i32, output: &str, errors: &str) -> Vec<Finding> {
        let status = Some(ExitStatus::from_raw(code << 8));
        found(Ok(Said { status, output: output.to_owned(), errors: errors.to_owned() }))
    }

    #[test]
    fn another_machines_answer_is_told_and_compared() {
        let format = tidefs_fs::FORMAT_VERSION;
        let version = env!("CARGO_PKG_VERSION");
        let doctor =
            r#"[{"subject":"server","verdict":"missing","detail":"none\u001b[2J","fix":"x"}]"#;
        let output =
            format!("Welcome!\n{{\"version\":\"{version}\",\"format\":{format}}}\n{doctor}");
        let findings = said(1, &output, "");
        assert_eq!(findings[0].verdict, Verdict::Good);
        assert_eq!(findings[1].verdict, Verdict::Missing);
        assert!(!findings[1].detail.contains('\u{1b}'));
        let other = format!("{{\"version\":\"9\",\"format\":{}}}[]", format + 1);
        assert!(said(0, &other, "")[0].detail.contains("has format"));
        let near = format!("{{\"version\":\"9\",\"format\":{format}}}[]");
        assert_eq!(said(0, &near, "")[0].verdict, Verdict::Limited);
    }

    #[test]
    fn a_host_that_cannot_be_asked_is_named_with_sshs_own_words() {
        let words = "Host key verification failed.\r\n";
        assert_eq!(said(255, "", words)[0].detail, "ssh: Host key verification failed.");
        assert_eq!(said(127, "", "sh: tidefs: not found")[0].subject, "tidefs");
        assert!(said(0, "what?", "")[0].detail.contains("not understood"));
        let silent = Said { status: None, output: String::new(), errors: String::new() };
        assert_eq!(found(Ok(silent))[0].detail, "no answer in 30 s");
    }
}
