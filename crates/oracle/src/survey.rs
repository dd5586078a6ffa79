//! A look at the whole tree, compared with the model and with the look before.
//!
//! Times are compared by what the model's stamps say: a time that did not change is exactly as it
//! was, one that changed lies within the step, one set by hand is what it was set to.

use std::collections::BTreeMap;

use crate::difference::ExpectedTime;
use crate::tree::{Body, Inode};
use crate::{
    Difference, Driver, Errno, Fd, Observed, OpenFlags, Operations, Path, Stamp, Subject, Tree,
};

/// The descriptor that a look opens for itself.
const OWN: Fd = Fd(u32::MAX);

/// What was seen of each living inode, by the model's number.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    seen: BTreeMap<u64, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    ino: u64,
    mtime: (Stamp, u64),
    ctime: (Stamp, u64),
}

impl Survey {
    /// Compares names, kinds, attributes, identities and times. `window`: the earliest and latest
    /// time that the last step can have left.
    pub fn look(
        &mut self,
        tree: &mut Tree,
        driver: &mut dyn Driver,
        window: Option<(u64, u64)>,
    ) -> Result<(), Box<Difference>> {
        let mut seen = BTreeMap::new();
        let paths = tree.paths();
        for at in &paths {
            let subject = Subject::Path(at.clone());
            let found = driver.observe(at);
            let expected = tree.stat(at).expect("the model has what it lists");
            let ino = tree.ino_at(at).expect("the model has what it lists");
            self.compare(&subject, (ino, tree.inode(ino)), expected, found, window, &mut seen)?;
        }
        for fd in tree.descriptors().collect::<Vec<_>>() {
            let found = driver.observe_open(fd);
            let expected = tree.stat_open(fd).expect("the model has it open");
            let ino = tree.ino_of(fd);
            let inode = (ino, tree.inode(ino));
            self.compare(&Subject::Open(fd), inode, expected, found, window, &mut seen)?;
        }
        self.seen = seen;
        compare_entries(tree, driver, &paths)
    }

    fn compare(
        &self,
        subject: &Subject,
        (ino, inode): (u64, &Inode),
        expected: crate::Facts,
        found: Result<Observed, Errno>,
        window: Option<(u64, u64)>,
        seen: &mut BTreeMap<u64, Seen>,
    ) -> Result<(), Box<Difference>> {
        let subject = || subject.clone();
        let found = found.map_err(|error| Difference::Unreadable { subject: subject(), error })?;
        if found.facts != expected {
            return Err(Box::new(Difference::Facts {
                subject: subject(),
                expected,
                found: found.facts,
            }));
        }
        // Within one look an inode must show the same at each of its names.
        let before = seen.get(&ino).or(self.seen.get(&ino)).copied();
        if let Some(before) = before.filter(|before| before.ino != found.ino) {
            let (before, found) = (before.ino, found.ino);
            return Err(Box::new(Difference::Renumbered { subject: subject(), before, found }));
        }
        if seen.iter().any(|(other, seen)| *other != ino && seen.ino == found.ino) {
            return Err(Box::new(Difference::Confused { subject: subject(), ino: found.ino }));
        }
        let times = [
            ("mtime", inode.mtime, before.map(|before| before.mtime), found.mtime),
            ("ctime", inode.ctime, before.map(|before| before.ctime), found.ctime),
        ];
        for (name, stamp, before, found) in times {
            let expected = ExpectedTime { stamp, before: before.map(|(_, time)| time), window };
            if !is_right(expected, before.map(|(stamp, _)| stamp), found) {
                return Err(Box::new(Difference::Time {
                    subject: subject(),
                    name,
                    expected,
                    found,
                }));
            }
        }
        if let Some(atime) = inode.atime.filter(|&atime| atime != found.atime) {
            let expected = ExpectedTime { stamp: Stamp::Set(atime), before: None, window: None };
            let found = found.atime;
            return Err(Box::new(Difference::Time {
                subject: subject(),
                name: "atime",
                expected,
                found,
            }));
        }
        let (mtime, ctime) = ((inode.mtime, found.mtime), (inode.ctime, found.ctime));
        seen.insert(ino, Seen { ino: found.ino, mtime, ctime });
        Ok(())
    }
}

