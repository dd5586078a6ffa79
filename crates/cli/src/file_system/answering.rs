//! What a running file system does when another process asks on its control socket.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use anyhow::{Context, bail};
use tidefs_fuse::SystemClock;
use tidefs_model::{Clock, MountId, NodeId};
use tidefs_store::NodeOverview;

use super::FileSystem;
use crate::check_view::CheckView;
use crate::checking;
use crate::control::{Answer, Request};
use crate::failure::Failure;
use crate::live_workflow::{Dead, Deleted, Telling, Version, WorkflowView};
use crate::lost::Lost;
use crate::metrics::{Bound, Served};
use crate::nodes::{Hope, Supervision};
use crate::signals;
use crate::state::Kind;
use crate::storage::Storage;
use crate::view::LimitsView;
use crate::wish::Wish;

impl FileSystem {
    /// Answers on the control socket from now on. Others find the file system by it.
    pub fn listen(self: &Arc<FileSystem>) -> Result<(), Failure> {
        let listener = crate::control::listen(&self.paths)?;
        crate::control::serve(listener, self.answering());
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = storage.as_ref().and_then(Storage::answers);
        answers.iter().for_each(|answers| answers.come_from(self.answering()));
        Ok(())
    }

    pub(super) fn answering(self: &Arc<FileSystem>) -> impl Fn(Request) -> Answer + use<> {
        let file_system = Arc::downgrade(self);
        move |request| match file_system.upgrade() {
            Some(file_system) => file_system.answer(request),
            None => Answer::Refused("the file system is stopping".to_owned()),
        }
    }

    /// Serves metrics from now on, which `status` then names.
    pub fn serve(&self, metrics: Bound) -> anyhow::Result<Served> {
        let served = metrics.serve(&self.paths)?;
        // They are served once.
        let _ = self.metrics.set(served.view.clone());
        Ok(served)
    }

    fn answer(&self, request: Request) -> Answer {
        let done = |outcome: anyhow::Result<()>| match outcome {
            Ok(()) => Answer::Done,
            Err(error) => Answer::Refused(format!("{error:#}")),
        };
        match request {
            Request::Check { repair } => match self.check(repair) {
                Ok(view) => Answer::Checked(Box::new(view)),
                Err(error) => Answer::Refused(format!("{error:#}")),
            },
            Request::Full { node } => {
                let node = node.and_then(|id| id.parse().ok());
                Answer::Room { hope: self.hope_for_room(node) }
            }
            Request::Scale(nodes) => self.change_nodes(&Wish::Scale(nodes)),
            Request::Drain(node) => self.change_nodes(&Wish::Drain(node)),
            Request::Workflow(telling) => match self.hear_of_workflow(&telling) {
                Ok(view) => Answer::Workflow(view),
                Err(error) => Answer::Refused(error.to_string()),
            },
            Request::Status => match self.status() {
                Ok(status) => Answer::Status(Box::new(status)),
                Err(error) => Answer::Refused(format!("{error:#}")),
            },
            Request::Logs => Answer::Logs(self.logs()),
            Request::Absent => Answer::Absent(self.absent_hosts()),
            Request::Join { mount } => match self.admission() {
                Some(admission) => match admission.let_in(MountId(mount)) {
                    Ok(account) => Answer::Account {
                        name: account.name.into_owned(),
                        secret: account.secret.reveal().to_owned(),
                    },
                    Err(error) => Answer::Refused(format!("{error:#}")),
                },
                None => Answer::Refused("there are no nodes to let anybody in to".to_owned()),
            },
            Request::Left { mount } => {
                self.admission().iter().for_each(|admission| admission.has_left(MountId(mount)));
                Answer::Done
            }
            Request::Mount { point, serving } => done(self.mount(point, serving)),
            Request::Unmount(path) => done(self.unmount(&path)),
            Request::Stop if self.adopted.is_some() => {
                self.end_hosts();
                Answer::Done
            }
            Request::Stop if self.kind == Kind::Up => {
                signals::ask_to_stop();
                Answer::Done
            }
            Request::Stop => done(Err(Failure::BelongsToRun(self.paths.directory.clone()).into())),
        }
    }

