//! What is on screens of several sizes.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tidefs_model::{Epoch, NodeClass};
use tidefs_store::{NodeOverview, Overview};

use super::*;
use crate::view::LimitsView;

const MIB: u64 = 1 << 20;

fn status(nodes: u64) -> StatusView {
    let node = |number: u64| NodeOverview {
        id: format!("{number:040x}"),
        class: NodeClass::Own,
        endpoint: format!("127.0.0.1:{}", 31_000 + number),
        available: number != 2,
        memory_used_bytes: number * 10 * MIB,
        memory_capacity_bytes: 100 * MIB,
        partitions: 16_384 / nodes as u16,
        keys: 7,
    };
    let nodes = (1..=nodes).map(node).collect();
    let overview = Overview { store: "valkey 9.1.2".to_owned(), epoch: Epoch(1), nodes };
    let mut view = StatusView::new(&overview, vec!["/home/me/tide".into()], &[], None);
    view.nodes_may_change = true;
    view.limits = Some(LimitsView { nodes_min: 1, nodes_max: 64, policy: "nso+asi".to_owned() });
    let why = "the fullest node is at 71.3 %, above the 70 % of the policy, and that since 5 s"
        .to_owned();
    view.last_decision = Some(DecisionView { what: "grow by 1".to_owned(), why, when: 1 });
    for node in &mut view.nodes {
        node.received_bytes_per_second = Some(node.memory_used_bytes * (node.number as u64 % 3));
        node.sent_bytes_per_second = Some(1023 * MIB);
    }
    view
}

/// The rows of a screen, without what is blank on the right.
fn screen(shown: &mut Shown, columns: u16, rows: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| shown.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row =
        |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..rows).map(row).collect()
}

#[test]
fn a_usual_terminal_has_all() {
    let rows = screen(&mut Shown::new(status(3), true), 80, 24);
    assert_eq!(rows[0], "tidefs /home/me/tide valkey 9.1.2");
    assert!(
        rows[1].starts_with("60 MiB of 300 MiB used, 20%; 3 nodes of 1..64, nso+asi; in "),
        "{rows:#?}"
    );
    assert!(rows[5..].iter().any(|row| row.contains('▂') || row.contains('█')), "{rows:#?}");
    let head = rows.iter().position(|row| row.starts_with("Node Endpoint")).expect("a table");
    assert_eq!(
        rows[head + 3].split_whitespace().collect::<Vec<_>>(),
        [
            "3",
            "127.0.0.1:31003",
            "up",
            "██░░░░░░",
            "30%",
            "30",
            "MiB",
            "5461",
            "0",
            "B/s",
            "1023",
            "MiB/s"
        ]
    );
    assert!(rows[head + 2].contains("unreach"), "{rows:#?}");
    let said = rows.join(" ");
    assert!(said.contains("decision: grow by 1: the fullest node is at 71.3 %"), "{rows:#?}");
    assert!(said.contains("that since 5 s"), "the reason is cut: {rows:#?}");
    assert_eq!(rows[23], "q quit  p pause  b nodes or commands  s sort by number");
}

#[test]
fn a_small_terminal_has_what_matters() {
    let rows = screen(&mut Shown::new(status(9), true), 40, 12);
    assert!(rows[1].starts_with("450 MiB of 900 MiB used, 50%, 9 nodes"), "{rows:#?}");
    let head = rows.iter().position(|row| row.starts_with("Node State")).expect("a table");
    assert_eq!(
        rows[head + 1].split_whitespace().collect::<Vec<_>>(),
        ["1", "up", "█░░░░░░░░░", "10%", "10", "MiB"]
    );
    assert!(rows.iter().any(|row| row.starts_with("decision: grow by 1")), "{rows:#?}");
    assert!(rows[11].starts_with("q quit p pause s sort number +"), "{rows:#?}");
}

#[test]
fn no_size_is_too_small() {
    for (columns, rows) in [(1, 1), (5, 3), (20, 5), (200, 60), (76, 12), (75, 12)] {
        for nodes in [1, 64] {
            screen(&mut Shown::new(status(nodes), false), columns, rows);
        }
    }
}

#[test]
fn terminals_without_blocks_have_letters() {
    let rows = screen(&mut Shown::new(status(3), false), 80, 24);
    assert!(rows.iter().all(|row| row.is_ascii()), "{rows:#?}");
    assert!(rows.iter().any(|row| row.contains("##......")), "{rows:#?}");
}

