//! Which commands read and write how much, as people read it in plain text.

use tidefs_model::ByteSize;
use tidefs_report::CommandUse;

use crate::view::StatusView;

/// What the kernel does by itself, and how far that is seen.
pub const PASSED_THROUGH: &str = "the kernel moves bytes of files by itself: what is read is not seen, and what is written by \
                                  how much files grow";

impl StatusView {
    /// A table with a row for each command, cut to so many columns.
    pub fn commands_text(&self, columns: usize) -> String {
        let width = self.commands.iter().map(|it| it.command.chars().count()).max();
        let width = width.unwrap_or(0).max("command".len());
        let row = |[command, calls, read, written]: [&str; 4]| {
            let row = format!("{command:width$}  {calls:>10}  {read:>10}  {written:>10}");
            row.chars().take(columns).collect::<String>()
        };
        let mut rows = vec![row(["command", "calls", "read", "written"])];
        for CommandUse { command, calls, bytes_read, bytes_written } in &self.commands {
            let [read, written] = [bytes_read, bytes_written].map(|it| ByteSize(*it).to_string());
            rows.push(row([command, &calls.to_string(), &read, &written]));
        }
        if self.passes_through {
            rows.push(format!("\n{PASSED_THROUGH}"));
        }
        rows.push(String::new());
        rows.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use tidefs_model::Epoch;
    use tidefs_store::Overview;

    use super::*;

    #[test]
    fn a_row_for_each_command_and_what_is_not_seen() {
        let overview =
            Overview { store: "embedded".to_owned(), epoch: Epoch(1), nodes: Vec::new() };
        let mut status = StatusView::new(&overview, Vec::new(), &[], None);
        let dd = CommandUse {
            command: "dd".to_owned(),
            calls: 12,
            bytes_read: 0,
            bytes_written: 3 << 20,
        };
        let python = CommandUse {
            command: "python3".to_owned(),
            calls: 1,
            bytes_read: 512,
            bytes_written: 0,
        };
        status.commands = vec![dd, python];
        let expected = "command       calls        read     written\n\
                        dd               12         0 B       3 MiB\n\
                        python3           1       512 B         0 B\n";
        assert_eq!(status.commands_text(200), expected);
        status.passes_through = true;
        assert!(status.commands_text(200).contains("what is read is not seen"));
        assert!(status.commands_text(20).lines().take(3).all(|row| row.chars().count() <= 20));
    }
}
