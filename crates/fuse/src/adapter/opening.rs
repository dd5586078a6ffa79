//! Opening a file that is there.

use fuser::{INodeNo, ReplyOpen, Request};
use tidefs_fs::{Error, Fs, OpenMode, Opened, SetAttr};
use tidefs_model::Ino;
use tidefs_store::Store;

use super::Adapter;
use super::convert::{ino, is_ordinary};

impl<S: Store> Adapter<S> {
    pub(super) fn open_file(
        &self,
        by: &Request,
        number: INodeNo,
        mode: OpenMode,
        reply: ReplyOpen,
    ) {
        let clear_privileges = mode.truncate && is_ordinary(by);
        let opened = self.run(by, "open", |fs| match clear_privileges {
            true => open_without_privileges(fs, ino(number), mode),
            false => fs.open(ino(number), mode),
        });
        match opened {
            Ok(opened) => self.answers.reply_opened(reply, ino(number), mode, opened),
            Err(error) => reply.error(error),
        }
    }
}

fn open_without_privileges<S: Store>(
    fs: &Fs<S>,
    ino: Ino,
    mode: OpenMode,
) -> Result<Opened, Error> {
    let opened = fs.open(ino, mode)?;
    let changes = SetAttr { clear_privileges: true, ..SetAttr::default() };
    if let Err(error) = fs.setattr(ino, Some(opened.handle), &changes) {
        fs.release(opened.handle)?;
        return Err(error);
    }
    Ok(opened)
}
