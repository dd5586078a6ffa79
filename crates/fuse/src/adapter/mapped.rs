//! Changes of files that programs may have mapped for writing.
//!
//! The kernel says neither what is mapped nor what was stored there, until it writes the pages by itself.
//! Two of its requests depend on that. A time that is set by hand is that of the file until somebody
//! stores more, so what was stored before has to be written first. And what was stored behind the file's
//! end, in its last page, is no part of the file, so the kernel gets zeros there when the file grows.
//!
//! Pages may be locked by those who wait for this mount's answers, so no thread that serves them may touch
//! them.

use std::ops::Range;
use std::sync::Arc;

use tidefs_fs::{Error, Fs, SetAttr};
use tidefs_model::Ino;
use tidefs_session::INodeNo;
use tidefs_store::Store;

use super::Adapter;
use crate::kernel::Kernel;
use crate::waiting_room::Place;

/// What has to be done about the kernel's pages of a file.
pub enum Pages {
    /// They are written and dropped before the change.
    Written(Ino),
    /// A part of one is zeros after it.
    Zeroed(Ino, Range<u64>),
}

impl Pages {
    /// Before attributes change. While a size is set the kernel writes nothing.
    pub fn at_change<S: Store>(fs: &Fs<S>, ino: Ino, changes: &SetAttr) -> Option<Pages> {
        match changes.size {
            Some(size) => Pages::at_growth(fs, ino, size),
            None => changes.mtime.and(fs.mapped_size(ino)).map(|_| Pages::Written(ino)),
        }
    }

    /// Before a file grows to `size`, or does not.
    pub fn at_growth<S: Store>(fs: &Fs<S>, ino: Ino, size: u64) -> Option<Pages> {
        let end = fs.mapped_size(ino)?;
        let rest = end..end.next_multiple_of(page_bytes()).min(size);
        (!rest.is_empty()).then_some(Pages::Zeroed(ino, rest))
    }

    /// The change with what has to be done about pages.
    pub fn around<S: Store, T>(
        self,
        kernel: Arc<Kernel>,
        change: impl FnOnce(&Fs<S>, &[u8]) -> Result<T, Error>,
    ) -> impl FnOnce(&Fs<S>, &[u8]) -> Result<T, Error> {
        move |fs, bytes| {
            if let Pages::Written(ino) = self {
                kernel.drop_pages(INodeNo(ino.0));
            }
            let changed = change(fs, bytes)?;
            if let Pages::Zeroed(ino, rest) = self {
                kernel.zero_page(INodeNo(ino.0), rest);
            }
            Ok(changed)
        }
    }
}

fn page_bytes() -> u64 {
    // SAFETY: takes a number only.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

impl<S: Store> Adapter<S> {
    /// Where pages are seen to. Without a place they stay as they are.
    pub(super) fn place_for_pages(&self, pages: Option<Pages>) -> Option<(Place, Pages)> {
        let pages = pages?;
        self.page_room.enter(0).map(|place| (place, pages))
    }
}