#[test]
fn keys_sort_scroll_pause_and_quit() {
    let mut shown = Shown::new(status(9), true);
    let first = |shown: &mut Shown| {
        let rows = screen(shown, 40, 12);
        let head = rows.iter().position(|row| row.starts_with("Node State")).unwrap();
        rows[head + 1].split_whitespace().next().unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(first(&mut shown), 1);
    assert!(shown.press(Key::Down).is_continue());
    assert_eq!(first(&mut shown), 2);
    assert!(shown.press(Key::PageDown).is_continue());
    let last = first(&mut shown);
    for _ in 0..20 {
        assert!(shown.press(Key::PageDown).is_continue());
    }
    let end = first(&mut shown);
    assert!(last > 2 && end > last && end < 9, "{last} {end}");
    assert!(shown.press(Key::Up).is_continue());
    assert_eq!(first(&mut shown), end - 1, "behind the end nothing has to be gone back");
    while first(&mut shown) > 1 {
        assert!(shown.press(Key::PageUp).is_continue());
    }
    assert!(shown.press(Key::Sort).is_continue());
    assert_eq!(first(&mut shown), 9, "the fullest");
    assert!(shown.press(Key::Sort).is_continue());
    assert_eq!(first(&mut shown), 8, "the busiest");
    assert!(shown.press(Key::Pause).is_continue() && shown.is_paused());
    assert!(screen(&mut shown, 80, 24)[0].contains("[paused]"));
    assert!(shown.press(Key::Pause).is_continue() && !shown.is_paused());
    assert!(shown.press(Key::Quit).is_break());
}

#[test]
fn memory_of_the_last_minutes_moves_to_the_left() {
    let mut shown = Shown::new(status(1), true);
    for _ in 0..HISTORY_MOST + 5 {
        shown.saw(status(9));
    }
    assert_eq!(shown.history.len(), HISTORY_MOST);
    let rows = screen(&mut shown, 80, 24);
    // Eight looks in each column, and none of the first ones any more.
    assert!(rows[2..6].iter().any(|row| row.trim_start() == "█".repeat(75)), "{rows:#?}");
}

#[test]
fn all_that_is_kept_is_seen_with_its_peaks() {
    let history: VecDeque<u64> = (0..600).map(|at| if at == 123 { 9 } else { at % 2 }).collect();
    let values = folded(&history, 80);
    assert_eq!((values.len(), values.iter().filter(|it| **it == 9).count()), (80, 1));
    assert_eq!(folded(&VecDeque::from([1, 2]), 4), [0, 0, 1, 2]);
    assert!(folded(&VecDeque::from([1]), 0).is_empty());
}

#[test]
fn an_address_is_whole_where_there_is_room() {
    let mut view = status(2);
    view.nodes[1].endpoint = "10.100.200.201:31001".to_owned();
    view.nodes[0].memory_capacity_bytes = 0;
    for columns in [90, 200] {
        let rows = screen(&mut Shown::new(view.clone(), true), columns, 24);
        assert!(rows.iter().any(|row| row.contains("10.100.200.201:31001 ")), "{rows:#?}");
        assert!(rows.iter().any(|row| row.starts_with("1 ") && row.contains(" 0% ")), "{rows:#?}");
    }
}

fn with_commands(dd_written: u64) -> StatusView {
    let one = |command: &str, calls, bytes_read, bytes_written| tidefs_report::CommandUse {
        command: command.to_owned(),
        calls,
        bytes_read,
        bytes_written,
    };
    let mut status = status(1);
    status.commands = vec![one("blastall", 7, 900 * MIB, 0), one("dd", 90, 0, dd_written)];
    status
}

#[test]
fn commands_come_in_place_of_nodes_with_their_bytes_and_rates() {
    let mut shown = Shown::new(with_commands(0), true).by(By::Command);
    shown.saw(with_commands(30 * MIB));
    let rows = screen(&mut shown, 80, 24);
    let head = rows.iter().position(|row| row.starts_with("Command")).expect("a table");
    assert_eq!(
        rows[head].split_whitespace().collect::<Vec<_>>(),
        ["Command", "Calls", "Read", "Written", "Read/s", "Written/s"]
    );
    assert!(rows[head + 1].starts_with("blastall        7          900 MiB"), "{rows:#?}");
    // No second has passed between the looks: a tenth is taken at least.
    assert!(rows[head + 2].trim_end().ends_with("/s"), "{rows:#?}");
    assert!(rows[23].ends_with("s sort by bytes"), "{rows:#?}");
    assert!(shown.press(Key::Sort).is_continue());
    let rows = screen(&mut shown, 40, 12);
    let head = rows.iter().position(|row| row.starts_with("Command")).expect("a table");
    assert_eq!(
        rows[head + 1].split_whitespace().collect::<Vec<_>>(),
        ["dd", "0", "B", "30", "MiB"]
    );
    assert!(shown.press(Key::By).is_continue());
    assert!(screen(&mut shown, 80, 24).iter().any(|row| row.starts_with("Node Endpoint")));
}

#[test]
fn bytes_of_which_not_all_are_seen_are_called_so() {
    let mut status = with_commands(MIB);
    status.passes_through = true;
    let rows = screen(&mut Shown::new(status, true).by(By::Command), 80, 24);
    assert!(rows.iter().any(|row| row.contains("Read seen") && row.contains("Grown")), "{rows:#?}");
}
