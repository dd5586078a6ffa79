//! Nodes in the hands of a host that takes the file system over, and what it has to know of them beside where they
//! are. All of them are hosts' that joined; it starts none itself.

use tidefs_control::Failure;
use tidefs_valkey::{ClusterDescription, ClusterSpec, NodeDescription};

use super::LocalNodes;
use crate::age_clock::AgeClock;
use crate::joining_view::JoiningView;
use crate::lending::{ChannelKey, Succession};
use crate::provision::Provider;
use crate::state::Paths;

impl LocalNodes {
    /// Nodes of other hosts, whose earlier owner has ended. They are in use, and their hosts may come with them;
    /// those that ended with that owner are dead. The term is this process's.
    pub fn adopt(
        spec: ClusterSpec,
        paths: Paths,
        described: ClusterDescription,
        succession: Succession,
        age: AgeClock,
    ) -> Result<LocalNodes, Failure> {
        let number_of = |id: &str| succession.numbers.iter().find(|(_, other)| *other == id);
        let nodes =
            LocalNodes::begin(spec, None, paths, ClusterDescription { nodes: Vec::new() }, age);
        nodes.inherits_accounts();
        if succession.voters.has_enough() {
            nodes.offers().hosts_vote();
        }
        let mut roster = nodes.roster();
        roster.given = succession.given;
        for node in described.nodes {
            let id = node.id.to_string();
            if !succession.own.contains(&id) {
                nodes.offers().expect(node.clone(), ChannelKey::unknown().map_err(Failure::new)?);
            }
            roster.identities.insert(node.id);
            match number_of(&id) {
                Some((number, _)) => roster.nodes.push((*number, node)),
                None => roster.add(node),
            }
        }
        drop(roster);
        let Succession { term, heirs, voters, found, .. } = succession;
        nodes.hosts().begin_term(term, heirs, voters, found);
        Ok(nodes)
    }

    /// No host has memory for another node.
    pub(super) fn nobody_offers(&self) -> Failure {
        let at = JoiningView::of(&self.0.paths).map(|it| format!(" {}", it.address));
        Failure::new(format!(
            "no host offers memory for another node; have one more host join, with `tidefs join{}`",
            at.unwrap_or_default()
        ))
    }

    /// What an heir has to know of the nodes beside where they are.
    pub fn succession(&self) -> Succession {
        let roster = self.roster();
        let number = |(number, node): &(usize, NodeDescription)| (*number, node.id.to_string());
        let here = roster.nodes.iter().map(|(_, node)| node).chain(&roster.ending);
        let own = here.filter(|node| !node.is_elsewhere()).map(|node| node.id.to_string());
        let provided = self.provider().map(Provider::names).unwrap_or_default();
        Succession {
            provided,
            given: roster.given,
            numbers: roster.nodes.iter().map(number).collect(),
            own: own.collect(),
            ..Succession::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidefs_manager::Wanted;
    use tidefs_model::{ByteSize, NodeClass, NodeId};
    use tidefs_valkey::{Lifetime, Network, ProcessId, Secrets};

    use super::*;

    fn adopted(paths: Paths) -> LocalNodes {
        let spec = ClusterSpec {
            server: "/bin/false".into(),
            directory: paths.nodes(),
            hosts: Vec::new(),
            nodes: 0,
            node_memory: ByteSize::mib(32),
            head_room: ByteSize::mib(4),
            secrets: Secrets::from_seed(&[1; 32]),
            network: Network::Trusted,
            seed: [0; 32],
            lifetime: Lifetime::Starter,
        };
        let nobody = ClusterDescription { nodes: Vec::new() };
        LocalNodes::adopt(spec, paths, nobody, Succession::default(), AgeClock::default()).unwrap()
    }

    /// What it started itself would end with its process, also when its host leaves in order.
    #[test]
    fn whoever_takes_over_uses_what_hosts_offer_and_starts_no_node() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().to_owned());
        std::fs::write(paths.lend_address(), "10.0.0.2:4100").unwrap();
        let nodes = adopted(paths);
        let wanted = Wanted { class: NodeClass::Own, memory: ByteSize::mib(32) };
        let start = || {
            let host = nodes.host(&nodes.roster());
            nodes.start_own(host, wanted, Duration::ZERO)
        };
        let refused = start().unwrap_err();
        let advice = "no host offers memory for another node; have one more host join, with \
                      `tidefs join 10.0.0.2:4100`";
        assert_eq!(refused.what, advice);
        let offered = NodeDescription {
            id: NodeId([2; 20]),
            class: NodeClass::Own,
            address: "127.0.0.1:1".parse().unwrap(),
            bus_port: 2,
            socket: "".into(),
            directory: "".into(),
            memory: ByteSize::mib(32),
            process: ProcessId { pid: 0, started_ticks: 0 },
        };
        nodes.offers().add(offered.clone(), ChannelKey::unknown().unwrap(), true);
        assert_eq!(start().unwrap().id, offered.id);
        assert_eq!(nodes.succession().own, Vec::<String>::new(), "it is its host's");
    }
}
