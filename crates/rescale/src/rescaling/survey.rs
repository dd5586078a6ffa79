//! What an inventory means for what is believed.
//!
//! It says nothing about a move that was under way while it was taken. What is missing from one inventory
//! may have been overlooked; what is missing from several in a row is gone.

use std::time::Duration;

use super::world::{Kept, Role, Stage, State, World};
use super::{Phase, Rescaling};
use crate::call::Call;
use crate::inventory::{Bucket, Inventory};
use crate::outcome::{Fault, Unfinished};
use crate::plan::Refused;

/// The servers that have a bucket: none, one, or more than one.
type Places = (Option<usize>, Option<usize>);

impl Rescaling {
    pub(super) fn is_looking(&self) -> bool {
        self.running.values().any(|it| it.call == Call::Inventory && !it.hangs)
    }

    pub(super) fn may_look(&self, now: Duration) -> bool {
        self.looked.is_none_or(|at| now >= at.saturating_add(self.settings.between_inventories))
    }

    /// Is there anything that only an inventory can tell?
    pub(super) fn wants_to_look(&self) -> bool {
        if self.outcome.halted.is_some() {
            return false;
        }
        let servers = &self.world.servers;
        let open = |at: usize| match servers[at].state {
            State::Started { .. } | State::Ended { .. } => true,
            State::Up if servers[at].missing > 0 => true,
            _ => self.is_left_alone(at) && self.looked_at <= servers[at].touched,
        };
        let told = self.looked_at > self.look_after;
        !told
            || !self.returned.is_empty()
            || !self.missing.is_empty()
            || (0..servers.len()).any(open)
    }

    /// An inventory came, or the callback says that it could not be had.
    pub(super) fn looked(&mut self, now: Duration, asked: u64, found: Result<Inventory, String>) {
        let found = found.and_then(|it| it.check().map(|()| it).map_err(|wrong| wrong.to_string()));
        let inventory = match found {
            Ok(inventory) => inventory,
            Err(why) => {
                let call = Call::Inventory.to_string();
                self.fault(Fault::Failed { call, why: why.clone() });
                return self.blinded(now, why);
            }
        };
        self.blind = 0;
        self.looked_at = asked;
        self.outcome.inventories += 1;
        match self.phase {
            Phase::Looking => self.first_inventory(inventory),
            Phase::Planning | Phase::Over => {}
            Phase::Going => {
                self.take_in_servers(&inventory, asked);
                self.take_in_buckets(&inventory, asked);
                self.outcome.inventory = inventory;
            }
        }
    }

    /// Without an inventory nothing is known, so nothing is begun.
    pub(super) fn blinded(&mut self, now: Duration, why: String) {
        self.blind += 1;
        if self.blind < self.settings.attempts {
            return;
        }
        let why = format!("the inventory could not be had {} times in a row: {why}", self.blind);
        if self.phase == Phase::Looking {
            self.refused = Some(Refused::NoInventory { why });
            self.end(now);
        } else {
            self.halt(why);
        }
    }

    fn take_in_servers(&mut self, inventory: &Inventory, asked: u64) {
        self.world.servers.iter_mut().for_each(|known| known.listed = false);
        for server in &inventory.servers {
            // One that the service started by itself is as good as any.
            let new = |world: &mut World| world.add_server(server.clone(), Role::Stays, State::Up);
            let at = self.world.server(&server.name).unwrap_or_else(|| new(&mut self.world));
            self.world.servers[at].listed = true;
        }
        for at in 0..self.world.servers.len() {
            self.take_in_server(at, asked);
        }
    }

