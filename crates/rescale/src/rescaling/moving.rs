//! Moves: which is begun next, and what is done about one that did not come off.

use std::time::Duration;

use super::Rescaling;
use super::world::Stage;
use crate::call::{Call, CallId};
use crate::outcome::Fault;

/// Attempts at the planned target, where the bucket has to go somewhere; the others go elsewhere.
const ATTEMPTS_AT_TARGET: u32 = 2;

impl Rescaling {
    /// Puts a bucket that has to move among those that wait.
    pub(super) fn enqueue(&mut self, bucket: usize) {
        if let Some((from, to)) = self.world.waits_to_move(bucket) {
            let bytes = self.world.buckets[bucket].bucket.bytes;
            self.queue.push(bucket, from, to, bytes);
        }
    }

    /// Begins moves as long as servers take part in fewer than they may.
    pub(super) fn begin_moves(&mut self, now: Duration, calls: &mut Vec<(CallId, Call)>) {
        while self.has_call_left()
            && let Some((bucket, from, to)) = self.next_move()
        {
            let bytes = self.world.buckets[bucket].bucket.bytes;
            self.world.buckets[bucket].stage = Stage::Moving { from, to };
            let target = &mut self.world.servers[to];
            target.coming = target.coming.saturating_add(bytes);
            target.receiving += 1;
            self.world.servers[from].sending += 1;
            let call = Call::Move {
                bucket: self.world.bucket_name(bucket),
                from: self.world.server_name(from),
                to: self.world.server_name(to),
            };
            self.call(now, call, calls);
            for server in [from, to] {
                self.world.servers[server].touched = self.event;
            }
        }
    }

    /// Of the pairs of servers that are free, the one with most to do.
    fn next_move(&mut self) -> Option<(usize, usize, usize)> {
        loop {
            let servers = &self.world.servers;
            let most = self.settings.moves_per_server;
            let free = |&((from, to), _): &((usize, usize), f64)| {
                let (from, to) = (&servers[from], &servers[to]);
                from.listed && from.sending < most && to.receiving < most && to.takes()
            };
            let fits = |&(pair, _): &((usize, usize), f64)| {
                let bucket = self.queue.first(pair).expect("a pair that waits has a bucket");
                let stale = self.world.waits_to_move(bucket) != Some(pair);
                stale || self.world.buckets[bucket].bucket.bytes <= servers[pair.1].room()
            };
            let per_second = |server: usize| servers[server].server.bandwidth;
            let pairs = self.queue.pairs(per_second).filter(free).filter(fits);
            // Of equal ones the first.
            let best = pairs.reduce(|best, pair| if pair.1 > best.1 { pair } else { best });
            let (pair, _) = best?;
            let bucket = self.queue.take(pair).expect("a pair that waits has a bucket");
            if self.world.waits_to_move(bucket) == Some(pair) {
                return Some((bucket, pair.0, pair.1));
            }
        }
    }

    pub(super) fn move_returned(&mut self, name: &str, said: Result<(), String>) {
        let bucket = self.world.bucket(name).expect("a bucket that was moved is known");
        let Stage::Moving { from, to } = self.world.buckets[bucket].stage else { return };
        self.world.servers[from].sending -= 1;
        self.world.servers[to].receiving -= 1;
        for server in [from, to] {
            self.world.servers[server].touched = self.event;
        }
        self.world.buckets[bucket].stage = Stage::Returned { from, to, at: self.event, said };
        self.returned.insert(bucket);
    }

    /// The inventory has the bucket on its new server, and nowhere else.
    pub(super) fn confirm(&mut self, bucket: usize, from: usize, to: usize) {
        let bytes = self.world.buckets[bucket].bucket.bytes;
        self.world.put(bucket, Some(to));
        self.world.buckets[bucket].also = None;
        self.world.servers[from].sent += bytes;
        self.world.servers[to].received += bytes;
        self.outcome.after.bytes_moved += bytes;
        self.outcome.after.buckets_moved += 1;
        self.world.buckets[bucket].attempts = 0;
    }

    /// A move is over, whatever it came to.
    pub(super) fn settle(&mut self, bucket: usize, to: usize) {
        let bytes = self.world.buckets[bucket].bucket.bytes;
        let target = &mut self.world.servers[to];
        target.coming = target.coming.saturating_sub(bytes);
        self.world.buckets[bucket].stage = Stage::Idle;
        self.returned.remove(&bucket);
    }

