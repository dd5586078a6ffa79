//! The status as people read it: whole, or in rows that a terminal has room for.

use std::fmt;

use tidefs_model::ByteSize;

use crate::view::{DecisionView, LimitsView, NodeView, ShareView, StatusView};

/// What the store in one process calls itself.
const EMBEDDED: &str = "embedded";
/// Under the text that stands behind a word such as `decision`.
const BEHIND_WORDS: usize = 11;

impl fmt::Display for StatusView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(usize::MAX))
    }
}

impl fmt::Display for LimitsView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitsView { nodes_min, nodes_max, policy } = self;
        write!(f, "{nodes_min} to {nodes_max} nodes, policy {policy}")
    }
}

impl StatusView {
    /// In rows of at most so many columns: what is wider goes on in the next row.
    pub fn text(&self, columns: usize) -> String {
        let mut text = Text { rows: String::new(), columns };
        text.line(format!("store      {}, epoch {}", self.store, self.epoch));
        if let Some(server) = &self.server {
            text.part("server", &server.said);
            server.warning.iter().for_each(|warning| text.part("", warning));
        }
        for mount in &self.mounts {
            text.line(format!("mount      {}", mount.display()));
        }
        for host in self.own_host.iter().chain(&self.hosts) {
            text.line(format!("host       {host}"));
        }
        for absent in &self.absent_hosts {
            text.line(format!("host       {absent}"));
        }
        for provided in &self.provided_hosts {
            text.line(format!("provided   {provided}"));
        }
        if let Some(pause) = &self.provision_pause {
            text.line(format!("provided   {pause}"));
        }
        if let Some(limits) = self.limits.as_ref().filter(|_| self.nodes_may_change) {
            text.line(format!("limits     {limits}"));
        }
        if let Some(metrics) = &self.metrics {
            text.line(format!("metrics    {metrics}"));
        }
        if let Some(joining) = &self.joining {
            text.part("join at", &joining.to_string());
        }
        self.notes.iter().for_each(|note| text.part("note", note));
        text.line(String::new());
        self.nodes(&mut text);
        for lost in &self.lost_nodes {
            text.part("lost", &format!("{lost}{}", lost.advice()));
        }
        if let Some(under_way) = &self.reconfiguration {
            text.part("under way", &under_way.to_string());
            text.line(format!("{:BEHIND_WORDS$}because: {}", "", under_way.reason));
        }
        if let Some(recovery) = &self.recovery {
            text.part("recovery", &recovery.to_string());
        }
        match &self.last_decision {
            Some(DecisionView { what, why, .. }) => {
                text.part("decision", &format!("{what}: {why}"));
            }
            None if self.store == EMBEDDED => {}
            None => text.part("decision", "none yet: the nodes have not all been looked at"),
        }
        text.rows
    }

    /// One table where it is not too wide, else what nodes hold and what they do in two.
    fn nodes(&self, text: &mut Text) {
        let width = self.nodes.iter().map(|node| node.endpoint.len()).max().unwrap_or(0).max(8);
        let number = |(at, node): (usize, &NodeView)| match node.number {
            0 => format!("{:<4}", at + 1),
            number => format!("{number:<4}"),
        };
        let numbers = self.nodes.iter().enumerate().map(number);
        let holding = self.nodes.iter().map(|node| node.holding(width));
        let doing = self.nodes.iter().map(NodeView::doing);
        let rows: Vec<_> = numbers.zip(holding).zip(doing).collect();
        let head = format!("node{}", holding_row(width, HOLDING));
        let wide = |((number, holding), doing): &((String, String), Option<String>)| {
            format!("{number}{holding}{}", doing.as_deref().unwrap_or_default())
        };
        let watched = rows.iter().any(|(_, doing)| doing.is_some());
        let fits = rows.iter().all(|row| wide(row).chars().count() <= text.columns);
        if fits {
            text.line(format!("{head}{}", if watched { DOING } else { "" }));
            return rows.iter().for_each(|row| text.line(wide(row)));
        }
        text.line(head);
        rows.iter().for_each(|((number, holding), _)| text.line(format!("{number}{holding}")));
        if watched {
            text.line(format!("\nnode{DOING}"));
            for ((number, _), doing) in &rows {
                doing.iter().for_each(|doing| text.line(format!("{number}{doing}")));
            }
        }
    }
}

