//! Replies: finding where one ends while its bytes arrive, and taking it apart when it is whole.

use std::borrow::Cow;

/// A longer reply is refused: the longest that a server has reason to send is a page of a shard.
pub const REPLY_BYTES_MAX: usize = 64 << 20;
/// Values in one reply; a listing of every partition has a tenth of them.
const VALUES_MAX: u64 = 1 << 20;
/// A line holds a number, a status or an error message.
const LINE_BYTES_MAX: usize = 4 << 10;
/// Arrays within arrays; no command used here answers with more than three.
const DEPTH_MAX: u32 = 8;
/// The shortest value is `:0` and a line end, or an empty status.
const VALUE_BYTES_MIN: usize = 3;

/// The bytes are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("a reply starts with byte {0:#04x}")]
    Kind(u8),
    #[error("a line of a reply is longer than {LINE_BYTES_MAX} bytes")]
    LongLine,
    #[error("a number in a reply is not one")]
    Number,
    #[error("a length in a reply is beyond what is accepted")]
    Length,
    #[error("a value in a reply lacks its line end")]
    LineEnd,
    #[error("a reply has more than {DEPTH_MAX} arrays within each other")]
    Depth,
    #[error("a reply ends early")]
    Truncated,
    #[error("a reply of another kind was expected")]
    Unexpected,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Status(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
}

/// What stands at the start of a value.
enum Header {
    Line,
    Integer(i64),
    Bulk(usize),
    Array(u64),
    Nil,
}

/// Finds the end of one reply in bytes that arrive piece by piece; looks at each byte once, apart
/// from an unfinished line.
#[derive(Debug)]
pub struct Scanner {
    position: usize,
    /// Values that have yet to end.
    open: u64,
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner { position: 0, open: 1 }
    }
}

impl Scanner {
    /// Length of the reply at the start of `input`; `None` while it is not whole. Between calls
    /// `input` may only grow. After an answer the scanner is ready for the next reply.
    pub fn scan(&mut self, input: &[u8]) -> Result<Option<usize>, Malformed> {
        while self.open > 0 {
            let Some((header, length)) = header(&input[self.position..])? else { return Ok(None) };
            let next = match header {
                Header::Bulk(bytes) => {
                    let end = self.position + length + bytes;
                    match input.get(end..end + 2) {
                        Some(b"\r\n") => end + 2,
                        Some(_) => return Err(Malformed::LineEnd),
                        None if end > REPLY_BYTES_MAX => return Err(Malformed::Length),
                        None => return Ok(None),
                    }
                }
                _ => self.position + length,
            };
            if let Header::Array(values) = header {
                self.open += values;
            }
            self.open -= 1;
            if self.open > VALUES_MAX || next > REPLY_BYTES_MAX {
                return Err(Malformed::Length);
            }
            self.position = next;
        }
        let length = self.position;
        *self = Scanner::default();
        Ok(Some(length))
    }
}

/// Takes a whole reply apart; answers with its length too.
pub fn parse(input: &[u8]) -> Result<(Reply, usize), Malformed> {
    let mut rest = input;
    let reply = value(&mut rest, 0)?;
    Ok((reply, input.len() - rest.len()))
}

fn value(rest: &mut &[u8], depth: u32) -> Result<Reply, Malformed> {
    let (header, length) = header(rest)?.ok_or(Malformed::Truncated)?;
    let (line, after) = rest.split_at(length);
    *rest = after;
    Ok(match header {
        Header::Line => {
            let text = line[1..length - 2].to_vec();
            if line[0] == b'-' { Reply::Error(text) } else { Reply::Status(text) }
        }
        Header::Integer(number) => Reply::Integer(number),
        Header::Nil => Reply::Nil,
        Header::Bulk(bytes) => {
            let (bulk, after) = rest.split_at_checked(bytes).ok_or(Malformed::Truncated)?;
            *rest = match after.split_at_checked(2).ok_or(Malformed::Truncated)? {
                (b"\r\n", after) => after,
                _ => return Err(Malformed::LineEnd),
            };
            Reply::Bulk(bulk.to_vec())
        }
        Header::Array(_) if depth == DEPTH_MAX => return Err(Malformed::Depth),
        Header::Array(count) => {
            let room = (rest.len() / VALUE_BYTES_MIN) as u64;
            let mut values = Vec::with_capacity(count.min(room) as usize);
            for _ in 0..count {
                values.push(value(rest, depth + 1)?);
            }
            Reply::Array(values)
        }
    })
}

