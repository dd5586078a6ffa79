//! A conditional batch on one shard: the unit of metadata.
//!
//! A store applies all updates of a batch or none, at one instant. Either every check holds, then
//! the updates are made in order; or the first check that fails is named and nothing changes. The
//! reads are answered at the same instant, after the updates, also when the batch is refused.
//!
//! Numbers inside values are unsigned 64-bit, big-endian, at a byte offset chosen by the caller.

/// A field of a shard, or a value under it.
pub type Bytes = Vec<u8>;

/// What must hold for a batch to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The shard has no such field.
    Absent { field: Bytes },
    /// The shard has the field.
    Present { field: Bytes },
    /// The field's value is exactly this.
    Equals { field: Bytes, value: Bytes },
    /// The number at byte `at` of the field's value is at least `least`. A missing field, and
    /// every byte beyond a value's end, counts as zero.
    AtLeast { field: Bytes, at: u32, least: u64 },
    /// The number at byte `at` is at most `most`; missing bytes count as zero.
    AtMost { field: Bytes, at: u32, most: u64 },
}

/// One change. An update of bytes inside a value (all but the first two) first creates a missing
/// field and extends the value with zeros to hold every byte that it names, even when those bytes
/// then stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Sets the whole value.
    Put { field: Bytes, value: Bytes },
    /// Removes the field if it is there.
    Delete { field: Bytes },
    /// Overwrites the bytes of the value from `at` on.
    Patch { field: Bytes, at: u32, bytes: Bytes },
    /// Adds to the number at `at`, wrapping around at 2^64 either way.
    Add { field: Bytes, at: u32, delta: i64 },
    /// Raises the number at `at` to `value` if it is less.
    Max { field: Bytes, at: u32, value: u64 },
}

impl Update {
    /// The field that it changes.
    pub fn field(&self) -> &Bytes {
        match self {
            Update::Put { field, .. }
            | Update::Delete { field }
            | Update::Patch { field, .. }
            | Update::Add { field, .. }
            | Update::Max { field, .. } => field,
        }
    }
}

/// What the batch answers with, one value a read; `None` where the field is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The value of a field.
    Field { field: Bytes },
    /// The value of the field whose name is `prefix` followed by `length` bytes, from `at` on, of
    /// the value of `field`: one step along a reference inside the shard. Missing as well where
    /// the value of `field` is missing or ends before those bytes do.
    Linked { field: Bytes, at: u32, length: u32, prefix: Bytes },
}

/// Checks, updates and reads on one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub checks: Vec<Check>,
    pub updates: Vec<Update>,
    pub reads: Vec<Read>,
    /// The batch frees more than it takes, so it may use the head-room that a full store keeps.
    pub reclaims: bool,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Index of the first check that failed; `None` when the batch was applied.
    pub refused_by: Option<usize>,
    /// The shard held no field before this batch.
    pub shard_was_empty: bool,
    /// One value a read, in order.
    pub values: Vec<Option<Bytes>>,
}

impl Outcome {
    pub fn applied(&self) -> bool {
        self.refused_by.is_none()
    }

    /// Moves the value of read number `read` out.
    pub fn take(&mut self, read: usize) -> Option<Bytes> {
        self.values.get_mut(read).and_then(Option::take)
    }
}

/// A batch is written down as a chain of calls, in the order in which it is carried out.
impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }

    pub fn absent(mut self, field: impl Into<Bytes>) -> Batch {
        self.checks.push(Check::Absent { field: field.into() });
        self
    }

    pub fn present(mut self, field: impl Into<Bytes>) -> Batch {
        self.checks.push(Check::Present { field: field.into() });
        self
    }

    pub fn equals(mut self, field: impl Into<Bytes>, value: impl Into<Bytes>) -> Batch {
        self.checks.push(Check::Equals { field: field.into(), value: value.into() });
        self
    }

    pub fn at_least(mut self, field: impl Into<Bytes>, at: u32, least: u64) -> Batch {
        self.checks.push(Check::AtLeast { field: field.into(), at, least });
        self
    }

    pub fn at_most(mut self, field: impl Into<Bytes>, at: u32, most: u64) -> Batch {
        self.checks.push(Check::AtMost { field: field.into(), at, most });
        self
    }

    pub fn put(mut self, field: impl Into<Bytes>, value: impl Into<Bytes>) -> Batch {
        self.updates.push(Update::Put { field: field.into(), value: value.into() });
        self
    }

    pub fn delete(mut self, field: impl Into<Bytes>) -> Batch {
        self.updates.push(Update::Delete { field: field.into() });
        self
    }

    pub fn patch(mut self, field: impl Into<Bytes>, at: u32, bytes: impl Into<Bytes>) -> Batch {
        self.updates.push(Update::Patch { field: field.into(), at, bytes: bytes.into() });
        self
    }

    pub fn add(mut self, field: impl Into<Bytes>, at: u32, delta: i64) -> Batch {
        self.updates.push(Update::Add { field: field.into(), at, delta });
        self
    }

    pub fn max(mut self, field: impl Into<Bytes>, at: u32, value: u64) -> Batch {
        self.updates.push(Update::Max { field: field.into(), at, value });
        self
    }

    pub fn read(mut self, field: impl Into<Bytes>) -> Batch {
        self.reads.push(Read::Field { field: field.into() });
        self
    }

    pub fn read_linked(
        mut self,
        field: impl Into<Bytes>,
        at: u32,
        length: u32,
        prefix: impl Into<Bytes>,
    ) -> Batch {
        self.reads.push(Read::Linked { field: field.into(), at, length, prefix: prefix.into() });
        self
    }

    pub fn reclaims(mut self) -> Batch {
        self.reclaims = true;
        self
    }

    /// Changes nothing, so it may be answered from anywhere and repeated freely.
    pub fn only_reads(&self) -> bool {
        self.updates.is_empty()
    }
}
