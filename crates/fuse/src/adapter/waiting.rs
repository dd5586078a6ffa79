//! Requests that may have to wait: for room on a full store, or for a node.

use std::sync::Arc;

use tidefs_fs::{Error, Fs, Handle, ReadBytes, SetAttr};
use tidefs_model::Ino;
use tidefs_session::{
    Errno, FileHandle, LockOwner, ReplyAttr, ReplyData, ReplyEmpty, ReplyWrite, Request,
};
use tidefs_store::Store;

use super::mapped::Pages;
use super::reply::reply_empty;
use super::{Adapter, Asked, Kernel, carry_out};
use crate::commands::closing;
use crate::errno;
use crate::waiting_room::{Left, Place, WaitingRoom};

impl<S: Store> Adapter<S> {
    /// Carries out a request that may be begun again from the start: here or, when it turns out that it has
    /// to wait for room, in the waiting room; elsewhere from the start where few threads are left that serve.
    /// `true`: it was done here.
    pub(super) fn run_or_leave<T>(
        &self,
        request: &Request,
        name: &'static str,
        bytes: &[u8],
        work: impl Fn(&Fs<S>, &[u8]) -> Result<T, Error> + Send + 'static,
        answer: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) -> bool {
        if let Some(place) = self.elsewhere(bytes.len()) {
            let asked = self.asked(request, name);
            self.hand_over(place, asked, name, bytes, work, answer);
            return false;
        }
        let asked = self.asked(request, name);
        let here = || self.run_with_bytes(request, bytes.len(), name, |fs| work(fs, bytes));
        let (done, left) = self.waiting_room.beside(bytes.len(), here);
        let done = match (done, left) {
            (Err(Errno::INTR), Left::For(place)) => {
                self.hand_over(place, asked, name, bytes, work, answer);
                return false;
            }
            (Err(Errno::INTR), Left::Refused) => Err(self.refuse()),
            (done, _) => done,
        };
        let is_done = done.is_ok();
        answer(done);
        is_done
    }

    /// The same for one that is likely to need room: while others wait it goes there at once.
    pub(super) fn run_or_wait<T>(
        &self,
        request: &Request,
        name: &'static str,
        bytes: &[u8],
        work: impl Fn(&Fs<S>, &[u8]) -> Result<T, Error> + Send + 'static,
        answer: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) -> bool {
        if !self.waiting_room.is_used() {
            return self.run_or_leave(request, name, bytes, work, answer);
        }
        match self.waiting_room.enter(bytes.len()) {
            Some(place) => {
                let asked = self.asked(request, name);
                self.hand_over(place, asked, name, bytes, work, answer);
            }
            None => answer(Err(self.refuse())),
        }
        false
    }

    /// Those who wait hold as many bytes as they may.
    fn refuse(&self) -> Errno {
        self.kernel.latencies.failed();
        tracing::warn!("too much waits for room on full nodes; a write is refused");
        Errno::NOSPC
    }

    /// Carries out and answers, in its place, what was asked for.
    pub(super) fn hand_over<T>(
        &self,
        place: Place,
        asked: Asked,
        name: &'static str,
        bytes: &[u8],
        work: impl FnOnce(&Fs<S>, &[u8]) -> Result<T, Error> + Send + 'static,
        answer: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let (fs, kernel) = (self.fs.clone(), self.kernel.clone());
        let bytes = bytes.to_vec();
        place.wait(asked.by, move || match kernel.begin() {
            Some(_under_way) => {
                answer(carry_out(&kernel, asked, name, || work(&fs, &bytes)));
            }
            None => answer(Err(errno::MOUNT_OVER)),
        });
    }

    pub(super) fn read_file(
        &self,
        by: &Request,
        file: Handle,
        offset: u64,
        length: usize,
        reply: ReplyData,
    ) {
        let read = move |fs: &Fs<S>, _: &[u8]| fs.read(file, offset, length);
        let thread = by.pid();
        let answer = move |kernel: &Kernel, read: Result<ReadBytes, Errno>| match read {
            Ok(bytes) => {
                let bytes = bytes.as_slice();
                kernel.commands.read(thread, file.0, bytes.len());
                reply.data(bytes);
            }
            Err(error) => reply.error(error),
        };
        match self.elsewhere(0) {
            Some(place) => {
                let kernel = self.kernel.clone();
                let answer = move |read| answer(&kernel, read);
                self.hand_over(place, self.asked(by, "read"), "read", &[], read, answer);
            }
            None => {
                let read = self.run_with_bytes(by, length, "read", |fs| read(fs, &[]));
                // All threads that serve would count the reference.
                answer(&self.kernel, read);
            }
        }
    }

    pub(super) fn flush_file(
        &self,
        by: &Request,
        file: Handle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let thread = by.pid();
        let close = move |fs: &Fs<S>, _: &[u8]| closing(thread, || fs.close(file, owner.0));
        let (fs, kernel, room) = (self.fs.clone(), self.kernel.clone(), self.waiting_room.clone());
        let answer = move |done| {
            if done == Err(Errno::INTR) {
                close_when_stored(fs, kernel, &room, (file, owner));
            }
            reply_empty(reply, done);
        };
        self.write_back(by, file, "flush", close, answer);
    }

