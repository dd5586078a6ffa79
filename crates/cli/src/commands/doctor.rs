//! `tidefs doctor`: what this machine, or each host of a list, lacks, and the command that fixes it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::arguments::Doctor;
use crate::checks;
use crate::failure::FAILED;
use crate::finding::{Finding, Verdict};
use crate::remote_checks;
use crate::say;
use crate::ssh;

pub fn doctor(options: &Doctor, state: Option<&Path>) -> anyhow::Result<ExitCode> {
    if let Some(list) = &options.hosts {
        return of_hosts(list, options.json, state);
    }
    let mut findings = checks::all(state);
    findings.extend(options.provision_command.as_deref().map(checks::provision));
    if options.json {
        say::answer(serde_json::to_string_pretty(&findings).context("cannot print JSON")?);
    } else {
        findings.iter().for_each(print);
    }
    let lacking = findings.iter().any(|finding| finding.verdict == Verdict::Missing);
    Ok(if lacking { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// Of each host what it lacks or could do better, and a line for one that has all.
fn of_hosts(list: &Path, as_json: bool, state: Option<&Path>) -> anyhow::Result<ExitCode> {
    let hosts = remote_checks::all(&ssh::read(list)?, state)?;
    if as_json {
        say::answer(serde_json::to_string_pretty(&hosts).context("cannot print JSON")?);
    } else {
        for host in &hosts {
            let is_good = |finding: &&Finding| finding.verdict == Verdict::Good;
            say::answer(format!("{}:", host.host));
            if host.findings.iter().all(|finding| is_good(&finding)) {
                host.findings.iter().take(1).for_each(print);
            }
            host.findings.iter().filter(|finding| !is_good(finding)).for_each(print);
        }
    }
    let lacking = hosts.iter().filter(|host| host.lacks()).count();
    if lacking > 0 {
        say::note(format!("{lacking} of {} hosts lack something", hosts.len()));
        return Ok(ExitCode::from(FAILED));
    }
    Ok(ExitCode::SUCCESS)
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
