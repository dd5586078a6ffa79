//! `tidefs doctor`: what this machine lacks, and the command that fixes it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::arguments::Doctor;
use crate::checks::{self, Finding, Verdict};
use crate::failure::FAILED;
use crate::say;

pub fn doctor(options: &Doctor, state: Option<&Path>) -> anyhow::Result<ExitCode> {
    let findings = checks::all(state);
    if options.json {
        say::answer(serde_json::to_string_pretty(&findings).context("cannot print JSON")?);
    } else {
        findings.iter().for_each(print);
    }
    let lacking = findings.iter().any(|finding| finding.verdict == Verdict::Missing);
    Ok(if lacking { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn print(finding: &Finding) {
    let mark = match finding.verdict {
        Verdict::Good => "ok",
        Verdict::Limited => "note",
        Verdict::Missing => "MISSING",
    };
    say::answer(format!("{mark:<8} {:<17} {}", finding.subject, finding.detail));
    if let Some(fix) = &finding.fix {
        say::answer(format!("{:26} fix: {fix}", ""));
    }
}
