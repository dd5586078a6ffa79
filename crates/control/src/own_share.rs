//! The share of the data that is to lie on own nodes while there are victim nodes: MemFSS's alpha.

use std::fmt;
use std::str::FromStr;

const ONE: u32 = 1_000_000;

/// A part of 0 to 1, kept in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnShare(u32);

/// The text is no share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no share of the data on own nodes; give a number from 0 (all of it on victim nodes) \
     to 1 (all of it on own nodes), such as 0.25"
)]
pub struct ParseOwnShareError {
    pub text: String,
}

impl OwnShare {
    /// All of it on own nodes.
    pub const ALL: OwnShare = OwnShare(ONE);

    /// From 0 to 1.
    pub fn part(self) -> f64 {
        f64::from(self.0) / f64::from(ONE)
    }

    /// The share that memory allows which is nearest to this one, when so much data is on nodes that
    /// have room for that much of it by class; what does not fit at all is spread by room.
    pub fn allowed(self, data_bytes: u64, room: ByClass<u64>) -> f64 {
        if data_bytes == 0 {
            return self.part();
        }
        let data = data_bytes as f64;
        let least = (1.0 - room.victim as f64 / data).max(0.0);
        let most = (room.own as f64 / data).min(1.0);
        if least > most {
            return room.own as f64 / (room.own as f64 + room.victim as f64).max(1.0);
        }
        self.part().clamp(least, most)
    }
}

impl FromStr for OwnShare {
    type Err = ParseOwnShareError;

    fn from_str(text: &str) -> Result<OwnShare, ParseOwnShareError> {
        let share = text.trim().parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        let share = share.ok_or_else(|| ParseOwnShareError { text: text.to_owned() })?;
        Ok(OwnShare((share * f64::from(ONE)).round() as u32))
    }
}

impl fmt::Display for OwnShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.part())
    }
}

/// Something of the own nodes together, and of the victim nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByClass<T> {
    pub own: T,
    pub victim: T,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_what_is_none_is_refused() {
        for (text, part) in [("0", 0.0), ("1", 1.0), (" 0.25 ", 0.25), ("5e-1", 0.5)] {
            assert_eq!(text.parse::<OwnShare>().unwrap().part(), part);
        }
        assert_eq!("1.0".parse(), Ok(OwnShare::ALL));
        for text in ["", "-0.1", "1.01", "25%", "NaN", "inf", "half"] {
            let error = text.parse::<OwnShare>().unwrap_err().to_string();
            assert!(error.contains("from 0") && error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn memory_has_the_last_word() {
        let half: OwnShare = "0.5".parse().unwrap();
        let allowed = |data, own, victim| half.allowed(data, ByClass { own, victim });
        assert_eq!(allowed(0, 0, 0), 0.5);
        assert_eq!(allowed(100, 80, 80), 0.5);
        assert_eq!(allowed(100, 20, 90), 0.2, "own nodes have no room for more");
        assert_eq!(allowed(100, 90, 20), 0.8, "victims have no room for more");
        assert_eq!(allowed(100, 30, 10), 0.75, "there is no room for all of it");
    }
}
