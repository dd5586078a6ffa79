//! What `top` shows, on a screen of any size: totals, memory over the last minutes, a row for each node, and what the
//! manager does and why. In place of nodes there may be the commands that read and write.

mod commands;

use std::collections::VecDeque;
use std::ops::ControlFlow;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::bar;
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, Wrap};
use tidefs_control::count_of_nodes;
use tidefs_model::ByteSize;

use crate::arguments::running::By;
use crate::view::{DecisionView, NodeView, StatusView};
use commands::Commands;

/// Looks that are kept, one a second.
const HISTORY_MOST: usize = 600;
/// A screen this wide has room for all that is known of a node.
const WIDE: u16 = 80;
/// A node is called full from here on, since little is left for what grows in place.
const FULL: f64 = 0.95;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Quit,
    Pause,
    /// Nodes, or commands.
    By,
    Sort,
    Up,
    Down,
    PageUp,
    PageDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Number,
    Fullest,
    Busiest,
}

pub struct Shown {
    status: StatusView,
    /// Memory used, in bytes.
    history: VecDeque<u64>,
    by: By,
    order: Order,
    commands: Commands,
    /// Nodes above the first that is shown.
    above: usize,
    /// Nodes that there was room for.
    room: usize,
    is_paused: bool,
    blocks: bool,
}

impl Shown {
    /// `blocks`: the terminal has them.
    pub fn new(status: StatusView, blocks: bool) -> Shown {
        let history = VecDeque::from([used(&status)]);
        let (order, commands) = (Order::Number, Commands::new(&status));
        let by = By::Node;
        Shown { status, history, by, order, commands, above: 0, room: 1, is_paused: false, blocks }
    }

    pub fn by(self, by: By) -> Shown {
        Shown { by, ..self }
    }

    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub fn saw(&mut self, status: StatusView) {
        if self.history.len() == HISTORY_MOST {
            self.history.pop_front();
        }
        self.history.push_back(used(&status));
        self.commands.saw(&status);
        self.status = status;
    }

