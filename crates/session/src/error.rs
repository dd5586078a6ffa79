//! What ends a session that has not come to its end.

use std::io;

use rustix::io::Errno;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    #[error("the kernel's connection cannot be read")]
    Read { source: Errno },
    #[error("the kernel's connection cannot be written to")]
    Write { source: Errno },
    #[error("the mount was gone before its session began")]
    Gone,
    #[error("the kernel began with request {opcode} instead of an introduction")]
    NoIntroduction { opcode: u32 },
    #[error(
        "the kernel speaks version {major}.{minor} of the FUSE protocol, and 7.23 is the oldest \
         that is understood"
    )]
    TooOld { major: u32, minor: u32 },
    #[error("the kernel sent {bytes} bytes that are no request")]
    Malformed { bytes: usize },
    #[error("another descriptor of the kernel's connection cannot be made")]
    Descriptor { source: io::Error },
    #[error("a ring for requests of the kernel does not work")]
    Ring { source: Errno },
    #[error("{threads} requests wait for their answers already")]
    TooManyThreads { threads: usize },
    #[error("a thread that serves requests cannot be started")]
    Thread { source: io::Error },
}