    /// The inventory does not have the bucket where it was to go: again, elsewhere, or not any more.
    pub(super) fn try_again(&mut self, bucket: usize, to: usize, why: &str) {
        // Where a copy of it is already, it is not sent elsewhere: that would make a third.
        let copied = self.world.buckets[bucket].also.is_some();
        let must = self.world.must_leave(bucket) && !copied;
        let kept = &mut self.world.buckets[bucket];
        kept.attempts += 1;
        let attempts = kept.attempts;
        if attempts >= self.settings.attempts {
            kept.given_up.get_or_insert_with(|| format!("{why}, {attempts} times"));
            return;
        }
        if must && attempts >= ATTEMPTS_AT_TARGET {
            kept.avoid.push(to);
            self.redirect(bucket, why);
        }
        self.enqueue(bucket);
    }

    /// Sends a bucket to another server than planned; gives it up where there is none.
    pub(super) fn redirect(&mut self, bucket: usize, why: &str) {
        match self.world.elsewhere(bucket) {
            Some(server) => {
                self.world.buckets[bucket].goal = server;
                self.world.servers[server].wanted = true;
            }
            None => {
                let why = format!("{why}, and no other server can take it");
                self.world.buckets[bucket].given_up.get_or_insert(why);
            }
        }
    }

    pub(super) fn give_up(&mut self, name: &str, why: &str) {
        let bucket = self.world.bucket(name).expect("a bucket that was moved is known");
        self.world.buckets[bucket].given_up = Some(why.to_owned());
    }

    /// Nothing is under way and some buckets wait all the same. Those that can be moved do not wait any more
    /// behind those that cannot; where there are none, they go elsewhere, or stay.
    pub(super) fn unstick(&mut self) -> bool {
        let all = 0..self.world.buckets.len();
        let waits = |bucket| Some((bucket, self.world.waits_to_move(bucket)?));
        let waiting = all.filter_map(waits).map(|(bucket, (from, to))| {
            let obstacle = self.obstacle(bucket, from, to);
            (bucket, from, to, obstacle)
        });
        let (stuck, able): (Vec<_>, Vec<_>) =
            waiting.partition(|(.., obstacle)| obstacle.is_some());
        let found = !stuck.is_empty() || !able.is_empty();
        self.queue.clear();
        able.iter().for_each(|(bucket, ..)| self.enqueue(*bucket));
        for (bucket, from, to, obstacle) in stuck {
            if able.is_empty() {
                self.turn_away(bucket, (from, to), obstacle.unwrap_or_default());
            }
            self.enqueue(bucket);
        }
        found
    }

    fn turn_away(&mut self, bucket: usize, (from, to): (usize, usize), why: String) {
        self.world.buckets[bucket].avoid.push(to);
        let source = &self.world.servers[from];
        let can_send = source.listed && source.sending < self.settings.moves_per_server;
        if can_send && self.world.must_leave(bucket) {
            self.redirect(bucket, &why);
        } else {
            self.world.buckets[bucket].given_up = Some(why);
        }
    }

    /// Why a move cannot be begun though nothing is under way; what hangs is not waited for.
    fn obstacle(&self, bucket: usize, from: usize, to: usize) -> Option<String> {
        let (source, target) = (&self.world.servers[from], &self.world.servers[to]);
        let bytes = self.world.buckets[bucket].bucket.bytes;
        let most = self.settings.moves_per_server;
        if !target.takes() {
            Some("that server is not there".to_owned())
        } else if !source.listed {
            Some("the server that it is on is not there".to_owned())
        } else if bytes > target.room() {
            Some(format!("it has {bytes} bytes and there is room for {}", target.room()))
        } else if source.sending >= most || target.receiving >= most {
            Some("all moves that one of the two servers may take part in hang".to_owned())
        } else {
            let hang = "as many callbacks hang as may be called at a time";
            (!self.has_call_left()).then(|| hang.to_owned())
        }
    }

    pub(super) fn untrue(&mut self, bucket: usize, from: usize, to: usize, found: String) {
        let call = self.move_call(bucket, from, to);
        self.fault(Fault::Untrue { call, found });
    }

    pub(super) fn move_call(&self, bucket: usize, from: usize, to: usize) -> String {
        let bucket = self.world.bucket_name(bucket);
        let (from, to) = (self.world.server_name(from), self.world.server_name(to));
        Call::Move { bucket, from, to }.to_string()
    }
}
