//! What was found of one thing that a host needs, for people and programs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// How it stands with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Good,
    /// It works, with less than it could.
    Limited,
    /// Something will not work.
    Missing,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub subject: Cow<'static, str>,
    pub verdict: Verdict,
    pub detail: String,
    /// A command, to be run as root where it says so.
    pub fix: Option<String>,
}

impl Finding {
    pub fn good(subject: &'static str, detail: impl Into<String>) -> Finding {
        Finding {
            subject: subject.into(),
            verdict: Verdict::Good,
            detail: detail.into(),
            fix: None,
        }
    }

    pub fn limited(subject: &'static str, detail: impl Into<String>, fix: Option<&str>) -> Finding {
        let fix = fix.map(str::to_owned);
        Finding { subject: subject.into(), verdict: Verdict::Limited, detail: detail.into(), fix }
    }

    pub fn missing(subject: &'static str, detail: impl Into<String>, fix: &str) -> Finding {
        let fix = Some(fix.to_owned());
        Finding { subject: subject.into(), verdict: Verdict::Missing, detail: detail.into(), fix }
    }

    /// What to do stands behind the last semicolon, if it is said.
    pub fn of_refusal(subject: &'static str, said: &str) -> Finding {
        let (detail, fix) = match said.rsplit_once("; ") {
            Some((detail, fix)) => (detail, Some(fix.to_owned())),
            None => (said, None),
        };
        let (subject, detail) = (subject.into(), detail.to_owned());
        Finding { subject, verdict: Verdict::Missing, detail, fix }
    }
}
