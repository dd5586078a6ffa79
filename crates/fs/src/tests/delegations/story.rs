//! Random stories of three mounts, of which some stand still at times: each sees at once what any did.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidefs_model::Ino;

use super::{Company, LOOKS, Mount, chmod, look, make};
use crate::tests::bed::ME;
use crate::{Error, RenameMode};

/// What one mount does to one of a few names, and which mounts look how often before.
#[derive(Clone, Debug)]
struct Step {
    mount: usize,
    name: u8,
    act: Act,
    looks: Vec<(usize, usize)>,
    /// A mount that stands still meanwhile.
    still: Option<usize>,
    /// A host whose clock is set before, by so many hours.
    set: Option<(usize, i64)>,
}

#[derive(Clone, Debug)]
enum Act {
    Make(u32),
    Chmod(u32),
    Remove,
    Rename(u8),
    Exchange(u8),
    Link(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let act = prop_oneof![
        (0..8_u32).prop_map(Act::Make),
        (0..8_u32).prop_map(Act::Chmod),
        Just(Act::Remove),
        (0..6_u8).prop_map(Act::Rename),
        (0..6_u8).prop_map(Act::Exchange),
        (0..6_u8).prop_map(Act::Link),
    ];
    let looks = vec((0..3_usize, prop_oneof![Just(1_usize), Just(12), Just(LOOKS)]), 0..4);
    let still = prop_oneof![8 => Just(None), 1 => (0..3_usize).prop_map(Some)];
    let set = prop_oneof![4 => Just(None), 1 => (0..3_usize, -9..9_i64).prop_map(Some)];
    let parts = (0..3_usize, 0..6_u8, act, looks, still, set);
    parts.prop_map(|(mount, name, act, looks, still, set)| Step {
        mount,
        name,
        act,
        looks,
        still: still.filter(|still| *still != mount),
        set,
    })
}

/// Files by number with their modes, and names in the root or in a directory.
#[derive(Default)]
struct Model {
    files: Vec<u32>,
    names: BTreeMap<u8, usize>,
}

impl Model {
    fn act(&mut self, name: u8, act: &Act) -> bool {
        let there = self.names.get(&name).copied();
        match (act, there) {
            (Act::Make(mode), None) => {
                self.files.push(0o600 + mode);
                self.names.insert(name, self.files.len() - 1);
            }
            (Act::Chmod(mode), Some(file)) => self.files[file] = 0o600 + mode,
            (Act::Remove, Some(_)) => {
                self.names.remove(&name);
            }
            (Act::Rename(to), Some(file)) => {
                // Two names of one file both stay.
                if self.names.get(to) != Some(&file) {
                    self.names.remove(&name);
                    self.names.insert(*to, file);
                }
            }
            (Act::Exchange(to), Some(file)) => {
                let Some(other) = self.names.insert(*to, file) else {
                    self.names.remove(to);
                    return false;
                };
                self.names.insert(name, other);
            }
            (Act::Link(to), Some(file)) => {
                if self.names.contains_key(to) {
                    return false;
                }
                self.names.insert(*to, file);
            }
            _ => return false,
        }
        true
    }
}

struct Names {
    directory: Ino,
}

impl Names {
    /// Even numbers are in the root.
    fn at(&self, name: u8) -> (Ino, Vec<u8>) {
        let directory = if name.is_multiple_of(2) { Ino::ROOT } else { self.directory };
        (directory, format!("n{name}").into_bytes())
    }

    fn act(&self, mount: &Mount, name: u8, act: &Act) -> Result<(), Error> {
        let (directory, from) = self.at(name);
        let rename = |to: u8, mode| {
            let (new, to) = self.at(to);
            mount.rename(directory, &from, new, &to, mode)
        };
        match act {
            Act::Make(mode) => make(mount, directory, &from, 0o600 + mode),
            Act::Chmod(mode) => chmod(mount, directory, &from, 0o600 + mode),
            Act::Remove => mount.unlink(directory, &from),
            Act::Rename(to) => rename(*to, RenameMode::Replace),
            Act::Exchange(to) => rename(*to, RenameMode::Exchange),
            Act::Link(to) => {
                let ino = mount.lookup(directory, &from)?.attr.ino;
                let (new, to) = self.at(*to);
                mount.link(ino, new, &to).map(drop)
            }
        }
    }
}

impl Names {
    /// Every mount answers with what is there.
    fn check(&self, company: &Company, model: &Model) -> Result<(), TestCaseError> {
        for mount in &company.mounts {
            for name in 0..6 {
                let expected = model.names.get(&name).map(|file| model.files[*file]);
                let (directory, name) = self.at(name);
                prop_assert_eq!(look(mount, directory, &name), Ok(expected));
            }
            let there = model.names.keys().filter(|name| !name.is_multiple_of(2));
            prop_assert_eq!(mount.readdir_all(self.directory).len(), there.count());
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever was kept where: when a change has returned, every mount answers with it.
    #[test]
    fn every_mount_sees_what_any_mount_did(steps in vec(step(), 1..30)) {
        let company = Company::of(3);
        let directory = company.mounts[0].mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
        for mount in &company.mounts {
            mount.lookup(Ino::ROOT, b"d").expect("found");
        }
        let (names, mut model) = (Names { directory }, Model::default());
        for step in &steps {
            if let Some((host, hours)) = step.set {
                company.hosts[host].step(hours);
            }
            company.answer_all_recalls();
            let numbered = company.mounts.iter().enumerate();
            let answering_recalls: Vec<_> = numbered
                .filter(|(number, _)| Some(*number) != step.still)
                .map(|(_, mount)| mount)
                .collect();
            let mut all = || {
                for (mount, times) in &step.looks {
                    let mount = &company.mounts[*mount];
                    for name in (0..6).cycle().take(6 * times) {
                        let (directory, name) = names.at(name);
                        look(mount, directory, &name).expect("an answer");
                    }
                }
                company.clock.advance(Duration::from_millis(100));
                let done = names.act(&company.mounts[step.mount], step.name, &step.act);
                prop_assert_eq!(done.is_ok(), model.act(step.name, &step.act), "{:?}", done);
                names.check(&company, &model)
            };
            company.while_answering_recalls(&answering_recalls, || match step.still {
                Some(_) => company.while_time_passes(all),
                None => all(),
            })?;
        }
    }
}
