//! A file system whose owner has ended, in the process of a host that takes it over. Mounts and nodes are hosts', this
//! one's included, and stay so.

use std::sync::{Arc, Mutex, OnceLock};

use tidefs_fuse::Requests;
use tidefs_manager::Claim;

use super::{FileSystem, Parts, Totals};
use crate::admission::Door;
use crate::age_clock::AgeClock;
use crate::lending::{Awaiting, Legacy, Owner, Succession};
use crate::live_workflow::LiveWorkflow;
use crate::state::{Kind, Paths, Record};
use crate::storage::Storage;
use crate::view::LimitsView;

/// Of a file system that was taken over.
pub(super) struct Adopted {
    /// Nobody knows whether its owner has ended: he was not heard any more.
    was_silent: bool,
    /// What became of hosts that a program on his host provided.
    orphans: Option<String>,
}

impl Adopted {
    fn of(legacy: &Legacy, succession: &Succession) -> Adopted {
        let was_silent = succession.found.before.is_none();
        Adopted { was_silent, orphans: orphans(legacy, succession) }
    }

    fn notes(&self, lacks_workflow: bool) -> impl Iterator<Item = String> {
        let came = match self.was_silent {
            true => {
                "taken over from a host that fell silent; lenders, metrics and `tidefs exec` were that host's"
            }
            false => {
                "taken over from a host that ended; lenders, metrics and `tidefs exec` ended with it"
            }
        };
        let told = "what was told of a workflow was told to that host, and thresholds decide: tell it again, with \
                    `tidefs workflow --graph FILE`";
        let told = lacks_workflow.then_some(told);
        [came].into_iter().chain(told).map(str::to_owned).chain(self.orphans.clone())
    }
}

impl FileSystem {
    /// Has the nodes, and answers what hosts ask.
    pub fn adopt(
        legacy: &Legacy,
        paths: &Paths,
        succession: Succession,
        age: AgeClock,
        awaiting: &Awaiting,
    ) -> anyhow::Result<Arc<FileSystem>> {
        let adopted = Some(Adopted::of(legacy, &succession));
        let storage = Storage::adopt(legacy, paths, succession, age, awaiting)?;
        let parts = Parts {
            record: Record::new(Kind::Up, false),
            mounts: Vec::new(),
            ending: Vec::new(),
            earlier: Totals::default(),
            earlier_requests: Requests::default(),
            earlier_commands: Vec::new(),
            instance: None,
        };
        let admission = match storage.door() {
            Some(Door::Here(admission)) => Some(Arc::downgrade(admission)),
            _ => None,
        };
        let answers = storage.answers().cloned();
        let file_system = Arc::new(FileSystem {
            paths: paths.clone(),
            kind: Kind::Up,
            adopted,
            limits: LimitsView::of(&legacy.size),
            metrics: OnceLock::new(),
            roll: OnceLock::new(),
            server: legacy.size.server.clone(),
            storage: Mutex::new(Some(storage)),
            admission,
            parts: Mutex::new(parts),
            workflow: LiveWorkflow::default(),
            // What the owner was told of the workflow ended with it.
            deletes_dead: false,
            checking: Mutex::default(),
        });
        answers.iter().for_each(|answers| answers.come_from(file_system.answering()));
        Ok(file_system)
    }

    /// What people have to know of how the file system came to whoever has it, and to do.
    pub fn notes(&self) -> Vec<String> {
        let lacks_workflow = self.forecasts() && !self.workflow.is_told();
        let adopted = self.adopted.iter();
        let mut notes: Vec<_> = adopted.flat_map(|it| it.notes(lacks_workflow)).collect();
        let manager = self.manager();
        let at = |claim: &Claim| match Owner::of(claim) {
            Some(owner) => owner.heir.address.to_string(),
            None => "somebody else".to_owned(),
        };
        if let Some(by) = manager.as_ref().and_then(|it| it.outlived()) {
            notes.push(format!("{} has taken the file system over: it ends here", at(&by)));
        }
        if manager.as_ref().is_some_and(|it| it.stands_still() && it.outlived().is_none()) {
            notes.push(
                "more than half of the hosts that it had are not heard: nothing is decided here, and nodes of this host stand \
                 still, until they are or one of them says who has the file system; bring their network back, or end what \
                 is left here with `tidefs down`"
                    .to_owned(),
            );
        }
        if let Some(by) = manager.as_ref().and_then(|it| it.awaits()) {
            notes.push(format!(
                "{} has taken the file system over and does not answer: nothing is decided here before it does or has \
                 ended; bring its network back, or end its `tidefs join`",
                at(&by)
            ));
        }
        notes
    }

    /// Has all hosts end what they have of the file system.
    pub(super) fn end_hosts(&self) {
        self.own_nodes().iter().for_each(|nodes| nodes.hosts().end(super::HOSTS_END_WITHIN));
    }
}

/// The program that provided hosts was started by whoever had the file system.
fn orphans(legacy: &Legacy, succession: &Succession) -> Option<String> {
    let provision = legacy.size.provision.as_ref()?;
    let (program, names) = (provision.program.display(), succession.provided.join(", "));
    let none = "no more hosts are asked for";
    Some(match succession.provided.is_empty() {
        true => format!("{program} was run by that host: {none}"),
        false => format!(
            "{program} was run by that host: {none}, and nobody takes away {names} once they have left; do it by hand, \
             with `{program} remove NAME`"
        ),
    })
}
