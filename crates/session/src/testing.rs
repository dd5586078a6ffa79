//! The kernel's side of a connection, played by a socket that keeps messages apart.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::device::Device;
use crate::encode::Layout;
use crate::values::{FileAttr, FileType, INodeNo};

pub struct Kernel(OwnedFd);

impl Kernel {
    /// It and the connection.
    pub fn pair() -> (Kernel, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        let (kernel, connection) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let patience = Some(Duration::from_secs(20));
        let way = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&kernel, way, patience).unwrap();
        (Kernel(kernel), connection)
    }

    pub fn beside() -> (Kernel, Arc<Device>) {
        let (kernel, connection) = Kernel::pair();
        (kernel, Arc::new(Device::new(connection)))
    }

    /// The next message from the other side.
    pub fn message(&self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 16];
        let length = rustix::io::read(&self.0, &mut bytes).expect("a message");
        bytes.truncate(length);
        bytes
    }

    /// Of the next message: the number of the request, the error and the rest.
    pub fn answer(&self) -> (u64, i32, Vec<u8>) {
        let message = self.message();
        let length = u32::from_ne_bytes(message[..4].try_into().unwrap());
        assert_eq!(length as usize, message.len());
        let error = i32::from_ne_bytes(message[4..8].try_into().unwrap());
        let unique = u64::from_ne_bytes(message[8..16].try_into().unwrap());
        (unique, error, message[16..].to_vec())
    }

    /// Sends bytes as they are.
    pub fn send(&self, message: &[u8]) {
        assert_eq!(rustix::io::write(&self.0, message), Ok(message.len()));
    }

    /// Asks for an operation on an inode, in the name of user 10, group 20 and thread 30.
    pub fn ask(&self, opcode: u32, unique: u64, node: u64, body: &[u8]) {
        self.send(&request(opcode, unique, node, body));
    }
}

pub fn request(opcode: u32, unique: u64, node: u64, body: &[u8]) -> Vec<u8> {
    let length = (40 + body.len()) as u32;
    let head = Layout::new().u32s(&[length, opcode]).u64s(&[unique, node]).u32s(&[10, 20, 30, 0]);
    [head.bytes(), body].concat()
}

pub fn file(number: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
    }
}