    pub(super) fn sync_file(&self, by: &Request, file: Handle, reply: ReplyEmpty) {
        let sync = move |fs: &Fs<S>, _: &[u8]| fs.fsync(file);
        self.write_back(by, file, "fsync", sync, |done| reply_empty(reply, done));
    }

    /// What needs room if anything of the file is still to be sent.
    fn write_back(
        &self,
        by: &Request,
        file: Handle,
        name: &'static str,
        work: impl Fn(&Fs<S>, &[u8]) -> Result<(), Error> + Send + 'static,
        answer: impl FnOnce(Result<(), Errno>) + Send + 'static,
    ) {
        match self.waiting_room.is_used() && self.fs.has_unsent(file) {
            true => self.run_or_wait(by, name, &[], work, answer),
            false => self.run_or_leave(by, name, &[], work, answer),
        };
    }

    /// What is left to be sent at the last close is sent where others wait: it cannot be begun again.
    pub(super) fn release_file(&self, by: &Request, file: Handle, reply: ReplyEmpty) {
        let place = self.fs.has_unsent(file).then(|| self.waiting_room.enter(0)).flatten();
        let Some(place) = place else {
            return self.serve_empty(by, "release", reply, move |fs| fs.release(file));
        };
        let release = move |fs: &Fs<S>, _: &[u8]| fs.release(file);
        let answer = |done| reply_empty(reply, done);
        self.hand_over(place, self.asked(by, "release"), "release", &[], release, answer);
    }

    /// Times are set when what was written before is in the store.
    pub(super) fn change_attributes(
        &self,
        by: &Request,
        ino: Ino,
        fh: Option<FileHandle>,
        changes: SetAttr,
        reply: ReplyAttr,
    ) {
        let change = move |fs: &Fs<S>, _: &[u8]| {
            fs.setattr(ino, fh.map(|handle| Handle(handle.0)), &changes)
        };
        let (before, answers) = (self.fs.standing(), self.answers.clone());
        let answer = move |changed| answers.reply_attr(reply, before, changed);
        match self.place_for_pages(Pages::at_change(&self.fs, ino, &changes)) {
            Some((place, pages)) => {
                let change = pages.around(self.kernel.clone(), change);
                self.hand_over(place, self.asked(by, "setattr"), "setattr", &[], change, answer);
            }
            None => drop(self.run_or_leave(by, "setattr", &[], change, answer)),
        }
    }

    /// `growth`: where a file ends that may grow by it.
    pub(super) fn allocate(
        &self,
        by: &Request,
        ino: Ino,
        growth: Option<u64>,
        allocate: impl Fn(&Fs<S>) -> Result<(), Error> + Send + 'static,
        reply: ReplyEmpty,
    ) {
        let allocate = move |fs: &Fs<S>, _: &[u8]| allocate(fs);
        let answer = |done| reply_empty(reply, done);
        let pages = growth.and_then(|size| Pages::at_growth(&self.fs, ino, size));
        match self.place_for_pages(pages) {
            Some((place, pages)) => {
                let allocate = pages.around(self.kernel.clone(), allocate);
                let asked = self.asked(by, "fallocate");
                self.hand_over(place, asked, "fallocate", &[], allocate, answer);
            }
            None => drop(self.run_or_wait(by, "fallocate", &[], allocate, answer)),
        }
    }

    pub(super) fn copy(
        &self,
        by: &Request,
        (source, target): (Handle, Handle),
        copy: impl Fn(&Fs<S>) -> Result<u64, Error> + Send + 'static,
        reply: ReplyWrite,
    ) {
        let copy = move |fs: &Fs<S>, _: &[u8]| copy(fs);
        let (kernel, thread) = (self.kernel.clone(), by.pid());
        let answer = move |copied: Result<u64, Errno>| match copied {
            // No more than was asked for, so it fits.
            Ok(copied) => {
                kernel.commands.read(thread, source.0, copied as usize);
                // Else by how much the file has grown.
                if !kernel.passes_through() {
                    kernel.commands.wrote(thread, target.0, copied as usize);
                }
                reply.written(copied as u32);
            }
            Err(error) => reply.error(error),
        };
        self.run_or_wait(by, "copy_file_range", &[], copy, answer);
    }
}

/// The program was killed while its bytes waited for room: its locks end when they have arrived. Where
/// no place is left to wait they end with the handle, which waits for the bytes, too.
fn close_when_stored<S: Store>(
    fs: Arc<Fs<S>>,
    kernel: Arc<Kernel>,
    room: &WaitingRoom,
    (file, owner): (Handle, LockOwner),
) {
    let Some(place) = room.enter(0) else { return };
    place.wait(0, move || {
        let Some(_under_way) = kernel.begin() else { return };
        if let Err(error) = fs.close(file, owner.0) {
            tracing::debug!(%error, "a file of a killed program is closed with an error");
        }
    });
}
