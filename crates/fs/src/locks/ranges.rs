//! The locks that the programs of one mount hold on one file: which of them are in the way of a
//! wish, and what taking and giving back leave.

use crate::ops::{Handle, Lock, LockFamily, LockKind};

/// Locks of one file that a mount can have.
pub(crate) const LOCKS_MAX: usize = 8_192;

/// A lock and the handle through which it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub lock: Lock,
    pub handle: Handle,
    /// The last descriptor of the handle may be closed already, without word of it: the kernel
    /// says so a moment after the program goes on.
    pub may_be_over: bool,
}

/// What becomes of the locks of a file.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Take(Held),
    /// The owner's locks in the lock's range end, of either kind.
    Give(Lock),
    /// All of an owner's record locks end.
    End {
        owner: u64,
    },
    /// All that was taken through a handle ends.
    Leave(Handle),
    /// The store is told once more.
    Nothing,
}

impl Change {
    /// What is left of `held`, in the same order wherever it is asked for.
    pub fn applied_to(&self, held: &[Held]) -> Vec<Held> {
        match self {
            Change::Take(wanted) => {
                let mut after = without(held, &wanted.lock);
                after.push(wanted.clone());
                joined(after)
            }
            Change::Give(lock) => without(held, lock),
            Change::End { owner } => rest(held, |held| {
                held.lock.family == LockFamily::Record && held.lock.owner == *owner
            }),
            Change::Leave(handle) => rest(held, |held| held.handle == *handle),
            Change::Nothing => held.to_vec(),
        }
    }

    pub fn only_ends(&self) -> bool {
        match self {
            Change::Take(_) | Change::Nothing => false,
            Change::Give(_) | Change::End { .. } | Change::Leave(_) => true,
        }
    }
}

impl Lock {
    /// Two locks that two programs cannot have at the same time.
    pub(crate) fn conflicts_with(&self, other: &Lock) -> bool {
        self.family == other.family
            && self.start <= other.last
            && other.start <= self.last
            && (self.kind == LockKind::Exclusive || other.kind == LockKind::Exclusive)
    }

    fn is_of(&self, other: &Lock) -> bool {
        self.family == other.family && self.owner == other.owner
    }
}

/// Others' locks that are in the way.
pub(crate) fn in_the_way<'h>(
    held: &'h [Held],
    wanted: &'h Lock,
) -> impl Iterator<Item = &'h Held> + 'h {
    held.iter().filter(|held| !held.lock.is_of(wanted) && held.lock.conflicts_with(wanted))
}

/// The owner has a lock in the range that is of the other kind. One on the whole file ends before
/// the new one begins, as flock(2) says.
pub(crate) fn has_other_kind(held: &[Held], wanted: &Lock) -> bool {
    held.iter().any(|Held { lock, .. }| {
        lock.is_of(wanted)
            && lock.kind != wanted.kind
            && lock.start <= wanted.last
            && wanted.start <= lock.last
    })
}

fn rest(held: &[Held], ends: impl Fn(&Held) -> bool) -> Vec<Held> {
    held.iter().filter(|held| !ends(held)).cloned().collect()
}

/// Cuts a range out of an owner's locks; a lock around it is left in two.
fn without(held: &[Held], cut: &Lock) -> Vec<Held> {
    let mut after = Vec::with_capacity(held.len() + 1);
    for held in held {
        let lock = &held.lock;
        if !lock.is_of(cut) || lock.last < cut.start || cut.last < lock.start {
            after.push(held.clone());
            continue;
        }
        if lock.start < cut.start {
            let lock = Lock { last: cut.start - 1, ..lock.clone() };
            after.push(Held { lock, ..held.clone() });
        }
        if cut.last < lock.last {
            let lock = Lock { start: cut.last + 1, ..lock.clone() };
            after.push(Held { lock, ..held.clone() });
        }
    }
    after
}

/// Joins the last lock with those that touch it and are the same otherwise.
fn joined(mut held: Vec<Held>) -> Vec<Held> {
    let Some(mut last) = held.pop() else { return held };
    while let Some(at) = held.iter().position(|held| touches(held, &last)) {
        let other = held.swap_remove(at).lock;
        last.lock.start = last.lock.start.min(other.start);
        last.lock.last = last.lock.last.max(other.last);
    }
    held.push(last);
    held
}

