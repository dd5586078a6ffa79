//! The reconfigurations that have ended, of all managers that there were.

use tidefs_manager::ReportedReconfiguration;

/// More than these are in the log only, and are counted.
const KEPT_MOST: usize = 10_000;

#[derive(Debug, Default)]
pub struct Remembered {
    kept: Vec<ReportedReconfiguration>,
    left_out: u64,
}

impl Remembered {
    /// A manager tells of its predecessor's last one too.
    pub fn hear(&mut self, one: ReportedReconfiguration) {
        if self.kept.iter().any(|other| other.started_unix_ns == one.started_unix_ns) {
            return;
        }
        if self.kept.len() < KEPT_MOST {
            self.kept.push(one);
        } else {
            self.left_out += 1;
        }
    }

    pub fn kept(&self) -> &[ReportedReconfiguration] {
        &self.kept
    }

    pub fn count(&self) -> u64 {
        self.kept.len() as u64 + self.left_out
    }

    /// How many were not kept, because there were too many.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_remembered_once_and_those_beyond_the_most_are_counted() {
        let one = |started_unix_ns| ReportedReconfiguration {
            started_unix_ns,
            ..ReportedReconfiguration::default()
        };
        let mut remembered = Remembered::default();
        for started in 0..KEPT_MOST as u64 + 3 {
            remembered.hear(one(started));
            remembered.hear(one(started / 2));
        }
        assert_eq!((remembered.kept().len(), remembered.left_out()), (KEPT_MOST, 3));
    }
}
