//! What people want of the number of nodes, and how it came out.

use anyhow::{Context, bail};
use tidefs_control::{Outcome, Refused, Summary, count_of_nodes};
use tidefs_model::NodeId;

use crate::change_view::ChangeView;
use crate::failure::Failure;
use crate::node_names::NodeNames;
use crate::nodes::{Supervision, ToManager};
use crate::state::NodeRecord;

pub enum Wish {
    Scale(u16),
    /// A node by its number, endpoint, or the beginning of its id.
    Drain(String),
}

/// Fewer digits of an id name nobody for sure.
const ID_DIGITS_MIN: usize = 4;

impl Wish {
    /// Returns when it is done, with what was done. `is_silent`: whether a node answers nobody now,
    /// which is asked where the manager has not seen the nodes.
    pub fn carry_out(
        &self,
        manager: &Supervision,
        nodes: &[(usize, NodeRecord)],
        is_silent: impl Fn(NodeId) -> bool,
    ) -> anyhow::Result<ChangeView> {
        let (request, leaving) = match self {
            Wish::Scale(count) => (ToManager::Scale(*count), None),
            Wish::Drain(name) => {
                let node = find(name, nodes)?;
                (ToManager::Drain(node.to_string()), Some(node))
            }
        };
        let names = NodeNames::of(nodes);
        manager.change(&request).map_err(|failure| match (failure, leaving) {
            (Failure::NodesUnseen(_), Some(node)) if is_silent(node) => {
                Failure::Refused(names.told(&Refused::DoesNotAnswer { node }.to_string())).into()
            }
            (Failure::Refused(why) | Failure::NodesUnseen(why), _) => {
                Failure::Refused(names.told(&why)).into()
            }
            (failure, _) => failure.into(),
        })
    }
}

fn find(name: &str, nodes: &[(usize, NodeRecord)]) -> anyhow::Result<NodeId> {
    let is_meant = |(number, node): &&(usize, NodeRecord)| {
        let by_id = name.len() >= ID_DIGITS_MIN && node.id.starts_with(name);
        number.to_string() == name || node.endpoint == name || by_id
    };
    let mut meant = nodes.iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some((_, node)), None) => node.id.parse().context("the record of the nodes is damaged"),
        (None, _) => Err(Failure::NoSuchNode(name.to_owned()).into()),
        (Some(_), Some(_)) => Err(Failure::SeveralNodes(name.to_owned()).into()),
    }
}

/// The end of a reconfiguration that was asked for.
pub fn describe(summary: &Summary) -> anyhow::Result<ChangeView> {
    let said = ChangeView::new(summary);
    match &summary.outcome {
        Outcome::Completed => Ok(said),
        Outcome::Partly { missing, why } => {
            bail!("{said}; {} short of what was asked: {why}", count_of_nodes(*missing))
        }
        Outcome::RolledBack { why } => bail!("{said}; it was undone: {why}"),
        Outcome::Failed { why } => bail!("{said}; it was given up: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcessId;

    fn node(number: usize, id: &str) -> (usize, NodeRecord) {
        let endpoint = format!("127.0.0.1:700{number}");
        (
            number,
            NodeRecord {
                id: id.repeat(10),
                endpoint,
                process: ProcessId::current(),
                victim: false,
            },
        )
    }

    #[test]
    fn a_node_is_found_by_number_endpoint_or_the_beginning_of_its_id() {
        let nodes = [node(1, "ab12"), node(3, "ab13")];
        let third: NodeId = "ab13".repeat(10).parse().unwrap();
        for name in ["3", "127.0.0.1:7003", "ab13", &"ab13".repeat(10)] {
            assert_eq!(find(name, &nodes).unwrap(), third, "{name}");
        }
        for name in ["2", "ab1", "127.0.0.1:7002", ""] {
            assert!(find(name, &nodes).is_err(), "{name}");
        }
    }
}
