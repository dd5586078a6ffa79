//! Makes one cluster of nodes that begin alone.
//!
//! Each node takes its slots over, is given the function library, and is told of the others. The
//! nodes serve from then on; the rest is waiting until each of them knows where everything is.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_model::NodeClass;

use super::plan::{PlannedNode, plan};
use super::{Cluster, ClusterDescription, ClusterSpec, NodeDescription};
use crate::connection::Connection;
use crate::endpoint::{Account, Pass};
use crate::error::ClusterError;
use crate::fault::Fault;
use crate::function::library;
use crate::process::{NODE_TIMEOUT_MS, NodeProcess, NodeSpec, socket_of};
use crate::view::view_of;
use crate::wire::Request;

/// Nodes that do not agree after this long never will.
const FORMATION_MAX: Duration = Duration::from_secs(20);
/// While nodes get to know each other, in milliseconds: they tell each other of their slots after
/// half of it, and repeat a greeting that got lost after all of it.
const GREETING_TIMEOUT_MS: u64 = 1_000;
/// Nodes that agreed and are no longer told to doubt each other agree at once.
const STILL_AGREED_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(5);

pub fn start(spec: &ClusterSpec, attempt: u8) -> Result<Cluster, ClusterError> {
    let planned = plan(spec, attempt)?;
    // All are started before the first is waited for; those that run end with an early return.
    let starts = planned.iter().map(|node| NodeProcess::start(&node.spec));
    let mut processes = starts.collect::<Result<Vec<_>, _>>()?;
    let (secret, credentials) = (spec.secrets.admin.clone(), spec.network.of_client());
    let admin = Account::admin(Pass { secret, credentials });
    let ready = processes.iter_mut().map(|node| node.wait_until_ready(&admin));
    let mut admins = ready.collect::<Result<Vec<_>, _>>()?;

    let library = library(spec.head_room);
    for (number, (admin, node)) in admins.iter_mut().zip(&planned).enumerate() {
        begin(admin, node, &library).map_err(|fault| ClusterError::Node { number, fault })?;
    }
    set_node_timeout(&mut admins, GREETING_TIMEOUT_MS)?;
    introduce(&mut admins, &planned)?;
    settle(&mut admins, &planned)?;

    let nodes = planned.iter().zip(&processes).map(|(node, process)| describe(&node.spec, process));
    let description = ClusterDescription { nodes: nodes.collect() };
    Ok(Cluster {
        processes,
        description,
        secrets: spec.secrets.clone(),
        network: spec.network.clone(),
    })
}

/// Takes the slots over from the predecessor that never was.
fn begin(admin: &mut Connection, node: &PlannedNode, library: &str) -> Result<(), Fault> {
    let predecessor = node.predecessor.to_string();
    admin.ask(&Request::of(&["CLUSTER", "FAILOVER", "TAKEOVER"]))?;
    admin.ask(&Request::of(&["CLUSTER", "FORGET", &predecessor]))?;
    admin.ask(&Request::of(&["FUNCTION", "LOAD", "REPLACE", library]))?;
    Ok(())
}

fn set_node_timeout(admins: &mut [Connection], timeout_ms: u64) -> Result<(), ClusterError> {
    let timeout_ms = timeout_ms.to_string();
    let request = Request::of(&["CONFIG", "SET", "cluster-node-timeout", &timeout_ms]);
    for (number, admin) in admins.iter_mut().enumerate() {
        admin.ask(&request).map_err(|fault| ClusterError::Node { number, fault })?;
    }
    Ok(())
}

/// Tells each node of all that come after it.
fn introduce(admins: &mut [Connection], planned: &[PlannedNode]) -> Result<(), ClusterError> {
    for (number, admin) in admins.iter_mut().enumerate() {
        for other in &planned[number + 1..] {
            let address = other.spec.address;
            let (ip, port) = (address.ip().to_string(), address.port().to_string());
            let bus_port = other.spec.bus_port.to_string();
            let meet = Request::of(&["CLUSTER", "MEET", &ip, &port, &bus_port]);
            admin.ask(&meet).map_err(|fault| ClusterError::Node { number, fault })?;
        }
    }
    Ok(())
}

/// Waits until all nodes agree, and then ends their readiness to think each other dead. One that
/// was thought dead just before that would stay so; then it is done again.
fn settle(admins: &mut [Connection], planned: &[PlannedNode]) -> Result<(), ClusterError> {
    let deadline = Instant::now() + FORMATION_MAX;
    loop {
        wait_until_agreed(admins, planned, deadline)?;
        set_node_timeout(admins, NODE_TIMEOUT_MS)?;
        let still = Instant::now() + STILL_AGREED_WITHIN;
        match wait_until_agreed(admins, planned, still.min(deadline)) {
            Err(ClusterError::NotFormed { .. }) if still < deadline => {
                set_node_timeout(admins, GREETING_TIMEOUT_MS)?;
            }
            result => return result,
        }
    }
}

fn wait_until_agreed(
    admins: &mut [Connection],
    planned: &[PlannedNode],
    deadline: Instant,
) -> Result<(), ClusterError> {
    for (number, admin) in admins.iter_mut().enumerate() {
        loop {
            let said =
                objection(admin, planned).map_err(|fault| ClusterError::Node { number, fault })?;
            let Some(said) = said else { break };
            if Instant::now() >= deadline {
                return Err(ClusterError::NotFormed { waited: FORMATION_MAX, said });
            }
            sleep(LOOK_EVERY);
        }
    }
    Ok(())
}

/// What a node still lacks: it must serve, and know these nodes, alive and with their slots.
fn objection(admin: &mut Connection, planned: &[PlannedNode]) -> Result<Option<String>, Fault> {
    let info = admin.ask(&Request::of(&["CLUSTER", "INFO"]))?;
    let info = info.lossy()?;
    if !info.contains("cluster_state:ok") {
        return Ok(info.lines().next().map(str::to_owned));
    }
    let view = view_of(&admin.ask(&Request::of(&["CLUSTER", "NODES"]))?)?;
    for node in planned {
        let id = node.spec.id;
        let Some(seen) = view.iter().find(|seen| seen.id == id) else {
            return Ok(Some(format!("{id} is not known")));
        };
        let slots: usize = seen.slots.iter().map(|slots| slots.len()).sum();
        let linked = seen.is_myself || seen.is_linked;
        if slots != node.slots || !linked || seen.is_failing {
            let seen = format!("linked {linked}, failing {}", seen.is_failing);
            return Ok(Some(format!("{id} seen with {slots} of {} slots, {seen}", node.slots)));
        }
    }
    Ok(None)
}

pub fn describe(node: &NodeSpec, process: &NodeProcess) -> NodeDescription {
    NodeDescription {
        id: node.id,
        class: NodeClass::Own,
        address: node.address,
        bus_port: node.bus_port,
        socket: socket_of(&node.directory),
        directory: node.directory.clone(),
        memory: node.memory,
        process: process.process(),
    }
}