    pub fn press(&mut self, key: Key) -> ControlFlow<()> {
        match key {
            Key::Quit => return ControlFlow::Break(()),
            Key::Pause => self.is_paused = !self.is_paused,
            Key::By => {
                self.by = if self.by == By::Node { By::Command } else { By::Node };
                self.above = 0;
            }
            Key::Sort if self.by == By::Command => self.commands.sort(),
            Key::Sort => {
                self.order = match self.order {
                    Order::Number => Order::Fullest,
                    Order::Fullest => Order::Busiest,
                    Order::Busiest => Order::Number,
                };
            }
            Key::Up => self.above = self.above.saturating_sub(1),
            Key::Down => self.above += 1,
            Key::PageUp => self.above = self.above.saturating_sub(self.room),
            Key::PageDown => self.above += self.room,
        }
        ControlFlow::Continue(())
    }

    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let (news, wide) = (self.news(), area.width >= WIDE);
        let news_rows = news.iter().map(|it| rows_of(it, area.width)).fold(0, u16::saturating_add);
        let news_rows = news_rows.min((area.height / 4).max(1));
        let news: Vec<_> = news.into_iter().map(Line::raw).collect();
        let history_rows = (area.height / 6).clamp(1, 4);
        let [title, totals, history, nodes, words, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(history_rows),
            Constraint::Min(2),
            Constraint::Length(news_rows),
            Constraint::Length(1),
        ])
        .areas(area);
        frame.render_widget(Line::styled(self.title(), Modifier::BOLD), title);
        frame.render_widget(Line::raw(self.totals(wide)), totals);
        self.draw_history(frame, history);
        match self.by {
            By::Node => self.draw_nodes(frame, nodes, wide),
            By::Command => self.draw_commands(frame, nodes, wide),
        }
        frame.render_widget(Paragraph::new(news).wrap(Wrap { trim: true }), words);
        frame.render_widget(Line::styled(self.keys(wide), Modifier::DIM), keys);
    }

    fn title(&self) -> String {
        let paused = if self.is_paused { " [paused]" } else { "" };
        let mount = self.status.mounts.first().map(|it| it.display().to_string());
        format!(
            "tidefs{paused} {} {}",
            mount.as_deref().unwrap_or("without a mount"),
            self.status.store
        )
    }

    fn totals(&self, wide: bool) -> String {
        let StatusView { nodes, limits, .. } = &self.status;
        let (used, capacity) = (used(&self.status), capacity(&self.status));
        let memory = format!(
            "{} of {} used, {}",
            ByteSize(used),
            ByteSize(capacity),
            percent(part(used, capacity))
        );
        let count = count_of_nodes(nodes.len() as u16);
        if !wide {
            return format!("{memory}, {count}");
        }
        let limits = limits.as_ref().filter(|_| self.status.nodes_may_change);
        let limits =
            limits.map(|it| format!(" of {}..{}, {}", it.nodes_min, it.nodes_max, it.policy));
        let sum =
            |rate: fn(&NodeView) -> Option<u64>| nodes.iter().filter_map(rate).reduce(|a, b| a + b);
        let (received, sent) =
            (sum(|it| it.received_bytes_per_second), sum(|it| it.sent_bytes_per_second));
        format!(
            "{memory}; {count}{}; in {}, out {}",
            limits.unwrap_or_default(),
            rate(received),
            rate(sent)
        )
    }

    /// All looks that are kept, the newest on the right, against the capacity.
    fn draw_history(&self, frame: &mut Frame<'_>, area: Rect) {
        let values = folded(&self.history, area.width.into());
        let set = if self.blocks { bar::NINE_LEVELS } else { LETTERS };
        let line =
            Sparkline::default().data(&values).max(capacity(&self.status).max(1)).bar_set(set);
        frame.render_widget(line.style(Style::new().fg(Color::Cyan)), area);
    }

    fn draw_nodes(&mut self, frame: &mut Frame<'_>, area: Rect, wide: bool) {
        self.room = usize::from(area.height.saturating_sub(1)).max(1);
        let mut nodes: Vec<&NodeView> = self.status.nodes.iter().collect();
        match self.order {
            Order::Number => {}
            Order::Fullest => nodes.sort_by(|a, b| fill(b).total_cmp(&fill(a))),
            Order::Busiest => nodes.sort_by_key(|it| std::cmp::Reverse(moved(it))),
        }
        self.above = self.above.min(nodes.len().saturating_sub(self.room));
        let shown = nodes.iter().skip(self.above).take(self.room);
        let rows: Vec<Row<'_>> = shown.map(|it| self.row(it, wide)).collect();
        let widths = |all: &[u16]| all.iter().map(|&width| Constraint::Length(width)).collect();
        let (head, mut widths): (&[&str], Vec<Constraint>) = match wide {
            true => (
                &["Node", "Endpoint", "State", "Memory", "", "", "Parts", "In", "Out"],
                widths(&[4, 15, 8, 8, 4, 8, 5, 10, 10]),
            ),
            false => (&["Node", "State", "Memory", "", ""], widths(&[4, 8, 10, 4, 8])),
        };
        if wide {
            // All that is over: addresses may be long.
            widths[1] = Constraint::Fill(1);
        }
        let head = Row::new(head.iter().copied()).style(Modifier::BOLD);
        let table = Table::new(rows, widths).header(head).column_spacing(1).block(Block::new());
        frame.render_widget(table, area);
    }

    fn draw_commands(&mut self, frame: &mut Frame<'_>, area: Rect, wide: bool) {
        self.room = usize::from(area.height.saturating_sub(1)).max(1);
        let count = self.status.commands.len();
        self.above = self.above.min(count.saturating_sub(self.room));
        let shown = self.commands.table(&self.status, (self.above, self.room), wide);
        frame.render_widget(shown, area);
    }

    fn row(&self, node: &NodeView, wide: bool) -> Row<'static> {
        let fill = fill(node);
        let colour = if fill >= FULL { Color::Red } else { Color::Cyan };
        let is_well = node.state == "up";
        let state = Style::new().fg(if is_well { Color::Reset } else { Color::Red });
        let cell = |text: String| Cell::from(text);
        let number = cell(node.number.to_string());
        let state = cell(node.state.clone()).style(state);
        let bar = |width| cell(self.bar(fill, width)).style(Style::new().fg(colour));
        let used = cell(ByteSize(node.memory_used_bytes).to_string());
        match wide {
            true => Row::new([
                number,
                cell(node.endpoint.clone()),
                state,
                bar(8),
                cell(percent(fill)),
                used,
                cell(node.partitions.to_string()),
                cell(rate(node.received_bytes_per_second)),
                cell(rate(node.sent_bytes_per_second)),
            ]),
            false => Row::new([number, state, bar(10), cell(percent(fill)), used]),
        }
    }

    fn bar(&self, part: f64, width: usize) -> String {
        let filled = (part * width as f64).round() as usize;
        let (full, empty) = if self.blocks { ("█", "░") } else { ("#", ".") };
        full.repeat(filled.min(width)) + &empty.repeat(width - filled.min(width))
    }

    /// What is under way or wrong comes first: the last rows may not be seen.
    fn news(&self) -> Vec<String> {
        let status = &self.status;
        let notes = status.notes.iter().map(|it| format!("note: {it}"));
        let lost = status.lost_nodes.iter().map(|it| format!("lost: {it}{}", it.advice()));
        let recovery = status.recovery.iter().map(|it| format!("recovery: {it}"));
        let under_way = status
            .reconfiguration
            .iter()
            .map(|it| format!("under way: {it}, because: {}", it.reason));
        let said = |it: &DecisionView| format!("decision: {}: {}", it.what, it.why);
        let decision = status.last_decision.iter().map(said);
        lost.chain(recovery).chain(under_way).chain(decision).chain(notes).collect()
    }

    fn keys(&self, wide: bool) -> String {
        let order = match (self.by, self.order) {
            (By::Command, _) => self.commands.order_name(),
            (_, Order::Number) => "number",
            (_, Order::Fullest) => "memory",
            (_, Order::Busiest) => "traffic",
        };
        let rows = match self.by {
            By::Node => self.status.nodes.len(),
            By::Command => self.status.commands.len(),
        };
        let hidden = rows.saturating_sub(self.room);
        let more = if hidden > 0 { format!(" ({hidden} more: up, down)") } else { String::new() };
        match wide {
            true => format!("q quit  p pause  b nodes or commands  s sort by {order}{more}"),
            false => format!(
                "q quit p pause s sort {order}{}",
                if hidden > 0 { format!(" +{hidden}") } else { more }
            ),
        }
    }
}

