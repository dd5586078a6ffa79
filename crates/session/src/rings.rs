//! Requests that come by rings: a queue for each processor, served by threads that keep to it (FUSE over io_uring).
//!
//! Whoever calls has its request served on its own processor, where nobody needs to be woken from sleep. A
//! thread serves one request at a time, with memory for it, and hands the answer over and takes the next
//! request in one system call. The kernel gives requests to the thread that was the last to be free, so those
//! beyond what is needed sleep. A request whose answer comes later keeps its thread for so long; where all threads
//! of a queue are busy, what comes is taken from the [`reserve`] by a new one.
//!
//! Requests for many bytes are served wherever a processor is idle.

mod processors;
mod reserve;
mod ring;
mod room;
mod serve;
mod slot;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::device::Device;
use crate::error::SessionError;
use crate::filesystem::Filesystem;
use reserve::Reserve;
use ring::Commands;
use room::Room;
pub(crate) use slot::Slot;

/// Threads of a session, however many requests wait for their answers.
const THREADS_MAX: usize = 4096;
/// How long it may take to set up the rings.
const START_WAIT: Duration = Duration::from_secs(20);
/// The smallest payload that the kernel accepts.
const PAYLOAD_BYTES_MIN: usize = 8192;

/// Whether the system lets this process make rings at all.
pub(crate) fn can_be_made() -> bool {
    !processors::possible().is_empty() && Commands::new(1).is_ok()
}

/// What the threads of all queues share.
pub(crate) struct Rings<F> {
    layer: Arc<F>,
    device: Arc<Device>,
    payload_bytes: usize,
    /// One for each processor.
    queues: u16,
    over: Arc<AtomicBool>,
    threads: Mutex<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    running: Vec<JoinHandle<Result<(), SessionError>>>,
    slots: Vec<Arc<Slot>>,
}

impl<F: Filesystem> Rings<F> {
    /// For requests of so many bytes, and answers of as many.
    pub fn new(layer: Arc<F>, device: Arc<Device>, bytes_max: usize) -> Arc<Rings<F>> {
        let queues = u16::try_from(processors::possible().len()).unwrap_or(u16::MAX);
        let payload_bytes = bytes_max.max(PAYLOAD_BYTES_MIN);
        let (over, threads) = (Arc::default(), Mutex::default());
        Arc::new(Rings { layer, device, payload_bytes, queues, over, threads })
    }

    /// From then on requests come by rings; where that cannot be they are read from the connection, as if there
    /// were no rings.
    pub fn start(self: &Arc<Self>) -> Result<(), SessionError> {
        let (begun, has_begun) = channel();
        let rings = self.clone();
        let thread = std::thread::Builder::new().name("tidefs-rings".to_owned());
        let thread = thread.spawn(move || {
            let reserve = Reserve::begin(rings, &processors::online());
            // Whoever started it may have given up.
            let _ = begun.send(reserve.is_ok());
            let end = reserve.and_then(|mut reserve| reserve.serve());
            end.inspect_err(|error| tracing::error!(%error, "rings are served no longer"))
        });
        let thread = thread.map_err(|source| SessionError::Thread { source })?;
        self.threads().running.push(thread);
        match has_begun.recv_timeout(START_WAIT) {
            Ok(true) => Ok(()),
            _ => self.do_without(),
        }
    }

    /// A kernel that refuses a registration takes requests back to the connection, also those that wait already.
    fn do_without(&self) -> Result<(), SessionError> {
        /// There are not so many processors.
        const NO_QUEUE: u16 = u16::MAX;
        tracing::warn!("rings cannot be set up; requests are read from the connection");
        let failed = |source| SessionError::Ring { source };
        let room = Room::new(self.payload_bytes).map_err(failed)?;
        let mut commands = Commands::new(1).map_err(failed)?;
        commands.register(&self.device, NO_QUEUE, &room, 0).map_err(failed)
    }

    /// Lets nobody wait for an answer any more, and waits for the threads; when the mount is gone.
    pub fn end(&self) -> Result<(), SessionError> {
        self.over.store(true, Ordering::Release);
        let mut end = Ok(());
        loop {
            let mut threads = self.threads();
            std::mem::take(&mut threads.slots).iter().for_each(|slot| slot.wake());
            let Some(thread) = threads.running.pop() else { return end };
            drop(threads);
            // A panic has been told where it happened.
            end = end.and(thread.join().unwrap_or(Ok(())));
        }
    }

    /// One more thread of a queue, for a slot that has a request.
    fn add(self: &Arc<Self>, queue: u16, slot: Arc<Slot>) -> Result<(), SessionError> {
        let mut threads = self.threads();
        if threads.running.len() >= THREADS_MAX {
            return Err(SessionError::TooManyThreads { threads: THREADS_MAX });
        }
        let (rings, its) = (self.clone(), slot.clone());
        let thread = std::thread::Builder::new()
            .name(format!("tidefs-ring-{queue}"))
            .spawn(move || serve::serve(&*rings, queue, its))
            .map_err(|source| SessionError::Thread { source })?;
        threads.running.push(thread);
        threads.slots.push(slot);
        Ok(())
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
