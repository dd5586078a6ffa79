//! The accounts of mounts on the nodes of this process: each node that is there, or comes, lets in those
//! that are here, and nobody else of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use tidefs_control::Failure;
use tidefs_model::{MountId, NodeId};
use tidefs_valkey::{Account, MountAccounts, NodeDescription, Pass, Secret};

use super::LocalNodes;

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
}

impl Accounts {
    pub fn new(admin: Pass) -> Accounts {
        Accounts { nodes: MountAccounts::new(admin), state: Mutex::default() }
    }

    /// Held while nodes are told, so that a newcomer hears of all and each order is the last.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name_of(mount: MountId) -> String {
    format!("mount-{:016x}", mount.0)
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

    /// All nodes let this mount in already: an earlier owner of theirs had it so.
    pub fn know(&self, mount: MountId, secret: &str) {
        let account = Account::mount(name_of(mount), self.pass(Secret::from_text(secret)));
        self.accounts().state().let_in.insert(mount, account);
    }

    /// Mounts that are let in.
    pub fn known(&self) -> Vec<MountId> {
        self.accounts().state().let_in.keys().copied().collect()
    }

    /// Has all nodes end a mount's account. `false`: one that runs has not done so, and may still carry
    /// out what the mount had begun; to be asked again.
    pub fn shut_out(&self, mount: MountId) -> bool {
        let accounts = self.accounts();
        let mut state = accounts.state();
        state.let_in.remove(&mount);
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
