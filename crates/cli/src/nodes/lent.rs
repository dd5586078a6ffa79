//! The manager's provisioner: the process that owns the nodes starts and stops them, so that they
//! outlive a manager that is killed.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tidefs_control::Failure;
use tidefs_manager::{Claim, Loss, Provisioner, Wanted};
use tidefs_model::{NodeClass, NodeId};
use tidefs_valkey::NodeDescription;

use super::link::{FromOwner, ToOwner};
use super::steps::Steps;
use crate::lines;
use crate::state::Paths;

/// Longer than a node may take to end.
const OWNER_WAIT: Duration = Duration::from_secs(60);
/// Longer than a node may take to start, also where a queue is asked for a machine. While the owner is at
/// it the connection stands, and it breaks when the owner ends.
const START_WAIT: Duration = Duration::from_secs(5 * 60);

#[derive(Clone)]
pub struct LentNodes {
    pub paths: Paths,
    pub steps: Steps,
    /// Hosts are asked for, and go with their nodes.
    pub has_guests: bool,
}

impl LentNodes {
    fn ask(&self, request: &ToOwner) -> Result<FromOwner, Failure> {
        let wait = if matches!(request, ToOwner::Start { .. }) { START_WAIT } else { OWNER_WAIT };
        let answer = lines::ask(&self.paths.provisioner(), request, wait);
        match answer.map_err(|error| Failure::new(format!("the owner of the nodes: {error}")))? {
            FromOwner::Failed(why) => Err(Failure::new(why)),
            answer => Ok(answer),
        }
    }
}

impl LentNodes {
    pub fn tell_outlived(&self, by: Claim) -> Result<(), Failure> {
        self.ask(&ToOwner::Outlived { by }).map(|_| ())
    }

    /// Until when the owner may decide.
    pub fn may_decide_until(&self) -> Result<Option<Duration>, Failure> {
        match self.ask(&ToOwner::MayDecide)? {
            FromOwner::MayDecide(until) => Ok(until),
            answer => Err(odd(&answer)),
        }
    }

    fn ask_for_nodes(&self, request: &ToOwner) -> Result<Vec<NodeId>, Failure> {
        match self.ask(request)? {
            FromOwner::Nodes(ids) => ids.iter().map(|id| id_of(id)).collect(),
            answer => Err(odd(&answer)),
        }
    }
}

fn odd(answer: &FromOwner) -> Failure {
    Failure::new(format!("the owner of the nodes answers something else: {answer:?}"))
}

fn id_of(id: &str) -> Result<NodeId, Failure> {
    id.parse().map_err(Failure::new)
}

impl Provisioner for LentNodes {
    type Address = NodeDescription;

    fn start(&self, wanted: Wanted, _: &AtomicBool) -> Result<(NodeId, NodeDescription), Failure> {
        self.steps.take("start");
        let victim = wanted.class == NodeClass::Victim;
        match self.ask(&ToOwner::Start { victim, memory_bytes: wanted.memory.0 })? {
            FromOwner::Started(node) => {
                let node = NodeDescription::try_from(*node).map_err(Failure::new)?;
                Ok((node.id, node))
            }
            answer => Err(odd(&answer)),
        }
    }

    fn stop(&self, node: NodeId) -> Result<(), Failure> {
        self.steps.take("stop");
        self.ask(&ToOwner::Stop { id: node.to_string() })?;
        self.steps.take("stopped");
        Ok(())
    }

    fn put_back(&self, node: NodeId) -> Result<(), Failure> {
        self.ask(&ToOwner::PutBack { id: node.to_string() }).map(|_| ())
    }

    fn started(&self) -> Result<Vec<NodeId>, Failure> {
        self.ask_for_nodes(&ToOwner::Started)
    }

    fn guests(&self) -> Result<Vec<NodeId>, Failure> {
        if !self.has_guests {
            return Ok(Vec::new());
        }
        self.ask_for_nodes(&ToOwner::Guests)
    }

    fn start_takes(&self) -> Result<Option<Duration>, Failure> {
        match self.ask(&ToOwner::StartTakes)? {
            FromOwner::StartTakes(takes) => Ok(takes),
            answer => Err(odd(&answer)),
        }
    }

    fn ended(&self) -> Result<Vec<NodeId>, Failure> {
        self.ask_for_nodes(&ToOwner::Ended)
    }

    fn bury(&self, Loss { node, partitions, bytes }: Loss) -> Result<(), Failure> {
        self.ask(&ToOwner::Bury { id: node.to_string(), partitions, bytes }).map(|_| ())
    }
}

fn names(ids: Vec<NodeId>) -> FromOwner {
    FromOwner::Nodes(ids.iter().map(NodeId::to_string).collect())
}

/// Answers in the process that owns the nodes.
pub fn answer(
    nodes: &impl Provisioner<Address = NodeDescription>,
    outlived: impl FnOnce(Claim),
    may_decide_until: impl FnOnce() -> Option<Duration>,
    request: ToOwner,
) -> FromOwner {
    let never = AtomicBool::new(false);
    let answered = match request {
        ToOwner::Start { victim, memory_bytes } => {
            let class = if victim { NodeClass::Victim } else { NodeClass::Own };
            let wanted = Wanted { class, memory: tidefs_model::ByteSize(memory_bytes) };
            let started = nodes.start(wanted, &never);
            started.map(|(_, node)| FromOwner::Started(Box::new((&node).into())))
        }
        ToOwner::MayDecide => Ok(FromOwner::MayDecide(may_decide_until())),
        ToOwner::Outlived { by } => {
            outlived(by);
            Ok(FromOwner::Done)
        }
        ToOwner::Stop { id } => id_of(&id).and_then(|id| nodes.stop(id)).map(|()| FromOwner::Done),
        ToOwner::PutBack { id } => {
            id_of(&id).and_then(|id| nodes.put_back(id)).map(|()| FromOwner::Done)
        }
        ToOwner::Started => nodes.started().map(names),
        ToOwner::Guests => nodes.guests().map(names),
        ToOwner::StartTakes => nodes.start_takes().map(FromOwner::StartTakes),
        ToOwner::Ended => nodes.ended().map(names),
        ToOwner::Bury { id, partitions, bytes } => id_of(&id)
            .and_then(|node| nodes.bury(Loss { node, partitions, bytes }))
            .map(|()| FromOwner::Done),
    };
    answered.unwrap_or_else(|failure| FromOwner::Failed(failure.what))
}
