//! Which directory lies in which, to find those that lie below themselves.

use std::collections::{HashMap, HashSet};

use tidefs_model::Ino;

/// The directory in which each directory has its name, and what does not lead to the root.
#[derive(Debug, Default)]
pub struct Tree {
    parents: HashMap<Ino, Ino>,
    /// One directory of each loop.
    loops: HashSet<Ino>,
}

impl Tree {
    pub fn add(&mut self, directory: Ino, parent: Ino) {
        self.parents.insert(directory, parent);
    }

    /// It stands for a loop of directories.
    pub fn is_loop(&self, directory: Ino) -> bool {
        self.loops.contains(&directory)
    }

    /// To be called once, when everything was added.
    pub fn find_loops(&mut self) {
        let parents = std::mem::take(&mut self.parents);
        let mut done = HashSet::new();
        for &directory in parents.keys() {
            let mut way = Vec::new();
            let mut next = Some(directory);
            while let Some(here) = next.filter(|here| done.insert(*here)) {
                way.push(here);
                next = parents.get(&here).copied();
            }
            // The way ends where an earlier one was, or at a place that it has passed itself.
            let begin = next.and_then(|here| way.iter().position(|passed| *passed == here));
            if let Some(begin) = begin {
                self.loops.extend(way[begin..].iter().min());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loops(parents: &[(u64, u64)]) -> Vec<u64> {
        let mut tree = Tree::default();
        parents.iter().for_each(|(directory, parent)| tree.add(Ino(*directory), Ino(*parent)));
        tree.find_loops();
        let mut loops: Vec<_> = tree.loops.iter().map(|ino| ino.0).collect();
        loops.sort_unstable();
        loops
    }

    #[test]
    fn each_loop_is_found_once_and_what_leads_there_is_none() {
        assert_eq!(loops(&[(5, 1), (6, 5), (7, 6), (8, 99)]), []);
        assert_eq!(loops(&[(5, 6), (6, 5), (7, 6), (8, 7), (9, 1)]), [5]);
        assert_eq!(loops(&[(5, 5), (6, 7), (7, 8), (8, 6), (9, 8)]), [5, 6]);
    }
}
