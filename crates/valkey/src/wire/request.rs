//! A request: an array of words, of which the last may be the caller's own bytes.

use std::borrow::Cow;
use std::io::{IoSlice, Write as _};

/// Room in front of the words for their count: `*`, ten digits, CR, LF.
const COUNT_BYTES_MAX: usize = 13;
const LINE_END: &[u8] = b"\r\n";

/// A command with its arguments. The payload, if any, stays where the caller has it.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Everything but the payload and the line end after it; begins at `start`.
    head: Vec<u8>,
    start: usize,
    words: u32,
    payload: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    pub fn new(command: &str) -> Request<'a> {
        let mut head = Vec::with_capacity(96);
        head.resize(COUNT_BYTES_MAX, 0);
        let request = Request { head, start: COUNT_BYTES_MAX, words: 0, payload: None };
        request.word(command.as_bytes())
    }

    /// A request of words that are text.
    pub fn of(words: &[&str]) -> Request<'a> {
        let rest = words[1..].iter();
        rest.fold(Request::new(words[0]), |request, word| request.word(word.as_bytes())).end()
    }

    pub fn word(mut self, word: &[u8]) -> Request<'a> {
        self.push(word);
        self
    }

    pub fn number(mut self, number: u64) -> Request<'a> {
        self.push_number(number);
        self
    }

    pub fn push(&mut self, word: &[u8]) {
        self.push_length(word.len());
        self.head.extend_from_slice(word);
        self.head.extend_from_slice(LINE_END);
    }

    pub fn push_number(&mut self, number: u64) {
        let mut digits = [0; 20];
        let mut rest = &mut digits[..];
        write!(rest, "{number}").expect("20 digits hold any number");
        let left = rest.len();
        self.push(&digits[..20 - left]);
    }

    fn push_length(&mut self, length: usize) {
        self.words += 1;
        write!(self.head, "${length}\r\n").expect("a vector takes all");
    }

    /// Ends the request with a word that is not copied.
    pub fn payload(mut self, payload: &'a [u8]) -> Request<'a> {
        self.push_length(payload.len());
        self.payload = Some(payload);
        self.end()
    }

    /// Ends the request: writes the count of its words in front of them.
    pub fn end(mut self) -> Request<'a> {
        let mut count = [0; COUNT_BYTES_MAX];
        let mut rest = &mut count[..];
        write!(rest, "*{}\r\n", self.words).expect("13 bytes hold any count");
        let length = COUNT_BYTES_MAX - rest.len();
        self.start = COUNT_BYTES_MAX - length;
        self.head[self.start..COUNT_BYTES_MAX].copy_from_slice(&count[..length]);
        self
    }

    /// Bytes on the wire.
    pub fn bytes(&self) -> usize {
        let payload = self.payload.map_or(0, |payload| payload.len() + LINE_END.len());
        self.head.len() - self.start + payload
    }

    /// The command, for people; of a function its name.
    pub fn name(&self) -> Cow<'_, str> {
        let mut parts = self.head[COUNT_BYTES_MAX..].split(|&byte| byte == b'\n');
        let mut word = || {
            let word = parts.nth(1).unwrap_or_default();
            String::from_utf8_lossy(word.strip_suffix(b"\r").unwrap_or(word))
        };
        let command = word();
        if command == "FCALL" { word() } else { command }
    }

    /// Adds what is left to send after the first `sent` bytes.
    pub fn gather<'b>(&'b self, sent: usize, slices: &mut Vec<IoSlice<'b>>) {
        let payload = self.payload.unwrap_or_default();
        let line_end = if self.payload.is_some() { LINE_END } else { &[] };
        let mut skip = sent;
        for part in [&self.head[self.start..], payload, line_end] {
            let skipped = skip.min(part.len());
            skip -= skipped;
            if skipped < part.len() {
                slices.push(IoSlice::new(&part[skipped..]));
            }
        }
    }
}
