//! Requests for locks, in the words of `fs`.

use std::mem::offset_of;

use fuser::{FileHandle, INodeNo, LockOwner, ReplyEmpty, ReplyLock};
use tidefs_fs::{Error, Handle, Lock, LockFamily, LockKind, Taken};
use tidefs_store::Store;

use super::Adapter;
use super::convert::ino;
use crate::lock_waits::Request;

/// What a request says of a lock, besides whom it comes from.
pub struct Asked {
    pub owner: LockOwner,
    pub start: u64,
    pub end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: i32,
    pub pid: u32,
}

impl<S: Store> Adapter<S> {
    pub(super) fn find_lock(
        &self,
        request: &fuser::Request,
        fh: FileHandle,
        asked: &Asked,
        reply: ReplyLock,
    ) {
        let found = self.run(request, "getlk", |fs| {
            // Only fcntl can ask.
            let wanted = asked.lock(LockFamily::Record).ok_or(Error::Invalid)?;
            fs.find_lock(Handle(fh.0), &wanted)
        });
        match found {
            Ok(Some(lock)) => {
                let kind = match lock.kind {
                    LockKind::Shared => libc::F_RDLCK,
                    LockKind::Exclusive => libc::F_WRLCK,
                };
                reply.locked(lock.start, lock.last, kind, lock.pid);
            }
            Ok(None) => reply.locked(asked.start, asked.end, libc::F_UNLCK, 0),
            Err(error) => reply.error(error),
        }
    }

    pub(super) fn set_lock(
        &self,
        request: &fuser::Request,
        number: INodeNo,
        fh: FileHandle,
        asked: &Asked,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        let family = family_of(request);
        let Some(wanted) = asked.lock(family) else {
            let given = self.run(request, "setlk", |fs| {
                let lock = asked.range(family, LockKind::Shared).ok_or(Error::Invalid)?;
                fs.unlock(Handle(fh.0), &lock)
            });
            return super::reply::reply_empty(reply, given);
        };
        let handle = Handle(fh.0);
        let mut is_refused = false;
        let taken = self.run(request, "setlk", |fs| match fs.lock(handle, &wanted) {
            Err(Error::WouldBlock | Error::Contended) => {
                is_refused = true;
                Ok(Taken { with_company: false })
            }
            taken => taken,
        });
        let thread = request.pid();
        let request = |reply| Request { ino: ino(number), handle, wanted, thread, reply };
        match taken {
            Ok(_) if is_refused && waits => self.lock_waits.wait(request(reply)),
            Ok(_) if is_refused => self.lock_waits.refuse(request(reply)),
            Ok(Taken { with_company: true }) => self.lock_waits.drop_pages(request(reply)),
            Ok(_) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }
}

impl Asked {
    /// `None` where nothing is asked for, but given back.
    fn lock(&self, family: LockFamily) -> Option<Lock> {
        match self.kind {
            libc::F_RDLCK => self.range(family, LockKind::Shared),
            libc::F_WRLCK => self.range(family, LockKind::Exclusive),
            _ => None,
        }
    }

    fn range(&self, family: LockFamily, kind: LockKind) -> Option<Lock> {
        let (start, last) = (self.start, self.end);
        let lock = Lock { family, kind, owner: self.owner.0, start, last, pid: self.pid };
        (start <= last).then_some(lock)
    }
}

/// The kernel's request (`fuse_kernel.h`), of which the library hands on the first part and, for
/// locks, all of the rest but the flags that tell the families apart.
#[repr(C)]
struct LockRequest {
    length: u32,
    operation: u32,
    /// The rest of the header.
    _header: [u64; 4],
    _handle: u64,
    _owner: u64,
    _start: u64,
    _end: u64,
    _kind: u32,
    _pid: u32,
    flags: u32,
    _padding: u32,
}

const SET_LOCK: u32 = 32;
const SET_LOCK_AND_WAIT: u32 = 33;
const FLOCK: u32 = 1;
const HEADER_BYTES: usize = 40;

const _: () = {
    assert!(offset_of!(LockRequest, _handle) == HEADER_BYTES);
    assert!(size_of::<LockRequest>() == HEADER_BYTES + 48);
    // What the library hands on is the header as it lies in its buffer.
    assert!(size_of::<fuser::Request>() == HEADER_BYTES);
};

/// Which family a request to set a lock is about.
fn family_of(request: &fuser::Request) -> LockFamily {
    let whole = std::ptr::from_ref(request).cast::<LockRequest>();
    // SAFETY: the request is the header at the beginning of the buffer into which the library read
    // the kernel's message, and the header says how long that is and what it asks for.
    let flags = unsafe {
        let length = (&raw const (*whole).length).read() as usize;
        let operation = (&raw const (*whole).operation).read();
        let is_lock = operation == SET_LOCK || operation == SET_LOCK_AND_WAIT;
        if is_lock && length >= size_of::<LockRequest>() {
            (&raw const (*whole).flags).read()
        } else {
            0
        }
    };
    if flags & FLOCK == 0 { LockFamily::Record } else { LockFamily::Whole }
}
