//! What the kernel is told unasked.

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use crate::device::Device;
use crate::encode::Layout;
use crate::values::INodeNo;

const HEAD_BYTES: usize = 16;

/// Notices have these numbers where answers have their error.
const INVALIDATE_INODE: u32 = 2;
const INVALIDATE_ENTRY: u32 = 3;
const STORE: u32 = 4;
const RESEND: u32 = 7;
const PRUNE: u32 = 9;

/// Of an entry: it is to be looked at again, and nothing else happens to it (Linux 6.2).
const EXPIRE_ONLY: u32 = 1;

/// The way to the kernel of one mount. Each notice fails with what the kernel says of it; `NOENT`: it has no
/// such inode or entry.
#[derive(Clone, Debug)]
pub struct Notifier(Arc<Device>);

impl Notifier {
    pub(crate) fn new(device: Arc<Device>) -> Notifier {
        Notifier(device)
    }

    /// What the kernel keeps of an inode's attributes is out of date. Its pages stay.
    pub fn forget_attributes(&self, number: INodeNo) -> Result<(), Errno> {
        /// Before the first byte.
        const NO_PAGE: i64 = -1;
        self.invalidate(number, NO_PAGE, 0)
    }

    /// The same, and the pages of all of a file are dropped. Waits for reads of it that are under way.
    pub fn drop_pages(&self, number: INodeNo) -> Result<(), Errno> {
        self.invalidate(number, 0, 0)
    }

    /// The same for a part of a file. Waits for whoever reads or writes there.
    pub fn drop_range(&self, number: INodeNo, bytes: Range<u64>) -> Result<(), Errno> {
        // Files end long before the numbers do.
        let (start, length) = (bytes.start as i64, (bytes.end - bytes.start) as i64);
        self.invalidate(number, start, length)
    }

    /// Bytes of a file, for the kernel's pages, which are so far at least then.
    pub fn store(&self, number: INodeNo, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let length = u32::try_from(bytes.len()).map_err(|_| Errno::TOOBIG)?;
        let what = Layout::new().u64s(&[number.0, offset]).u32s(&[length, 0]);
        self.send(STORE, &[what.bytes(), bytes])
    }

    /// A name is looked at again before it is answered from. Waits for who changes names in its directory.
    pub fn expire_name(&self, parent: INodeNo, name: &[u8]) -> Result<(), Errno> {
        let length = u32::try_from(name.len()).map_err(|_| Errno::NAMETOOLONG)?;
        let what = Layout::new().u64s(&[parent.0]).u32s(&[length, EXPIRE_ONLY]);
        self.send(INVALIDATE_ENTRY, &[what.bytes(), name, &[0]])
    }

    /// Inodes are to be given up, as far as nobody uses them (Linux 6.18).
    pub fn prune(&self, numbers: impl IntoIterator<Item = INodeNo>) -> Result<(), Errno> {
        let numbers: Vec<u8> = numbers.into_iter().flat_map(|it| it.0.to_ne_bytes()).collect();
        let count = u32::try_from(numbers.len() / 8).map_err(|_| Errno::TOOBIG)?;
        self.send(PRUNE, &[Layout::new().u32s(&[count, 0, 0, 0]).bytes(), &numbers])
    }

    /// Has every request that was read and not answered sent again, on whatever descriptor that was. Answers
    /// to what was read before go to nobody then. Only where [`InitFlags::HAS_RESEND`] was agreed on.
    ///
    /// [`InitFlags::HAS_RESEND`]: crate::InitFlags::HAS_RESEND
    pub fn resend(&self) -> Result<(), Errno> {
        self.send(RESEND, &[])
    }

    fn invalidate(&self, number: INodeNo, offset: i64, length: i64) -> Result<(), Errno> {
        // The kernel reads them as numbers with a sign.
        let what = Layout::new().u64s(&[number.0, offset as u64, length as u64]);
        self.send(INVALIDATE_INODE, &[what.bytes()])
    }

    fn send(&self, code: u32, parts: &[&[u8]]) -> Result<(), Errno> {
        let bytes = HEAD_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
        let bytes = u32::try_from(bytes).map_err(|_| Errno::TOOBIG)?;
        let head = Layout::new().u32s(&[bytes, code]).u64s(&[0]);
        let message = [&[head.bytes()], parts].concat();
        let message: Vec<_> = message.into_iter().map(IoSlice::new).collect();
        self.0.write(&message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Kernel;

    /// The code and what follows the head.
    fn notice(send: impl FnOnce(&Notifier) -> Result<(), Errno>) -> (i32, Vec<u8>) {
        let (kernel, device) = Kernel::beside();
        send(&Notifier::new(device)).unwrap();
        let (unique, code, rest) = kernel.answer();
        assert_eq!(unique, 0);
        (code, rest)
    }

    #[test]
    fn a_name_is_sent_with_its_end() {
        let (code, rest) = notice(|it| it.expire_name(INodeNo(0x42), b"abc"));
        assert_eq!(code, 3);
        assert_eq!(rest, *b"\x42\0\0\0\0\0\0\0\x03\0\0\0\x01\0\0\0abc\0");
    }

    #[test]
    fn attributes_are_forgotten_without_pages_and_pages_are_dropped_with_them() {
        let (code, rest) = notice(|it| it.forget_attributes(INodeNo(5)));
        assert_eq!((code, rest.len(), &rest[8..16]), (2, 24, &[255; 8][..]));
        let (_, rest) = notice(|it| it.drop_range(INodeNo(5), 4096..8192));
        assert_eq!((&rest[8..10], &rest[16..18]), (&[0, 16][..], &[0, 16][..]));
        let (_, rest) = notice(|it| it.drop_pages(INodeNo(5)));
        assert_eq!(rest[8..], [0; 16]);
    }

    #[test]
    fn that_requests_are_to_come_again_is_a_head_alone() {
        assert_eq!(notice(Notifier::resend), (7, Vec::new()));
    }

    #[test]
    fn bytes_and_numbers_are_sent_behind_how_many_there_are() {
        let (code, rest) = notice(|it| it.store(INodeNo(5), 7, b"xy"));
        assert_eq!((code, rest.len(), rest[16]), (4, 26, 2));
        let (code, rest) = notice(|it| it.prune([INodeNo(3), INodeNo(4)]));
        assert_eq!((code, rest.len(), rest[0], rest[16], rest[24]), (9, 32, 2, 3, 4));
    }
}
