//! The few lines that `run` ends with.

use std::fmt;
use std::time::Duration;

use tidefs_control::count_of_nodes;
use tidefs_model::ByteSize;

use crate::file_system::Totals;
use crate::live_workflow::Deleted;
use crate::lost::Lost;
use crate::monitor::Observed;

/// What a run did.
#[derive(Debug)]
pub struct Summary<'o> {
    pub totals: Totals,
    pub observed: &'o Observed,
    /// Of each node: what files' bytes may not fill of its memory. It is no part of a capacity.
    pub head_room: ByteSize,
    /// Because nodes died.
    pub lost: Option<Lost>,
    pub wall: Duration,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { files_made, bytes_written, bytes_read, direct } = self.totals;
        let files =
            if files_made == 1 { "1 file".to_owned() } else { format!("{files_made} files") };
        write!(f, "{files} made in {}", seconds(self.wall))?;
        let (written, read) = (self.amount(bytes_written), self.amount(bytes_read));
        match direct {
            true if bytes_written == 0 => {}
            true => {
                write!(f, "; files grew by {written}, other writing and reading is not counted")?
            }
            false => write!(f, "; {written} written, {read} read")?,
        }
        self.peak(f)?;
        self.changes(f)?;
        self.observed.deleted.iter().try_for_each(|deleted| self.deleted(f, *deleted))?;
        for lost in self.observed.dead.values() {
            write!(f, "\n{lost}")?;
        }
        self.lost.iter().try_for_each(|lost| lost.fmt(f))
    }
}

impl Summary<'_> {
    /// Names and deletes may use the head-room, so that the peak may be above what files' bytes may fill: it is said against
    /// both together then.
    fn peak(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Observed { nodes, memory_capacity_bytes: capacity, .. } = *self.observed;
        let used = self.observed.memory_used_bytes_max;
        let on = if nodes > 1 { format!(" on {nodes} nodes") } else { String::new() };
        if used <= capacity {
            return write!(f, "\npeak memory {} of {}{on}", ByteSize(used), ByteSize(capacity));
        }
        let head_room = self.head_room.0.saturating_mul(nodes as u64);
        write!(
            f,
            "\npeak memory {} of {}{on}: {} for files' bytes, and {} of head-room for names and deletes",
            ByteSize(used),
            ByteSize(capacity.saturating_add(head_room)),
            ByteSize(capacity),
            ByteSize(head_room)
        )
    }

    /// How often nodes came and went.
    fn changes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finished = &self.observed.finished;
        let grew = finished.iter().filter(|one| one.nodes_after > one.nodes_before).count();
        let shrank = finished.iter().filter(|one| one.nodes_after < one.nodes_before).count();
        let mut before = "; ";
        for (what, count) in [("grew", grew), ("shrank", shrank)] {
            match count {
                0 => continue,
                1 => write!(f, "{before}{what} once")?,
                _ => write!(f, "{before}{what} {count} times")?,
            }
            before = ", ";
        }
        let Some(unfinished) = &self.observed.unfinished else { return Ok(()) };
        let what = match unfinished.kind.as_str() {
            "commission" => "a growth",
            "decommission" => "a shrink",
            _ => "a spread of data",
        };
        write!(f, "{before}{what} on {} had not ended", count_of_nodes(unfinished.nodes_before))
    }

    /// What of the peak the removal of dead files has saved.
    fn deleted(&self, f: &mut fmt::Formatter<'_>, deleted: Deleted) -> fmt::Result {
        let Deleted { files, bytes } = deleted;
        let files = match files {
            0 => return f.write_str("\nno file was dead: each is still to be read, or a result"),
            1 => "1 dead file".to_owned(),
            some => format!("{some} dead files"),
        };
        let peak = ByteSize(self.observed.memory_used_bytes_max_undeleted);
        write!(f, "\n{files} with {} deleted; with them the peak was {peak}", ByteSize(bytes))
    }

    /// Bytes with the rate that they were moved at, over the whole run.
    fn amount(&self, bytes: u64) -> String {
        let rate = bytes as f64 / self.wall.as_secs_f64().max(0.001);
        match bytes {
            0 => "0 B".to_owned(),
            _ => format!("{} ({}/s)", ByteSize(bytes), ByteSize(rate as u64)),
        }
    }
}

