//! Moves several lanes on from one thread, each as fast as its node is.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::awake::Awake;
use crate::fault::Fault;
use crate::lane::Lane;

/// Returns when every job of every lane is answered or lost. A lane that makes no progress for its
/// time-out is given up; the others go on.
pub fn exchange(mut lanes: Vec<Lane<'_, '_>>) {
    each(&mut lanes, |lane| lane.send());
    // One that says nothing keeps no others, and with them their connections, for longer than until the next look.
    let mut all_answer = true;
    while !lanes.is_empty() {
        let at = lanes.len() - 1;
        let is_alone = at == 0 && !lanes[0].wants_to_send();
        if is_alone || all_answer && lanes.iter().all(Lane::is_about_to_end) {
            // The common case. Waiting in the receive saves the poll.
            let received = wait_and_receive(&mut lanes[at]);
            all_answer = received.as_ref().is_ok_and(|any| *any);
            settle(&mut lanes, at, received.map(drop));
        } else {
            wait_and_move(&mut lanes);
        }
    }
}

/// Answers whether anything came. What other nodes answer in the meantime stays where it arrives: it must be little.
fn wait_and_receive(lane: &mut Lane<'_, '_>) -> Result<bool, Fault> {
    match lane.receive(false)? {
        true => lane.send().map(|()| true),
        false if lane.is_late(Awake::now()) => Err(Fault::TimedOut),
        false => Ok(false),
    }
}

/// Waits until a lane can go on, and lets all go on that can.
fn wait_and_move(lanes: &mut Vec<Lane<'_, '_>>) {
    let now = Awake::now();
    let nearest = lanes.iter().map(Lane::deadline).min().unwrap_or(now);
    let any_has_more = lanes.iter().any(Lane::may_have_more);
    let within = if any_has_more { Duration::ZERO } else { now.until(nearest) };
    let mut ready = wait(lanes, within);
    if any_has_more {
        let more = ready.iter_mut().zip(&*lanes).filter(|(_, lane)| lane.may_have_more());
        more.for_each(|(flags, _)| *flags |= PollFlags::IN);
    }
    let now = Awake::now();
    // From the last to the first, so that a lane that ends does not shift those ahead.
    for at in (0..lanes.len()).rev() {
        let lane = &mut lanes[at];
        let result = match ready[at] {
            flags if flags.is_empty() && lane.is_late(now) => Err(Fault::TimedOut),
            flags if flags.is_empty() => continue,
            PollFlags::NVAL => Err(Fault::Broken),
            PollFlags::OUT => lane.send(),
            _ => lane.receive(true).and_then(|_| lane.send()),
        };
        settle(lanes, at, result);
    }
}

/// What each lane's socket is ready for.
fn wait(lanes: &[Lane<'_, '_>], within: Duration) -> Vec<PollFlags> {
    let mut sockets: Vec<_> = lanes
        .iter()
        .map(|lane| {
            let send = if lane.wants_to_send() { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::from_borrowed_fd(lane.as_fd(), send | PollFlags::IN)
        })
        .collect();
    // A millisecond more, so that a deadline has passed when the poll says so.
    let within = within + Duration::from_millis(1);
    let within =
        Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
    match poll(&mut sockets, Some(&within)) {
        Ok(_) => sockets.iter().map(PollFd::revents).collect(),
        Err(Errno::INTR) => vec![PollFlags::empty(); lanes.len()],
        // The sockets are open and few; what is left is a kernel without memory.
        Err(_) => vec![PollFlags::NVAL; lanes.len()],
    }
}

fn each(lanes: &mut Vec<Lane<'_, '_>>, step: impl Fn(&mut Lane<'_, '_>) -> Result<(), Fault>) {
    for at in (0..lanes.len()).rev() {
        let result = step(&mut lanes[at]);
        settle(lanes, at, result);
    }
}

/// Takes a lane out when it is done or has failed.
fn settle(lanes: &mut Vec<Lane<'_, '_>>, at: usize, result: Result<(), Fault>) {
    match result {
        Err(fault) => lanes.swap_remove(at).fail(&fault),
        Ok(()) if lanes[at].is_done() => lanes.swap_remove(at).finish(),
        Ok(()) => {}
    }
}