    fn hear_of_workflow(&self, telling: &Telling) -> Result<WorkflowView, Failure> {
        let forecaster = self.manager().filter(|_| self.forecasts());
        if forecaster.is_none() && !self.deletes_dead {
            let why = "nothing follows a workflow here; start a file system with --nodes MIN..MAX \
                       --policy forecast, or with --delete-dead";
            return Err(Failure::Refused(why.to_owned()));
        }
        let follows = forecaster.and_then(|manager| manager.follows());
        self.workflow.hear(telling, follows, SystemClock.now())
    }

    pub(super) fn forecasts(&self) -> bool {
        self.limits.as_ref().is_some_and(LimitsView::follows_a_workflow)
    }

    /// Files that no task of the told workflow will read again, unless they are of this version.
    pub fn dead_files(&self, seen: Version) -> Option<(Version, Vec<Dead>)> {
        self.workflow.dead(seen)
    }

    /// Whether news have not made a file of this graph one that is to stay.
    pub fn is_dead_file(&self, graph: u64, name: &str) -> bool {
        self.workflow.is_dead(graph, name)
    }

    pub fn deleted_dead_file(&self, graph: u64, name: &str, bytes: u64) {
        self.workflow.has_deleted(graph, name, bytes);
    }

    /// `None` where dead files are to stay, or no workflow was told of.
    pub fn deleted(&self) -> Option<Deleted> {
        self.workflow.deleted().filter(|_| self.deletes_dead)
    }

    /// Has the manager hear what it has not heard of the workflow.
    pub fn tell_of_workflow(&self, manager: &Supervision) {
        if !self.forecasts() {
            return;
        }
        let told = self.workflow.due(manager.follows(), SystemClock.now(), Instant::now());
        told.into_iter().for_each(|told| manager.follow(told));
    }

    /// One at a time: what one repairs is no finding of the other.
    fn check(&self, repair: bool) -> anyhow::Result<CheckView> {
        let Ok(_one) = self.checking.try_lock() else {
            bail!("the file system is being checked already; try again when that is over");
        };
        let store = {
            let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
            storage.as_ref().context("the file system is stopping")?.store_to_check()?
        };
        let admission = self.admission();
        let found =
            checking::check(&store, self.manager(), admission.as_deref(), &self.paths, repair);
        if self.dead_nodes().is_empty() {
            return found;
        }
        // Another process's mount may not answer.
        let mounts: Vec<_> = self.parts().mounts.iter().map(|it| it.path().to_owned()).collect();
        let lost = mounts.iter().find_map(|mount| self.lost(mount));
        let lost = lost.unwrap_or(Lost { incomplete: true, ..Lost::default() });
        // What cannot be read because of a node that died is named all the same.
        let found = found.unwrap_or_else(|error| CheckView {
            unchecked: Some(format!("{error:#}")),
            ..CheckView::default()
        });
        Ok(found.with_losses(self.losses(Some(&lost))))
    }

    /// Another process's writer met a full node.
    fn hope_for_room(&self, node: Option<NodeId>) -> Hope {
        let nobody = || Hope::None("there are no nodes".to_owned());
        self.manager().map_or_else(nobody, |manager| manager.hope_for_room(node))
    }

    /// Has so many nodes, and waits until it does.
    pub fn scale(&self, nodes: u16) -> Result<(), Failure> {
        match self.change_nodes(&Wish::Scale(nodes)) {
            Answer::Refused(why) => Err(Failure::Refused(why)),
            _ => Ok(()),
        }
    }

    fn change_nodes(&self, wish: &Wish) -> Answer {
        let Some(manager) = self.manager() else {
            return Answer::Refused(Failure::NodesAreFixed.to_string());
        };
        let is_silent = |node: NodeId| {
            let node = node.to_string();
            let silent = |seen: &NodeOverview| seen.id == node && !seen.available;
            self.overview().is_ok_and(|overview| overview.nodes.iter().any(silent))
        };
        match wish.carry_out(&manager, &self.nodes(), is_silent) {
            Ok(done) => Answer::Changed(done),
            Err(error) => Answer::Refused(format!("{error:#}")),
        }
    }
}