    fn take_in_server(&mut self, at: usize, asked: u64) {
        let attempts = self.settings.attempts;
        let name = self.world.server_name(at);
        let known = &mut self.world.servers[at];
        let listed = known.listed;
        match &mut known.state {
            State::Up if listed => known.missing = 0,
            State::Up => {
                known.missing += 1;
                if known.missing >= attempts {
                    self.vanish(at);
                }
            }
            State::Started { at: when, missing } if *when < asked => {
                *missing += 1;
                if listed {
                    known.state = State::Up;
                    self.outcome.started.push(name);
                } else if *missing >= attempts {
                    let call = Call::Start { server: name.clone() }.to_string();
                    self.fault(Fault::Untrue { call, found: "it is not there".to_owned() });
                    self.not_started(&name, "the inventory does not have it".to_owned());
                }
            }
            State::Ended { at: when, listed: seen } if *when < asked => {
                *seen += 1;
                let seen = *seen;
                if !listed {
                    self.stopped(at);
                } else if seen >= attempts {
                    let call = Call::Stop { server: name.clone() }.to_string();
                    self.fault(Fault::Untrue { call, found: "it is still there".to_owned() });
                    self.not_stopped(&name, "the inventory still has it".to_owned());
                }
            }
            _ => {}
        }
    }

    fn take_in_buckets(&mut self, inventory: &Inventory, asked: u64) {
        let mut places: Vec<Places> = vec![(None, None); self.world.buckets.len()];
        let mut holds = vec![false; self.world.servers.len()];
        for listed in &inventory.buckets {
            let at = self.world.server(&listed.server).expect("the inventory was checked");
            holds[at] = true;
            match self.world.bucket(&listed.name) {
                None => {
                    self.appear(listed, at);
                    places.push((Some(at), None));
                }
                Some(bucket) => {
                    if self.world.buckets[bucket].bucket.bytes != listed.bytes {
                        self.world.resize(bucket, listed.bytes);
                    }
                    self.world.buckets[bucket].bucket.load = listed.load;
                    match &mut places[bucket] {
                        (first @ None, _) => *first = Some(at),
                        (_, second) => *second = Some(at),
                    }
                }
            }
        }
        for (known, holds) in self.world.servers.iter_mut().zip(&holds) {
            known.empty_at = (known.listed && !holds).then_some(asked);
        }
        for (bucket, places) in places.into_iter().enumerate() {
            self.take_in_bucket(bucket, places, asked);
        }
    }

    /// A bucket that was not there before.
    fn appear(&mut self, listed: &Bucket, at: usize) {
        let bucket = self.world.add_bucket(listed.clone(), at);
        self.see_off(bucket, "it was made on a server that leaves");
    }

    /// A bucket without a goal that is on a server that leaves gets one.
    fn see_off(&mut self, bucket: usize, why: &str) {
        if self.world.must_leave(bucket) {
            self.redirect(bucket, why);
            self.enqueue(bucket);
        }
    }

    fn take_in_bucket(&mut self, bucket: usize, places: Places, asked: u64) {
        let kept = &self.world.buckets[bucket];
        let hangs = |kept: &Kept| kept.given_up.is_some();
        match &kept.stage {
            Stage::Moving { from, to } if hangs(kept) => {
                let (from, to) = (*from, *to);
                if places == (Some(to), None) && kept.place != Some(to) {
                    self.confirm(bucket, from, to);
                }
            }
            Stage::Moving { .. } => {}
            Stage::Returned { at, .. } if *at >= asked => {}
            Stage::Returned { from, to, said, .. } => {
                let (from, to, said) = (*from, *to, said.clone());
                self.judge(bucket, (from, to), said, places);
            }
            Stage::Idle => self.look_at_idle(bucket, places),
        }
    }

    /// A move came back before the inventory was asked for, so the inventory says what came of it.
    fn judge(
        &mut self,
        bucket: usize,
        (from, to): (usize, usize),
        said: Result<(), String>,
        places: Places,
    ) {
        let (first, second) = match places {
            (None, _) => return self.judge_missing(bucket, from, to),
            (Some(first), second) => (first, second),
        };
        self.settle(bucket, to);
        self.found(bucket);
        let named = |at: usize| format!("on {:?}", self.world.server_name(at));
        let found = match second {
            Some(second) => format!("the bucket is both {} and {}", named(first), named(second)),
            None if first == from => format!("the bucket is still {}", named(from)),
            None => format!("the bucket is {}", named(first)),
        };
        if let Err(why) = &said {
            let call = self.move_call(bucket, from, to);
            self.fault(Fault::Failed { call, why: why.clone() });
        }
        if first == to && second.is_none() {
            if self.world.buckets[bucket].place != Some(to) {
                self.confirm(bucket, from, to);
            }
            return self.enqueue(bucket);
        }
        if said.is_ok() {
            self.untrue(bucket, from, to, found.clone());
        }
        let place = if second == Some(from) { from } else { first };
        self.world.put(bucket, Some(place));
        let other = if place == first { second } else { Some(first) };
        self.world.buckets[bucket].also = other;
        let why = said.err().unwrap_or(found);
        self.try_again(bucket, to, &why);
    }

