//! How the JSON lies on the page: a line for each key at the top and for each element of a list
//! there, and everything deeper on that line. A person can read it, and `grep` and `diff` can too.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

pub(super) fn to_string(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Lines::default()))?;
    bytes.push(b'\n');
    Ok(String::from_utf8(bytes).expect("JSON is UTF-8"))
}

/// Lists and objects nested deeper than this stay on one line.
const DEPTH: usize = 2;

#[derive(Default)]
struct Lines {
    depth: usize,
    /// The list or object that is open has something in it.
    filled: bool,
}

impl Lines {
    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.filled && self.depth < DEPTH {
            self.line(writer)?;
        }
        self.filled = true;
        writer.write_all(bracket)
    }

    fn element<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        let deep = self.depth > DEPTH;
        writer.write_all(if first {
            b""
        } else if deep {
            b", "
        } else {
            b","
        })?;
        if deep { Ok(()) } else { self.line(writer) }
    }

    fn line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        self.element(w, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        self.element(w, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fact_and_a_row_have_a_line_each() {
        let value = json!({"a": 1, "b": [{"t": 0, "n": [1, null]}, {}], "c": [], "d": {"e": {}}});
        let text = to_string(&value).expect("JSON");
        let expected = [
            "{",
            "  \"a\": 1,",
            "  \"b\": [",
            "    {\"n\": [1, null], \"t\": 0},",
            "    {}",
            "  ],",
            "  \"c\": [],",
            "  \"d\": {",
            "    \"e\": {}",
            "  }",
            "}\n",
        ];
        assert_eq!(text, expected.join("\n"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
    }
}
