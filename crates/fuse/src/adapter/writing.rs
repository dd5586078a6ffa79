//! Writing, and appending.

use std::sync::Arc;

use tidefs_fs::{AppendedAt, Fs, Handle};
use tidefs_session::{Errno, INodeNo, ReplyWrite, Request, Write, WriteFlags};
use tidefs_store::Store;

use super::{Adapter, go_on};
use crate::following::Following;

impl<S: Store> Adapter<S> {
    pub(super) fn write_file(
        &self,
        by: &Request,
        number: INodeNo,
        to: &Write,
        data: &[u8],
        reply: ReplyWrite,
    ) {
        let Write { fh, offset, flags, open } = *to;
        let file = Handle(fh.0);
        let clear_privileges = flags.contains(WriteFlags::KILL_SUIDGID);
        // Begun again, it appends where it did before.
        let append = (open.0 & libc::O_APPEND != 0).then(Arc::<AppendedAt>::default);
        let at = append.clone();
        let write = move |fs: &Fs<S>, data: &[u8]| {
            fs.write(file, offset, data, append.as_deref(), clear_privileges)
        };
        let misplaced = Arc::clone(&self.misplaced);
        let (kernel, thread) = (self.kernel.clone(), by.pid());
        let answer = move |written: Result<usize, Errno>| match written {
            Ok(written) => {
                kernel.commands.wrote(thread, fh.0, written);
                // No more than was given, so it fits.
                reply.written(written as u32);
                if let Some(place) = at.and_then(|at| at.offset()) {
                    misplaced.appended(number, offset, place, written as u64);
                }
            }
            Err(error) => reply.error(error),
        };
        let is_done = self.run_or_wait(by, "write", data, write, answer);
        if is_done && !self.following.as_ref().is_some_and(Following::is_on) {
            go_on(&self.fs, &self.kernel, |fs| fs.make_eagerly(file, offset, data.len()));
        }
    }
}
