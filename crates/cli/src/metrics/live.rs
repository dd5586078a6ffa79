//! What the page shows of a running file system, as the monitor saw it last: JSON at `/live.json`.

use serde::Serialize;
use tidefs_report::{Decision, Row};

use crate::monitor::{Observed, lock};
use crate::version;
use crate::view::StatusView;

use std::sync::Mutex;

/// Points of the history, which a screen has room for.
const POINTS_MOST: usize = 240;
/// Of the decisions, the last ones.
const DECISIONS_MOST: usize = 50;

#[derive(Serialize)]
struct Live {
    version: &'static str,
    mount: String,
    /// Both in seconds since 1970; no look yet where the second is null.
    started: f64,
    seen: Option<f64>,
    /// As `tidefs status --json` has it, without what only that asks for; null where the store did not say.
    status: Option<StatusView>,
    memory_used_bytes_max: u64,
    requests: u64,
    requests_failed: u64,
    files_made: u64,
    bytes_written: u64,
    bytes_read: u64,
    /// The kernel moves bytes of files by itself: those written are the least, those read are not known.
    direct: bool,
    history: Vec<Point>,
    decisions: Vec<Decision>,
    decisions_left_out: usize,
}

#[derive(Serialize)]
struct Point {
    /// Seconds since the start.
    t: f64,
    used_bytes: u64,
    capacity_bytes: u64,
    nodes: u32,
}

impl From<&Row> for Point {
    fn from(row: &Row) -> Point {
        let &Row { t, used_bytes, allocated_bytes, nodes, .. } = row;
        Point { t, used_bytes, capacity_bytes: allocated_bytes, nodes }
    }
}

pub fn json(observed: &Mutex<Observed>, mount: &str) -> serde_json::Result<String> {
    serde_json::to_string(&Live::of(&lock(observed), mount))
}

impl Live {
    fn of(observed: &Observed, mount: &str) -> Live {
        let since_1970 = |time: tidefs_model::Time| time.0 as f64 / 1e9;
        let look = observed.last.as_ref();
        let totals = look.map(|look| look.totals).unwrap_or_default();
        let decided = observed.history.decisions();
        let decisions_left_out = decided.len().saturating_sub(DECISIONS_MOST);
        Live {
            version: version::line(),
            mount: mount.to_owned(),
            started: since_1970(observed.started),
            seen: look.map(|look| since_1970(look.at)),
            status: look.and_then(|look| look.status()),
            memory_used_bytes_max: observed.memory_used_bytes_max,
            requests: observed.requests.total(),
            requests_failed: observed.requests.failed,
            files_made: totals.files_made,
            bytes_written: totals.bytes_written,
            bytes_read: totals.bytes_read,
            direct: totals.direct,
            history: points(observed.history.rows()),
            decisions: decided[decisions_left_out..].to_vec(),
            decisions_left_out,
        }
    }
}

/// Of each stretch the row with the most memory used: a peak is what people look for. The last row is always there.
fn points(rows: &[Row]) -> Vec<Point> {
    let Some((last, before)) = rows.split_last() else { return Vec::new() };
    let stretch = before.len().div_ceil(POINTS_MOST - 1).max(1);
    let peaks =
        before.chunks(stretch).filter_map(|rows| rows.iter().max_by_key(|row| row.used_bytes));
    peaks.chain([last]).map(Point::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(t: u32, used_bytes: u64) -> Row {
        Row { t: t.into(), used_bytes, allocated_bytes: 100, nodes: 1, per_node: Vec::new() }
    }

    #[test]
    fn a_long_history_keeps_its_peak_and_its_end() {
        assert!(points(&[]).is_empty());
        assert_eq!(points(&[row(0, 1)]).len(), 1);
        for count in [239, 240, 241, 4_000] {
            let mut rows: Vec<_> = (0..count).map(|t| row(t, 1)).collect();
            rows[count as usize / 3].used_bytes = 7;
            rows[count as usize - 1].used_bytes = 2;
            let points = points(&rows);
            assert!(points.len() <= POINTS_MOST, "{count}: {} points", points.len());
            assert!(points.iter().any(|point| point.used_bytes == 7), "{count}");
            assert_eq!(points.last().unwrap().used_bytes, 2, "{count}");
            assert!(points.windows(2).all(|pair| pair[0].t < pair[1].t), "{count}");
        }
    }

    #[test]
    fn there_is_something_to_tell_before_the_first_look() {
        let observed = Mutex::new(Observed::new());
        let said: serde_json::Value =
            serde_json::from_str(&json(&observed, "/m").unwrap()).unwrap();
        assert_eq!((&said["mount"], &said["status"]), (&"/m".into(), &serde_json::Value::Null));
    }
}
