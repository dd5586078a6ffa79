//! What is checked before anything is started, so that a refusal leaves nothing behind.

use std::fs::File;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

use tidefs_control::forecast::Pace;
use tidefs_model::ByteSize;
use tidefs_valkey::HEAD_ROOM;

use crate::agents::Wanted;
use crate::arguments::{Network, StorageOptions};
use crate::elasticity::NodeRange;
use crate::failure::Failure;
use crate::file_system::Size;
use crate::foresight;
use crate::hosts::{self, HostEntry};
use crate::memory::Memory;
use crate::provision::{self, Provision};
use crate::satellites::PROGRAMS;
use crate::state::Paths;
use crate::storage::choose_server;
use crate::view::ServerView;
use crate::without_effect::{self, Beside, WithoutEffect};

/// The device that mounts are made with.
pub const FUSE_DEVICE: &str = "/dev/fuse";

/// Checks that the machine has what the options need; answers also with the other hosts that are to join.
pub fn check(options: &StorageOptions) -> anyhow::Result<(Size, Option<Wanted>)> {
    mounting()?;
    let mut elasticity = options.elasticity.clone();
    let wanted = Wanted::of(options)?;
    let others = wanted.as_ref().map(|wanted| wanted.others.len() as u16);
    let hosts = options.host_commands.as_deref().map_or(Ok(Vec::new()), hosts::read)?;
    elasticity.several_hosts = !hosts.is_empty();
    // They come one after the other, so that there is one at first.
    let satellites = options.hosts.satellites.unwrap_or(0);
    let with_others = others.map(|others| NodeRange { min: 1, max: others + 1 + satellites });
    let nodes = options.nodes.or_else(|| one_on_each(&hosts)).or(with_others);
    let asks_for_nodes = elasticity.is_asked_for() || options.head_room.is_some();
    if nodes.is_none() && asks_for_nodes {
        return Err(Failure::NothingToScale.into());
    }
    if let Some(address) = options.listen {
        listening(address, nodes)?;
    }
    if with_others.is_some() && options.nodes.is_none() && satellites == 0 {
        elasticity.policy.get_or_insert_with(|| "static".to_owned());
    }
    let each_bytes = each(options, nodes, &hosts, wanted.as_ref())?.0;
    let first = |nodes: NodeRange| options.elasticity.first(nodes);
    // More come with hosts that are asked for.
    let here_with = |provision: Option<&Provision>| provision.and(nodes).map(first);
    let first_here = |nodes: NodeRange| others.map(|it| first(nodes).saturating_sub(it).max(1));
    let head_room_bytes = options.head_room.unwrap_or(HEAD_ROOM).0;
    let sealed = options.sealed.is_on(options.listen.is_some());
    let listen = options.listen;
    let provision = provision(options, nodes, listen.is_some() || wanted.is_some())?;
    elasticity.lenders_may_join = listen.is_some() || wanted.is_some();
    let trusts_network = options.network == Network::Trusted;
    let mut size = Size {
        nodes,
        each_bytes,
        head_room_bytes,
        elasticity,
        nodes_here: nodes.and_then(first_here).or_else(|| here_with(provision.as_ref())),
        listen,
        lenders: listen.is_some(),
        trusts_network,
        hosts,
        sealed,
        delete_dead: options.delete_dead,
        provision,
        server: None,
    };
    if let Some(nodes) = nodes {
        let nodes_of_hosts = options.nodes.is_none();
        let beside = Beside { nodes, nodes_of_hosts, listens: options.listen.is_some() };
        without_effect::check(&size.elasticity, beside).map_err(Failure::WithoutEffect)?;
        size.settings(nodes).map_err(Failure::Contradiction)?;
        // Nobody knows how much others will bring.
        let most = ByteSize(each_bytes.saturating_mul(u64::from(nodes.max)));
        let most = (listen.is_none() && wanted.is_none()).then_some(most);
        foresight::forecaster(&size.elasticity, nodes, most, Pace::default())?;
        // The manager's process may have another working directory.
        let workflow = size.elasticity.workflow.take();
        size.elasticity.workflow = workflow.and_then(|path| path.canonicalize().ok());
        size.server = Some(choose_server(options.server.as_deref())?.into());
    } else if options.server.is_some() {
        return Err(Failure::NothingToServe.into());
    }
    Ok((size, wanted))
}

/// Lenders and mounts call nodes by the address that is listened at.
fn listening(address: SocketAddr, nodes: Option<NodeRange>) -> Result<(), Failure> {
    let ip = address.ip().to_canonical();
    if ip.is_unspecified() || ip.is_multicast() {
        return Err(Failure::ListenEverywhere { address });
    }
    nodes.map(|_| ()).ok_or(Failure::NothingToLendTo { address })
}

/// What a node offers. This machine's memory says nothing about that of other hosts.
fn each(
    options: &StorageOptions,
    nodes: Option<NodeRange>,
    hosts: &[HostEntry],
    wanted: Option<&Wanted>,
) -> Result<ByteSize, Failure> {
    if !hosts.is_empty() {
        return options.node_memory.ok_or(Failure::HostsOfUnknownMemory);
    }
    // What may come later must fit as well.
    let first = |nodes: NodeRange| options.elasticity.first(nodes);
    let others_come =
        options.provision.provision_command.is_some() || options.hosts.satellites.is_some();
    let most = match others_come {
        true => nodes.map_or(1, first),
        false => nodes.map_or(1, |nodes| nodes.max),
    };
    let others = wanted.map_or(0, |wanted| wanted.others.len() as u16);
    let asked = wanted.and_then(|wanted| wanted.here_bytes).map(ByteSize).or(options.node_memory);
    Memory::of_this_machine().share(most.saturating_sub(others).max(1), asked)
}

