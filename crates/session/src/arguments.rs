//! Taking a request's arguments apart. Nothing is trusted: what is too short has no argument there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What follows the head of a request: numbers, and then names and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'a> {
    /// One behind the other.
    Together(&'a [u8]),
    /// Each in a place of its own, where the numbers may have unused space behind them.
    Apart { numbers: &'a [u8], payload: &'a [u8] },
}

impl<'a> Body<'a> {
    /// The numbers, which have a fixed size, and the rest.
    pub fn split(self, fixed: usize) -> Option<(Numbers<'a>, Rest<'a>)> {
        let (numbers, rest) = match self {
            Body::Together(bytes) => bytes.split_at_checked(fixed)?,
            Body::Apart { numbers, payload } => (numbers.get(..fixed)?, payload),
        };
        Some((Numbers(numbers), Rest(rest)))
    }

    /// Where there are no numbers.
    pub fn rest(self) -> Rest<'a> {
        match self {
            Body::Together(rest) | Body::Apart { payload: rest, .. } => Rest(rest),
        }
    }
}

/// Numbers one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers<'a>(pub &'a [u8]);

impl Numbers<'_> {
    pub fn u32(&mut self) -> Option<u32> {
        self.next().map(u32::from_ne_bytes)
    }

    pub fn i32(&mut self) -> Option<i32> {
        self.next().map(i32::from_ne_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.next().map(u64::from_ne_bytes)
    }

    pub fn i64(&mut self) -> Option<i64> {
        self.next().map(i64::from_ne_bytes)
    }

    fn next<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*number)
    }
}

/// Names, each with a zero behind it, and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest<'a>(pub &'a [u8]);

impl<'a> Rest<'a> {
    pub fn name(&mut self) -> Option<&'a OsStr> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let name = OsStr::from_bytes(&self.0[..end]);
        self.0 = &self.0[end + 1..];
        tracing::trace!(?name, "a request's name");
        Some(name)
    }

    /// So many bytes.
    pub fn bytes(self, length: u32) -> Option<&'a [u8]> {
        self.0.get(..length as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_taken_off_one_by_one() {
        let bytes = [&7_u32.to_ne_bytes()[..], &(-9_i64).to_ne_bytes(), b"ab\0\0xyz"].concat();
        let (mut numbers, mut rest) = Body::Together(&bytes).split(12).unwrap();
        assert_eq!((numbers.u32(), numbers.i64(), numbers.u32()), (Some(7), Some(-9), None));
        assert_eq!((rest.name(), rest.name()), (Some(OsStr::new("ab")), Some(OsStr::new(""))));
        assert_eq!(rest.name(), None, "without its end");
        assert_eq!((rest.bytes(3), rest.bytes(4)), (Some(&b"xyz"[..]), None));
    }

    #[test]
    fn what_is_too_short_has_no_arguments() {
        assert!(Body::Together(&[0; 7]).split(8).is_none());
        assert!(Body::Together(&[]).rest().name().is_none());
    }

    #[test]
    fn numbers_and_the_rest_may_lie_apart() {
        let body = Body::Apart { numbers: &[7; 128], payload: b"ab\0" };
        let (mut numbers, mut rest) = body.split(4).unwrap();
        assert_eq!((numbers.u32(), numbers.u32()), (Some(0x0707_0707), None));
        assert_eq!(rest.name(), Some(OsStr::new("ab")));
        assert_eq!(body.rest().0, b"ab\0");
        assert!(body.split(129).is_none());
    }
}