fn is_right(expected: ExpectedTime, stamp_before: Option<Stamp>, found: u64) -> bool {
    if stamp_before == Some(expected.stamp) {
        return expected.before == Some(found);
    }
    let in_window = expected.window.is_none_or(|(first, last)| (first..=last).contains(&found));
    match expected.stamp {
        Stamp::Set(time) => found == time,
        Stamp::Step(_) => in_window,
        Stamp::Maybe(_) => in_window || expected.before == Some(found),
    }
}

fn compare_entries(
    tree: &mut Tree,
    driver: &mut dyn Driver,
    paths: &[Path],
) -> Result<(), Box<Difference>> {
    for at in paths {
        let Ok(expected) = tree.readdir(at) else { continue };
        let unreadable =
            |error| Difference::Unreadable { subject: Subject::Path(at.clone()), error };
        let found = driver.readdir(at).map_err(unreadable)?;
        if found != expected {
            return Err(Box::new(Difference::Entries { at: at.clone(), expected, found }));
        }
    }
    Ok(())
}

/// Compares bytes, link targets and extended attributes. A file that is open for reading is read
/// through that descriptor, so that bytes which it has not sent yet are seen there.
pub fn compare_contents(tree: &mut Tree, driver: &mut dyn Driver) -> Result<(), Box<Difference>> {
    for at in tree.paths() {
        let unreadable =
            |error| Difference::Unreadable { subject: Subject::Path(at.clone()), error };
        match tree.find(&at).map(|inode| inode.body.clone()) {
            Some(Body::File(expected)) if !is_readable(tree, &at) => {
                driver.open(OWN, &at, OpenFlags::READ, 0).map_err(unreadable)?;
                let compared = compare_bytes(driver, OWN, Subject::Path(at.clone()), &expected);
                driver.close(OWN).map_err(unreadable)?;
                compared?;
            }
            Some(Body::Symlink(expected)) => {
                let found = driver.readlink(&at).map_err(unreadable)?;
                if found != expected {
                    return Err(Box::new(Difference::Target { at, expected, found }));
                }
            }
            _ => {}
        }
        compare_xattrs(tree, driver, &at)?;
    }
    let readable = |fd: &Fd| tree.flags(*fd).reads();
    for fd in tree.descriptors().filter(readable) {
        compare_bytes(driver, fd, Subject::Open(fd), tree.bytes_of(tree.ino_of(fd)))?;
    }
    Ok(())
}

fn is_readable(tree: &Tree, at: &Path) -> bool {
    let ino = tree.ino_at(at);
    tree.descriptors().any(|fd| Ok(tree.ino_of(fd)) == ino && tree.flags(fd).reads())
}

fn compare_bytes(
    driver: &mut dyn Driver,
    fd: Fd,
    subject: Subject,
    expected: &[u8],
) -> Result<(), Box<Difference>> {
    // One byte more than there should be, to see that the file ends there.
    match driver.read(fd, 0, expected.len() + 1) {
        Ok(found) if found == expected => Ok(()),
        Ok(found) => {
            let expected = expected.to_vec();
            Err(Box::new(Difference::Bytes { subject, expected, found }))
        }
        Err(error) => Err(Box::new(Difference::Unreadable { subject, error })),
    }
}

fn compare_xattrs(tree: &Tree, driver: &mut dyn Driver, at: &Path) -> Result<(), Box<Difference>> {
    let Some(inode) = tree.find(at).filter(|_| driver.abilities().user_xattrs) else {
        return Ok(());
    };
    let unreadable = |error| Difference::Unreadable { subject: Subject::Path(at.clone()), error };
    let mut found = BTreeMap::new();
    for name in driver.list_xattrs(at).map_err(unreadable)? {
        let value = driver.get_xattr(at, &name).map_err(unreadable)?;
        found.insert(name, value);
    }
    if found != inode.xattrs {
        let expected = inode.xattrs.clone();
        return Err(Box::new(Difference::Xattrs { at: at.clone(), expected, found }));
    }
    Ok(())
}
