//! Requests for locks, in the words of `fs`.

use std::sync::Arc;

use tidefs_fs::{Error, Fs, Handle, Lock, LockFamily, LockKind, Taken};
use tidefs_session::{AskedLock, Errno, INodeNo, LockFlags, ReplyEmpty, ReplyLock, Request};
use tidefs_store::Store;

use super::Adapter;
use super::convert::ino;
use super::reply::reply_empty;
use crate::lock_waits;

impl<S: Store> Adapter<S> {
    pub(super) fn find_lock(&self, request: &Request, asked: &AskedLock, reply: ReplyLock) {
        // Only fcntl can ask.
        let wanted = lock(asked, LockFamily::Record).ok_or(Error::Invalid);
        let (file, start, end) = (Handle(asked.fh.0), asked.start, asked.end);
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
        request: &Request,
        number: INodeNo,
        asked: &AskedLock,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        let family = match asked.flags.contains(LockFlags::FLOCK) {
            true => LockFamily::Whole,
            false => LockFamily::Record,
        };
        let handle = Handle(asked.fh.0);
        let Some(wanted) = lock(asked, family) else {
            let range = range(asked, family, LockKind::Shared);
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
        let (thread, waiting) = (request.pid(), Arc::clone(&self.lock_waits));
        let fs = self.fs.clone();
        let answer = move |taken: Result<Option<Taken>, Errno>| {
            let request =
                |reply| lock_waits::Request { ino: ino(number), handle, wanted, thread, reply };
            match taken {
                Ok(None) if waits => waiting.wait(request(reply)),
                Ok(None) => waiting.refuse(request(reply)),
                Ok(Some(Taken { with_company: true })) if fs.old_pages(handle).is_some() => {
                    waiting.drop_pages(request(reply));
                }
                Ok(Some(_)) => reply.ok(),
                Err(error) => reply.error(error),
            }
        };
        self.run_or_leave(request, "setlk", &[], take, answer);
    }
}

/// `None` where nothing is asked for, but given back.
fn lock(asked: &AskedLock, family: LockFamily) -> Option<Lock> {
    match asked.kind {
        libc::F_RDLCK => range(asked, family, LockKind::Shared),
        libc::F_WRLCK => range(asked, family, LockKind::Exclusive),
        _ => None,
    }
}

fn range(asked: &AskedLock, family: LockFamily, kind: LockKind) -> Option<Lock> {
    let (start, last) = (asked.start, asked.end);
    let lock = Lock { family, kind, owner: asked.owner.0, start, last, pid: asked.pid };
    (start <= last).then_some(lock)
}
