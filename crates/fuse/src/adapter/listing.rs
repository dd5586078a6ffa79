//! Handing out the entries of a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use tidefs_fs::{Attr, DirectoryEntry, Error, Fs, Handle, Standing};
use tidefs_model::Ino;
use tidefs_session::{INodeNo, ReplyDirectory, ReplyDirectoryPlus, Request};
use tidefs_store::Store;

use super::Adapter;
use super::convert::{GENERATION, file_attr, file_type, shorter};
use super::reply::{Answers, Kept};

/// Entries with attributes of one answer, at most: one less than the file system reads in a round, so
/// that the one that is too many does not cost another.
const GATHERED_MAX: usize = 127;

/// An entry, with what the kernel may keep of it.
type Gathered = (DirectoryEntry, Attr);

impl<S: Store> Adapter<S> {
    pub(super) fn list(&self, by: &Request, directory: Handle, offset: u64, reply: ReplyDirectory) {
        let list = move |fs: &Fs<S>, reply: &mut ReplyDirectory| {
            fs.readdir(directory, offset, &mut |entry| {
                let number = INodeNo(entry.ino.0);
                let name = OsStr::from_bytes(&entry.name);
                !reply.add(number, entry.next, file_type(entry.kind), name)
            })
        };
        self.serve(by, "readdir", reply, list, |reply, listed| match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        });
    }

    /// The next entries with their attributes. Asks the store for them before any answer is held up.
    pub(super) fn list_with_attributes(
        &self,
        by: &Request,
        directory: Ino,
        (handle, offset): (Handle, u64),
        reply: ReplyDirectoryPlus,
    ) {
        let (before, answers) = (self.fs.standing(), self.answers.clone());
        let gather = move |fs: &Fs<S>, _: &mut ReplyDirectoryPlus| gather(fs, handle, offset);
        self.serve(by, "readdirplus", reply, gather, move |reply, gathered| match gathered {
            Ok(entries) => answers.reply_gathered(reply, before, directory, entries),
            Err(error) => reply.error(error),
        });
    }
}

fn gather<S: Store>(fs: &Fs<S>, directory: Handle, offset: u64) -> Result<Vec<Gathered>, Error> {
    let mut gathered = Vec::with_capacity(GATHERED_MAX);
    fs.readdir_plus(directory, offset, &mut |entry, attr| {
        let has_room = gathered.len() < GATHERED_MAX;
        if has_room {
            gathered.push((entry.clone(), attr.clone()));
        }
        has_room
    })?;
    Ok(gathered)
}

impl<S: Store> Answers<S> {
    /// Answers with as many of them as the kernel has room for; the others count as not looked up.
    fn reply_gathered(
        &self,
        mut reply: ReplyDirectoryPlus,
        before: Standing,
        directory: Ino,
        entries: Vec<Gathered>,
    ) {
        let inos: Vec<_> = entries.iter().map(|(_, attr)| attr.ino).collect();
        let fs = self.fs();
        self.answer_of(before, inos, Kept::Listing, move |lifetimes| {
            let lifetime = shorter(lifetimes);
            let is_full = |(entry, attr): &Gathered| {
                let number = INodeNo(entry.ino.0);
                let name = OsStr::from_bytes(&entry.name);
                let lifetime = if fs.counts_down(attr.ino) { Duration::ZERO } else { lifetime };
                reply.add(number, entry.next, name, &lifetime, &file_attr(attr), GENERATION)
            };
            let added = entries.iter().position(is_full).unwrap_or(entries.len());
            reply.ok();
            let left = entries[added..].iter().filter(|(entry, _)| !is_dot(&entry.name));
            left.for_each(|(entry, _)| fs.forget(entry.ino, 1));
            if !lifetime.is_zero() {
                let told =
                    entries.into_iter().take(added).map(|(entry, _)| (entry.ino, entry.name));
                fs.told_listing(directory, told.collect());
            }
        });
    }
}

/// "." and ".." are not looked up.
fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}
