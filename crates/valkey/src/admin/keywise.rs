//! Moving slots key by key, for servers that cannot move whole slots.
//!
//! While a slot is open, the source serves the keys that it still has and sends clients to the
//! target for all others; each key is on one of them, and the one that has it is its owner. When the
//! source has none left, the target takes the slot over, then the source is told, then the others.
//! The order matters: a node that is told too late sends clients on, one that is told too early
//! would send them back.

use std::time::Duration;

use tidefs_model::Partition;

use super::giving::Giver;
use super::moves::{Carriage, StepKind};
use super::observe::readings;
use super::sizes::{count_keys, keys_of, measure};
use super::{AdminError, Managed};
use crate::fault::Fault;
use crate::wire::{Reply, Request};

/// Slots that are open together: four orders for each of them, a tenth of a millisecond in all.
pub const BATCH_SLOTS_MAX: usize = 256;
/// Bytes of one MIGRATE: the source does nothing else for about 3 ms per MiB.
const CALL_BYTES: u64 = 2 << 20;
const CALL_KEYS: usize = 64;
/// The source waits so long for the target to take a call's keys.
const CALL_WITHIN: Duration = Duration::from_secs(5);
/// A call that came to nothing is repeated so often; what it left twice is written over.
const CALL_TRIES: u32 = 3;
/// A key that keeps coming back is a client in error.
const ROUNDS_MAX: u32 = 10_000;

/// Moves slots from a source that holds them; answers with the bytes carried.
pub fn move_slots(carriage: &Carriage<'_>, slots: &[u16], bytes: u64) -> Result<u64, AdminError> {
    carriage.giver.let_in(&carriage.to)?;
    open(carriage, slots)?;
    carriage.step(StepKind::Opened, slots.len(), 0);
    let mut room = Room { carriage, bytes, raised_from: None, raised_to: 0 };
    let carried = carry(carriage, slots, &mut room)?;
    take_over(carriage, slots)?;
    carriage.step(StepKind::TakenOver, slots.len(), 0);
    close(carriage, slots)?;
    carriage.step(StepKind::Closed, slots.len(), 0);
    Ok(carried)
}

/// The target has to be ready before the source sends anybody there.
fn open(carriage: &Carriage<'_>, slots: &[u16]) -> Result<(), AdminError> {
    let (source, target) = (carriage.from.id().to_string(), carriage.to.id().to_string());
    order(&carriage.to, slots, &["IMPORTING", &source])?;
    order(&carriage.from, slots, &["MIGRATING", &target])
}

/// A server that is told to hold a slot that it takes in raises its epoch and tells all others at
/// once, for each slot: a thousand slots keep every node busy for a quarter of a second. Its epoch
/// was raised before, so it stops to take in and holds the slot in one breath.
fn take_over(carriage: &Carriage<'_>, slots: &[u16]) -> Result<(), AdminError> {
    take_in(&carriage.to, slots)
}

/// The end of taking in.
pub fn take_in(taker: &Managed, slots: &[u16]) -> Result<(), AdminError> {
    let target = taker.id().to_string();
    let orders = slots
        .iter()
        .flat_map(|&slot| [setslot(slot, &["STABLE"]), setslot(slot, &["NODE", &target])]);
    taker.order_all(&orders.collect::<Vec<_>>()).map(|_| ())
}

/// Tells everybody else of slots that the target has taken over.
pub fn close(carriage: &Carriage<'_>, slots: &[u16]) -> Result<(), AdminError> {
    let target = carriage.to.id().to_string();
    order(&carriage.from, slots, &["NODE", &target])?;
    for other in &carriage.others {
        // The target tells them within seconds; this is only sooner.
        if let Err(error) = order(other, slots, &["NODE", &target]) {
            tracing::debug!(node = %other.id(), %error, "is not told of a move");
        }
    }
    Ok(())
}

/// `CLUSTER SETSLOT` with the same words for each slot.
pub fn order(managed: &Managed, slots: &[u16], words: &[&str]) -> Result<(), AdminError> {
    let orders: Vec<_> = slots.iter().map(|&slot| setslot(slot, words)).collect();
    managed.order_all(&orders).map(|_| ())
}

fn setslot(slot: u16, words: &[&str]) -> Request<'static> {
    let request = Request::new("CLUSTER").word(b"SETSLOT").number(slot.into());
    words.iter().fold(request, |request, word| request.word(word.as_bytes())).end()
}

fn carry(carriage: &Carriage<'_>, slots: &[u16], room: &mut Room<'_>) -> Result<u64, AdminError> {
    let mut carried = 0;
    let counts = count_keys(&carriage.from, slots)?;
    for (slot, _) in counts.into_iter().filter(|(_, keys)| *keys > 0) {
        carried += carry_slot(carriage, slot, room)?;
    }
    Ok(carried)
}

