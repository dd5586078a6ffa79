//! One operation as a value. An action is generic over how it names files and descriptors: a random
//! operation picks them by index, a step has their paths and numbers.

use crate::{
    Errno, Facts, Fd, Kind, OpenFlags, Operations, Path, Pattern, RenameMode, SeekFor, SetTime,
    SpaceMode, XattrMode,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<P, H> {
    Open { fd: H, at: P, flags: OpenFlags, mode: u32 },
    Close { fd: H },
    Read { fd: H, offset: u64, length: usize },
    Write { fd: H, offset: u64, bytes: Pattern },
    Resize { fd: H, size: u64 },
    ResizePath { at: P, size: u64 },
    Allocate { fd: H, offset: u64, length: u64, mode: SpaceMode },
    Seek { fd: H, offset: u64, what: SeekFor },
    CopyRange { source: H, source_offset: u64, target: H, target_offset: u64, length: u64 },
    Sync { fd: H },
    Stat { at: P },
    StatOpen { fd: H },
    Mkdir { at: P, mode: u32 },
    Mkfifo { at: P, mode: u32 },
    Rmdir { at: P },
    Unlink { at: P },
    Readdir { at: P },
    Rename { from: P, to: P, mode: RenameMode },
    Link { from: P, to: P },
    Symlink { at: P, target: &'static str },
    Readlink { at: P },
    Chmod { at: P, mode: u32 },
    SetTimes { at: P, atime: SetTime, mtime: SetTime },
    SetXattr { at: P, name: &'static str, value: Pattern, mode: XattrMode },
    GetXattr { at: P, name: &'static str },
    ListXattrs { at: P },
    RemoveXattr { at: P, name: &'static str },
    Switch { mount: usize },
}

/// What a step answers when it succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Done,
    Bytes(Vec<u8>),
    Offset(u64),
    Copied(u64),
    Facts(Facts),
    Entries(Vec<(String, Kind)>),
    Target(String),
    Names(Vec<String>),
}

impl Action<Path, Fd> {
    /// Performs the step.
    pub fn perform<O: Operations + ?Sized>(&self, on: &mut O) -> Result<Reply, Errno> {
        let done = |result: Result<(), Errno>| result.map(|()| Reply::Done);
        match self {
            Action::Open { fd, at, flags, mode } => done(on.open(*fd, at, *flags, *mode)),
            Action::Close { fd } => done(on.close(*fd)),
            Action::Read { fd, offset, length } => on.read(*fd, *offset, *length).map(Reply::Bytes),
            Action::Write { fd, offset, bytes } => done(on.write(*fd, *offset, &bytes.bytes())),
            Action::Resize { fd, size } => done(on.resize(*fd, *size)),
            Action::ResizePath { at, size } => done(on.resize_path(at, *size)),
            Action::Allocate { fd, offset, length, mode } => {
                done(on.allocate(*fd, *offset, *length, *mode))
            }
            Action::Seek { fd, offset, what } => on.seek(*fd, *offset, *what).map(Reply::Offset),
            Action::CopyRange { source, source_offset, target, target_offset, length } => on
                .copy_range(*source, *source_offset, *target, *target_offset, *length)
                .map(Reply::Copied),
            Action::Sync { fd } => done(on.sync(*fd)),
            Action::Stat { at } => on.stat(at).map(Reply::Facts),
            Action::StatOpen { fd } => on.stat_open(*fd).map(Reply::Facts),
            Action::Mkdir { at, mode } => done(on.mkdir(at, *mode)),
            Action::Mkfifo { at, mode } => done(on.mkfifo(at, *mode)),
            Action::Rmdir { at } => done(on.rmdir(at)),
            Action::Unlink { at } => done(on.unlink(at)),
            Action::Readdir { at } => on.readdir(at).map(Reply::Entries),
            Action::Rename { from, to, mode } => done(on.rename(from, to, *mode)),
            Action::Link { from, to } => done(on.link(from, to)),
            Action::Symlink { at, target } => done(on.symlink(at, target)),
            Action::Readlink { at } => on.readlink(at).map(Reply::Target),
            Action::Chmod { at, mode } => done(on.chmod(at, *mode)),
            Action::SetTimes { at, atime, mtime } => done(on.set_times(at, *atime, *mtime)),
            Action::SetXattr { at, name, value, mode } => {
                done(on.set_xattr(at, name, &value.bytes(), *mode))
            }
            Action::GetXattr { at, name } => on.get_xattr(at, name).map(Reply::Bytes),
            Action::ListXattrs { at } => on.list_xattrs(at).map(Reply::Names),
            Action::RemoveXattr { at, name } => done(on.remove_xattr(at, name)),
            Action::Switch { mount } => {
                on.switch(*mount);
                Ok(Reply::Done)
            }
        }
    }
}

impl<P, H> Action<P, H> {
    /// The same action with files and descriptors named in another way.
    pub fn translate<Q, I>(
        self,
        mut file: impl FnMut(P) -> Q,
        mut handle: impl FnMut(H) -> I,
    ) -> Action<Q, I> {
        use Action as A;
        match self {
            A::Open { fd, at, flags, mode } => {
                A::Open { fd: handle(fd), at: file(at), flags, mode }
            }
            A::Close { fd } => A::Close { fd: handle(fd) },
            A::Read { fd, offset, length } => A::Read { fd: handle(fd), offset, length },
            A::Write { fd, offset, bytes } => A::Write { fd: handle(fd), offset, bytes },
            A::Resize { fd, size } => A::Resize { fd: handle(fd), size },
            A::ResizePath { at, size } => A::ResizePath { at: file(at), size },
            A::Allocate { fd, offset, length, mode } => {
                A::Allocate { fd: handle(fd), offset, length, mode }
            }
            A::Seek { fd, offset, what } => A::Seek { fd: handle(fd), offset, what },
            A::CopyRange { source, source_offset, target, target_offset, length } => {
                let (source, target) = (handle(source), handle(target));
                A::CopyRange { source, source_offset, target, target_offset, length }
            }
            A::Sync { fd } => A::Sync { fd: handle(fd) },
            A::Stat { at } => A::Stat { at: file(at) },
            A::StatOpen { fd } => A::StatOpen { fd: handle(fd) },
            A::Mkdir { at, mode } => A::Mkdir { at: file(at), mode },
            A::Mkfifo { at, mode } => A::Mkfifo { at: file(at), mode },
            A::Rmdir { at } => A::Rmdir { at: file(at) },
            A::Unlink { at } => A::Unlink { at: file(at) },
            A::Readdir { at } => A::Readdir { at: file(at) },
            A::Rename { from, to, mode } => A::Rename { from: file(from), to: file(to), mode },
            A::Link { from, to } => A::Link { from: file(from), to: file(to) },
            A::Symlink { at, target } => A::Symlink { at: file(at), target },
            A::Readlink { at } => A::Readlink { at: file(at) },
            A::Chmod { at, mode } => A::Chmod { at: file(at), mode },
            A::SetTimes { at, atime, mtime } => A::SetTimes { at: file(at), atime, mtime },
            A::SetXattr { at, name, value, mode } => {
                A::SetXattr { at: file(at), name, value, mode }
            }
            A::GetXattr { at, name } => A::GetXattr { at: file(at), name },
            A::ListXattrs { at } => A::ListXattrs { at: file(at) },
            A::RemoveXattr { at, name } => A::RemoveXattr { at: file(at), name },
            A::Switch { mount } => A::Switch { mount },
        }
    }
}
