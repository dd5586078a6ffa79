//! Figures as people read them.

use std::fmt;

use tidefs_model::ByteSize;

use crate::facts::DeadFiles;

/// A duration: `0.42 s`, `12.3 s`, `2 min 5 s`, `1 h 3 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match seconds {
        s if s < 10.0 => format!("{s:.2} s"),
        s if s < 100.0 => format!("{s:.1} s"),
        _ if whole < 3_600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
    }
}

pub(crate) fn milliseconds(ms: Option<f64>) -> String {
    ms.map_or("not measured".to_owned(), |ms| {
        if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
    })
}

/// What the removal of dead files has saved.
pub(crate) fn dead_files(dead: DeadFiles) -> String {
    let (gone, peak) = (bytes(dead.deleted_bytes), bytes(dead.peak_used_bytes_undeleted));
    let files = grouped(dead.deleted as f64);
    format!(
        "Files that no task would read again were deleted: {files} of them, with {gone}. With them the peak was {peak}."
    )
}

pub(crate) fn bytes(bytes: u64) -> String {
    ByteSize(bytes).to_string()
}

/// Memory over time, to be compared: in GiB-hours, or in GiB-seconds where all are a tiny part of
/// one.
pub(crate) fn byte_seconds<const N: usize>(byte_seconds: [f64; N]) -> [String; N] {
    over_time(byte_seconds.map(|each| each / (1_u64 << 30) as f64), "GiB")
}

/// Nodes over time, to be compared: in node-hours, or in node-seconds where all are a tiny part of
/// one.
pub(crate) fn node_seconds<const N: usize>(node_seconds: [f64; N]) -> [String; N] {
    over_time(node_seconds, "node")
}

fn over_time<const N: usize>(seconds: [f64; N], of: &str) -> [String; N] {
    let (unit, factor) = if seconds.iter().all(|each| each.abs() < 360.0) {
        ("seconds", 1.0)
    } else {
        ("hours", 3_600.0)
    };
    seconds.map(|each| format!("{} {of}-{unit}", three_digits(each / factor)))
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 1.0 => format!("{value:.3}"),
        v if v < 10.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => grouped(value.round()),
    }
}

/// A fraction in per cent, with a sign that is a minus and not a hyphen.
pub(crate) fn percent(fraction: f64) -> String {
    let percent = 100.0 * fraction;
    // What rounds to nothing has no sign.
    let percent = if percent.abs() < 0.05 { 0.0 } else { percent };
    format!("{percent:.1} %").replace('-', "\u{2212}")
}

/// Thousands apart: `16,384`.
pub(crate) fn grouped(value: impl fmt::Display) -> String {
    let digits = value.to_string();
    let (sign, digits) = digits.strip_prefix('-').map_or(("", &*digits), |rest| ("\u{2212}", rest));
    let groups: Vec<_> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| group.iter().map(|&digit| char::from(digit)).collect::<String>())
        .collect();
    format!("{sign}{}", groups.join(","))
}

/// How the number of nodes changed: `+2`, `−1`, `±0`.
pub(crate) fn change(before: u32, after: u32) -> String {
    match i64::from(after) - i64::from(before) {
        0 => "\u{b1}0".to_owned(),
        more @ 1.. => format!("+{more}"),
        fewer => format!("\u{2212}{}", -fewer),
    }
}

/// `1 node`, `2 nodes`.
pub(crate) fn nodes(count: u32) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

/// An instant in UTC: `2026-11-21 23:05 UTC`.
pub(crate) fn instant(unix_seconds: u64) -> String {
    let (year, month, day) = date(unix_seconds / 86_400);
    let minute = unix_seconds % 86_400 / 60;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minute / 60, minute % 60)
}

/// The same to the second: `2026-11-21 23:05:09 UTC`.
pub fn instant_to_the_second(unix_seconds: u64) -> String {
    let minute = instant(unix_seconds);
    minute.replace(" UTC", &format!(":{:02} UTC", unix_seconds % 60))
}

/// Year, month and day, so many days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // The calendar repeats every 400 years, which have 146,097 days; that also bounds the loops.
    let (mut year, mut left) = (1970 + days / 146_097 * 400, days % 146_097);
    while left >= 365 + leap(year) {
        left -= 365 + leap(year);
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

fn leap(year: u64) -> u64 {
    u64::from(year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// A command as a shell would take it, to be read and copied.
pub(crate) fn command(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_what_matters() {
        for (seconds, text) in [
            (0.0, "0.00 s"),
            (0.416, "0.42 s"),
            (12.34, "12.3 s"),
            (125.4, "2 min 5 s"),
            (3_599.9, "1 h 0 min"),
            (3_780.0, "1 h 3 min"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn quantities_over_time_choose_their_unit() {
        assert_eq!(node_seconds([112.0, 0.0]), ["112 node-seconds", "0 node-seconds"]);
        assert_eq!(node_seconds([1_252.0, 36.0]), ["0.348 node-hours", "0.010 node-hours"]);
        assert_eq!(node_seconds([7_200.0]), ["2.00 node-hours"]);
        assert_eq!(node_seconds([3_600.0 * 12_345.6]), ["12,346 node-hours"]);
        assert_eq!(byte_seconds([1.5 * (1_u64 << 30) as f64]), ["1.50 GiB-seconds"]);
    }

    #[test]
    fn figures_have_signs_and_groups() {
        assert_eq!(percent(0.3333), "33.3 %");
        assert_eq!(percent(-0.5), "\u{2212}50.0 %");
        assert_eq!(percent(-0.0001), "0.0 %");
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(16_384), "16,384");
        assert_eq!(grouped(-1_234_567), "\u{2212}1,234,567");
        assert_eq!([change(1, 3), change(3, 2), change(2, 2)], ["+2", "\u{2212}1", "\u{b1}0"]);
    }

    #[test]
    fn instants_follow_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_795_302_300, "2026-11-21 23:05 UTC"),
            (4_107_542_340, "2100-02-28 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(instant(seconds), text);
        }
        assert_eq!(instant_to_the_second(59), "1970-01-01 00:00:59 UTC");
        assert!(instant(u64::MAX).ends_with("UTC"), "ends at all");
    }

    #[test]
    fn commands_can_be_copied_into_a_shell() {
        let words = ["sh", "-c", "echo 'a b' > $X", ""].map(str::to_owned);
        assert_eq!(command(&words), r"sh -c 'echo '\''a b'\'' > $X' ''");
    }
}
