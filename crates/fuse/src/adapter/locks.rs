//! Requests for locks, in the words of `fs`.

use std::sync::Arc;

use fuser::{Errno, FileHandle, INodeNo, LockOwner, ReplyEmpty, ReplyLock};
use tidefs_fs::{Error, Fs, Handle, Lock, LockFamily, LockKind, Taken};
use tidefs_store::Store;

use super::Adapter;
use super::convert::ino;
use super::lock_family::family_of;
use super::reply::reply_empty;
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
        // Only fcntl can ask.
        let wanted = asked.lock(LockFamily::Record).ok_or(Error::Invalid);
        let (file, start, end) = (Handle(fh.0), asked.start, asked.end);
        let find = move |fs: &Fs<S>, _: &mut ReplyLock| fs.find_lock(file, &wanted?);
        self.serve(request, "getlk", reply, find, move |reply, found| match found {
            Ok(Some(lock)) => {
                let kind = match lock.kind {
                    LockKind::Shared => libc::F_RDLCK,
                    LockKind::Exclusive => libc::F_WRLCK,
                };
                reply.locked(lock.start, lock.last, kind, lock.pid);
            }
            Ok(None) => reply.locked(start, end, libc::F_UNLCK, 0),
            Err(error) => reply.error(error),
        });
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
        let family = match family_of(request) {
            Ok(family) => family,
            Err(error) => {
                tracing::error!(%error, "whether flock or fcntl asks for a lock cannot be read");
                return reply.error(Errno::EIO);
            }
        };
        let handle = Handle(fh.0);
        let Some(wanted) = asked.lock(family) else {
            let range = asked.range(family, LockKind::Shared);
            let give = move |fs: &Fs<S>, _: &[u8]| {
                fs.unlock(handle, range.as_ref().ok_or(Error::Invalid)?)
            };
            self.run_or_leave(request, "setlk", &[], give, |given| reply_empty(reply, given));
            return;
        };
        let lock = wanted.clone();
        let take = move |fs: &Fs<S>, _: &[u8]| match fs.lock(handle, &lock) {
            Err(Error::WouldBlock | Error::Contended) => Ok(None),
            taken => taken.map(Some),
        };
        let (thread, lock_waits) = (request.pid(), Arc::clone(&self.lock_waits));
        let fs = self.fs.clone();
        let answer = move |taken: Result<Option<Taken>, Errno>| {
            let request = |reply| Request { ino: ino(number), handle, wanted, thread, reply };
            match taken {
                Ok(None) if waits => lock_waits.wait(request(reply)),
                Ok(None) => lock_waits.refuse(request(reply)),
                Ok(Some(Taken { with_company: true })) if fs.has_old_pages(handle) => {
                    lock_waits.drop_pages(request(reply));
                }
                Ok(Some(_)) => reply.ok(),
                Err(error) => reply.error(error),
            }
        };
        self.run_or_leave(request, "setlk", &[], take, answer);
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
