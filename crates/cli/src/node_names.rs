//! Nodes as people know them: `status` shows a number and an address, and what the manager says has
//! the 40 digits of an id.

use std::collections::BTreeMap;

use crate::nodes::DeadNode;
use crate::state::NodeRecord;

const ID_DIGITS: usize = 40;
/// Of the id of a node that nobody here knows: its beginning names a node, too.
const SHOWN_DIGITS: usize = 8;

/// Number and endpoint by id. It grows with those that come.
#[derive(Clone, Debug, Default)]
pub struct NodeNames(BTreeMap<String, (usize, String)>);

impl NodeNames {
    pub fn of(nodes: &[(usize, NodeRecord)]) -> NodeNames {
        let mut names = NodeNames::default();
        names.learn(nodes, &[]);
        names
    }

    pub fn learn(&mut self, nodes: &[(usize, NodeRecord)], dead: &[DeadNode]) {
        let there = nodes.iter().map(|(number, node)| (&node.id, *number, &node.endpoint));
        let dead = dead.iter().map(|node| (&node.id, node.number, &node.endpoint));
        for (id, number, endpoint) in there.chain(dead) {
            if !self.0.contains_key(id) {
                self.0.insert(id.clone(), (number, endpoint.clone()));
            }
        }
    }

    /// The text, with names in place of ids.
    pub fn told(&self, text: &str) -> String {
        let mut told = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(|letter: char| letter.is_ascii_hexdigit()) {
            let word = &rest[at..];
            let end = word.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(word.len());
            told.push_str(&rest[..at]);
            if end == ID_DIGITS {
                told.truncate(told.strip_suffix("node ").unwrap_or(&told).len());
                told.push_str(&self.name(&word[..end]));
            } else {
                told.push_str(&word[..end]);
            }
            rest = &word[end..];
        }
        told + rest
    }

    fn name(&self, id: &str) -> String {
        match self.0.get(id) {
            Some((number, endpoint)) => format!("node {number} ({endpoint})"),
            None => format!("node {}", &id[..SHOWN_DIGITS]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidefs_control::Refused;
    use tidefs_model::NodeId;

    #[test]
    fn people_are_told_numbers_and_addresses() {
        let (known, unknown) = (NodeId([0xab; 20]), NodeId([0xcd; 20]));
        let mut names = NodeNames::default();
        let endpoint = "127.0.0.1:7001".to_owned();
        names.learn(
            &[],
            &[DeadNode { number: 2, id: known.to_string(), endpoint, names: true, lost: None }],
        );
        let said = names.told(&Refused::LastNode { node: known }.to_string());
        assert!(said.starts_with("node 2 (127.0.0.1:7001) is the last node; "), "{said}");
        let said = names.told(&format!("{known:?} gives to {unknown:?}"));
        assert_eq!(said, "node 2 (127.0.0.1:7001) gives to node cdcdcdcd");
        for same in ["", "a decade of 1.5 MiB", &format!("{known}0"), "é 3 ü"] {
            assert_eq!(names.told(same), same);
        }
    }
}
