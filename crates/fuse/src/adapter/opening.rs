//! Opening a file that is there.

use tidefs_fs::{Error, Fs, OpenMode, Opened, SetAttr};
use tidefs_model::Ino;
use tidefs_session::{INodeNo, ReplyOpen, Request};
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
        let (number, thread, answers) = (ino(number), by.pid(), self.answers.clone());
        let open = move |fs: &Fs<S>, _: &mut ReplyOpen| match clear_privileges {
            true => open_without_privileges(fs, number, mode),
            false => fs.open(number, mode),
        };
        self.serve(by, "open", reply, open, move |reply, opened| match opened {
            Ok(opened) => answers.reply_opened(reply, thread, (number, mode), opened),
            Err(error) => reply.error(error),
        });
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
