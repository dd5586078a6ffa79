//! The rows of commands: what each has read and written until now, and how fast it does.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;

use ratatui::layout::Constraint;
use ratatui::style::Modifier;
use ratatui::widgets::{Cell, Row, Table};
use tidefs_model::ByteSize;
use tidefs_report::CommandUse;

use crate::view::StatusView;

/// Bytes a second that were read and written between the last two looks.
type Rates = HashMap<String, (u64, u64)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Bytes,
    Rate,
    Calls,
    Name,
}

pub struct Commands {
    order: Order,
    before: HashMap<String, (u64, u64)>,
    looked: Instant,
    rates: Rates,
}

impl Commands {
    pub fn new(status: &StatusView) -> Commands {
        let (before, looked) = (bytes(status), Instant::now());
        Commands { order: Order::Bytes, before, looked, rates: Rates::new() }
    }

    pub fn saw(&mut self, status: &StatusView) {
        let (now, then) = (Instant::now(), self.looked);
        self.saw_after(status, now.saturating_duration_since(then).as_secs_f64());
        self.looked = now;
    }

    fn saw_after(&mut self, status: &StatusView, seconds: f64) {
        let bytes = bytes(status);
        let rate =
            |now: u64, then: u64| (now.saturating_sub(then) as f64 / seconds.max(0.1)) as u64;
        let rates = bytes.iter().map(|(command, &(read, written))| {
            let (read_before, written_before) = self.before.get(command).copied().unwrap_or((0, 0));
            (command.clone(), (rate(read, read_before), rate(written, written_before)))
        });
        self.rates = rates.collect();
        self.before = bytes;
    }

    pub fn sort(&mut self) {
        self.order = match self.order {
            Order::Bytes => Order::Rate,
            Order::Rate => Order::Calls,
            Order::Calls => Order::Name,
            Order::Name => Order::Bytes,
        };
    }

    pub fn order_name(&self) -> &'static str {
        match self.order {
            Order::Bytes => "bytes",
            Order::Rate => "rate",
            Order::Calls => "calls",
            Order::Name => "name",
        }
    }

    /// So many rows behind so many that are above them.
    pub fn table(
        &self,
        status: &StatusView,
        (above, room): (usize, usize),
        wide: bool,
    ) -> Table<'_> {
        let mut all: Vec<&CommandUse> = status.commands.iter().collect();
        match self.order {
            // As they come.
            Order::Bytes => {}
            Order::Rate => all.sort_by_key(|it| Reverse(self.rates_of(it).0 + self.rates_of(it).1)),
            Order::Calls => all.sort_by_key(|it| Reverse(it.calls)),
            Order::Name => all.sort_by(|one, other| one.command.cmp(&other.command)),
        }
        // What is read of files is not seen where the kernel reads by itself.
        let read = if status.passes_through { "Read seen" } else { "Read" };
        let written = if status.passes_through { "Grown" } else { "Written" };
        let (head, widths): (&[&str], &[u16]) = match wide {
            true => (
                &["Command", "Calls", read, written, "Read/s", "Written/s"],
                &[15, 10, 10, 10, 12, 12],
            ),
            false => (&["Command", read, written], &[15, 10, 10]),
        };
        let rows = all.into_iter().skip(above).take(room).map(|it| self.row(it, wide));
        let widths = widths.iter().map(|&width| Constraint::Length(width));
        let head = Row::new(head.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        Table::new(rows.collect::<Vec<_>>(), widths)
            .header(head.style(Modifier::BOLD))
            .column_spacing(1)
    }

    fn row(&self, it: &CommandUse, wide: bool) -> Row<'static> {
        let size = |bytes: u64| ByteSize(bytes).to_string();
        let (read, written) = (size(it.bytes_read), size(it.bytes_written));
        let (reads, writes) = self.rates_of(it);
        let cells = match wide {
            true => vec![
                it.command.clone(),
                it.calls.to_string(),
                read,
                written,
                format!("{}/s", size(reads)),
                format!("{}/s", size(writes)),
            ],
            false => vec![it.command.clone(), read, written],
        };
        Row::new(cells.into_iter().map(Cell::from))
    }

    fn rates_of(&self, it: &CommandUse) -> (u64, u64) {
        self.rates.get(&it.command).copied().unwrap_or((0, 0))
    }
}

fn bytes(status: &StatusView) -> HashMap<String, (u64, u64)> {
    let pair = |it: &CommandUse| (it.command.clone(), (it.bytes_read, it.bytes_written));
    status.commands.iter().map(pair).collect()
}
