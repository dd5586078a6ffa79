//! What a check found, for people and for programs.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidefs_fs::{CheckReport, Found};
use tidefs_report::Losses;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckView {
    pub clean: bool,
    pub inodes: u64,
    pub shards: u64,
    pub stripes: u64,
    /// What was found and removed or put right.
    pub repaired: Vec<FindingView>,
    /// What was found and is still there.
    pub left: Vec<FindingView>,
    /// There were more findings than one check takes.
    pub more: bool,
    /// Why nothing was concluded but what is lost; null where everything was checked.
    #[serde(default)]
    pub unchecked: Option<String>,
    /// What nodes that died took with them, by path from the mount on.
    #[serde(flatten)]
    pub losses: Losses,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingView {
    /// A word for each kind.
    pub kind: String,
    /// Something that a program may miss is lost; it cannot be repaired.
    pub damage: bool,
    pub what: String,
    /// Below the mount; bytes that are no text are escaped.
    pub paths: Vec<String>,
}

impl CheckView {
    pub fn new(report: &CheckReport) -> CheckView {
        CheckView {
            clean: report.is_clean(),
            inodes: report.inodes,
            shards: report.shards,
            stripes: report.stripes,
            repaired: report.repaired.iter().map(FindingView::new).collect(),
            left: report.left.iter().map(FindingView::new).collect(),
            more: report.more,
            unchecked: None,
            losses: Losses::default(),
        }
    }

    pub fn with_losses(self, losses: Losses) -> CheckView {
        let is_whole = losses.lost_files.is_empty() && losses.lost_names_in.is_empty();
        let clean = self.clean && is_whole && !losses.more_lost;
        CheckView { clean, losses, ..self }
    }
}

impl FindingView {
    fn new(found: &Found) -> FindingView {
        let shown = |path: &Vec<u8>| match std::str::from_utf8(path) {
            Ok("") => "/".to_owned(),
            Ok(text) => text.to_owned(),
            Err(_) => path.escape_ascii().to_string(),
        };
        FindingView {
            kind: found.finding.kind().to_owned(),
            damage: found.finding.is_damage(),
            what: found.finding.to_string(),
            paths: found.paths.iter().map(shown).collect(),
        }
    }
}

impl fmt::Display for FindingView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.damage { "damage" } else { "leak" };
        write!(f, "{word}: {}", self.what)?;
        match self.paths.as_slice() {
            [] => Ok(()),
            paths => write!(f, " ({})", paths.join(", ")),
        }
    }
}

impl fmt::Display for CheckView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.repaired {
            writeln!(f, "repaired {finding}")?;
        }
        for finding in &self.left {
            writeln!(f, "{finding}")?;
        }
        let Losses { lost_nodes, lost_files, lost_names_in, more_lost } = &self.losses;
        for node in lost_nodes {
            writeln!(f, "{node}")?;
        }
        for file in lost_files {
            writeln!(f, "lost: {file} cannot be read in full any more")?;
        }
        for directory in lost_names_in {
            writeln!(f, "lost: files in {directory} whose names were on a node that died")?;
        }
        if *more_lost {
            writeln!(f, "not all of the tree was looked at for what is lost")?;
        }
        if let Some(why) = &self.unchecked {
            return f.write_str(why);
        }
        let lost = lost_files.len() + lost_names_in.len();
        let CheckView { inodes, shards, stripes, .. } = self;
        write!(f, "{inodes} inodes, {shards} shards and {stripes} stripes: ")?;
        let leaks = self.left.iter().filter(|finding| !finding.damage).count();
        let damages = self.left.len() - leaks;
        match (leaks, damages) {
            (0, 0) if !self.more && lost > 0 => write!(f, "clean but for what is lost")?,
            (0, 0) if !self.more => write!(f, "clean")?,
            _ => write!(f, "{} and {} left", many(leaks, "leak"), many(damages, "damage"))?,
        }
        if !self.repaired.is_empty() {
            write!(f, ", {} repaired", self.repaired.len())?;
        }
        if self.more {
            write!(f, "; there are more, check again")?;
        }
        if leaks > 0 && self.repaired.is_empty() {
            write!(f, "; tidefs fsck --repair removes leaks")?;
        }
        Ok(())
    }
}

fn many(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(damage: bool) -> FindingView {
        let (kind, what) = ("links".to_owned(), "inode 7 counts 2 links".to_owned());
        FindingView { kind, damage, what, paths: vec!["/a".to_owned(), "/b".to_owned()] }
    }

    #[test]
    fn people_read_what_is_left_and_what_to_do() {
        let mut view = CheckView { clean: true, inodes: 3, shards: 2, ..CheckView::default() };
        assert_eq!(view.to_string(), "3 inodes, 2 shards and 0 stripes: clean");
        view.left = vec![finding(true), finding(false)];
        assert_eq!(
            view.to_string(),
            "damage: inode 7 counts 2 links (/a, /b)\n\
             leak: inode 7 counts 2 links (/a, /b)\n\
             3 inodes, 2 shards and 0 stripes: 1 leak and 1 damage left; \
             tidefs fsck --repair removes leaks"
        );
        view.repaired = std::mem::take(&mut view.left);
        assert!(view.to_string().ends_with(": clean, 2 repaired"), "{view}");
        let losses = Losses { lost_files: vec!["a/b".to_owned()], ..Losses::default() };
        let view = view.with_losses(losses);
        assert!(!view.clean);
        let said = view.to_string();
        for part in ["lost: a/b cannot be read", ": clean but for what is lost, 2 repaired"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
