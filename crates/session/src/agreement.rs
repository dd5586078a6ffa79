//! What this side and the kernel agree on when a session begins.

use rustix::io::Errno;

use crate::answer::Answer;
use crate::arguments::{Body, Numbers};
use crate::encode::Layout;
use crate::error::SessionError;
use crate::flags::InitFlags;

const MAJOR: u32 = 7;
/// The newest whose messages are known here.
const MINOR: u32 = 40;
/// The oldest whose answer to the introduction is as long as the ones after it.
const MINOR_MIN: u32 = 23;
/// Of the first words of the kernel, up to the first flags; newer kernels have more.
const INTRODUCTION_BYTES: usize = 16;
/// The kernel measures requests in pages of this size, at least.
const PAGE_BYTES: u32 = 4096;
/// Requests of fewer bytes the kernel does not make.
const WRITE_BYTES_MIN: u32 = 4096;

/// What was agreed on, for whoever goes on with a session that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub flags: InitFlags,
    /// The most bytes of one write, and of one read.
    pub write_bytes_max: u32,
}

/// What the kernel offers, and what is asked for of it.
#[derive(Debug)]
pub struct KernelConfig {
    offered: InitFlags,
    asked: InitFlags,
    read_ahead_bytes: u32,
    write_bytes_max: u32,
    background_max: u16,
    stack_depth_max: u32,
}

impl KernelConfig {
    /// `None`: that is too short. Nothing is asked for but what requests of more than a page need.
    fn parse(introduction: Body<'_>) -> Option<Result<KernelConfig, SessionError>> {
        let (mut numbers, rest) = introduction.split(INTRODUCTION_BYTES)?;
        let (major, minor) = (numbers.u32()?, numbers.u32()?);
        if (major, minor) < (MAJOR, MINOR_MIN) {
            return Some(Err(SessionError::TooOld { major, minor }));
        }
        let (read_ahead_bytes, flags) = (numbers.u32()?, numbers.u32()?);
        let more = Numbers(rest.0).u32().unwrap_or(0);
        let mut offered = InitFlags::from_bits_retain(flags.into());
        if offered.contains(InitFlags::INIT_EXT) {
            offered |= InitFlags::from_bits_retain(u64::from(more) << 32);
        }
        let basic = InitFlags::ASYNC_READ | InitFlags::BIG_WRITES | InitFlags::MAX_PAGES;
        Some(Ok(KernelConfig {
            offered,
            asked: (basic | InitFlags::INIT_EXT) & offered,
            read_ahead_bytes,
            write_bytes_max: 128 << 10,
            background_max: 16,
            stack_depth_max: 0,
        }))
    }

    /// Asks for all of these. `Err`: the kernel does not offer them all, and none is asked for.
    pub fn add_capabilities(&mut self, wanted: InitFlags) -> Result<(), InitFlags> {
        let missing = wanted - self.offered;
        if !missing.is_empty() {
            return Err(missing);
        }
        self.asked |= wanted;
        Ok(())
    }

    /// The most bytes of one write, and of one read.
    pub fn set_max_write(&mut self, bytes: u32) {
        self.write_bytes_max = bytes.max(WRITE_BYTES_MIN);
    }

    /// Requests that nobody waits for, such as read-ahead, that are under way at a time.
    pub fn set_max_background(&mut self, requests: u16) {
        self.background_max = requests.max(1);
    }

    /// How many file systems may lie on each other where a file that the kernel is handed lies.
    pub fn set_max_stack_depth(&mut self, depth: u32) {
        self.stack_depth_max = depth;
    }

    pub(crate) fn agreed(&self) -> Agreed {
        Agreed { flags: self.asked, write_bytes_max: self.write_bytes_max }
    }

    /// `struct fuse_init_out`.
    fn answer(&self) -> Layout {
        let flags = self.asked.bits();
        let pages = self.write_bytes_max.div_ceil(PAGE_BYTES);
        let pages = u16::try_from(pages).unwrap_or(u16::MAX);
        // More than so many of them slow down whoever makes them.
        let congested = (u32::from(self.background_max) * 3 / 4).max(1) as u16;
        let passes = self.asked.contains(InitFlags::PASSTHROUGH);
        let depth = if passes { self.stack_depth_max } else { 0 };
        const NANOSECONDS: u32 = 1;
        Layout::new()
            .u32s(&[MAJOR, MINOR, self.read_ahead_bytes, flags as u32])
            .u16s(&[self.background_max, congested])
            .u32s(&[self.write_bytes_max, NANOSECONDS])
            .u16s(&[pages, 0])
            .u32s(&[(flags >> 32) as u32, depth, 0, 0, 0, 0, 0, 0])
    }
}