fn touches(one: &Held, other: &Held) -> bool {
    let same = one.lock.is_of(&other.lock)
        && one.lock.kind == other.lock.kind
        && one.handle == other.handle
        && one.may_be_over == other.may_be_over;
    let apart = one.lock.last.checked_add(1).is_some_and(|next| next < other.lock.start)
        || other.lock.last.checked_add(1).is_some_and(|next| next < one.lock.start);
    same && !apart
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(owner: u64, kind: LockKind, start: u64, last: u64) -> Lock {
        Lock { family: LockFamily::Record, owner, kind, start, last, pid: 7 }
    }

    fn take(held: &[Held], lock: Lock) -> Vec<Held> {
        Change::Take(Held { lock, handle: Handle(1), may_be_over: false }).applied_to(held)
    }

    fn ranges(held: &[Held]) -> Vec<(u64, u64, LockKind)> {
        let mut ranges: Vec<_> =
            held.iter().map(|held| (held.lock.start, held.lock.last, held.lock.kind)).collect();
        ranges.sort_by_key(|range| range.0);
        ranges
    }

    use LockKind::{Exclusive, Shared};

    #[test]
    fn ranges_that_touch_become_one_and_a_cut_makes_two() {
        let held = take(&[], lock(1, Exclusive, 0, 9));
        let held = take(&held, lock(1, Exclusive, 20, 29));
        assert_eq!(ranges(&held), [(0, 9, Exclusive), (20, 29, Exclusive)]);
        let held = take(&held, lock(1, Exclusive, 10, 19));
        assert_eq!(ranges(&held), [(0, 29, Exclusive)]);
        let held = Change::Give(lock(1, Shared, 5, 6)).applied_to(&held);
        assert_eq!(ranges(&held), [(0, 4, Exclusive), (7, 29, Exclusive)]);
    }

    #[test]
    fn a_change_of_kind_in_the_middle_leaves_three() {
        let held = take(&[], lock(1, Exclusive, 0, u64::MAX));
        let held = take(&held, lock(1, Shared, 10, 19));
        let after = [(0, 9, Exclusive), (10, 19, Shared), (20, u64::MAX, Exclusive)];
        assert_eq!(ranges(&held), after);
        let held = take(&held, lock(1, Exclusive, 0, 19));
        assert_eq!(ranges(&held), [(0, u64::MAX, Exclusive)]);
    }

    #[test]
    fn others_are_in_the_way_where_either_is_exclusive() {
        let held = take(&[], lock(1, Shared, 10, 19));
        let is_free = |wanted: Lock| in_the_way(&held, &wanted).next().is_none();
        assert!(is_free(lock(2, Shared, 0, 100)));
        assert!(!is_free(lock(2, Exclusive, 19, 19)));
        assert!(is_free(lock(2, Exclusive, 20, 29)));
        assert!(is_free(lock(1, Exclusive, 0, 100)), "one's own is not");
        let whole = Lock { family: LockFamily::Whole, ..lock(2, Exclusive, 0, u64::MAX) };
        assert!(is_free(whole), "the two families do not meet");
    }

    #[test]
    fn closing_ends_what_it_should_and_nothing_else() {
        let whole = |owner| Lock { family: LockFamily::Whole, ..lock(owner, Shared, 0, u64::MAX) };
        let mut held = take(&take(&[], lock(1, Shared, 0, 9)), lock(2, Shared, 0, 9));
        let other = Held { lock: whole(1), handle: Handle(2), may_be_over: false };
        held = Change::Take(other).applied_to(&held);
        let left = Change::End { owner: 1 }.applied_to(&held);
        assert_eq!(left.iter().map(|held| held.lock.owner).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(Change::Leave(Handle(1)).applied_to(&held).len(), 1);
        assert!(!has_other_kind(&held, &whole(1)));
        assert!(has_other_kind(&held, &Lock { kind: Exclusive, ..whole(1) }));
    }
}
