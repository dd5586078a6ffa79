//! Handing out the entries of a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{Errno, INodeNo, ReplyDirectory, ReplyDirectoryPlus, Request};
use tidefs_fs::{Handle, Lifetimes};
use tidefs_store::Store;

use super::Adapter;
use super::convert::{GENERATION, file_attr, file_type, shorter};

impl<S: Store> Adapter<S> {
    pub(super) fn list(
        &self,
        request: &Request,
        directory: Handle,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<(), Errno> {
        self.run(request, "readdir", |fs| {
            fs.readdir(directory, offset, &mut |entry| {
                let number = INodeNo(entry.ino.0);
                let name = OsStr::from_bytes(&entry.name);
                !reply.add(number, entry.next, file_type(entry.kind), name)
            })
        })
    }

    /// With what the kernel may keep of each entry, and for how long.
    pub(super) fn list_plus(
        &self,
        request: &Request,
        directory: Handle,
        offset: u64,
        lifetimes: &Lifetimes,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<(), Errno> {
        let lifetime = shorter(lifetimes);
        self.run(request, "readdirplus", |fs| {
            fs.readdir_plus(directory, offset, &mut |entry, attr| {
                let number = INodeNo(entry.ino.0);
                let name = OsStr::from_bytes(&entry.name);
                let attr = file_attr(attr);
                !reply.add(number, entry.next, name, &lifetime, &attr, GENERATION)
            })
        })
    }
}