/// Answers the kernel's introduction. `None`: it speaks a newer language, was told which one is
/// spoken here, and will introduce itself again.
pub(crate) fn agree(
    introduction: Body<'_>,
    answer: Answer,
    init: impl FnOnce(&mut KernelConfig),
) -> Result<Option<KernelConfig>, SessionError> {
    let major = introduction.split(4).and_then(|(mut numbers, _)| numbers.u32());
    if major.is_some_and(|major| major > MAJOR) {
        answer.ok(&[Layout::new().u32s(&[MAJOR, MINOR]).u64s(&[0; 7]).bytes()]);
        return Ok(None);
    }
    match KernelConfig::parse(introduction) {
        Some(Ok(mut config)) => {
            init(&mut config);
            answer.ok(&[config.answer().bytes()]);
            Ok(Some(config))
        }
        Some(Err(error)) => {
            answer.error(Errno::PROTO);
            Err(error)
        }
        None => Err(SessionError::Malformed { bytes: introduction.rest().0.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Kernel;

    fn introduction(minor: u32, flags: u32, more: u32) -> Vec<u8> {
        let words = Layout::new().u32s(&[7, minor, 128 << 10, flags, more]).u32s(&[0; 11]);
        words.bytes().to_vec()
    }

    /// The words of the answer.
    fn told(introduction: &[u8], init: impl FnOnce(&mut KernelConfig)) -> Vec<u32> {
        let (kernel, device) = Kernel::beside();
        let agreed = agree(Body::Together(introduction), Answer::new(1, device), init);
        assert!(agreed.unwrap().is_some());
        let (_, error, bytes) = kernel.answer();
        assert_eq!((error, bytes.len()), (0, 64));
        let word = |word: &[u8]| u32::from_ne_bytes(word.try_into().unwrap());
        bytes.chunks(4).map(word).collect()
    }

    #[test]
    fn only_what_is_offered_can_be_asked_for_and_only_what_is_asked_for_is_taken() {
        let (locks, passthrough) = (InitFlags::POSIX_LOCKS, InitFlags::PASSTHROUGH);
        let told_of = |flags: u32, more: u32| {
            let mut answers = Vec::new();
            let words = told(&introduction(45, flags, more), |config| {
                answers =
                    vec![config.add_capabilities(locks), config.add_capabilities(passthrough)];
            });
            (answers, words[3], words[8])
        };
        let all = told_of(u32::MAX, u32::MAX);
        let basic = InitFlags::ASYNC_READ | InitFlags::BIG_WRITES | InitFlags::MAX_PAGES;
        let wanted = (basic | InitFlags::INIT_EXT | locks).bits() as u32;
        assert_eq!(all, (vec![Ok(()), Ok(())], wanted, 1 << 5));
        let old = told_of(!(1 << 30 | 2), u32::MAX);
        assert_eq!(old.0, [Err(locks), Err(passthrough)], "the word of newer flags is not valid");
        assert_eq!((old.1 & 2, old.2), (0, 0));
    }

    #[test]
    fn sizes_are_told_in_bytes_and_pages() {
        let words = told(&introduction(45, u32::MAX, 0), |config| {
            config.set_max_write(1 << 20);
            config.set_max_background(64);
        });
        assert_eq!((words[0], words[2]), (7, 128 << 10));
        assert_eq!(words[4], 64 | 48 << 16, "background and congested");
        assert_eq!((words[5], words[6], words[7]), (1 << 20, 1, 256));
    }

    #[test]
    fn an_old_kernel_is_refused_and_a_newer_one_asked_to_speak_as_this_side_does() {
        let (kernel, device) = Kernel::beside();
        let old =
            agree(Body::Together(&introduction(22, 0, 0)), Answer::new(1, device.clone()), |_| {});
        assert!(matches!(old, Err(SessionError::TooOld { major: 7, minor: 22 })));
        assert_eq!(kernel.answer().1, -71);
        let newer = Layout::new().u32s(&[8, 0]);
        let newer = agree(Body::Together(newer.bytes()), Answer::new(2, device), |_| {});
        assert!(newer.unwrap().is_none());
        assert_eq!(kernel.answer().2[..4], 7_u32.to_ne_bytes());
    }
}
