//! Requests that make names, or attributes that need room: each may have to wait for it.
//!
//! They are begun again from the start where one has to wait, since what a full store refused of them was
//! not done, or has been taken back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use tidefs_fs::{Entry, Error, Fs, OpenMode};
use tidefs_model::Ino;
use tidefs_session::{ReplyCreate, ReplyEmpty, ReplyEntry, Request};
use tidefs_store::Store;

use super::Adapter;
use super::convert::{caller, kind_of_mode, rename_mode, xattr_mode};
use super::reply::{self, reply_empty};

/// A name in a directory.
type Name<'a> = (Ino, &'a OsStr);

impl<S: Store> Adapter<S> {
    /// A file, fifo, socket or device file, of a mode with the kind and a device number.
    pub(super) fn make_node(
        &self,
        by: &Request,
        (parent, name): Name<'_>,
        (mode, device): (u32, u32),
        reply: ReplyEntry,
    ) {
        let (caller, name) = (caller(by), name.as_bytes().to_vec());
        let made = reply::Name::made(by, parent, &name);
        self.make(by, "mknod", made, reply, move |fs| {
            let kind = kind_of_mode(mode).ok_or(Error::Invalid)?;
            fs.mknod(caller, parent, &name, kind, mode & 0o7777, device)
        });
    }

    pub(super) fn make_directory(
        &self,
        by: &Request,
        (parent, name): Name<'_>,
        mode: u32,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (caller(by), name.as_bytes().to_vec());
        let made = reply::Name::made(by, parent, &name);
        self.make(by, "mkdir", made, reply, move |fs| fs.mkdir(caller, parent, &name, mode));
    }

    pub(super) fn make_symlink(
        &self,
        by: &Request,
        (parent, name): Name<'_>,
        target: &OsStr,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (caller(by), name.as_bytes().to_vec());
        let target = target.as_bytes().to_vec();
        let made = reply::Name::made(by, parent, &name);
        self.make(by, "symlink", made, reply, move |fs| fs.symlink(caller, parent, &name, &target));
    }

    pub(super) fn link_file(
        &self,
        by: &Request,
        number: Ino,
        (parent, name): Name<'_>,
        reply: ReplyEntry,
    ) {
        let name = name.as_bytes().to_vec();
        let made = reply::Name::made(by, parent, &name);
        self.make(by, "link", made, reply, move |fs| fs.link(number, parent, &name));
    }

    fn make(
        &self,
        by: &Request,
        what: &'static str,
        name: reply::Name,
        reply: ReplyEntry,
        make: impl Fn(&Fs<S>) -> Result<Entry, Error> + Send + 'static,
    ) {
        let (before, answers) = (self.fs.standing(), self.answers.clone());
        let answer = move |made| answers.reply_entry(reply, before, name, made);
        self.run_or_leave(by, what, &[], move |fs, _| make(fs), answer);
    }

    pub(super) fn create_file(
        &self,
        by: &Request,
        (parent, name): Name<'_>,
        mode: u32,
        open: OpenMode,
        reply: ReplyCreate,
    ) {
        let (caller, name) = (caller(by), name.as_bytes().to_vec());
        let (before, answers) = (self.fs.standing(), self.answers.clone());
        let made = reply::Name::made(by, parent, &name);
        let create = move |fs: &Fs<S>, _: &[u8]| fs.create(caller, parent, &name, mode, open);
        let answer = move |created| answers.reply_created(reply, before, made, open, created);
        self.run_or_leave(by, "create", &[], create, answer);
    }

    pub(super) fn rename_file(
        &self,
        by: &Request,
        (parent, name): Name<'_>,
        (new_parent, new_name): Name<'_>,
        flags: u32,
        reply: ReplyEmpty,
    ) {
        let (from, to) = (name.as_bytes().to_vec(), new_name.as_bytes().to_vec());
        let rename = move |fs: &Fs<S>, _: &[u8]| {
            fs.rename(parent, &from, new_parent, &to, rename_mode(flags)?)
        };
        self.run_or_leave(by, "rename", &[], rename, |done| reply_empty(reply, done));
    }

    pub(super) fn set_attribute(
        &self,
        by: &Request,
        number: Ino,
        (name, value): (&OsStr, &[u8]),
        flags: i32,
        reply: ReplyEmpty,
    ) {
        let name = name.as_bytes().to_vec();
        let set =
            move |fs: &Fs<S>, value: &[u8]| fs.setxattr(number, &name, value, xattr_mode(flags)?);
        self.run_or_leave(by, "setxattr", value, set, |done| reply_empty(reply, done));
    }
}
