//! A session from its introduction to its end, served from the kernel's connection.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::agreement::{Agreed, KernelConfig, agree};
use crate::answer::Answer;
use crate::arguments::Body;
use crate::device::{Device, Read};
use crate::dispatch::dispatch;
use crate::error::SessionError;
use crate::filesystem::Filesystem;
use crate::flags::InitFlags;
use crate::halt::Halt;
use crate::notices::Notifier;
use crate::operation::{DESTROY, INIT};
use crate::request::Request;
use crate::rings::{self, Rings};

/// What a request has beside the bytes to be written: its head, numbers, names.
const BESIDE_BYTES: usize = 4096;
/// For an introduction, which comes before anything is agreed on.
const INTRODUCTION_BYTES: usize = 8192;

/// How a session is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Threads that ask for requests; at least one.
    pub threads: usize,
    /// Each of them reads from a descriptor of its own.
    pub descriptor_per_thread: bool,
    /// The same where requests come by rings, beside which only forgets and interrupts are to be read.
    pub threads_beside_rings: usize,
}

/// A session that has been agreed on and waits to be served.
#[derive(Debug)]
pub struct Session<F> {
    layer: F,
    device: Arc<Device>,
    agreed: Agreed,
    halt: Halt,
}

impl<F: Filesystem> Session<F> {
    /// Agrees with the kernel on the connection of a mount that has just been made. `rings`: that requests come by
    /// rings, if the kernel offers it and the system lets this process make any.
    pub fn begin(
        mut layer: F,
        connection: OwnedFd,
        rings: bool,
    ) -> Result<Session<F>, SessionError> {
        let device = Arc::new(Device::new(connection));
        let mut buffer = Vec::with_capacity(INTRODUCTION_BYTES);
        loop {
            match device.read(&mut buffer)? {
                Read::Gone => return Err(SessionError::Gone),
                Read::Nothing => continue,
                Read::Request => {}
            }
            let (by, body) = parse(&buffer)?;
            let answer = Answer::new(by.unique, device.clone());
            if by.opcode != INIT {
                return Err(SessionError::NoIntroduction { opcode: by.opcode });
            }
            let init = |config: &mut KernelConfig| {
                layer.init(config);
                if rings && rings::can_be_made() {
                    // Where they are not offered, requests are read from the connection.
                    let _ = config.add_capabilities(InitFlags::OVER_IO_URING);
                }
            };
            if let Some(config) = agree(body, answer, init)? {
                let (agreed, halt) = (config.agreed(), Halt::default());
                return Ok(Session { layer, device, agreed, halt });
            }
        }
    }

    /// Goes on with a session that somebody else has begun, on its connection. Whoever served it must have
    /// stopped, and what it left unanswered be [sent again](Notifier::resend). Not where requests come by rings.
    pub fn go_on(mut layer: F, connection: OwnedFd, agreed: Agreed) -> Session<F> {
        layer.go_on(&agreed);
        let device = Arc::new(Device::new(connection));
        Session { layer, device, agreed, halt: Halt::default() }
    }

    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// The kernel's connection, for somebody who is to go on with it.
    pub fn connection(&self) -> Result<OwnedFd, SessionError> {
        self.device.connection()
    }

    /// The way to stop its threads, and to have them go on.
    pub fn halt(&self) -> Halt {
        self.halt.clone()
    }

    pub fn notifier(&self) -> Notifier {
        Notifier::new(self.device.clone())
    }

    /// Requests come by rings.
    pub fn is_by_rings(&self) -> bool {
        self.agreed.flags.contains(InitFlags::OVER_IO_URING)
    }

    /// Serves until the mount is gone. The layer is dropped then, when what is under way has ended.
    pub fn run(self, options: Options) -> Result<(), SessionError> {
        let by_rings = self.is_by_rings();
        let layer = Arc::new(self.layer);
        let write_bytes_max = self.agreed.write_bytes_max as usize;
        let buffer_bytes = write_bytes_max + BESIDE_BYTES;
        let rings = match by_rings {
            true => Some(start_rings(&layer, &self.device, write_bytes_max)?),
            false => None,
        };
        let count = if rings.is_some() { options.threads_beside_rings } else { options.threads };
        let mut devices = vec![self.device];
        for _ in 1..count.max(1) {
            devices.push(match options.descriptor_per_thread {
                true => Arc::new(devices[0].another()?),
                false => devices[0].clone(),
            });
        }
        let serve = |(number, device): (usize, Arc<Device>)| {
            let (layer, halt) = (layer.clone(), self.halt.clone());
            let thread = std::thread::Builder::new().name(format!("tidefs-fuse-{number}"));
            let serve = move || serve(&*layer, &device, buffer_bytes, &halt);
            thread.spawn(serve).map_err(|source| SessionError::Thread { source })
        };
        let threads: Vec<_> = devices.into_iter().enumerate().map(serve).collect();
        let end =
            threads.into_iter().map(|thread| thread.and_then(end_of)).fold(Ok(()), Result::and);
        rings.map_or(Ok(()), |rings| rings.end()).and(end)
    }
}

fn start_rings<F: Filesystem>(
    layer: &Arc<F>,
    device: &Arc<Device>,
    bytes_max: usize,
) -> Result<Arc<Rings<F>>, SessionError> {
    let rings = Rings::new(layer.clone(), device.clone(), bytes_max);
    rings.start()?;
    Ok(rings)
}

fn end_of(thread: JoinHandle<Result<(), SessionError>>) -> Result<(), SessionError> {
    // A panic has been told where it happened.
    thread.join().unwrap_or(Ok(()))
}

fn serve<F: Filesystem>(
    layer: &F,
    device: &Arc<Device>,
    buffer_bytes: usize,
    halt: &Halt,
) -> Result<(), SessionError> {
    let mut buffer = Vec::with_capacity(buffer_bytes);
    let thread = halt.enter();
    while thread.may_ask() {
        match thread.asking(|| device.read(&mut buffer))? {
            Read::Gone => return Ok(()),
            Read::Nothing => continue,
            Read::Request => {}
        }
        let (by, body) = parse(&buffer)?;
        let answer = Answer::new(by.unique, device.clone());
        if by.opcode == DESTROY {
            answer.ok(&[]);
            return Ok(());
        }
        dispatch(layer, &by, body, answer);
    }
    Ok(())
}

fn parse(message: &[u8]) -> Result<(Request, Body<'_>), SessionError> {
    let malformed = SessionError::Malformed { bytes: message.len() };
    let by = Request::parse(message).ok_or(malformed)?;
    Ok((by, Body::Together(&message[Request::HEAD_BYTES..])))
}

#[cfg(test)]
mod tests;
