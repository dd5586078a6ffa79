//! Sizes in bytes as people write and read them: `256MiB`, `4GiB`, `1.5 GiB`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

impl ByteSize {
    pub const fn mib(count: u64) -> ByteSize {
        ByteSize(count << 20)
    }

    pub const fn gib(count: u64) -> ByteSize {
        ByteSize(count << 30)
    }
}

/// Units that [`ByteSize`] reads: binary with `i`, decimal without; a bare letter is binary, as
/// in the memory options of most servers.
const UNITS: [(&str, u64); 17] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("p", 1 << 50),
    ("pib", 1 << 50),
    ("pb", 1_000_000_000_000_000),
];

/// The text is not a size; what it should look like.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a size; write a number and a unit, such as 256MiB or 4GiB")]
pub struct ParseByteSizeError {
    text: String,
}

impl FromStr for ByteSize {
    type Err = ParseByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseByteSizeError { text: text.to_owned() };
        let trimmed = text.trim();
        let digits = trimmed
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let unit = unit.trim().to_ascii_lowercase();
        let factor = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?.1;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(ByteSize).ok_or_else(refused);
        }
        let bytes = number.parse::<f64>().map_err(|_| refused())? * factor as f64;
        if bytes.is_finite() && bytes < u64::MAX as f64 {
            Ok(ByteSize(bytes.round() as u64))
        } else {
            Err(refused())
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let power = (self.0.max(1).ilog2() / 10).min(5);
        let value = self.0 as f64 / (1_u64 << (10 * power)) as f64;
        let name = NAMES[power as usize];
        if value.fract() == 0.0 {
            write!(f, "{value:.0} {name}")
        } else if value < 10.0 {
            write!(f, "{value:.2} {name}")
        } else {
            write!(f, "{value:.1} {name}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("256MiB", 256 << 20),
            ("4g", 4 << 30),
            ("1.5 GiB", 3 << 29),
            ("10MB", 10_000_000),
            ("0", 0),
            (" 7 ", 7),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "MiB", "-1", "4 potatoes", "1e3", "99999999999TiB", "1.2.3M", "∞"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_printed_for_people() {
        assert_eq!(ByteSize(0).to_string(), "0 B");
        assert_eq!(ByteSize(1536).to_string(), "1.50 KiB");
        assert_eq!(ByteSize::mib(256).to_string(), "256 MiB");
        assert_eq!(ByteSize(u64::MAX).to_string(), "16384 PiB");
    }
}
