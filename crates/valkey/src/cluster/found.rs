//! Finding the nodes of a folder again when nobody knows any more which were started in it.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use tidefs_model::{ByteSize, NodeClass};

use super::NodeDescription;
use crate::connection::Connection;
use crate::endpoint::{Account, Endpoint, Secret, Timeouts};
use crate::fault::Fault;
use crate::probe::info_number;
use crate::process::{ProcessId, socket_of};
use crate::wire::{Malformed, Request};

/// All nodes in the folder of a cluster that answer its admin, members or not. They are taken for
/// nodes of the own class: the servers do not know.
pub fn find_nodes(directory: &Path, secret: &Secret, timeouts: Timeouts) -> Vec<NodeDescription> {
    let folders = fs::read_dir(directory).into_iter().flatten().flatten();
    let found = folders.filter_map(|folder| {
        let directory = folder.path();
        let socket = socket_of(&directory);
        if !socket.exists() {
            return None;
        }
        let described = describe(directory, socket, secret, timeouts);
        let told = described.inspect_err(|fault| {
            tracing::debug!(directory = %folder.path().display(), %fault, "no node answers there");
        });
        told.ok()
    });
    let mut nodes: Vec<_> = found.collect();
    nodes.sort_by_key(|node| node.id);
    nodes
}

fn describe(
    directory: PathBuf,
    socket: PathBuf,
    secret: &Secret,
    timeouts: Timeouts,
) -> Result<NodeDescription, Fault> {
    let account = Account::admin(secret.clone());
    let endpoint = Endpoint::Unix(socket.clone());
    let (mut admin, id) = Connection::open(&endpoint, &account, timeouts)?;
    let mut setting = |name: &str| -> Result<String, Fault> {
        let words = admin.ask(&Request::of(&["CONFIG", "GET", name]))?.into_array()?;
        Ok(words.get(1).ok_or(Malformed::Unexpected)?.text()?.to_owned())
    };
    let ip: IpAddr = setting("bind")?.parse().map_err(|_| Malformed::Unexpected)?;
    let port = match number(&setting("port")?)? {
        0 => number(&setting("tls-port")?)?,
        port => port,
    };
    let bus_port = number(&setting("cluster-port")?)?;
    let memory = setting("maxmemory")?.parse().map_err(|_| Malformed::Number)?;
    let info = admin.ask(&Request::of(&["INFO", "server"]))?;
    let pid = info_number(&info.lossy()?, "process_id")?;
    let process = u32::try_from(pid).ok().and_then(ProcessId::of).ok_or(Fault::Broken)?;
    Ok(NodeDescription {
        id: id.parse().map_err(|_| Malformed::Unexpected)?,
        class: NodeClass::Own,
        address: SocketAddr::new(ip, port),
        bus_port,
        socket,
        directory,
        memory: ByteSize(memory),
        process,
    })
}

fn number(text: &str) -> Result<u16, Malformed> {
    text.parse().map_err(|_| Malformed::Number)
}
