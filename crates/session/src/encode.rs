//! The layout of answers of a fixed size.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::values::{FileAttr, FileHandle, Generation, StatFs};

/// The largest: an entry and an open file.
const BYTES_MAX: usize = ENTRY_BYTES + 16;
pub(crate) const ENTRY_BYTES: usize = 128;

/// Numbers one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    bytes: [u8; BYTES_MAX],
    length: usize,
}

impl Layout {
    pub fn new() -> Layout {
        Layout { bytes: [0; BYTES_MAX], length: 0 }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub fn u16s(self, numbers: &[u16]) -> Layout {
        numbers.iter().fold(self, |layout, number| layout.push(&number.to_ne_bytes()))
    }

    pub fn u32s(self, numbers: &[u32]) -> Layout {
        numbers.iter().fold(self, |layout, number| layout.push(&number.to_ne_bytes()))
    }

    pub fn u64s(self, numbers: &[u64]) -> Layout {
        numbers.iter().fold(self, |layout, number| layout.push(&number.to_ne_bytes()))
    }

    /// `struct fuse_entry_out`: how long the kernel may keep the name and the attributes, and those.
    pub fn entry(
        self,
        (name, attributes): (Duration, Duration),
        attr: &FileAttr,
        generation: Generation,
    ) -> Layout {
        self.u64s(&[attr.ino.0, generation.0, name.as_secs(), attributes.as_secs()])
            .u32s(&[name.subsec_nanos(), attributes.subsec_nanos()])
            .attr(attr)
    }

    /// `struct fuse_attr_out`.
    pub fn attributes(self, lifetime: Duration, attr: &FileAttr) -> Layout {
        self.u64s(&[lifetime.as_secs()]).u32s(&[lifetime.subsec_nanos(), 0]).attr(attr)
    }

    fn attr(self, attr: &FileAttr) -> Layout {
        let times = [attr.atime, attr.mtime, attr.ctime].map(since_epoch);
        // Seconds before 1970 are negative, in numbers without a sign.
        let seconds = times.map(|(seconds, _)| seconds as u64);
        let nanoseconds = times.map(|(_, nanoseconds)| nanoseconds);
        self.u64s(&[attr.ino.0, attr.size, attr.blocks]).u64s(&seconds).u32s(&nanoseconds).u32s(&[
            attr.kind.mode() | u32::from(attr.perm),
            attr.nlink,
            attr.uid,
            attr.gid,
            attr.rdev,
            attr.blksize,
            0,
        ])
    }

    /// `struct fuse_open_out`.
    pub fn opened(self, fh: FileHandle, flags: u32, backing: u32) -> Layout {
        self.u64s(&[fh.0]).u32s(&[flags, backing])
    }

    /// `struct fuse_kstatfs`.
    pub fn statfs(self, totals: &StatFs) -> Layout {
        let StatFs { blocks, blocks_free, blocks_available, files, files_free, .. } = *totals;
        self.u64s(&[blocks, blocks_free, blocks_available, files, files_free])
            .u32s(&[totals.transfer_bytes, totals.name_bytes_max, totals.block_bytes])
            .u32s(&[0; 7])
    }

    fn push(mut self, number: &[u8]) -> Layout {
        let end = self.length + number.len();
        self.bytes[self.length..end].copy_from_slice(number);
        self.length = end;
        self
    }
}

/// Seconds downwards, nanoseconds upwards. What is too far away for the numbers is as far as they go.
fn since_epoch(time: SystemTime) -> (i64, u32) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => match i64::try_from(after.as_secs()) {
            Ok(seconds) => (seconds, after.subsec_nanos()),
            Err(_) => (i64::MAX, 999_999_999),
        },
        Err(error) => {
            let before = error.duration();
            let seconds = i64::try_from(before.as_secs()).map_or(i64::MIN, |seconds| -seconds);
            match before.subsec_nanos() {
                0 => (seconds, 0),
                _ if seconds == i64::MIN => (seconds, 0),
                nanoseconds => (seconds - 1, 1_000_000_000 - nanoseconds),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::file;

    #[test]
    fn each_layout_is_as_long_as_the_kernel_has_it() {
        let (now, generation) = (Duration::ZERO, Generation(0));
        let entry = Layout::new().entry((now, now), &file(2), generation);
        assert_eq!(entry.bytes().len(), ENTRY_BYTES);
        assert_eq!(entry.opened(FileHandle(1), 0, 0).bytes().len(), 144);
        assert_eq!(Layout::new().attributes(now, &file(2)).bytes().len(), 104);
        assert_eq!(Layout::new().statfs(&StatFs::default()).bytes().len(), 80);
    }

    #[test]
    fn an_attribute_stands_where_the_kernel_looks_for_it() {
        let attr = FileAttr { perm: 0o4755, size: 0x0102, ..file(0x42) };
        let layout = Layout::new().attributes(Duration::from_millis(1500), &attr);
        let bytes = layout.bytes();
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!((u64_at(0), u32_at(8)), (1, 500_000_000));
        assert_eq!((u64_at(16), u64_at(24)), (0x42, 0x0102));
        assert_eq!(u32_at(76), 0o104_755, "kind and permissions");
        assert_eq!(u32_at(96), attr.blksize);
    }

    #[test]
    fn times_before_1970_count_upwards_from_the_second_before() {
        assert_eq!(since_epoch(UNIX_EPOCH - Duration::from_millis(1200)), (-2, 800_000_000));
        assert_eq!(since_epoch(UNIX_EPOCH - Duration::from_secs(2)), (-2, 0));
        assert_eq!(since_epoch(UNIX_EPOCH + Duration::from_millis(1200)), (1, 200_000_000));
    }
}
