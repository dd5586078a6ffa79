//! Answers with entries of a directory: as many as the kernel has room for.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rustix::io::Errno;

use crate::answer::Answer;
use crate::encode::Layout;
use crate::values::{FileAttr, FileType, Generation, INodeNo};

/// Before the name of an entry.
const HEAD_BYTES: usize = 24;
/// Each entry begins at a multiple of it.
const ALIGNMENT: usize = 8;

/// Names and kinds.
#[derive(Debug)]
#[must_use = "a request that is dropped is answered with an input/output error"]
pub struct ReplyDirectory(Entries);

/// Names and attributes: each name counts as looked up, but "." and "..".
#[derive(Debug)]
#[must_use = "a request that is dropped is answered with an input/output error"]
pub struct ReplyDirectoryPlus(Entries);

#[derive(Debug)]
struct Entries {
    answer: Answer,
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl ReplyDirectory {
    pub(crate) fn new(answer: Answer, bytes_max: u32) -> ReplyDirectory {
        ReplyDirectory(Entries::new(answer, bytes_max))
    }

    /// `next`: where a listing goes on behind the entry. `true`: there is no room, and it was not added.
    pub fn add(&mut self, number: INodeNo, next: u64, kind: FileType, name: &OsStr) -> bool {
        self.0.add(&[], number, next, kind, name)
    }

    pub fn ok(self) {
        self.0.answer.ok(&[&self.0.bytes]);
    }

    pub fn error(self, error: Errno) {
        self.0.answer.error(error);
    }
}

impl ReplyDirectoryPlus {
    pub(crate) fn new(answer: Answer, bytes_max: u32) -> ReplyDirectoryPlus {
        ReplyDirectoryPlus(Entries::new(answer, bytes_max))
    }

    /// As [`ReplyDirectory::add`]; the kernel may keep name and attributes for so long.
    pub fn add(
        &mut self,
        number: INodeNo,
        next: u64,
        name: &OsStr,
        lifetime: &Duration,
        attr: &FileAttr,
        generation: Generation,
    ) -> bool {
        let entry = Layout::new().entry((*lifetime, *lifetime), attr, generation);
        self.0.add(entry.bytes(), number, next, attr.kind, name)
    }

    pub fn ok(self) {
        self.0.answer.ok(&[&self.0.bytes]);
    }

    pub fn error(self, error: Errno) {
        self.0.answer.error(error);
    }
}

impl Entries {
    fn new(answer: Answer, bytes_max: u32) -> Entries {
        Entries { answer, bytes: Vec::new(), bytes_max: bytes_max as usize }
    }

    fn add(
        &mut self,
        before: &[u8],
        number: INodeNo,
        next: u64,
        kind: FileType,
        name: &OsStr,
    ) -> bool {
        let end = self.bytes.len() + before.len() + HEAD_BYTES + name.len();
        let padded = end.next_multiple_of(ALIGNMENT);
        let Ok(name_bytes) = u32::try_from(name.len()) else { return true };
        if padded > self.bytes_max {
            return true;
        }
        // The kernel's number for a kind of file is that of a mode, without the bits below it.
        let kind = kind.mode() >> 12;
        let head = Layout::new().u64s(&[number.0, next]).u32s(&[name_bytes, kind]);
        self.bytes.extend_from_slice(before);
        self.bytes.extend_from_slice(head.bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.resize(padded, 0);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Kernel, file};

    #[test]
    fn entries_are_added_while_there_is_room_and_each_begins_at_a_multiple_of_eight() {
        let (kernel, device) = Kernel::beside();
        let mut reply = ReplyDirectory::new(Answer::new(3, device), 72);
        let add = |reply: &mut ReplyDirectory, name: &str| {
            reply.add(INodeNo(9), 1, FileType::Directory, OsStr::new(name))
        };
        assert!(!add(&mut reply, "a"));
        assert!(!add(&mut reply, "longer, nine"), "32 bytes and 40");
        assert!(add(&mut reply, ""), "it is full");
        reply.ok();
        let (_, error, bytes) = kernel.answer();
        assert_eq!((error, bytes.len()), (0, 72));
        assert_eq!(bytes[16..25], [1, 0, 0, 0, 4, 0, 0, 0, b'a']);
        assert_eq!(bytes[32], 9, "the second one");
    }

    #[test]
    fn attributes_stand_before_their_entry() {
        let (kernel, device) = Kernel::beside();
        let mut reply = ReplyDirectoryPlus::new(Answer::new(3, device), 4096);
        let (lifetime, generation) = (Duration::from_secs(1), Generation(0));
        let name = OsStr::new("ab");
        assert!(!reply.add(INodeNo(9), 1, name, &lifetime, &file(9), generation));
        reply.ok();
        let (_, _, bytes) = kernel.answer();
        assert_eq!(bytes.len(), 128 + 32);
        assert_eq!((bytes[0], bytes[128], &bytes[152..154]), (9, 9, &b"ab"[..]));
    }
}
