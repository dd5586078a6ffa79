//! What giver and taker say to each other: packets of JSON on a unix socket, some with descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, connect, listen, recvmsg, sendmsg, shutdown, socket_with,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::arguments::serving::Serving;
use crate::state::MountRecord;

/// The words themselves are a few hundred bytes.
const PACKET_BYTES_MAX: usize = 64 << 10;
/// The connection with the kernel, and the state of the mount.
const DESCRIPTORS_MAX: usize = 2;
/// Others than the first are refused; so many may wait to hear it.
const WAITING_MAX: i32 = 8;

/// Of the taker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// To have the mount. It understands states of these versions.
    TakeOver { versions: Vec<u32>, build: String },
    /// It has all that it needs to go on.
    Took,
}

/// Of the giver.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// Why not, and what to do.
    Refused(String),
    /// With the connection and the state.
    Parcel(Box<Parcel>),
    /// The giver does nothing any more.
    Yours,
    /// The giver goes on.
    Withdrawn,
}

/// What a mount is, beside its state.
#[derive(Debug, Serialize, Deserialize)]
pub struct Parcel {
    pub record: MountRecord,
    pub serving: Serving,
    /// With what it is logged in to the nodes.
    pub account: String,
    pub secret: String,
    /// What was agreed on with the kernel.
    pub flags: u64,
    pub write_bytes_max: u32,
}

/// One end of a conversation.
#[derive(Debug)]
pub struct Line(OwnedFd);

#[derive(Debug)]
pub struct Listener(OwnedFd);

fn plain() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

impl Listener {
    /// Whoever listened there before does so no longer.
    pub fn at(path: &Path) -> io::Result<Listener> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = plain()?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, WAITING_MAX)?;
        Ok(Listener(socket))
    }

    pub fn accept(&self) -> io::Result<Line> {
        let accept = || accept_with(&self.0, SocketFlags::CLOEXEC);
        Ok(Line(rustix::io::retry_on_intr(accept)?))
    }
}

impl Line {
    /// Waits for a time where many want to speak with whoever listens there, or that stands still; so does
    /// each word that is said.
    pub fn to(path: &Path, within: Duration) -> io::Result<Line> {
        let socket = plain()?;
        set_socket_timeout(&socket, Timeout::Send, Some(within))?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Line(socket))
    }

    /// The other end is a process of this user or of root.
    pub fn is_trusted(&self) -> bool {
        let own = rustix::process::geteuid();
        socket_peercred(&self.0).is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
    }

    pub fn say<T: Serialize>(&self, words: &T, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let packet = serde_json::to_vec(words)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let parts = [IoSlice::new(&packet)];
        let send = || sendmsg(&self.0, &parts, &mut control, SendFlags::NOSIGNAL);
        rustix::io::retry_on_intr(send)?;
        Ok(())
    }

    /// Nothing is heard any more, and whoever listens hears an end. What is said still arrives.
    pub fn hear_no_more(&self) {
        if let Err(error) = shutdown(&self.0, Shutdown::Read) {
            tracing::debug!(%error, "whoever wanted this mount has gone");
        }
    }

    /// What the other end says within a time, and the descriptors that it sends along.
    ///
    /// # Errors
    /// Also when it has hung up: of kind [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
    pub fn hear<T: DeserializeOwned>(&self, within: Duration) -> io::Result<(T, Vec<OwnedFd>)> {
        set_socket_timeout(&self.0, Timeout::Recv, Some(within))?;
        let mut packet = vec![0; PACKET_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut packet)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let receive = || recvmsg(self.0.as_fd(), &mut parts, &mut control, flags);
        let count = rustix::io::retry_on_intr(receive)?.bytes;
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptors = descriptors.flatten().collect();
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((serde_json::from_slice(&packet[..count])?, descriptors))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(20);

    #[test]
    fn words_and_descriptors_arrive_and_an_end_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(Listener::at(&path).unwrap());
        let listener = Listener::at(&path).unwrap();
        let taker = Line::to(&path, WITHIN).unwrap();
        let giver = listener.accept().unwrap();
        assert!(giver.is_trusted() && taker.is_trusted());
        let build = "1.0".to_owned();
        taker.say(&Asked::TakeOver { versions: vec![1, 2], build }, &[]).unwrap();
        let (asked, descriptors) = giver.hear::<Asked>(WITHIN).unwrap();
        assert!(matches!(asked, Asked::TakeOver { versions, .. } if versions == [1, 2]));
        assert!(descriptors.is_empty());
        std::fs::write(folder.path().join("file"), "bytes").unwrap();
        let file = File::open(folder.path().join("file")).unwrap();
        giver.say(&Told::Yours, &[file.as_fd(), file.as_fd()]).unwrap();
        let (_, mut descriptors) = taker.hear::<Told>(WITHIN).unwrap();
        let mut text = String::new();
        File::from(descriptors.pop().unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), descriptors.len()), ("bytes", 1));
        drop(giver);
        let end = taker.hear::<Told>(WITHIN).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn nonsense_is_refused_and_silence_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Listener::at(&path).unwrap();
        let taker = Line::to(&path, WITHIN).unwrap();
        let giver = listener.accept().unwrap();
        taker.say(&"nonsense", &[]).unwrap();
        assert_eq!(giver.hear::<Asked>(WITHIN).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let silent = giver.hear::<Asked>(Duration::from_millis(5)).unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn nobody_waits_for_ever_for_one_that_does_not_listen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _stands_still = Listener::at(&path).unwrap();
        let within = Duration::from_millis(1);
        let mut lines = (0..100).map(|_| Line::to(&path, within));
        let (mut waiting, mut refused) = (Vec::new(), None);
        while refused.is_none() {
            match lines.next().expect("not so many wait") {
                Ok(line) => waiting.push(line),
                Err(error) => refused = Some(error.kind()),
            }
        }
        assert_eq!((refused, waiting.is_empty()), (Some(io::ErrorKind::WouldBlock), false));
    }
}