fn seconds(wall: Duration) -> String {
    match wall.as_secs() {
        0..60 => format!("{:.1} s", wall.as_secs_f64()),
        whole => format!("{} min {:02} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use tidefs_manager::ReportedReconfiguration;

    use super::*;
    use crate::progress_view::ReconfigurationView;
    use crate::view::LostView;

    fn lost() -> LostView {
        let (partitions, bytes) = (Some(8), Some(3 << 20));
        LostView {
            number: 2,
            id: String::new(),
            given_up: true,
            names: true,
            endpoint: "127.0.0.1:7001".to_owned(),
            partitions,
            bytes,
        }
    }

    fn change(nodes_before: u16, nodes_after: u16) -> ReportedReconfiguration {
        ReportedReconfiguration {
            kind: "commission".to_owned(),
            reason: String::new(),
            started_unix_ns: 0,
            seconds: 0.1,
            nodes_before,
            nodes_after,
            partitions_moved: 0,
            bytes_moved: 0,
            bytes_minimum: 0,
            imbalance_percent: None,
            phases: Vec::new(),
            outcome: "completed".to_owned(),
        }
    }

    #[test]
    fn a_summary_names_amounts_rates_and_dead_nodes() {
        let summary = Summary {
            totals: Totals { files_made: 12, bytes_written: 4 << 20, bytes_read: 0, direct: false },
            observed: &Observed {
                memory_used_bytes_max: 6 << 20,
                memory_capacity_bytes: 1 << 30,
                nodes: 3,
                dead: [(2, lost())].into(),
                deleted: Some(Deleted { files: 7, bytes: 2 << 20 }),
                memory_used_bytes_max_undeleted: 8 << 20,
                finished: vec![change(1, 2), change(2, 3), change(3, 3), change(3, 1)],
                ..Observed::new()
            },
            head_room: ByteSize::mib(8),
            lost: Some(Lost { files: vec!["a/b".into()], ..Lost::default() }),
            wall: Duration::from_secs(2),
        };
        assert_eq!(
            summary.to_string(),
            "12 files made in 2.0 s; 4 MiB (2 MiB/s) written, 0 B read\n\
             peak memory 6 MiB of 1 GiB on 3 nodes; grew 2 times, shrank once\n\
             7 dead files with 2 MiB deleted; with them the peak was 8 MiB\n\
             node 2 (127.0.0.1:7001) died with 8 partitions and about 3 MiB: files with stripes on it answer I/O errors, \
             and files whose names were on it may be missing\n\
             1 file cannot be read in full any more:\n  a/b"
        );
    }

    #[test]
    fn a_peak_in_the_head_room_is_said_against_the_limit_that_it_is_below() {
        let observed = &Observed {
            memory_used_bytes_max: 53 << 20,
            memory_capacity_bytes: 48 << 20,
            nodes: 2,
            ..Observed::new()
        };
        let (totals, wall) = (Totals::default(), Duration::from_secs(1));
        let said = Summary { totals, observed, head_room: ByteSize::mib(8), lost: None, wall };
        let expected = "peak memory 53 MiB of 64 MiB on 2 nodes: 48 MiB for files' bytes, and 16 MiB of head-room \
                        for names and deletes";
        assert_eq!(said.to_string().lines().last(), Some(expected));
    }

    #[test]
    fn a_change_that_has_not_ended_is_told_of_as_well() {
        let observed = |finished| Observed {
            unfinished: Some(ReconfigurationView {
                kind: "commission".to_owned(),
                nodes_before: 1,
                ..ReconfigurationView::default()
            }),
            finished,
            ..Observed::new()
        };
        for (finished, says) in [
            (vec![], "; a growth on 1 node had not ended"),
            (vec![change(2, 1)], "; shrank once, a growth on 1 node had not ended"),
        ] {
            let observed = &observed(finished);
            let totals = Totals::default();
            let (head_room, wall) = (ByteSize::mib(8), Duration::from_secs(1));
            let said = Summary { totals, observed, head_room, lost: None, wall };
            assert!(said.to_string().contains(says), "{said}");
        }
    }

    #[test]
    fn what_the_kernel_reads_by_itself_is_not_called_nothing() {
        let summary = Summary {
            totals: Totals { files_made: 1, bytes_written: 3 << 20, bytes_read: 0, direct: true },
            observed: &Observed::new(),
            head_room: ByteSize(0),
            lost: None,
            wall: Duration::from_secs(3),
        };
        let said = summary.to_string();
        let expected = "1 file made in 3.0 s; files grew by 3 MiB (1 MiB/s), other writing and reading is not counted";
        assert_eq!(said.lines().next(), Some(expected));
    }

    #[test]
    fn long_runs_are_told_in_minutes() {
        assert_eq!(seconds(Duration::from_secs(125)), "2 min 05 s");
    }
}
