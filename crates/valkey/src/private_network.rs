//! A network of its own for the nodes of a file system that serves one machine: its loopback is reached
//! by nobody who was not put into it, so no other user can take the connections of a node's bus.
//!
//! Clients come through unix sockets, which belong to folders and not to networks. The network is a name
//! space that is kept by descriptors and ends with the last of them and the last node. Who may not make one as
//! it is makes it in a user name space of its own, where the kernel allows that.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
    socketpair,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// The kernel's request that sets the flags of an interface, and the flag of one that is up.
const SET_INTERFACE_FLAGS: u32 = 0x8914;
const IS_UP: i16 = 1;
/// A message has to have some byte.
const MADE: u8 = 0;
/// The network, and the users that it belongs to where those are its own.
const SPACES_MAX: usize = 2;

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct PrivateNetwork(Arc<Spaces>);

#[derive(Debug)]
struct Spaces {
    users: Option<OwnedFd>,
    network: OwnedFd,
}

impl PartialEq for PrivateNetwork {
    fn eq(&self, other: &PrivateNetwork) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for PrivateNetwork {}

impl PrivateNetwork {
    /// # Errors
    /// Where the kernel, or whoever set up this container, does not allow it.
    pub fn make() -> io::Result<PrivateNetwork> {
        // With the right to make one nobody's users have to change.
        made(false).or_else(|_| made(true))
    }

    /// Puts the calling process into it. Makes system calls only, so it may be called between fork and exec.
    pub(crate) fn enter(&self) -> io::Result<()> {
        if let Some(users) = &self.0.users {
            move_into_link_name_space(users.as_fd(), Some(LinkNameSpaceType::User))?;
        }
        move_into_link_name_space(self.0.network.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(())
    }
}

/// A process of several threads cannot leave its users, and only its threads would get the network: so a child
/// makes it, hands it over, and becomes nothing.
fn made(with_users: bool) -> io::Result<PrivateNetwork> {
    let (ours, childs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut child = Command::new("/proc/self/exe");
    let hand_over = move || {
        let handed_over = hand_over(with_users, childs.as_fd());
        Err(handed_over.err().unwrap_or(Errno::CANCELED).into())
    };
    // SAFETY: between fork and exec, which never comes, the closure makes system calls only; it allocates
    // nothing and takes no lock.
    unsafe { child.pre_exec(hand_over) };
    let ended = match child.spawn() {
        Ok(mut child) => {
            // It ends instead of running anything.
            let _ = child.kill().and_then(|()| child.wait());
            io::ErrorKind::Other.into()
        }
        Err(error) => error,
    };
    drop(child);
    received(&ours).ok_or(ended)
}

fn hand_over(with_users: bool, to: BorrowedFd<'_>) -> Result<(), Errno> {
    let users = if with_users { UnshareFlags::NEWUSER } else { UnshareFlags::empty() };
    // SAFETY: neither flag takes away what other threads of this process share; it has one.
    unsafe { unshare_unsafe(users | UnshareFlags::NEWNET) }?;
    loopback_up()?;
    let open = |name: &str| openat(CWD, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let network = open("/proc/thread-self/ns/net")?;
    let users = if with_users { Some(open("/proc/thread-self/ns/user")?) } else { None };
    let users = users.as_ref().map_or(network.as_fd(), AsFd::as_fd);
    let both = [network.as_fd(), users];
    let sent = if with_users { &both[..] } else { &both[..1] };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SPACES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(sent));
    sendmsg(to, &[IoSlice::new(&[MADE])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// As the kernel takes it: a name, flags, and room for what other requests say.
#[repr(C)]
struct InterfaceFlags {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

fn loopback_up() -> Result<(), Errno> {
    let line = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut name = [0; 16];
    name[..2].copy_from_slice(b"lo");
    let up = InterfaceFlags { name, flags: IS_UP, rest: [0; 22] };
    // SAFETY: the kernel reads a `struct ifreq` for this request, and that is what it is given.
    unsafe { ioctl(&line, Setter::<SET_INTERFACE_FLAGS, InterfaceFlags>::new(up)) }
}

/// None where nothing was handed over.
fn received(from: &OwnedFd) -> Option<PrivateNetwork> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SPACES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut control, flags).ok()?;
    let mut spaces = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(spaces) => Some(spaces),
        _ => None,
    });
    let mut spaces = spaces.next()?;
    let network = spaces.next()?;
    Some(PrivateNetwork(Arc::new(Spaces { network, users: spaces.next() })))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};
    use std::process::Stdio;

    use super::*;

    /// In a process inside, and only there, the loopback is up and what listens outside is not reached.
    fn is_apart(network: &PrivateNetwork) {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listening.local_addr().unwrap().port();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        let mut inside = Command::new("/bin/cat");
        inside.arg("/proc/thread-self/net/tcp").stdout(Stdio::piped());
        let entered = network.clone();
        // SAFETY: system calls only.
        unsafe {
            inside.pre_exec(move || {
                entered.enter()?;
                let is_refused = TcpStream::connect(("127.0.0.1", port))
                    .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
                if is_refused { Ok(()) } else { Err(io::ErrorKind::AddrInUse.into()) }
            })
        };
        let mut child = inside.spawn().unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(!said.contains(&format!(":{port:04X}")), "{said}");
    }

    #[test]
    fn nobody_outside_is_reached_from_it() {
        for with_users in [false, true] {
            match made(with_users) {
                Ok(network) => is_apart(&network),
                // An ordinary user may make it with users of its own, and some kernels allow neither.
                Err(error) => {
                    let number = error.raw_os_error().map(Errno::from_raw_os_error);
                    let refusals = [Errno::PERM, Errno::ACCESS, Errno::NOSPC, Errno::INVAL];
                    assert!(number.is_some_and(|it| refusals.contains(&it)), "{error}");
                }
            }
        }
        let one = PrivateNetwork::make();
        assert!(one.is_ok() || !rustix::process::geteuid().is_root(), "{one:?}");
    }
}
