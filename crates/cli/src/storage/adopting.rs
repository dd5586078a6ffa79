//! The store of a file system whose owner has ended, for the host that takes it over: its nodes are others', and come
//! with their hosts.

use std::sync::Arc;

use anyhow::Context;
use tidefs_model::{ByteSize, MountId};
use tidefs_store::Patient;
use tidefs_valkey::{
    Authority, ClusterSpec, ConnectedFrom, Lifetime, Network, Options, Secrets, Valkey,
};

use super::rivals::{others, seen};
use super::{AnyStore, Storage, choose_server};
use crate::admission::{Admissions, Door};
use crate::age_clock::AgeClock;
use crate::lending::{Awaiting, Legacy, Owner, Presence, Succession, Terms, secret_of};
use crate::nodes::{LocalNodes, Managed, Rival};
use crate::state::{ClusterRecord, Paths, StripeKey as SealKey, make_private};

impl Storage {
    /// `paths` has the keys and the record of the nodes.
    pub fn adopt(
        legacy: &Legacy,
        paths: &Paths,
        succession: Succession,
        age: AgeClock,
        awaiting: &Awaiting,
    ) -> anyhow::Result<Storage> {
        let Legacy { size, seeds: [secrets, authority], start } = legacy;
        let range = size.nodes.context("a file system without nodes is nobody else's")?;
        make_private(&paths.nodes()).context("no place for nodes")?;
        let at = awaiting.address().to_string();
        std::fs::write(paths.lend_address(), at).context("cannot write the address")?;
        let (described, data) = ClusterRecord::read(paths)?;
        let spec = ClusterSpec {
            server: choose_server(None)?.path,
            directory: paths.nodes(),
            hosts: Vec::new(),
            nodes: 0,
            node_memory: size.node_capacity(),
            head_room: ByteSize(size.head_room_bytes),
            secrets: Secrets::from_seed(&secret_of(secrets)?),
            network: match size.trusts_network {
                false => Network::Guarded(Authority::from_seed(&secret_of(authority)?)),
                true => Network::Trusted,
            },
            seed: [0; 32],
            lifetime: Lifetime::Starter,
        };
        let own = succession.heirs.iter().find(|heir| heir.address == awaiting.address());
        // Those before it have ended.
        let own = own.or_else(|| succession.heirs.first());
        let own = own.map(|heir| Owner { term: succession.term, heir: heir.clone() });
        let ended: Vec<MountId> = succession.mounts.iter().copied().map(MountId).collect();
        let nodes = LocalNodes::adopt(spec, paths.clone(), described, succession, age)
            .map_err(|failure| anyhow::anyhow!(failure.what))?;
        nodes.hosts().is_at(awaiting.address());
        own.iter().for_each(|own| nodes.claims(own.claim()));
        let store = Arc::new(Valkey::follow(nodes.vouched(), data, Options::default())?);
        // The workflow's file is on the host that died; thresholds decide until somebody tells of the workflow.
        let mut wanted = size.clone();
        wanted.elasticity.workflow = None;
        let secret = *awaiting.secret();
        let (rival, others) = (rival(&nodes, awaiting), others(&nodes, move || Some(secret)));
        let managed = Managed::start(&nodes, paths, &wanted, *start, rival, others)?;
        let head_room = ByteSize(size.head_room_bytes);
        let legacy = Some(Box::new(legacy.clone()));
        let (nodes_max, lenders, host_logs) = (range.max, false, paths.host_logs());
        let terms = Terms { nodes_max, head_room, lenders, legacy, host_logs };
        let answers = Some(awaiting.serve(&nodes, managed.supervision(), terms));
        let (follows, paths_of) = (Arc::clone(&store), paths.clone());
        let admission = Admissions::succeed(nodes.clone(), follows, paths_of, ended)?;
        let door = Some(Door::Here(admission));
        let room = managed.room(&store);
        Ok(Storage {
            store: AnyStore::Valkey(Arc::new(Patient::new(store, room))),
            nodes: Some(nodes),
            managed: Some(managed),
            direct: false,
            key: SealKey::read(paths)?,
            door,
            answers,
            paths: paths.clone(),
        })
    }
}

/// Others may have taken it over as well. Who started it says no place when he claims it: he had ended when this host
/// took over, unless a node knows of somebody else.
fn rival(nodes: &LocalNodes, awaiting: &Awaiting) -> Box<Rival> {
    let (nodes, secret, here) = (nodes.clone(), *awaiting.secret(), awaiting.address().ip());
    Box::new(move |claim| match Owner::of(claim) {
        Some(owner) => seen(&nodes, &owner, &secret),
        None if nodes.is_had_from(ConnectedFrom::NotAt(here)) => Presence::Silent,
        None => Presence::Ended,
    })
}