    /// It is on no server: one of the two may be the reason; if not, it is lost.
    fn judge_missing(&mut self, bucket: usize, from: usize, to: usize) {
        let servers = &self.world.servers;
        let open = |at: usize| servers[at].state == State::Up && !servers[at].listed;
        if open(from) || open(to) {
            return;
        }
        let server_gone = [from, to].map(|at| matches!(servers[at].state, State::Away(_)));
        let overlooked = servers[from].listed || servers[to].listed;
        if overlooked && !self.is_missed(bucket) {
            return;
        }
        if server_gone.contains(&true) {
            self.settle(bucket, to);
            self.gone(bucket, &[from, to]);
            // A plan that was made meanwhile counted it as arrived.
            self.plan_anew = true;
        } else {
            self.settle(bucket, to);
            self.found(bucket);
            self.world.lose(bucket, &[from, to]);
            let name = self.world.bucket_name(bucket);
            let (from, to) = (self.world.server_name(from), self.world.server_name(to));
            let fault = Fault::BucketLost { bucket: name.clone(), from, to };
            self.outcome.unfinished.push(Unfinished::BucketGone { bucket: name });
            self.fault(fault.clone());
            self.halt(fault.to_string());
        }
    }

    /// Nobody was asked to move it.
    fn look_at_idle(&mut self, bucket: usize, places: Places) {
        let Some(place) = self.world.buckets[bucket].place else {
            if let (Some(place), _) = places {
                self.found(bucket);
                self.world.put(bucket, Some(place));
                self.world.buckets[bucket].goal = place;
                let back = Unfinished::BucketGone { bucket: self.world.bucket_name(bucket) };
                self.outcome.unfinished.retain(|it| *it != back);
                self.see_off(bucket, "it came back to a server that leaves");
            }
            return;
        };
        let (first, second) = match places {
            (None, _) if !self.world.servers[place].listed => return,
            (None, _) if self.is_missed(bucket) => return self.gone(bucket, &[place]),
            (None, _) => return,
            (Some(first), second) => (first, second),
        };
        if self.found(bucket) {
            self.enqueue(bucket);
        }
        let stays = first == place || second == Some(place);
        if stays {
            let other = if first == place { second } else { Some(first) };
            self.world.buckets[bucket].also = other;
            return;
        }
        // The service moved it by itself.
        self.world.put(bucket, Some(first));
        self.world.buckets[bucket].also = second;
        if !self.world.must_leave(bucket) {
            self.world.buckets[bucket].goal = first;
        }
        self.enqueue(bucket);
    }

    /// Counts an inventory without the bucket; were they enough?
    fn is_missed(&mut self, bucket: usize) -> bool {
        let kept = &mut self.world.buckets[bucket];
        kept.missing += 1;
        self.missing.insert(bucket);
        kept.missing >= self.settings.attempts
    }

    /// It is there; was it missing?
    fn found(&mut self, bucket: usize) -> bool {
        self.missing.remove(&bucket);
        std::mem::take(&mut self.world.buckets[bucket].missing) > 0
    }

    /// It is on no server, and may be on these after all.
    fn gone(&mut self, bucket: usize, servers: &[usize]) {
        let place = self.world.buckets[bucket].place;
        let server = place.map_or_else(String::new, |at| self.world.server_name(at));
        let name = self.world.bucket_name(bucket);
        self.fault(Fault::BucketVanished { bucket: name.clone(), server });
        self.outcome.unfinished.push(Unfinished::BucketGone { bucket: name });
        self.found(bucket);
        self.world.lose(bucket, servers);
    }
}
