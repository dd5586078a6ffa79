//! Requests that look, or free memory: they never wait for room, but may for a node.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidefs_fs::{Error, Fs, Handle};
use tidefs_model::Ino;
use tidefs_session::{
    Errno, FileHandle, FopenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use tidefs_store::Store;

use super::convert::seek;
use super::reply::{Name, reply_empty, reply_statfs, reply_xattr};
use super::{Adapter, carry_out, go_on};
use crate::errno;
use crate::waiting_room::Place;

impl<S: Store> Adapter<S> {
    /// A place for a request with so many bytes where nearly all threads that serve are in the middle of one.
    /// Without it the request stays where it is.
    pub(super) fn elsewhere(&self, bytes: usize) -> Option<Place> {
        self.turns.are_scarce().then(|| self.crowd.enter(bytes)).flatten()
    }

    /// Carries a request out and answers it: here or, where few threads are left that serve, elsewhere.
    pub(super) fn serve<R: Send + 'static, T>(
        &self,
        by: &Request,
        name: &'static str,
        mut reply: R,
        work: impl FnOnce(&Fs<S>, &mut R) -> Result<T, Error> + Send + 'static,
        answer: impl FnOnce(R, Result<T, Errno>) + Send + 'static,
    ) {
        let Some(place) = self.elsewhere(0) else {
            let done = self.run(by, name, |fs| work(fs, &mut reply));
            return answer(reply, done);
        };
        let asked = self.asked(by, name);
        let (fs, kernel) = (self.fs.clone(), self.kernel.clone());
        place.wait(asked.by, move || {
            let done = match kernel.begin() {
                Some(_under_way) => carry_out(&kernel, asked, name, || work(&fs, &mut reply)),
                None => Err(errno::MOUNT_OVER),
            };
            answer(reply, done);
        });
    }

    /// The same for one of which nothing is told but whether it was done.
    pub(super) fn serve_empty(
        &self,
        by: &Request,
        name: &'static str,
        reply: ReplyEmpty,
        work: impl FnOnce(&Fs<S>) -> Result<(), Error> + Send + 'static,
    ) {
        self.serve(by, name, reply, move |fs, _| work(fs), reply_empty);
    }

    pub(super) fn look_up(&self, by: &Request, parent: Ino, name: &OsStr, reply: ReplyEntry) {
        let (before, answers) = (self.fs.standing(), self.answers.clone());
        let asked = Name::looked_up(by, parent, name.as_bytes());
        let name = name.as_bytes().to_vec();
        let find = move |fs: &Fs<S>, _: &mut ReplyEntry| fs.lookup_on_the_way(parent, &name);
        self.serve(by, "lookup", reply, find, move |reply, found| {
            answers.reply_looked_up(reply, before, asked, found);
        });
    }

    /// Nobody is told of it, and it cannot fail.
    pub(super) fn forget_inode(&self, ino: Ino, lookups: u64) {
        let Some(place) = self.elsewhere(0) else {
            return go_on(&self.fs, &self.kernel, |fs| fs.forget(ino, lookups));
        };
        // The kernel forgets thousands at a time; one thread does for all.
        let mut forgotten = lock(&self.forgotten);
        forgotten.push((ino, lookups));
        if forgotten.len() > 1 {
            return;
        }
        drop(forgotten);
        let (fs, kernel, forgotten) =
            (self.fs.clone(), self.kernel.clone(), self.forgotten.clone());
        place.wait(0, move || {
            let all = std::mem::take(&mut *lock(&forgotten));
            all.into_iter().for_each(|(ino, lookups)| {
                go_on(&fs, &kernel, |fs| fs.forget(ino, lookups));
            });
        });
    }

    pub(super) fn tell_attributes(
        &self,
        by: &Request,
        ino: Ino,
        file: Option<Handle>,
        reply: ReplyAttr,
    ) {
        let (before, answers) = (self.fs.standing(), self.answers.clone());
        let look = move |fs: &Fs<S>, _: &mut ReplyAttr| fs.getattr(ino, file);
        self.serve(by, "getattr", reply, look, move |reply, attr| {
            answers.reply_attr(reply, before, attr);
        });
    }

    pub(super) fn read_link(&self, by: &Request, ino: Ino, reply: ReplyData) {
        let read = move |fs: &Fs<S>, _: &mut ReplyData| fs.readlink(ino);
        self.serve(by, "readlink", reply, read, |reply, target| match target {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        });
    }

    pub(super) fn remove_file(&self, by: &Request, parent: Ino, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.serve_empty(by, "unlink", reply, move |fs| fs.unlink(parent, &name));
    }

    pub(super) fn remove_directory(
        &self,
        by: &Request,
        parent: Ino,
        name: &OsStr,
        reply: ReplyEmpty,
    ) {
        let name = name.as_bytes().to_vec();
        self.serve_empty(by, "rmdir", reply, move |fs| fs.rmdir(parent, &name));
    }

    pub(super) fn find_data_or_hole(
        &self,
        by: &Request,
        file: Handle,
        (offset, whence): (i64, i32),
        reply: ReplyLseek,
    ) {
        let find = move |fs: &Fs<S>, _: &mut ReplyLseek| {
            let offset = u64::try_from(offset).map_err(|_| Error::NoSuchOffset)?;
            fs.seek(file, offset, seek(whence)?)
        };
        self.serve(by, "lseek", reply, find, |reply, found| match found {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(error),
        });
    }

    pub(super) fn open_directory(&self, by: &Request, ino: Ino, reply: ReplyOpen) {
        let open = move |fs: &Fs<S>, _: &mut ReplyOpen| fs.opendir(ino);
        self.serve(by, "opendir", reply, open, |reply, opened| match opened {
            Ok(handle) => reply.opened(FileHandle(handle.0), FopenFlags::empty(), None),
            Err(error) => reply.error(error),
        });
    }

    pub(super) fn tell_totals(&self, by: &Request, reply: ReplyStatfs) {
        self.serve(by, "statfs", reply, |fs: &Fs<S>, _| fs.statfs(), reply_statfs);
    }

    pub(super) fn tell_attribute(
        &self,
        by: &Request,
        ino: Ino,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let name = name.as_bytes().to_vec();
        let look = move |fs: &Fs<S>, _: &mut ReplyXattr| fs.getxattr(ino, &name);
        self.serve(by, "getxattr", reply, look, move |reply, value| {
            reply_xattr(reply, size, value);
        });
    }

    pub(super) fn list_attributes(&self, by: &Request, ino: Ino, size: u32, reply: ReplyXattr) {
        let look = move |fs: &Fs<S>, _: &mut ReplyXattr| fs.listxattr(ino);
        self.serve(by, "listxattr", reply, look, move |reply, names| {
            reply_xattr(reply, size, names);
        });
    }

    pub(super) fn remove_attribute(&self, by: &Request, ino: Ino, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.serve_empty(by, "removexattr", reply, move |fs| fs.removexattr(ino, &name));
    }
}

fn lock(forgotten: &Mutex<Vec<(Ino, u64)>>) -> MutexGuard<'_, Vec<(Ino, u64)>> {
    forgotten.lock().unwrap_or_else(PoisonError::into_inner)
}