/// Over [`NodeView::holding`].
const HOLDING: [&str; 6] = ["endpoint", "class", "state", "used", "capacity", "partitions"];
/// Over [`NodeView::doing`].
const DOING: &str = "   bandwidth    received        sent  share";

fn holding_row(width: usize, words: [&str; 6]) -> String {
    let [endpoint, class, state, used, capacity, partitions] = words;
    let memory = format!("{used:>9} of {capacity:<10}");
    format!("  {endpoint:width$}  {class:<6}  {state:<11}  {memory}  {partitions:>10}")
}

impl NodeView {
    /// How it is and what it holds.
    fn holding(&self, width: usize) -> String {
        let used = ByteSize(self.memory_used_bytes).to_string();
        let capacity = ByteSize(self.memory_capacity_bytes).to_string();
        let partitions = self.partitions.to_string();
        let NodeView { endpoint, class, state, .. } = self;
        holding_row(width, [endpoint, class, state, &used, &capacity, &partitions])
    }

    /// Its link, its traffic and its share; `None` where nobody watches.
    fn doing(&self) -> Option<String> {
        let ShareView { percent, reason } = self.share.as_ref()?;
        let said =
            |rate: Option<u64>| rate.map_or("-".to_owned(), |rate| format!("{}/s", ByteSize(rate)));
        let link = said(self.bandwidth_bytes_per_second);
        let received = said(self.received_bytes_per_second);
        let sent = said(self.sent_bytes_per_second);
        Some(format!("  {link:>10}  {received:>10}  {sent:>10}  {percent:.1} % by {reason}"))
    }
}

struct Text {
    rows: String,
    columns: usize,
}

impl Text {
    /// What is said after a free line, behind a word.
    fn part(&mut self, word: &str, said: &str) {
        self.line(format!("\n{word:<BEHIND_WORDS$}{said}"));
    }

