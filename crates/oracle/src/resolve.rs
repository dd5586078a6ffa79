//! From random operations to steps: indexes wrap into what exists in the model, and what POSIX
//! leaves open, or a file system lacks, becomes something that has one right answer.

use crate::{
    Abilities, Access, Action, Kind, Op, OpenFlags, Path, Pick, SetTime, SpaceMode, Step, Tree,
    Where,
};

/// Descriptors that are open at a time.
const OPEN_MAX: usize = 6;
const MADE_TO_OPEN: &str = "opened";
/// A name that no operation makes.
const NEVER_MADE: &str = "never-made";
/// Privileges of files would come and go with the privileges of whoever runs the test.
const FILE_MODE: u32 = 0o777;

/// The steps that an operation means for this tree; none when there is nothing to act on.
pub fn resolve(tree: &Tree, op: &Op, abilities: Abilities) -> Vec<Step> {
    if let Action::Switch { mount } = op {
        let closes = tree.descriptors().map(|fd| Action::Close { fd });
        return closes.chain([Action::Switch { mount: *mount }]).collect();
    }
    let opens = matches!(op, Action::Open { .. });
    let descriptors: Vec<_> = tree.descriptors().collect();
    if opens && descriptors.len() >= OPEN_MAX {
        return vec![Action::Close { fd: descriptors[0] }];
    }
    let mut needs_one = false;
    let handle = |Pick(index): Pick| match descriptors.len() {
        count if count > 0 && !opens => descriptors[index % count],
        _ => {
            needs_one = !opens;
            tree.next_fd()
        }
    };
    let step = op.clone().translate(|place| locate(tree, place), handle);
    let steps = settle(tree, step, abilities).into_iter();
    match open_any(tree) {
        _ if !needs_one => steps.collect(),
        Some(open) => [open].into_iter().chain(steps).collect(),
        None => Vec::new(),
    }
}

/// Opens a file that is there, or makes one, where the operation needs a descriptor.
fn open_any(tree: &Tree) -> Option<Step> {
    let is_file = |at: &Path| tree.kind_at(at) == Some(Kind::File);
    let at = tree.paths().into_iter().find(is_file).unwrap_or(Path::root().join(MADE_TO_OPEN));
    let flags = OpenFlags { access: Access::ReadWrite, create: true, ..OpenFlags::READ };
    let can_open = tree.kind_at(&at).is_none_or(|kind| kind == Kind::File);
    can_open.then(|| Action::Open { fd: tree.next_fd(), at, flags, mode: 0o600 })
}

fn locate(tree: &Tree, place: Where) -> Path {
    let paths = tree.paths();
    match place {
        Where::Known { index } => paths[index % paths.len()].clone(),
        Where::Fresh { directory, name } => directory_at(tree, &paths, directory).join(name),
        Where::Nowhere { directory, name } => {
            directory_at(tree, &paths, directory).join(NEVER_MADE).join(name)
        }
        Where::Beneath { index, name } => {
            let at = &paths[index % paths.len()];
            match tree.kind_at(at) {
                // Whoever walks the path would follow it.
                Some(Kind::Symlink) => at.clone(),
                _ => at.join(name),
            }
        }
    }
}

fn directory_at(tree: &Tree, paths: &[Path], index: usize) -> Path {
    let is_directory = |at: &&Path| tree.kind_at(at) == Some(Kind::Directory);
    let directories: Vec<_> = paths.iter().filter(is_directory).collect();
    directories[index % directories.len()].clone()
}

/// The step itself, or another one where it has no single right answer.
fn settle(tree: &Tree, step: Step, abilities: Abilities) -> Option<Step> {
    let kind = |at: &Path| tree.kind_at(at);
    Some(match step {
        Action::Open { fd, at, flags, mode } => match kind(&at) {
            _ if at.is_root() => Action::Readdir { at },
            Some(Kind::Directory) if !flags.create && !flags.writes() => Action::Readdir { at },
            // Opening one end of a pipe waits for the other.
            Some(Kind::Fifo) if !flags.exclusive => Action::Stat { at },
            _ => Action::Open { fd, at, flags, mode },
        },
        // Nothing to set, so the kernel need not look whether the file is there.
        Action::SetTimes { at, atime: SetTime::Omit, mtime: SetTime::Omit } => Action::Stat { at },
        // These follow symbolic links.
        Action::ResizePath { at, .. } | Action::Chmod { at, .. }
            if kind(&at) == Some(Kind::Symlink) =>
        {
            Action::Stat { at }
        }
        Action::Chmod { at, mode } if kind(&at) != Some(Kind::Directory) => {
            Action::Chmod { at, mode: mode & FILE_MODE }
        }
        Action::Allocate {
            fd,
            offset,
            length,
            mode: SpaceMode::Zero | SpaceMode::ZeroKeepSize,
        } if !abilities.zero_range => {
            Action::Allocate { fd, offset, length, mode: SpaceMode::PunchHole }
        }
        Action::SetXattr { at, .. }
        | Action::GetXattr { at, .. }
        | Action::ListXattrs { at }
        | Action::RemoveXattr { at, .. }
            if !abilities.user_xattrs =>
        {
            Action::Stat { at }
        }
        step => return Some(step).filter(|step| !changes_the_root(step)),
    })
}

/// The root has no name that could be made, moved or removed.
fn changes_the_root(step: &Step) -> bool {
    match step {
        Action::Mkdir { at, .. }
        | Action::Mkfifo { at, .. }
        | Action::Rmdir { at }
        | Action::Unlink { at }
        | Action::Symlink { at, .. } => at.is_root(),
        Action::Rename { from, to, .. } | Action::Link { from, to } => {
            from.is_root() || to.is_root()
        }
        _ => false,
    }
}
