//! Whole numbers on the command line, and what is said of those that are not.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// One within a range.
pub fn within<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.trim().parse().ok().filter(|number| range.contains(number));
        number
            .ok_or_else(|| format!("give a whole number from {} to {}", range.start(), range.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_within_is_told_what_would_be() {
        let parse = within(1..=64_u16);
        assert_eq!((parse("1"), parse("64")), (Ok(1), Ok(64)));
        for text in ["", "x", "0", "65", "-1", "1.5", "99999999999999999999"] {
            assert_eq!(parse(text).unwrap_err(), "give a whole number from 1 to 64", "{text}");
        }
    }
}