    /// Ends a line, and begins a row where a word would not fit. Rows that go on are indented.
    fn line(&mut self, said: String) {
        for line in said.split('\n') {
            let mut taken = 0;
            for word in line.split_inclusive(' ') {
                let width = word.trim_end().chars().count();
                if taken + width > self.columns && taken > BEHIND_WORDS {
                    self.rows.truncate(self.rows.trim_end_matches(' ').len());
                    self.rows.push_str(&format!("\n{:BEHIND_WORDS$}", ""));
                    taken = BEHIND_WORDS;
                }
                self.rows.push_str(word);
                taken += word.chars().count();
            }
            self.rows.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_view::HostView;
    use crate::joining_view::JoiningView;
    use crate::metrics_view::MetricsView;
    use crate::progress_view::ReconfigurationView;

    fn node(number: usize) -> NodeView {
        let reason = "memory: 1016 MiB of 3.9 GiB, of 25 % on own nodes".to_owned();
        NodeView {
            number,
            id: "ab".repeat(20),
            class: "victim".to_owned(),
            endpoint: format!("127.0.0.1:4100{number}"),
            state: "unreachable".to_owned(),
            memory_used_bytes: 1015 << 20,
            memory_capacity_bytes: 1016 << 20,
            partitions: 16_384,
            keys: 7,
            bandwidth_bytes_per_second: None,
            received_bytes_per_second: Some(1001 << 20),
            sent_bytes_per_second: Some(999 << 20),
            received_bytes: None,
            sent_bytes: None,
            share: Some(ShareView { percent: 25.1, reason }),
        }
    }

    fn busy() -> StatusView {
        let decision = DecisionView {
            what: "grow by 2".to_owned(),
            why:
                "a writer met node 4 (127.0.0.1:41004) full (3.7 GiB of 3.9 GiB = 95.3 % in use on \
                  4 of 1..16 nodes, the fullest at 99.4 %)"
                    .to_owned(),
            when: 0,
        };
        let under_way = ReconfigurationView {
            kind: "commission".to_owned(),
            reason: format!("{}: {}", decision.what, decision.why),
            nodes_before: 4,
            phase: "moving partitions".to_owned(),
            bytes_moved: 13 << 20,
            bytes_planned: 126 << 20,
            bytes_per_second: Some(101 << 20),
            seconds_left: Some(12.4),
            ..ReconfigurationView::default()
        };
        let joining = JoiningView {
            address: "10.0.0.1:4100".parse().unwrap(),
            join_secret_file: Some("/var/tmp/tidefs-0/up/join-secret".into()),
            lend_secret_file: Some("/var/tmp/tidefs-0/up/lend-secret".into()),
            host: None,
        };
        StatusView {
            epoch: 7,
            partitions: 16_384,
            store: "valkey 9.1.2".to_owned(),
            server: None,
            nodes: vec![node(1), node(2)],
            mounts: vec!["/home/me/tide".into()],
            reconfiguration: Some(under_way),
            recovery: None,
            last_decision: Some(decision),
            nodes_may_change: true,
            limits: Some(LimitsView { nodes_min: 2, nodes_max: 8, policy: "nso+asi".to_owned() }),
            lost_nodes: Vec::new(),
            metrics: None,
            joining: Some(joining),
            own_host: None,
            hosts: Vec::new(),
            absent_hosts: Vec::new(),
            provided_hosts: Vec::new(),
            provision_pause: None,
            commands: Vec::new(),
            passes_through: false,
            notes: Vec::new(),
        }
    }

    #[test]
    fn usual_terminals_show_all_of_it() {
        for columns in [79, 99, 200] {
            let text = busy().text(columns);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns), "{columns} columns:\n{text}");
            let words: Vec<_> = text.split_whitespace().collect();
            let said = words.join(" ");
            for part in [
                "1015 MiB of 1016 MiB 16384",
                "- 1001 MiB/s 999 MiB/s 25.1 % by memory: 1016 MiB of 3.9 GiB, of 25 % on own nodes",
                "under way commission from 4 nodes: moving partitions, 12 s left, 13 MiB of 126 MiB \
                 moved at 101 MiB/s",
                "because: grow by 2: a writer met node 4 (127.0.0.1:41004) full (3.7 GiB of 3.9 GiB = \
                 95.3 % in use on 4 of 1..16 nodes, the fullest at 99.4 %)",
                "decision grow by 2: a writer met",
                "limits 2 to 8 nodes, policy nso+asi",
                "join at 10.0.0.1:4100: hosts with the secret in /var/tmp/tidefs-0/up/join-secret, lenders \
                 with that in /var/tmp/tidefs-0/up/lend-secret",
            ] {
                assert!(said.contains(part), "no {part:?} in {columns} columns:\n{text}");
            }
        }
    }

    #[test]
    fn files_of_secrets_are_named_with_their_host_where_that_is_another_one() {
        let name = "n1".to_owned();
        let own_host = Some(HostView {
            name,
            address: [10, 0, 0, 1].into(),
            mounts: 1,
            clock_ahead_seconds: None,
            has_file_system: true,
        });
        let metrics = Some(MetricsView {
            url: "http://10.0.0.1:9/metrics".to_owned(),
            page: "http://10.0.0.1:9/".to_owned(),
            token_file: "/var/tmp/tidefs-0/up/token".into(),
            page_token_file: "/var/tmp/tidefs-0/up/page-token".into(),
            host: None,
        });
        let here = StatusView { own_host, metrics, ..busy() };
        assert!(!here.to_string().contains("on n1"));
        let there = here.on_another_host(vec!["/mnt/there".into()]);
        assert_eq!(there.mounts, [std::path::PathBuf::from("/mnt/there")]);
        let said = there.to_string();
        for part in ["up/lend-secret, on n1", "up/page-token, on n1"] {
            assert!(said.contains(part), "no {part:?} in\n{said}");
        }
        let own_host = None;
        let adopted = StatusView { own_host, ..busy() }.on_another_host(Vec::new());
        assert_eq!(adopted.joining, busy().joining);
    }

    #[test]
    fn there_is_one_table_where_it_fits() {
        assert_eq!(busy().to_string().matches("\nnode ").count(), 1);
        assert_eq!(busy().text(100).matches("\nnode ").count(), 2);
    }

    #[test]
    fn a_row_that_goes_on_stands_under_its_text() {
        let mut text = Text { rows: String::new(), columns: 24 };
        text.part("decision", "hold: the policy is static");
        assert_eq!(text.rows, "\ndecision   hold: the\n           policy is\n           static\n");
    }
}
