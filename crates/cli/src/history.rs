//! What a run's report needs of the time while it ran: rows of the timeline, the decisions, and how
//! long requests took while nodes came and went.
//!
//! It is bounded: a full timeline loses every second row and is continued half as densely.

use std::time::Instant;

use tidefs_fuse::Requests;
use tidefs_manager::ReportedReconfiguration;
use tidefs_report::{Decision, LeftOut, NodeUsage, Row};
use tidefs_store::Overview;

use crate::nodes::ManagerView;

const ROWS_MAX: usize = 4_000;
const DECISIONS_MAX: usize = 2_000;
const STALLS_MAX: usize = 10_000;

/// Grows from look to look.
#[derive(Debug)]
pub struct History {
    started: Instant,
    rows: Vec<Row>,
    looks: u64,
    /// One of so many looks becomes a row.
    every: u64,
    decisions: Vec<Decision>,
    /// The kind of the last one.
    last: Option<String>,
    /// The reconfiguration that was seen last, and the requests until then.
    before: Option<(u64, Requests)>,
    /// At the last look.
    looked: Option<Instant>,
    requests: Requests,
    stalls: Vec<Stall>,
    /// So many of those that are over have been looked at.
    known: usize,
    forgotten: u64,
    decisions_left_out: u64,
    stalls_left_out: u64,
    finished: LeftOutByManagers,
}

/// The requests while a reconfiguration was under way: those that ended meanwhile, and slow ones that
/// began meanwhile and ended later.
#[derive(Clone, Debug)]
struct Stall {
    /// When the reconfiguration began, which no other did.
    of: u64,
    /// At this look it was over.
    until: Instant,
    requests: Requests,
}

/// Reconfigurations that managers no longer remembered when they were asked.
#[derive(Clone, Copy, Debug, Default)]
struct LeftOutByManagers {
    /// Of managers that have ended.
    before: u64,
    /// Of the one that was seen last; it only grows.
    last: u64,
}

impl LeftOutByManagers {
    fn saw(&mut self, count: u64) {
        if count < self.last {
            self.before += self.last;
        }
        self.last = count;
    }
}

impl History {
    pub fn new(started: Instant) -> History {
        History {
            started,
            rows: Vec::new(),
            looks: 0,
            every: 1,
            decisions: Vec::new(),
            last: None,
            before: None,
            looked: None,
            requests: Requests::default(),
            known: 0,
            stalls: Vec::new(),
            forgotten: 0,
            decisions_left_out: 0,
            stalls_left_out: 0,
            finished: LeftOutByManagers::default(),
        }
    }

    fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    pub fn saw_nodes(&mut self, overview: &Overview) {
        if self.looks.is_multiple_of(self.every) {
            if self.rows.len() >= ROWS_MAX {
                let mut keep = false;
                self.rows.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.every *= 2;
            }
            self.rows.push(row(self.now(), overview));
        }
        self.looks += 1;
    }

    /// How the manager is, what is over, and the requests until now.
    pub fn saw_manager(
        &mut self,
        seen: &ManagerView,
        finished: &[ReportedReconfiguration],
        requests: &Requests,
        now: Instant,
    ) {
        self.saw_decision(seen);
        self.finished.saw(seen.finished_left_out);
        self.saw_slow(requests, now);
        let under_way = seen.reconfiguration.as_ref().map(|it| it.started_unix_ns);
        if self.before.as_ref().map(|(of, _)| *of) != under_way {
            if let Some((of, before)) = self.before.take() {
                self.stalled(Stall { of, until: now, requests: requests.since(&before) });
            }
            // It began after the last look, and requests may have waited for it since.
            self.before = under_way.map(|of| (of, self.requests.clone()));
        }
        for over in finished.iter().skip(self.known) {
            let of = over.started_unix_ns;
            // It came and went between two looks.
            if self.stall(of).is_none() && self.stalls.len() < STALLS_MAX {
                let between = requests.since(&self.requests);
                self.stalled(Stall { of, until: now, requests: between });
            }
        }
        self.known = finished.len();
        self.requests.clone_from(requests);
        self.looked = Some(now);
    }

