//! A lane carries jobs to one node over one connection, in order, several in flight.
//!
//! It never has more bytes in flight than a window holds, so neither side's buffers grow without
//! bound, and it can be moved on whenever the socket is ready, so that one thread serves many lanes.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::awake::{Awake, LOOK_EVERY};
use crate::fault::Fault;
use crate::inbound::Landed;
use crate::job::{Answer, Job, JobResult};
use crate::pool::Lease;
use crate::stream::Stream;
use crate::wire::Request;

/// Bytes in flight on a lane: four stripes keep a server busy while replies travel.
const WINDOW_BYTES: usize = 4 << 20;
/// Requests offered to the kernel at once.
const REQUESTS_MAX: usize = 20;
/// A lane over a network waits so much longer than its time-out while others get through to the node:
/// on a link that many share, TCP may leave one of them out for that long.
const LEFT_OUT_MOST: u32 = 6;
/// With no more than this in flight the reply is a matter of microseconds.
const SOON_BYTES_MAX: usize = 32 << 10;

pub struct Lane<'j, 'a> {
    lease: Lease,
    jobs: Vec<&'j mut Job<'a>>,
    /// Each request follows an ASKING, whose reply is thrown away.
    asking: bool,
    /// Jobs let into the window, fully sent, and answered: `answered <= sent <= begun`.
    begun: usize,
    sent: usize,
    answered: usize,
    /// Bytes sent of the first job that is not fully sent.
    sent_bytes: usize,
    in_flight_bytes: usize,
    /// Replies to ASKING that came.
    asked: usize,
    timeout: Duration,
    deadline: Awake,
    /// When this lane is given up whatever becomes of others.
    end: Awake,
    /// Of the bytes that were sent, at the last look.
    unconfirmed_bytes: u32,
    look_at: Awake,
}

impl<'j, 'a> Lane<'j, 'a> {
    pub fn new(lease: Lease, jobs: Vec<&'j mut Job<'a>>, asking: bool, timeout: Duration) -> Self {
        let now = Awake::now();
        Lane {
            lease,
            jobs,
            asking,
            begun: 0,
            sent: 0,
            answered: 0,
            sent_bytes: 0,
            in_flight_bytes: 0,
            asked: 0,
            timeout,
            deadline: now + timeout,
            end: now + timeout * LEFT_OUT_MOST,
            unconfirmed_bytes: 0,
            look_at: now + LOOK_EVERY,
        }
    }

    pub fn is_done(&self) -> bool {
        self.answered == self.jobs.len()
    }

    pub fn wants_to_send(&self) -> bool {
        self.sent < self.begun || self.may_begin() || self.stream().is_behind()
    }

    /// All is sent, and the replies are a matter of microseconds.
    pub fn is_about_to_end(&self) -> bool {
        self.sent == self.jobs.len()
            && self.in_flight_bytes <= SOON_BYTES_MAX
            && !self.stream().is_behind()
    }

    fn stream(&self) -> &Stream {
        &self.lease.connection().stream
    }

    /// There may be more to receive than a poll of the socket tells of.
    pub fn may_have_more(&self) -> bool {
        self.stream().may_have_more()
    }

    pub fn deadline(&self) -> Awake {
        self.deadline
    }

    /// The node has answered something, or has got something.
    fn note_progress(&mut self, now: Awake) {
        self.deadline = now + self.timeout;
        if self.lease.is_over_a_network() {
            self.end = now + self.timeout * LEFT_OUT_MOST;
            self.lease.hear(now);
        }
    }

    /// Nothing has come for too long. On a slow link the kernel takes what is sent at once and hands it
    /// over bit by bit: what it got rid of since the last look is progress as well. While others get
    /// through, the node is there and the link is what is slow.
    pub fn is_late(&mut self, now: Awake) -> bool {
        if self.lease.is_over_a_network() && self.look_at <= now {
            self.look_at = now + LOOK_EVERY;
            let left = self.lease.connection().unconfirmed_bytes();
            if left < std::mem::replace(&mut self.unconfirmed_bytes, left) {
                self.note_progress(now);
            }
        }
        if self.deadline > now {
            return false;
        }
        if self.lease.was_heard(now) && self.end > now {
            self.deadline = now + LOOK_EVERY.min(self.timeout);
            return false;
        }
        true
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.lease.connection().as_fd()
    }

