//! Random operations. The space is kept small on purpose, so that names collide, files are opened
//! twice and sizes meet at stripe borders; indexes wrap into what exists when an operation is
//! resolved, so that a shrunk scenario still means something.

use proptest::prelude::*;
use proptest::sample::select;

use crate::{
    Access, Action, OpenFlags, Pattern, RenameMode, SeekFor, SetTime, SpaceMode, XattrMode,
};

/// What a scenario is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Bytes of a stripe; sizes gather around its multiples.
    pub stripe: u64,
    /// Mounts of the same tree that operations alternate between.
    pub mounts: usize,
    /// Scenarios that are tried unless `PROPTEST_CASES` says otherwise.
    pub cases: u32,
}

impl Profile {
    pub const CASES: u32 = 64;
}

/// Operations to run, and how often the bytes of all files are compared. Rarely matters as well:
/// reading a file can move its bytes from where they wait to the store.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub ops: Vec<Op>,
    pub contents_every: usize,
}

/// An operation on files and descriptors that are picked by index.
pub type Op = Action<Where, Pick>;

/// The descriptor of this index among those that are open, counted round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick(pub usize);

/// A path by index, counted round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// One that exists.
    Known { index: usize },
    /// A name in a directory that exists; the name may exist.
    Fresh { directory: usize, name: &'static str },
    /// A name beneath one that exists, which may be no directory.
    Beneath { index: usize, name: &'static str },
    /// A name in a directory that does not exist.
    Nowhere { directory: usize, name: &'static str },
}

const NAMES: [&str; 10] = ["a", "b", "aa", "ab", "ba", "bb", "aaa", "aba", "bab", "bbb"];
const TARGETS: [&str; 3] = ["a", "a/b", "../none"];
const XATTRS: [&str; 2] = ["user.a", "user.b"];
/// A short scenario must be possible, or a long one could not be shrunk to it.
const OPS_MAX: usize = 120;
const INDEX_MAX: usize = 24;
/// Untouched by any usual file creation mask.
const MODES: [u32; 2] = [0o600, 0o700];
/// For directories; files get the low nine bits.
const CHANGED_MODES: [u32; 5] = [0o644, 0o777, 0o700, 0o1777, 0o2755];
/// Nanoseconds since 1970; the last one is in the year 2096.
const TIMES: [u64; 4] = [0, 1_000_000_000, 1_500_000_000_123_456_789, 4_000_000_000_000_000_001];

/// Scenarios of sixty operations on average.
pub fn scenarios(profile: Profile) -> impl Strategy<Value = Scenario> {
    let ops = prop::collection::vec(op(profile), 1..=OPS_MAX);
    (ops, select(vec![1, 4, 15, 1000]))
        .prop_map(|(ops, contents_every)| Scenario { ops, contents_every })
}

/// Operations that change names and attributes, and no bytes: what they did has reached the store
/// when they return.
pub fn name_ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![3 => names(), 1 => attributes(), 1 => open()];
    prop::collection::vec(op, 1..=OPS_MAX)
}

fn op(profile: Profile) -> BoxedStrategy<Op> {
    let switches = if profile.mounts > 1 { 40 } else { 0 };
    let switch = (0..profile.mounts).prop_map(|mount| Action::Switch { mount });
    prop_oneof![
        32 => descriptors(),
        56 => bytes(profile.stripe),
        52 => names(),
        24 => attributes(),
        switches => switch,
    ]
    .boxed()
}

fn open() -> impl Strategy<Value = Op> {
    (place(6), open_flags(), select(&MODES[..])).prop_map(|(at, flags, mode)| Action::Open {
        fd: Pick(0),
        at,
        flags,
        mode,
    })
}

fn descriptors() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => open(),
        6 => pick().prop_map(|fd| Action::Close { fd }),
        3 => pick().prop_map(|fd| Action::Sync { fd }),
        1 => pick().prop_map(|fd| Action::StatOpen { fd }),
    ]
}

fn bytes(stripe: u64) -> impl Strategy<Value = Op> {
    let write = (pick(), offset(stripe), pattern(stripe))
        .prop_map(|(fd, offset, bytes)| Action::Write { fd, offset, bytes });
    let read = (pick(), offset(stripe), length(stripe))
        .prop_map(|(fd, offset, length)| Action::Read { fd, offset, length: length as usize });
    let resize = (pick(), offset(stripe)).prop_map(|(fd, size)| Action::Resize { fd, size });
    let resize_path =
        (known(), offset(stripe)).prop_map(|(at, size)| Action::ResizePath { at, size });
    let allocate = (pick(), offset(stripe), length(stripe), space_mode())
        .prop_map(|(fd, offset, length, mode)| Action::Allocate { fd, offset, length, mode });
    let seek = (pick(), offset(stripe), select(vec![SeekFor::Data, SeekFor::Hole]))
        .prop_map(|(fd, offset, what)| Action::Seek { fd, offset, what });
    let copy = ((pick(), offset(stripe)), (pick(), offset(stripe)), length(stripe)).prop_map(
        |((source, source_offset), (target, target_offset), length)| Action::CopyRange {
            source,
            source_offset,
            target,
            target_offset,
            length,
        },
    );
    prop_oneof![
        24 => write,
        10 => read,
        6 => resize,
        4 => resize_path,
        5 => allocate,
        4 => seek,
        4 => copy,
    ]
}

