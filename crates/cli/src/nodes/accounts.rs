//! The accounts of mounts on the nodes of this process: each node that is there, or comes, lets in those
//! that are here, and nobody else of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use tidefs_control::Failure;
use tidefs_fuse::SystemClock;
use tidefs_model::{Clock, MountId, NodeId};
use tidefs_valkey::{Account, Guard, MountAccounts, NodeDescription, Pass, Secret, Successor};

use super::LocalNodes;
use crate::lending::Hosts;

/// A node that does not answer for so long makes calls fail, whoever is let in, and is told later.
const LET_IN_WITHIN: Duration = Duration::from_secs(10);
const TELL_EVERY: Duration = Duration::from_millis(100);

pub(super) struct Accounts {
    nodes: MountAccounts,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    let_in: BTreeMap<MountId, Account>,
    /// Nodes that have yet to hear of some of those.
    owing: BTreeSet<NodeId>,
    /// Where the nodes were an earlier owner's.
    inherited: Option<Inherited>,
}

/// Mounts that an earlier owner let in. Nodes know who they are, and their hosts with which secrets.
#[derive(Default)]
struct Inherited {
    /// That nodes let in and whose hosts have not come; `None` before the nodes have said so.
    found: Option<BTreeSet<MountId>>,
    /// That hosts have brought before.
    brought: BTreeMap<MountId, Account>,
}

impl Accounts {
    /// Nodes are told nothing while the process that has these hosts may not decide.
    pub fn new(admin: Pass, hosts: Hosts) -> Accounts {
        let number = getrandom::u64().unwrap_or_else(|_| SystemClock.steady().0);
        let successor = Successor::at_the_door(&format!("{number:016x}"));
        let guard = Guard::new(move || hosts.may_decide());
        Accounts { nodes: MountAccounts::new(admin, successor, guard), state: Mutex::default() }
    }

    /// Held while nodes are told, so that a newcomer hears of all and each order is the last.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_learned(&self) -> bool {
        self.inherited.as_ref().is_none_or(|it| it.found.is_some())
    }

    /// These are let in by nodes.
    fn learn(&mut self, mut found: BTreeSet<MountId>) {
        let Some(inherited) = &mut self.inherited else { return };
        found.retain(|mount| !self.let_in.contains_key(mount));
        for (mount, account) in std::mem::take(&mut inherited.brought) {
            if found.remove(&mount) {
                self.let_in.insert(mount, account);
            }
        }
        inherited.found = Some(found);
    }

    fn forget(&mut self, mount: MountId) {
        self.let_in.remove(&mount);
        let Some(inherited) = &mut self.inherited else { return };
        inherited.brought.remove(&mount);
        if let Some(found) = &mut inherited.found {
            found.remove(&mount);
        }
    }
}

const PREFIX: &str = "mount-";

fn name_of(mount: MountId) -> String {
    format!("{PREFIX}{:016x}", mount.0)
}

/// `None`: it is no mount's.
fn mount_of(name: &str) -> Option<MountId> {
    u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok().map(MountId)
}

impl LocalNodes {
    /// Has all nodes let a mount in, and waits for those that do not answer: a mount that a node does not
    /// know takes itself for expelled.
    pub fn let_in(&self, mount: MountId) -> anyhow::Result<Account> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).context("no random numbers")?;
        let account = Account::mount(name_of(mount), self.pass(Secret::from_bytes(&secret)));
        let accounts = self.accounts();
        let mut state = accounts.state();
        state.let_in.insert(mount, account.clone());
        let silent = accounts.nodes.let_in(&self.running(), std::slice::from_ref(&account));
        state.owing.extend(silent);
        drop(state);
        let deadline = Instant::now() + LET_IN_WITHIN;
        while !accounts.state().owing.is_empty() && Instant::now() < deadline {
            sleep(TELL_EVERY);
            self.tell_again();
        }
        Ok(account)
    }

    /// The nodes were an earlier owner's, and let mounts in that he let in.
    pub(super) fn inherits_accounts(&self) {
        self.accounts().state().inherited = Some(Inherited::default());
    }

    /// Asks the nodes which mounts an earlier owner let in. `false`: one that runs has yet to say so; to be asked again.
    pub fn learn_accounts(&self) -> bool {
        let accounts = self.accounts();
        if accounts.state().has_learned() {
            return true;
        }
        let (names, silent) = accounts.nodes.names(&self.running());
        let running: Vec<_> = self.running().iter().map(|node| node.id).collect();
        if silent.iter().any(|id| running.contains(id)) {
            return false;
        }
        accounts.state().learn(names.iter().filter_map(|name| mount_of(name)).collect());
        true
    }

    /// A host brings the account of a mount that an earlier owner let in. It counts where the nodes let that mount in and
    /// nobody has shut it out since: hosts bring all that they ever had.
    pub fn know(&self, mount: MountId, secret: &str) {
        let account = Account::mount(name_of(mount), self.pass(Secret::from_text(secret)));
        let mut state = self.accounts().state();
        let Some(inherited) = &mut state.inherited else { return };
        match &mut inherited.found {
            None => drop(inherited.brought.insert(mount, account)),
            Some(found) => {
                if found.remove(&mount) {
                    state.let_in.insert(mount, account);
                    // Some may have come since they were asked.
                    state.owing.extend(self.running().iter().map(|node| node.id));
                }
            }
        }
    }

    /// Mounts that are let in.
    pub fn known(&self) -> Vec<MountId> {
        let state = self.accounts().state();
        let found = state.inherited.iter().flat_map(|it| it.found.iter().flatten());
        state.let_in.keys().chain(found).copied().collect()
    }

    /// Has all nodes end a mount's account. `false`: one that runs has not done so, and may still carry
    /// out what the mount had begun; to be asked again.
    pub fn shut_out(&self, mount: MountId) -> bool {
        let accounts = self.accounts();
        let mut state = accounts.state();
        state.forget(mount);
        let silent = accounts.nodes.shut_out(&self.running(), &name_of(mount));
        // One that has ended meanwhile carries nothing out, either.
        let running: Vec<_> = self.running().iter().map(|node| node.id).collect();
        !silent.iter().any(|id| running.contains(id))
    }

    /// Tells those that did not answer before. To be called each second.
    pub fn tell_again(&self) {
        let accounts = self.accounts();
        let mut state = accounts.state();
        let running = self.running();
        accounts.nodes.forget(|id| !running.iter().any(|node| node.id == id));
        if state.owing.is_empty() {
            return;
        }
        let owing: Vec<_> =
            running.into_iter().filter(|node| state.owing.contains(&node.id)).collect();
        let all: Vec<_> = state.let_in.values().cloned().collect();
        state.owing = accounts.nodes.let_in(&owing, &all).into_iter().collect();
    }

    /// Has a node that was started, and is among all others by now, let in those that they do.
    pub(super) fn tell_newcomer(&self, node: &NodeDescription) -> Result<(), Failure> {
        let accounts = self.accounts();
        let state = accounts.state();
        let all: Vec<_> = state.let_in.values().cloned().collect();
        match accounts.nodes.let_in(std::slice::from_ref(node), &all).is_empty() {
            true => Ok(()),
            false => Err(Failure::new("the new node does not let mounts in")),
        }
    }
}
