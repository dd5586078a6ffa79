//! Which family of locks a request to set one is about: `flock` or `fcntl`.
//!
//! The kernel says so in flags that the library does not hand on. What it hands on is a reference to the
//! head of the kernel's message, through which nothing behind the head may be read, although it lies there. So
//! the message is copied as a debugger would: the kernel reads it by its address, which takes nothing on
//! trust, and what was copied is checked against what the library says of the request.

use std::io;

use tidefs_fs::LockFamily;

/// The head of a message (`fuse_in_header`), and all of one that sets a lock (`fuse_lk_in`).
const HEAD_BYTES: usize = 40;
const LOCK_BYTES: usize = HEAD_BYTES + 48;
const LENGTH: usize = 0;
const OPERATION: usize = 4;
const UNIQUE: usize = 8;
const FLAGS: usize = HEAD_BYTES + 40;

const SET_LOCK: u32 = 32;
const SET_LOCK_AND_WAIT: u32 = 33;
const FLOCK: u32 = 1;

type Message = [u8; LOCK_BYTES];

// What the library hands on is the head as it lies in its buffer.
const _: () = assert!(size_of::<fuser::Request>() == HEAD_BYTES);

/// Of a request to set a lock.
pub fn family_of(request: &fuser::Request) -> io::Result<LockFamily> {
    let message = copied(std::ptr::from_ref(request).addr())?;
    family_in(&message, request.unique().0).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "no request for a lock lies where the library has it",
        )
    })
}

/// A copy of what lies at an address of this process.
fn copied(address: usize) -> io::Result<Message> {
    let mut message = [0; LOCK_BYTES];
    let local = libc::iovec { iov_base: message.as_mut_ptr().cast(), iov_len: LOCK_BYTES };
    let remote =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: LOCK_BYTES };
    // SAFETY: the kernel writes to `message` alone, and no further than it goes. It reads at the address for
    // itself, and fails where nothing is.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    match usize::try_from(copied) {
        Ok(LOCK_BYTES) => Ok(message),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// `None`: the message is not this request, or does not set a lock.
fn family_in(message: &Message, unique: u64) -> Option<LockFamily> {
    let number = |at: usize| {
        let bytes = message[at..at + 4].try_into().expect("four bytes");
        u32::from_ne_bytes(bytes)
    };
    let is_this = message[UNIQUE..UNIQUE + 8] == unique.to_ne_bytes();
    let is_lock = matches!(number(OPERATION), SET_LOCK | SET_LOCK_AND_WAIT);
    if !is_this || !is_lock || (number(LENGTH) as usize) < LOCK_BYTES {
        return None;
    }
    let is_whole = number(FLAGS) & FLOCK != 0;
    Some(if is_whole { LockFamily::Whole } else { LockFamily::Record })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: u32, operation: u32, unique: u64, flags: u32) -> Message {
        let mut message = [0xee; LOCK_BYTES];
        message[LENGTH..LENGTH + 4].copy_from_slice(&length.to_ne_bytes());
        message[OPERATION..OPERATION + 4].copy_from_slice(&operation.to_ne_bytes());
        message[UNIQUE..UNIQUE + 8].copy_from_slice(&unique.to_ne_bytes());
        message[FLAGS..FLAGS + 4].copy_from_slice(&flags.to_ne_bytes());
        message
    }

    #[test]
    fn the_flags_tell_the_families_apart() {
        for operation in [SET_LOCK, SET_LOCK_AND_WAIT] {
            let family = |flags| family_in(&message(88, operation, 7, flags), 7);
            assert_eq!(family(0), Some(LockFamily::Record));
            assert_eq!(family(FLOCK), Some(LockFamily::Whole));
            assert_eq!(family(FLOCK | 1 << 31), Some(LockFamily::Whole));
        }
    }

    #[test]
    fn what_is_not_this_request_says_nothing() {
        assert_eq!(family_in(&message(88, SET_LOCK, 7, FLOCK), 8), None, "another one");
        assert_eq!(family_in(&message(88, 31, 7, FLOCK), 7), None, "it asks who has a lock");
        assert_eq!(family_in(&message(87, SET_LOCK, 7, FLOCK), 7), None, "too short");
    }

    #[test]
    fn a_message_is_copied_by_its_address_and_nothing_is_where_nothing_is() {
        let whole = message(88, SET_LOCK, 7, 1);
        assert_eq!(copied(whole.as_ptr().addr()).unwrap(), whole);
        assert_eq!(copied(8).unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }
}