    fn may_begin(&self) -> bool {
        let Some(job) = self.jobs.get(self.begun) else { return false };
        self.in_flight_bytes == 0 || self.in_flight_bytes + job.cost() <= WINDOW_BYTES
    }

    /// Sends as much as the window and the kernel take now.
    pub fn send(&mut self) -> Result<(), Fault> {
        loop {
            while self.may_begin() {
                self.in_flight_bytes += self.jobs[self.begun].cost();
                self.begun += 1;
            }
            if self.sent == self.begun {
                return self.stream().catch_up();
            }
            let asking = Request::of(&["ASKING"]);
            let mut slices = Vec::with_capacity(8);
            self.gather(&asking, &mut slices);
            let Some(bytes) = self.lease.connection().send(&slices, true)? else { return Ok(()) };
            drop(slices);
            self.count_sent(bytes, asking.bytes());
            self.unconfirmed_bytes = self.unconfirmed_bytes.saturating_add(bytes as u32);
            self.deadline = Awake::now() + self.timeout;
        }
    }

    fn gather<'s>(&'s self, asking: &'s Request<'_>, slices: &mut Vec<IoSlice<'s>>) {
        let mut skip = self.sent_bytes;
        for job in self.jobs[self.sent..self.begun].iter().take(REQUESTS_MAX) {
            if self.asking {
                asking.gather(skip, slices);
                skip = skip.saturating_sub(asking.bytes());
            }
            job.request.gather(skip, slices);
            skip = 0;
        }
    }

    fn count_sent(&mut self, bytes: usize, asking_bytes: usize) {
        let prefix = if self.asking { asking_bytes } else { 0 };
        self.sent_bytes += bytes;
        while self.sent < self.begun {
            let whole = prefix + self.jobs[self.sent].request.bytes();
            if self.sent_bytes < whole {
                break;
            }
            self.sent_bytes -= whole;
            self.sent += 1;
        }
    }

    /// Takes in what has arrived, or waits for more when not `at_once`; answers whether any came.
    pub fn receive(&mut self, at_once: bool) -> Result<bool, Fault> {
        if !self.take_answers()? {
            let buffer = self.jobs[self.answered].buffer.as_deref_mut().unwrap_or_default();
            if self.lease.fill(buffer, at_once)?.is_none() {
                return Ok(false);
            }
            self.take_answers()?;
        }
        self.note_progress(Awake::now());
        Ok(true)
    }

    /// Answers jobs from the bytes that are here; `true` when that answered any.
    fn take_answers(&mut self) -> Result<bool, Fault> {
        let before = self.answered;
        while self.answered < self.sent {
            let inbound = self.lease.inbound();
            if self.asking && self.asked == self.answered {
                if inbound.take_reply()?.is_none() {
                    break;
                }
                self.asked += 1;
            }
            let job = &mut *self.jobs[self.answered];
            let cost = job.cost();
            let answer = match job.buffer.as_deref_mut() {
                None => inbound.take_reply()?.map(Answer::Reply),
                Some(buffer) => inbound.take_landed(buffer)?.map(|landed| match landed {
                    Landed::Bytes(bytes) => Answer::Landed(bytes),
                    Landed::Other(reply) => Answer::Reply(reply),
                }),
            };
            let Some(answer) = answer else { break };
            job.result = JobResult::Answered(answer);
            self.in_flight_bytes -= cost;
            self.answered += 1;
        }
        Ok(self.answered > before)
    }

    /// Gives the connection back.
    pub fn finish(self) {
        self.lease.release();
    }

    /// Gives up: the jobs without an answer are lost, and the connection with them.
    pub fn fail(mut self, fault: &Fault) {
        for (at, job) in self.jobs.iter_mut().enumerate().skip(self.answered) {
            let sent = at < self.sent;
            job.result = JobResult::Lost { fault: fault.clone(), sent };
        }
        self.lease.discard(fault);
    }
}
