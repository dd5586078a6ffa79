//! Wall clocks of hosts beside each other. They decide nothing here, but date files: see docs/decisions/clocks.md.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Words between hosts may take some of it.
const APART_MOST_SECONDS: i64 = 30;

/// What this host's clock shows, in seconds since 1970.
pub fn seconds() -> i64 {
    let since = |at: SystemTime| at.duration_since(UNIX_EPOCH).map(|it| it.as_secs() as i64);
    since(SystemTime::now()).unwrap_or(0)
}

/// By how much another clock is wrong, where it is by more than words take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Below zero: it is behind.
    pub seconds: i64,
}

impl Ahead {
    pub fn of(there: i64, here: i64) -> Option<Ahead> {
        let seconds = there.saturating_sub(here);
        (seconds.unsigned_abs() > APART_MOST_SECONDS.unsigned_abs()).then_some(Ahead { seconds })
    }
}

/// What it means that clocks differ, and what to do.
pub const MEANS: &str =
    "times of files differ by as much, and make and Snakemake go by them; have both set by NTP";

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ahead { seconds } = self;
        write!(f, "{} s {}", seconds.unsigned_abs(), if *seconds > 0 { "ahead" } else { "behind" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_far_apart_are_told_of() {
        let said = |there, here| Ahead::of(there, here).map(|it| it.to_string());
        assert_eq!((said(1_000, 970), said(970, 1_000)), (None, None));
        assert_eq!(said(1_000, 969), Some("31 s ahead".to_owned()));
        assert_eq!(said(0, 3_600), Some("3600 s behind".to_owned()));
        assert_eq!(said(i64::MIN, 1).map(|it| it.ends_with("behind")), Some(true));
        assert_eq!(Ahead::of(seconds(), seconds()), None);
    }
}
