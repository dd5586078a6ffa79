//! What a program can do to the file system, one family of operations a file.

mod amend;
mod create;
mod directory;
mod file;
mod link;
mod lock;
mod lookup;
mod moved;
mod remove;
mod rename;
mod setattr;
mod space;
mod types;
mod write_back;
mod xattr;

pub use lock::Taken;
pub(crate) use moved::Doubts;
pub use types::{
    DirectoryEntry, Entry, Handle, Lock, LockFamily, LockKind, OpenMode, Opened, ReadBytes,
    RenameMode, Seek, SpaceMode, XattrMode,
};
