//! What is believed of servers and buckets: what inventories said, and which calls may have changed it.
//!
//! Names become numbers here. What one inventory means for this is decided beside it.

use std::collections::{BTreeSet, HashMap};

use crate::inventory::{Bucket, Inventory, Server};

/// What is to become of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Stays,
    Comes,
    Leaves,
}

/// How far the start or the stop of a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Is to be started.
    Awaited,
    Starting,
    /// The start returned at that event; the inventory has not listed it since.
    Started {
        at: u64,
        missing: u32,
    },
    Up,
    Stopping,
    /// The stop returned at that event; the inventory has listed it so often since.
    Ended {
        at: u64,
        listed: u32,
    },
    /// It is not there any more, as was wished.
    Stopped,
    /// Was not started, or has vanished; it is not used again.
    Away(String),
    /// It is there and was not stopped.
    Unstopped(String),
}

#[derive(Clone, Debug)]
pub(super) struct Known {
    pub server: Server,
    pub role: Role,
    pub state: State,
    /// The last inventory has it.
    pub listed: bool,
    /// Inventories in a row that do not have it though it is up.
    pub missing: u32,
    /// Buckets that it had, or was to get, and that are believed nowhere.
    pub lost: BTreeSet<usize>,
    /// Bytes of buckets that are believed on it, and of those on their way to it.
    pub holds: u64,
    pub coming: u64,
    pub buckets: u64,
    /// Moves from it and to it that have not returned, those that hang counted.
    pub sending: usize,
    pub receiving: usize,
    /// Stops of it that were refused.
    pub refused: u32,
    /// The event at which a move from it or to it was called or returned last, or a stop of it refused.
    pub touched: u64,
    /// The event at which the last inventory was asked for that has nothing on it.
    pub empty_at: Option<u64>,
    /// Bytes that the inventory has confirmed.
    pub sent: u64,
    pub received: u64,
    /// A plan had something for it.
    pub wanted: bool,
}

/// Where a bucket's move is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Idle,
    Moving {
        from: usize,
        to: usize,
    },
    /// The call came back at that event; what became of the bucket is for an inventory to say.
    Returned {
        from: usize,
        to: usize,
        at: u64,
        said: Result<(), String>,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub bucket: Bucket,
    /// Where it is believed to be; `None` once it is gone.
    pub place: Option<usize>,
    /// Another server that has it too.
    pub also: Option<usize>,
    pub goal: usize,
    pub stage: Stage,
    pub attempts: u32,
    /// Targets that it did not get to.
    pub avoid: Vec<usize>,
    /// Why it is not tried again.
    pub given_up: Option<String>,
    /// Inventories in a row that do not have it.
    pub missing: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub servers: Vec<Known>,
    pub buckets: Vec<Kept>,
    servers_by_name: HashMap<String, usize>,
    buckets_by_name: HashMap<String, usize>,
}

impl Known {
    fn new(server: Server, role: Role, state: State) -> Known {
        Known {
            listed: state == State::Up,
            server,
            role,
            state,
            missing: 0,
            lost: BTreeSet::new(),
            holds: 0,
            coming: 0,
            buckets: 0,
            sending: 0,
            receiving: 0,
            refused: 0,
            touched: 0,
            empty_at: None,
            sent: 0,
            received: 0,
            wanted: false,
        }
    }

    /// Can buckets be moved to it now?
    pub fn takes(&self) -> bool {
        self.state == State::Up && self.listed && self.role != Role::Leaves
    }

    /// May a plan have buckets on it?
    pub fn is_for_plans(&self) -> bool {
        let coming = matches!(self.state, State::Awaited | State::Starting | State::Started { .. });
        coming || self.state == State::Up && self.listed
    }

    pub fn room(&self) -> u64 {
        self.server.capacity_bytes.saturating_sub(self.holds.saturating_add(self.coming))
    }
}

impl World {
    pub fn add_server(&mut self, server: Server, role: Role, state: State) -> usize {
        let at = self.servers.len();
        self.servers_by_name.insert(server.name.clone(), at);
        self.servers.push(Known::new(server, role, state));
        at
    }

    pub fn add_bucket(&mut self, bucket: Bucket, place: usize) -> usize {
        let at = self.buckets.len();
        self.buckets_by_name.insert(bucket.name.clone(), at);
        self.servers[place].holds = self.servers[place].holds.saturating_add(bucket.bytes);
        self.servers[place].buckets += 1;
        self.buckets.push(Kept {
            bucket,
            place: Some(place),
            also: None,
            goal: place,
            stage: Stage::Idle,
            attempts: 0,
            avoid: Vec::new(),
            given_up: None,
            missing: 0,
        });
        at
    }