/// `others_join`: it is known where hosts join.
fn provision(
    options: &StorageOptions,
    nodes: Option<NodeRange>,
    others_join: bool,
) -> Result<Option<Provision>, Failure> {
    let satellites = options.hosts.satellites;
    let (provision, option) = match (&options.provision.provision_command, satellites) {
        (Some(program), _) => (program_of_the_users(program)?, "--provision-command"),
        (None, Some(most)) => {
            let asked = options.hosts.satellite_options.as_deref().unwrap_or_default();
            (satellites_of_slurm(most, asked)?, "--satellites")
        }
        (None, None) => return Ok(None),
    };
    let nodes = nodes.ok_or(Failure::NothingToScale)?;
    if !nodes.changes() {
        return Err(Failure::WithoutEffect(WithoutEffect {
            option: option.to_owned(),
            beside: format!("with {nodes} and no more"),
            advice: "give a range, such as --nodes 1..4, or leave it out".to_owned(),
        }));
    }
    if !others_join {
        return Err(Failure::NowhereForHosts);
    }
    let limit = options.provision.provision_limit.unwrap_or(provision::LIMIT_USUAL);
    Ok(Some(Provision { limit, ..provision }))
}

fn program_of_the_users(program: &Path) -> Result<Provision, Failure> {
    let search_path = std::env::var_os("PATH");
    let program =
        provision::usable(program, search_path.as_deref()).map_err(Failure::NoProvision)?;
    Ok(Provision { program, words: Vec::new(), most: None, limit: provision::LIMIT_USUAL })
}

/// This program provides them, by those of Slurm.
fn satellites_of_slurm(most: u16, options: &str) -> Result<Provision, Failure> {
    let search_path = std::env::var_os("PATH");
    let is_missing =
        |program: &&str| provision::usable(Path::new(program), search_path.as_deref()).is_err();
    if let Some(program) = PROGRAMS.into_iter().find(is_missing) {
        return Err(Failure::NoSatellites { program });
    }
    // What runs it is this program as well.
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let words = vec!["satellite".to_owned(), format!("--options={options}")];
    Ok(Provision { program, words, most: Some(most), limit: provision::LIMIT_USUAL })
}

fn one_on_each(hosts: &[HostEntry]) -> Option<NodeRange> {
    let nodes = u16::try_from(hosts.len()).unwrap_or(u16::MAX);
    (nodes > 0).then_some(NodeRange { min: nodes, max: nodes })
}

/// Whether this user can mount at all.
pub fn mounting() -> Result<(), Failure> {
    let root = rustix::process::geteuid().is_root();
    match File::options().read(true).write(true).open(FUSE_DEVICE) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(Failure::FuseDeviceClosed);
        }
        Err(_) => return Err(Failure::NoFuseDevice),
    }
    if root || tidefs_fuse::fusermount_path().is_some() {
        Ok(())
    } else {
        Err(Failure::NoFusermount)
    }
}

/// How hosts and lenders join a file system that runs; nothing where they may not.
pub fn joining(size: &Size, paths: &Paths) -> Vec<String> {
    let address = size.lenders.then(|| std::fs::read_to_string(paths.lend_address()).ok());
    let Some(address) = address.flatten() else { return Vec::new() };
    let (join, lend) = (paths.join_secret(), paths.lend_secret());
    vec![
        format!("hosts join at {address} with the secret in {}", join.display()),
        format!("lenders join at {address} with the secret in {}", lend.display()),
    ]
}

/// The storage in a few words.
pub fn describe(size: &Size) -> String {
    match (&size.nodes, &size.server) {
        (None, _) => format!("{} of this process's memory", size.each()),
        (Some(nodes), None) => format!("{nodes} of {}", size.each()),
        (Some(nodes), Some(server)) if size.nodes_here.is_some() => {
            format!("{nodes}, {} for that of this host, on {}", size.each(), server.said)
        }
        (Some(nodes), Some(server)) => format!("{nodes} of {} on {}", size.each(), server.said),
    }
}

/// What people are to know before nodes are started on a server.
pub fn warn_of_server(server: Option<&ServerView>) {
    if let Some(warning) = server.and_then(|server| server.warning.as_ref()) {
        tracing::warn!("{warning}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenders_need_an_address_that_others_can_call_and_nodes_to_join() {
        let two = Some(NodeRange { min: 2, max: 2 });
        let at = |text: &str, nodes| listening(text.parse().unwrap(), nodes);
        for text in ["0.0.0.0:7400", "[::]:0", "224.0.0.1:1", "[ff02::1]:1", "[::ffff:0.0.0.0]:1"] {
            let refused = at(text, two).unwrap_err();
            assert!(matches!(refused, Failure::ListenEverywhere { .. }), "{text}: {refused}");
        }
        for text in ["127.0.0.1:0", "10.0.0.1:7400", "[fd00::1]:7400"] {
            at(text, two).unwrap();
        }
        // Hosts give nodes without their number being asked for.
        let host = HostEntry {
            name: "h1".to_owned(),
            address: "10.0.0.1".parse().unwrap(),
            command: vec!["nsenter".to_owned()],
        };
        at("10.0.0.1:7400", one_on_each(&[host])).unwrap();
        let refused = at("10.0.0.1:7400", one_on_each(&[])).unwrap_err();
        assert!(matches!(refused, Failure::NothingToLendTo { .. }), "{refused}");
    }
}