/// So many values, each the most of a stretch; with nothing on the left as long as there are fewer.
fn folded(history: &VecDeque<u64>, width: usize) -> Vec<u64> {
    let stretch = history.len().div_ceil(width.max(1)).max(1);
    // Whole stretches from the newest on, so that a peak stays in its column until it moves on.
    let newest_first: Vec<u64> = history.iter().rev().copied().collect();
    let mut values: Vec<u64> =
        newest_first.chunks(stretch).map(|all| all.iter().copied().max().unwrap_or(0)).collect();
    values.resize(width, 0);
    values.reverse();
    values
}

/// Eighths for terminals without blocks.
const LETTERS: bar::Set<'static> = bar::Set {
    full: "#",
    seven_eighths: "#",
    three_quarters: "#",
    five_eighths: "=",
    half: "=",
    three_eighths: "-",
    one_quarter: "-",
    one_eighth: ".",
    empty: " ",
};

/// Rows that a text takes whose words are not cut where they fit.
fn rows_of(text: &str, width: u16) -> u16 {
    let width = usize::from(width.max(1));
    let (mut rows, mut taken) = (1, 0);
    for length in text.split_whitespace().map(|word| word.chars().count()) {
        let with_word = taken + usize::from(taken > 0) + length;
        if with_word <= width {
            taken = with_word;
            continue;
        }
        rows += usize::from(taken > 0) + (length.max(1) - 1) / width;
        taken = (length.max(1) - 1) % width + 1;
    }
    u16::try_from(rows).unwrap_or(u16::MAX)
}

fn used(status: &StatusView) -> u64 {
    status.nodes.iter().map(|node| node.memory_used_bytes).sum()
}

fn capacity(status: &StatusView) -> u64 {
    status.nodes.iter().map(|node| node.memory_capacity_bytes).sum()
}

fn part(used: u64, capacity: u64) -> f64 {
    if capacity == 0 { 0.0 } else { used as f64 / capacity as f64 }
}

fn fill(node: &NodeView) -> f64 {
    part(node.memory_used_bytes, node.memory_capacity_bytes)
}

fn moved(node: &NodeView) -> u64 {
    node.received_bytes_per_second.unwrap_or(0) + node.sent_bytes_per_second.unwrap_or(0)
}

fn percent(part: f64) -> String {
    format!("{:.0}%", part * 100.0)
}

fn rate(bytes: Option<u64>) -> String {
    bytes.map_or("-".to_owned(), |bytes| format!("{}/s", ByteSize(bytes)))
}

#[cfg(test)]
mod tests;
