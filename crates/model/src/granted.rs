//! How far the numbers of inodes had been granted when something was lost: what those inodes had
//! there may be gone, and later ones never had anything.
//!
//! The two counters only rise, whatever the clocks of machines do.

use crate::{Ino, Time};

/// Nanoseconds of a serial number; see [`Granted::by`].
const NANOSECONDS_PER_SERIAL: u64 = 1 << 11;

/// The next numbers of the two counters: all that were granted are less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// Numbers of inodes.
    pub inos: u64,
    /// Serial numbers of local files.
    pub serials: u64,
}

impl Granted {
    pub const BYTES: usize = 16;

    /// Above all that were granted until then, where the counters themselves are lost. `uptime` is that
    /// of a machine that has been up for longer than the file system, on a clock that nobody sets;
    /// no more than 1,000,000,000 inodes and 488,000 local files may be made a second. Serial
    /// numbers last for nine years.
    pub fn by(uptime: Time) -> Granted {
        Granted { inos: uptime.0, serials: uptime.0 / NANOSECONDS_PER_SERIAL }
    }

    /// Whether the number had been granted.
    pub fn covers(self, ino: Ino) -> bool {
        match ino.serial() {
            Some(serial) => serial < self.serials,
            None => ino.0 < self.inos,
        }
    }

    /// As it lies in a store: two numbers, big-endian.
    pub fn encode(self) -> [u8; Granted::BYTES] {
        (u128::from(self.inos) << 64 | u128::from(self.serials)).to_be_bytes()
    }

    /// `None` where the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<Granted> {
        let both = u128::from_be_bytes(bytes.try_into().ok()?);
        Some(Granted { inos: (both >> 64) as u64, serials: both as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{METADATA_PARTITIONS, Partition, Run};

    fn local(serial: u64) -> Ino {
        let run = Run::around(Partition::new(METADATA_PARTITIONS), |_| true);
        Ino::local(run.unwrap(), serial).unwrap()
    }

    #[test]
    fn what_was_granted_is_told_from_what_came_after() {
        let granted = Granted { inos: 1_000, serials: 50 };
        assert!(granted.covers(Ino(999)) && !granted.covers(Ino(1_000)));
        assert!(granted.covers(local(49)) && !granted.covers(local(50)));
        let nothing = Granted::default();
        assert!(!nothing.covers(Ino(0)) && !nothing.covers(local(0)));
    }

    #[test]
    fn it_decodes_to_what_was_encoded() {
        let granted = Granted { inos: 1 << 63, serials: u64::MAX };
        assert_eq!(Granted::decode(&granted.encode()), Some(granted));
        assert_eq!(Granted::decode(&[0; 15]), None);
        assert_eq!(Granted::decode(&[0; 17]), None);
    }

    #[test]
    fn uptime_is_above_all_that_can_have_been_granted() {
        let granted = Granted::by(Time(3_600_000_000_000));
        assert!(granted.covers(Ino(3_600 * 1_000_000)) && granted.covers(local(3_600 * 488_000)));
        let later = Granted::by(Time(3_601_000_000_000));
        assert!(later.inos > granted.inos && later.serials > granted.serials);
    }
}