    pub fn server(&self, name: &str) -> Option<usize> {
        self.servers_by_name.get(name).copied()
    }

    pub fn bucket(&self, name: &str) -> Option<usize> {
        self.buckets_by_name.get(name).copied()
    }

    pub fn server_name(&self, server: usize) -> String {
        self.servers[server].server.name.clone()
    }

    pub fn bucket_name(&self, bucket: usize) -> String {
        self.buckets[bucket].bucket.name.clone()
    }

    /// Believes a bucket elsewhere, or nowhere.
    pub fn put(&mut self, bucket: usize, place: Option<usize>) {
        let kept = &mut self.buckets[bucket];
        let bytes = kept.bucket.bytes;
        if let Some(old) = kept.place.take() {
            let old = &mut self.servers[old];
            old.holds = old.holds.saturating_sub(bytes);
            old.buckets -= 1;
        } else {
            for known in &mut self.servers {
                known.lost.remove(&bucket);
            }
        }
        if let Some(new) = place {
            let new = &mut self.servers[new];
            new.holds = new.holds.saturating_add(bytes);
            new.buckets += 1;
        }
        self.buckets[bucket].place = place;
    }

    /// Believes a bucket nowhere. These servers may have it all the same, overlooked by inventories, and are not
    /// stopped unless it is found.
    pub fn lose(&mut self, bucket: usize, servers: &[usize]) {
        self.put(bucket, None);
        for &server in servers {
            self.servers[server].lost.insert(bucket);
        }
    }

    /// Believes another size of a bucket.
    pub fn resize(&mut self, bucket: usize, bytes: u64) {
        let old = std::mem::replace(&mut self.buckets[bucket].bucket.bytes, bytes);
        let change = |held: &mut u64| *held = held.saturating_sub(old).saturating_add(bytes);
        if let Some(place) = self.buckets[bucket].place {
            change(&mut self.servers[place].holds);
        }
        if let Stage::Moving { to, .. } | Stage::Returned { to, .. } = self.buckets[bucket].stage {
            change(&mut self.servers[to].coming);
        }
    }

    /// Is the bucket to go somewhere else, and free to?
    pub fn waits_to_move(&self, bucket: usize) -> Option<(usize, usize)> {
        let kept = &self.buckets[bucket];
        let place = kept.place.filter(|_| kept.stage == Stage::Idle && kept.given_up.is_none())?;
        (place != kept.goal && kept.missing == 0).then_some((place, kept.goal))
    }

    /// Must the bucket leave the server that it is on?
    pub fn must_leave(&self, bucket: usize) -> bool {
        let place = self.buckets[bucket].place;
        place.is_some_and(|place| self.servers[place].role == Role::Leaves)
    }

    /// The server that is emptiest for its weight of those that can take the bucket.
    pub fn elsewhere(&self, bucket: usize) -> Option<usize> {
        let kept = &self.buckets[bucket];
        let (bytes, class) = (kept.bucket.bytes, kept.bucket.class.as_deref());
        let able = |at: &usize| {
            let known = &self.servers[*at];
            known.takes()
                && known.room() >= bytes
                && class.is_none_or(|class| class == known.server.class)
                && !kept.avoid.contains(at)
                && kept.place != Some(*at)
        };
        let filled = |at: usize| {
            let known = &self.servers[at];
            known.holds.saturating_add(known.coming) as f64 / known.server.weight
        };
        (0..self.servers.len()).filter(able).min_by(|&a, &b| filled(a).total_cmp(&filled(b)))
    }

    /// As a plan sees it: what is on its way counts as arrived.
    pub fn expected(&self) -> Inventory {
        let used: Vec<bool> = self.servers.iter().map(Known::is_for_plans).collect();
        let servers = self.servers.iter().filter(|known| known.is_for_plans());
        let expected = |kept: &Kept| {
            let place = match kept.stage {
                Stage::Moving { to, .. } | Stage::Returned { to, .. } if used[to] => to,
                _ => kept.place?,
            };
            let server = used[place].then(|| self.server_name(place))?;
            Some(Bucket { server, ..kept.bucket.clone() })
        };
        Inventory {
            servers: servers.map(|known| known.server.clone()).collect(),
            buckets: self.buckets.iter().filter_map(expected).collect(),
        }
    }
}