/// How a reply begins whose bytes are wanted elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkStart {
    /// Not all of the header has arrived.
    Incomplete,
    /// `bytes` bytes and a line end follow the header.
    Bulk { header: usize, bytes: usize },
    /// Some other kind of reply.
    Other,
}

/// Reads the header of a bulk reply.
pub fn bulk_start(input: &[u8]) -> Result<BulkStart, Malformed> {
    if input.first().is_some_and(|&kind| kind != b'$') {
        return Ok(BulkStart::Other);
    }
    Ok(match header(input)? {
        None => BulkStart::Incomplete,
        Some((Header::Bulk(bytes), header)) => BulkStart::Bulk { header, bytes },
        Some(_) => BulkStart::Other,
    })
}

/// Reads the line that every value begins with, and its length; `None` while it is not whole.
fn header(input: &[u8]) -> Result<Option<(Header, usize)>, Malformed> {
    let Some(&kind) = input.first() else { return Ok(None) };
    if !b"+-:$*".contains(&kind) {
        return Err(Malformed::Kind(kind));
    }
    let window = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|&byte| byte == b'\r') else {
        return if input.len() < LINE_BYTES_MAX { Ok(None) } else { Err(Malformed::LongLine) };
    };
    match input.get(end + 1) {
        Some(b'\n') => {}
        Some(_) => return Err(Malformed::LineEnd),
        None => return Ok(None),
    }
    let text = &input[1..end];
    let header = match kind {
        b'+' | b'-' => Header::Line,
        b':' => Header::Integer(number(text)?),
        _ if text == b"-1" => Header::Nil,
        b'$' => Header::Bulk(size(text, REPLY_BYTES_MAX as u64)? as usize),
        _ => Header::Array(size(text, VALUES_MAX)?),
    };
    Ok(Some((header, end + 2)))
}

fn size(text: &[u8], most: u64) -> Result<u64, Malformed> {
    let size = u64::try_from(number(text)?).map_err(|_| Malformed::Length)?;
    if size <= most { Ok(size) } else { Err(Malformed::Length) }
}

fn number(text: &[u8]) -> Result<i64, Malformed> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Malformed::Number);
    }
    let text = std::str::from_utf8(text).map_err(|_| Malformed::Number)?;
    text.parse().map_err(|_| Malformed::Number)
}

impl Reply {
    pub fn into_bulk(self) -> Result<Vec<u8>, Malformed> {
        if let Reply::Bulk(bytes) = self { Ok(bytes) } else { Err(Malformed::Unexpected) }
    }

    /// A bulk reply, or none.
    pub fn into_optional_bulk(self) -> Result<Option<Vec<u8>>, Malformed> {
        if self == Reply::Nil { Ok(None) } else { self.into_bulk().map(Some) }
    }

    pub fn into_array(self) -> Result<Vec<Reply>, Malformed> {
        if let Reply::Array(values) = self { Ok(values) } else { Err(Malformed::Unexpected) }
    }

    pub fn integer(&self) -> Result<i64, Malformed> {
        if let Reply::Integer(number) = self { Ok(*number) } else { Err(Malformed::Unexpected) }
    }

    /// A bulk or status reply, for a reader that looks for what it knows: what is no text is replaced, so
    /// that whoever puts it there spoils nothing else.
    pub fn lossy(&self) -> Result<Cow<'_, str>, Malformed> {
        let (Reply::Bulk(bytes) | Reply::Status(bytes)) = self else {
            return Err(Malformed::Unexpected);
        };
        Ok(String::from_utf8_lossy(bytes))
    }

    /// A bulk or status reply as text.
    pub fn text(&self) -> Result<&str, Malformed> {
        let (Reply::Bulk(bytes) | Reply::Status(bytes)) = self else {
            return Err(Malformed::Unexpected);
        };
        std::str::from_utf8(bytes).map_err(|_| Malformed::Unexpected)
    }
}
