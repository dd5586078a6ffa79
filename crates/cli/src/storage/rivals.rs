//! Who else may have the file system, and how he is found.

use tidefs_valkey::ConnectedFrom;

use crate::lending::{Owner, Presence, secret_of, who_has_it};
use crate::nodes::{LocalNodes, Others, Rival};
use crate::state::Paths;

/// Hosts may take the file system over though this process lives.
pub(super) fn rival(nodes: &LocalNodes, paths: &Paths) -> Box<Rival> {
    let (nodes, paths) = (nodes.clone(), paths.clone());
    Box::new(move |claim| match (Owner::of(claim), join_secret(&paths)()) {
        (Some(owner), Some(secret)) => seen(&nodes, &owner, &secret),
        _ => Presence::There,
    })
}

/// By which hosts are let in, where any are.
pub(super) fn join_secret(paths: &Paths) -> impl Fn() -> Option<[u8; 32]> + Send + Sync + 'static {
    let paths = paths.clone();
    move || {
        let secret = std::fs::read_to_string(paths.join_secret());
        secret.ok().and_then(|text| secret_of(&text).ok())
    }
}

/// Who has the file system, as those know that vote.
pub(super) fn others(
    nodes: &LocalNodes,
    secret: impl Fn() -> Option<[u8; 32]> + Send + Sync + 'static,
) -> Box<Others> {
    let nodes = nodes.clone();
    Box::new(move || {
        let hosts = nodes.hosts();
        let owner = who_has_it(&hosts.voters_at(), &secret()?, hosts.term())?;
        Some(owner.claim())
    })
}

pub(super) fn seen(nodes: &LocalNodes, owner: &Owner, secret: &[u8; 32]) -> Presence {
    owner.presence(secret, || nodes.is_had_from(ConnectedFrom::At(owner.heir.address.ip())))
}
