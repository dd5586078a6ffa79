//! Answers, a kind for each kind of request. Each is used up by its answer.

use std::fs::File;
use std::time::Duration;

use rustix::io::Errno;

use crate::answer::Answer;
use crate::backing::BackingId;
use crate::encode::Layout;
use crate::flags::FopenFlags;
use crate::values::{FileAttr, FileHandle, Generation, StatFs};

macro_rules! replies {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        $($(#[$doc])*
        #[derive(Debug)]
        #[must_use = "a request that is dropped is answered with an input/output error"]
        pub struct $name(pub(crate) Answer);

        impl $name {
            pub fn error(self, error: Errno) {
                self.0.error(error);
            }
        })+
    };
}

replies! {
    /// Attributes.
    ReplyAttr,
    /// A file that was made and opened.
    ReplyCreate,
    /// Bytes.
    ReplyData,
    /// That it was done.
    ReplyEmpty,
    /// A name.
    ReplyEntry,
    /// Who has a lock.
    ReplyLock,
    /// A place in a file.
    ReplyLseek,
    /// A file or directory that was opened.
    ReplyOpen,
    /// How much room there is.
    ReplyStatfs,
    /// How many bytes were written.
    ReplyWrite,
    /// An extended attribute, or names of them.
    ReplyXattr,
}

impl ReplyAttr {
    /// The kernel may keep them for so long.
    pub fn attr(self, lifetime: &Duration, attr: &FileAttr) {
        self.0.ok(&[Layout::new().attributes(*lifetime, attr).bytes()]);
    }
}

impl ReplyEntry {
    /// Name and attributes live for as long as each other. Inode number 0: there is no such name.
    pub fn entry(self, lifetime: &Duration, attr: &FileAttr, generation: Generation) {
        self.entry_with_ttls(lifetime, lifetime, attr, generation);
    }

    pub fn entry_with_ttls(
        self,
        attributes: &Duration,
        name: &Duration,
        attr: &FileAttr,
        generation: Generation,
    ) {
        let entry = Layout::new().entry((*name, *attributes), attr, generation);
        self.0.ok(&[entry.bytes()]);
    }
}

impl ReplyCreate {
    pub fn open_backing(&self, file: &File) -> Result<BackingId, Errno> {
        self.0.register(file)
    }

    pub fn created(
        self,
        lifetime: &Duration,
        attr: &FileAttr,
        generation: Generation,
        fh: FileHandle,
        flags: FopenFlags,
        backing: Option<&BackingId>,
    ) {
        let (flags, backing) = served(flags, backing);
        let made = Layout::new().entry((*lifetime, *lifetime), attr, generation);
        self.0.ok(&[made.opened(fh, flags, backing).bytes()]);
    }
}

impl ReplyOpen {
    pub fn open_backing(&self, file: &File) -> Result<BackingId, Errno> {
        self.0.register(file)
    }

    /// With a backing file the kernel reads and writes that one.
    pub fn opened(self, fh: FileHandle, flags: FopenFlags, backing: Option<&BackingId>) {
        let (flags, backing) = served(flags, backing);
        self.0.ok(&[Layout::new().opened(fh, flags, backing).bytes()]);
    }
}

fn served(flags: FopenFlags, backing: Option<&BackingId>) -> (u32, u32) {
    match backing {
        Some(backing) => ((flags | FopenFlags::PASSTHROUGH).bits(), backing.id),
        None => (flags.bits(), 0),
    }
}

impl ReplyData {
    /// No more than was asked for.
    pub fn data(self, bytes: &[u8]) {
        self.0.ok(&[bytes]);
    }
}

impl ReplyEmpty {
    pub fn ok(self) {
        self.0.ok(&[]);
    }

    /// Left unanswered, for whoever has the kernel send it again ([`Notifier::resend`]). Not by rings.
    ///
    /// [`Notifier::resend`]: crate::Notifier::resend
    pub fn leave(self) {
        self.0.leave();
    }
}

impl ReplyLock {
    /// Who is in the way of a lock; of kind `F_UNLCK`: nobody.
    pub fn locked(self, start: u64, last: u64, kind: i32, pid: u32) {
        // The kernel's number for it has no sign, and none of the kinds has one.
        let lock = Layout::new().u64s(&[start, last]).u32s(&[kind as u32, pid]);
        self.0.ok(&[lock.bytes()]);
    }
}

impl ReplyLseek {
    pub fn offset(self, offset: u64) {
        self.0.ok(&[Layout::new().u64s(&[offset]).bytes()]);
    }
}

impl ReplyStatfs {
    pub fn statfs(self, totals: &StatFs) {
        self.0.ok(&[Layout::new().statfs(totals).bytes()]);
    }
}

impl ReplyWrite {
    pub fn written(self, bytes: u32) {
        self.0.ok(&[Layout::new().u32s(&[bytes, 0]).bytes()]);
    }
}

impl ReplyXattr {
    /// To the question how long it is.
    pub fn size(self, bytes: u32) {
        self.0.ok(&[Layout::new().u32s(&[bytes, 0]).bytes()]);
    }

    /// No more than was asked for.
    pub fn data(self, bytes: &[u8]) {
        self.0.ok(&[bytes]);
    }
}