fn names() -> impl Strategy<Value = Op> {
    let mkdir = (fresh(), select(&MODES[..])).prop_map(|(at, mode)| Action::Mkdir { at, mode });
    let mkfifo = (fresh(), select(&MODES[..])).prop_map(|(at, mode)| Action::Mkfifo { at, mode });
    let rename_mode = select(vec![
        RenameMode::Replace,
        RenameMode::Replace,
        RenameMode::NoReplace,
        RenameMode::Exchange,
    ]);
    let rename = (known(), place(6), rename_mode).prop_map(|(from, to, mode)| Action::Rename {
        from,
        to,
        mode,
    });
    let link = (known(), fresh()).prop_map(|(from, to)| Action::Link { from, to });
    let symlink =
        (fresh(), select(&TARGETS[..])).prop_map(|(at, target)| Action::Symlink { at, target });
    prop_oneof![
        12 => mkdir,
        2 => mkfifo,
        5 => known().prop_map(|at| Action::Rmdir { at }),
        8 => known().prop_map(|at| Action::Unlink { at }),
        1 => known().prop_map(|at| Action::Readdir { at }),
        14 => rename,
        6 => link,
        3 => symlink,
        1 => known().prop_map(|at| Action::Readlink { at }),
    ]
}

fn attributes() -> impl Strategy<Value = Op> {
    let chmod =
        (known(), select(&CHANGED_MODES[..])).prop_map(|(at, mode)| Action::Chmod { at, mode });
    let set_times = (known(), set_time(), set_time())
        .prop_map(|(at, atime, mtime)| Action::SetTimes { at, atime, mtime });
    let xattr_mode = select(vec![XattrMode::Any, XattrMode::Create, XattrMode::Replace]);
    let value = (any::<u8>(), select(vec![3_usize, 0, 100]))
        .prop_map(|(seed, length)| Pattern { seed, length });
    let set_xattr = (known(), select(&XATTRS[..]), value, xattr_mode)
        .prop_map(|(at, name, value, mode)| Action::SetXattr { at, name, value, mode });
    let named = || (known(), select(&XATTRS[..]));
    prop_oneof![
        1 => known().prop_map(|at| Action::Stat { at }),
        4 => chmod,
        4 => set_times,
        6 => set_xattr,
        2 => named().prop_map(|(at, name)| Action::GetXattr { at, name }),
        1 => known().prop_map(|at| Action::ListXattrs { at }),
        3 => named().prop_map(|(at, name)| Action::RemoveXattr { at, name }),
    ]
}

/// A path that likely exists.
fn known() -> impl Strategy<Value = Where> {
    place(10)
}

/// A path that likely does not exist, in a directory that does.
fn fresh() -> impl Strategy<Value = Where> {
    place(2)
}

/// Of twelve, so many are to exist already.
fn place(known: u32) -> impl Strategy<Value = Where> {
    let name = || select(&NAMES[..]);
    prop_oneof![
        2 * known => (0..INDEX_MAX).prop_map(|index| Where::Known { index }),
        2 * (12 - known) => (0..INDEX_MAX, name())
            .prop_map(|(directory, name)| Where::Fresh { directory, name }),
        2 => (0..INDEX_MAX, name()).prop_map(|(index, name)| Where::Beneath { index, name }),
        1 => (0..INDEX_MAX, name())
            .prop_map(|(directory, name)| Where::Nowhere { directory, name }),
    ]
}

fn pick() -> impl Strategy<Value = Pick> {
    (0..INDEX_MAX).prop_map(Pick)
}

fn open_flags() -> impl Strategy<Value = OpenFlags> {
    let access = select(vec![Access::ReadWrite, Access::ReadWrite, Access::Read, Access::Write]);
    (access, 0..10_u8, 0..5_u8, 0..5_u8).prop_map(|(access, create, truncate, append)| {
        let writes = access != Access::Read;
        OpenFlags {
            access,
            create: create < 7,
            exclusive: create < 2,
            truncate: writes && truncate == 0,
            append: writes && append == 0,
        }
    })
}

fn space_mode() -> impl Strategy<Value = SpaceMode> {
    select(vec![
        SpaceMode::PunchHole,
        SpaceMode::Allocate,
        SpaceMode::AllocateKeepSize,
        SpaceMode::Zero,
        SpaceMode::ZeroKeepSize,
    ])
}

fn set_time() -> impl Strategy<Value = SetTime> {
    prop_oneof![
        1 => Just(SetTime::Omit),
        1 => Just(SetTime::Now),
        2 => select(&TIMES[..]).prop_map(SetTime::At),
    ]
}

fn offset(stripe: u64) -> impl Strategy<Value = u64> {
    let borders = vec![0, 1, stripe - 1, stripe, stripe + 1, 2 * stripe - 1, 2 * stripe];
    prop_oneof![4 => select(borders), 1 => 0..3 * stripe]
}

fn length(stripe: u64) -> impl Strategy<Value = u64> {
    let borders = vec![1, 0, stripe - 1, stripe, stripe + 1, 2 * stripe + 1];
    prop_oneof![3 => select(borders), 2 => 0..100_u64, 1 => 0..2 * stripe]
}

fn pattern(stripe: u64) -> impl Strategy<Value = Pattern> {
    (any::<u8>(), length(stripe))
        .prop_map(|(seed, length)| Pattern { seed, length: length as usize })
}