    /// Slow requests that ended since the last look belong to what they began in, too.
    fn saw_slow(&mut self, requests: &Requests, now: Instant) {
        let is_new = |ended| ended <= now && self.looked.is_none_or(|looked| ended > looked);
        for slow in requests.slow.iter().filter(|slow| is_new(slow.ended)) {
            let over = self.stalls.iter_mut().rev();
            // Those before ended sooner still.
            for stall in over.take_while(|stall| slow.begun < stall.until) {
                stall.requests.add(slow.ended - slow.begun);
            }
        }
    }

    fn saw_decision(&mut self, seen: &ManagerView) {
        if let Some(decision) = &seen.last_decision
            && self.last.as_ref() != Some(&seen.decision_kind)
        {
            self.last = Some(seen.decision_kind.clone());
            if self.decisions.len() < DECISIONS_MAX {
                let (what, why) = (decision.what.clone(), decision.why.clone());
                self.decisions.push(Decision { t: self.now(), what, why });
            } else {
                self.decisions_left_out += 1;
            }
        }
    }

    /// So many reconfigurations were told of and not kept by whoever has the manager.
    pub fn forgot(&mut self, reconfigurations: u64) {
        self.forgotten = reconfigurations;
    }

    /// A manager that was killed meanwhile is not seen for a while, so one reconfiguration may come to
    /// an end several times.
    fn stalled(&mut self, stall: Stall) {
        let is_full = self.stalls.len() >= STALLS_MAX;
        match self.stalls.iter_mut().rfind(|known| known.of == stall.of) {
            Some(known) => {
                known.requests = std::mem::take(&mut known.requests).and(&stall.requests);
                known.until = stall.until;
            }
            None if is_full => self.stalls_left_out += 1,
            None => self.stalls.push(stall),
        }
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// How many were not kept, because there were too many.
    pub fn left_out(&self) -> LeftOut {
        LeftOut {
            reconfigurations: self.finished.before + self.finished.last + self.forgotten,
            decisions: self.decisions_left_out,
            stalls: self.stalls_left_out,
        }
    }

    /// The requests while each reconfiguration was under way.
    pub fn stalls(&self) -> impl Iterator<Item = &Requests> {
        self.stalls.iter().map(|stall| &stall.requests)
    }

    /// The requests while the reconfiguration that began then was under way; `None` where that was not
    /// seen, or is not kept.
    pub fn stall(&self, started_unix_ns: u64) -> Option<&Requests> {
        let of_it = |stall: &&Stall| stall.of == started_unix_ns;
        self.stalls.iter().rfind(of_it).map(|stall| &stall.requests)
    }
}

fn row(t: f64, overview: &Overview) -> Row {
    let available = || overview.nodes.iter().filter(|node| node.available);
    let usage = |node: &tidefs_store::NodeOverview| NodeUsage {
        id: node.id.clone(),
        used_bytes: node.memory_used_bytes,
        capacity_bytes: node.memory_capacity_bytes,
    };
    Row {
        t,
        used_bytes: available().map(|node| node.memory_used_bytes).sum(),
        allocated_bytes: available().map(|node| node.memory_capacity_bytes).sum(),
        nodes: available().count() as u32,
        per_node: available().map(usage).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::progress_view::ReconfigurationView;
    use tidefs_fuse::Slow;
    use tidefs_model::Epoch;

    /// So many have failed until now.
    fn failed(count: u64) -> Requests {
        let mut requests = Requests::default();
        requests.failed = count;
        requests
    }

    fn under_way(started_unix_ns: u64) -> ManagerView {
        let view = ReconfigurationView { started_unix_ns, ..ReconfigurationView::default() };
        ManagerView { reconfiguration: Some(view), ..ManagerView::default() }
    }

    #[test]
    fn stalls_of_two_reconfigurations_one_right_after_the_other_are_told_apart() {
        let mut history = History::new(Instant::now());
        let mut saw = |view, count| history.saw_manager(&view, &[], &failed(count), Instant::now());
        saw(ManagerView::default(), 9);
        saw(under_way(1), 10);
        saw(under_way(1), 12);
        saw(under_way(2), 15);
        // The manager is killed, and its successor goes on with it.
        saw(ManagerView::default(), 22);
        saw(under_way(2), 30);
        saw(ManagerView::default(), 31);
        let counts = |of| history.stall(of).map(|requests| requests.failed);
        // From the last look before each was seen: whoever waited for its first moments ended since.
        assert_eq!((counts(1), counts(2), counts(3)), (Some(6), Some(19), None));
    }

    #[test]
    fn what_came_and_went_between_two_looks_has_the_requests_between_them() {
        let mut history = History::new(Instant::now());
        let one =
            |started_unix_ns| ReportedReconfiguration { started_unix_ns, ..Default::default() };
        let over = [one(1), one(2), one(3)];
        let idle = ManagerView::default();
        history.saw_manager(&idle, &[], &failed(1), Instant::now());
        history.saw_manager(&idle, &over[..2], &failed(5), Instant::now());
        history.saw_manager(&under_way(3), &over[..2], &failed(6), Instant::now());
        history.saw_manager(&idle, &over, &failed(8), Instant::now());
        let counts = |of| history.stall(of).map(|requests| requests.failed);
        assert_eq!((counts(1), counts(2), counts(3)), (Some(4), Some(4), Some(3)));
    }

    #[test]
    fn a_request_that_ends_later_belongs_to_what_it_began_in() {
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        let mut history = History::new(begun);
        let none = Requests::default();
        history.saw_manager(&under_way(1), &[], &none, at(100));
        history.saw_manager(&ManagerView::default(), &[], &none, at(200));
        let mut later = Requests::default();
        let slow = |begun, ended| Slow { begun: at(begun), ended: at(ended) };
        later.slow = vec![slow(90, 150), slow(150, 900), slow(300, 950)];
        for look in [1_000, 1_100] {
            history.saw_manager(&ManagerView::default(), &[], &later, at(look));
        }
        let stall = history.stall(1).expect("seen");
        let longest = stall.quantile(1.0).expect("one");
        assert_eq!(stall.total(), 1, "the first is counted, the last began when all was over");
        assert!((750..850).contains(&longest.as_millis()), "{longest:?}");
    }

    #[test]
    fn what_is_not_kept_is_counted() {
        let mut history = History::new(Instant::now());
        assert_eq!(history.left_out(), LeftOut::default());
        for at in 0..DECISIONS_MAX + 3 {
            let decision = crate::view::DecisionView {
                what: "hold".to_owned(),
                why: String::new(),
                when: at as u64,
            };
            let view = ManagerView {
                last_decision: Some(decision),
                decision_kind: at.to_string(),
                finished_left_out: [4, 6, 1][at.min(2)],
                ..under_way(at as u64)
            };
            history.saw_manager(&view, &[], &Requests::default(), Instant::now());
        }
        history.forgot(5);
        let left_out = LeftOut { reconfigurations: 12, decisions: 3, stalls: 0 };
        assert_eq!((history.decisions().len(), history.left_out()), (DECISIONS_MAX, left_out));
    }

    #[test]
    fn a_long_timeline_stays_bounded_and_reaches_from_the_first_to_the_last_look() {
        let overview =
            Overview { store: "embedded".to_owned(), epoch: Epoch(1), nodes: Vec::new() };
        let mut history = History::new(Instant::now());
        for _ in 0..5 * ROWS_MAX {
            history.saw_nodes(&overview);
        }
        assert!((ROWS_MAX / 2..=ROWS_MAX).contains(&history.rows().len()));
        assert!(history.rows().is_sorted_by(|one, next| one.t <= next.t));
    }
}