/// Until the source has none: it makes no new keys in an open slot.
fn carry_slot(carriage: &Carriage<'_>, slot: u16, room: &mut Room<'_>) -> Result<u64, AdminError> {
    let mut carried = 0;
    let most = carriage.work.limit.piece(CALL_BYTES);
    for _ in 0..ROUNDS_MAX {
        let named = keys_of(&carriage.from, &[slot], CALL_KEYS)?;
        if named[0].is_empty() {
            return Ok(carried);
        }
        let sizes = measure(&carriage.from, &named)?;
        let mut keys = named[0].iter().zip(&sizes[0]).peekable();
        while keys.peek().is_some() {
            let (mut call, mut bytes) = (Vec::new(), 0);
            while let Some((key, size)) =
                keys.next_if(|(_, size)| call.is_empty() || bytes + **size <= most)
            {
                call.push(key.as_slice());
                bytes += size;
            }
            let Carriage { from, to, work, .. } = carriage;
            let stopped = || carriage.waits_no_longer();
            let pair = (from.id(), to.id());
            work.limit.moving(pair, bytes, stopped, || migrate(carriage, &call, room))?;
            carried += bytes;
            carriage.step(StepKind::Carried, 0, bytes);
        }
    }
    let (from, to) = (carriage.from.id(), carriage.to.id());
    let partition = Partition::new(slot).number();
    let said = format!("partition {partition} does not become empty");
    Err(AdminError::GivenUp { from, to, said })
}

/// Has the source send keys and then drop them. A key that the target has already is what an
/// earlier call left that lost its answer; the source's is the one that counts.
fn migrate(carriage: &Carriage<'_>, keys: &[&[u8]], room: &mut Room<'_>) -> Result<(), AdminError> {
    let access = &carriage.admin.access;
    let within = CALL_WITHIN.min(access.timeouts.reply / 2).as_millis() as u64;
    let address = carriage.to.description.address;
    let (ip, port) = (address.ip().to_string(), u64::from(address.port()));
    let Giver { name, secret, .. } = &carriage.giver;
    let mut tries = 0;
    loop {
        let request = Request::new("MIGRATE").word(ip.as_bytes()).number(port).word(b"").number(0);
        let request = request.number(within).word(b"REPLACE").word(b"AUTH2");
        let request = request.word(name.as_bytes()).word(secret.reveal().as_bytes()).word(b"KEYS");
        let request = keys.iter().fold(request, |request, key| request.word(key)).end();
        let error = match carriage.from.ask(&request) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        tries += 1;
        let AdminError::Node { fault: Fault::Refused(said), .. } = &error else {
            return Err(error);
        };
        tracing::debug!(said, tries, "keys did not go over");
        if tries >= CALL_TRIES {
            return Err(error);
        }
        if said.contains("OOM") {
            room.make()?;
        } else {
            hang_up(&carriage.to)?;
        }
    }
}

/// Ends all connections by which other nodes send keys to a target. One that was given up may hold
/// keys that the target has yet to read, and clients may have changed them at the source since.
pub fn hang_up(target: &Managed) -> Result<(), AdminError> {
    let reply = target.say(&["CLIENT", "LIST", "TYPE", "NORMAL"])?;
    let clients = reply.lossy().map_err(|malformed| target.error(malformed.into()))?;
    for client in clients.lines() {
        let field = |name: &str| client.split(' ').find_map(|word| word.strip_prefix(name));
        // Mounts and admins give a name; nodes do not.
        if let (Some(""), Some(id)) = (field("name="), field("id=")) {
            match target.say(&["CLIENT", "KILL", "ID", id]) {
                // It has gone by itself.
                Err(AdminError::Node { fault: Fault::Refused(_), .. }) => {}
                other => drop(other?),
            }
        }
    }
    Ok(())
}

/// Room at the target for what is on its way: a slot that is open cannot go back, so a target that
/// clients filled meanwhile may go beyond its bound for the rest of it.
struct Room<'c> {
    carriage: &'c Carriage<'c>,
    bytes: u64,
    raised_from: Option<u64>,
    raised_to: u64,
}

impl Room<'_> {
    fn make(&mut self) -> Result<(), AdminError> {
        let now = readings(&self.carriage.to)?;
        self.raised_from.get_or_insert(now.capacity.0);
        self.raised_to = now.used.0 + self.bytes * 2 + CALL_BYTES * 2;
        set_capacity(&self.carriage.to, self.raised_to)
    }

    /// Its lender may have said something else meanwhile.
    fn is_as_raised(&self) -> bool {
        readings(&self.carriage.to).is_ok_and(|now| now.capacity.0 == self.raised_to)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if let Some(capacity) = self.raised_from
            && self.is_as_raised()
            && let Err(error) = set_capacity(&self.carriage.to, capacity)
        {
            tracing::warn!(%error, "a node's capacity stays raised");
        }
    }
}

pub fn set_capacity(managed: &Managed, bytes: u64) -> Result<(), AdminError> {
    managed.say(&["CONFIG", "SET", "maxmemory", &bytes.to_string()]).map(|_: Reply| ())
}
