//! Starts storage nodes in a new folder below the given one, prints their process ids and sockets,
//! and ends them when its input ends: `cargo run --example nodes -- 3 /tmp`.

use std::io::{Read as _, Write as _};

use anyhow::Context as _;
use tidefs_model::ByteSize;
use tidefs_valkey::{Cluster, ClusterSpec, Lifetime, Secrets, find_server};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let nodes = arguments.next().context("how many nodes?")?.parse()?;
    let directory = arguments.next().context("below which folder?")?;
    let directory = tempfile::Builder::new().prefix("nodes-").tempdir_in(directory)?;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let cluster = Cluster::start(&ClusterSpec {
        server: find_server(|name| std::env::var_os(name))?,
        directory: directory.path().to_owned(),
        hosts: Vec::new(),
        nodes,
        node_memory: ByteSize::mib(64),
        head_room: tidefs_valkey::HEAD_ROOM,
        secrets: Secrets::from_seed(&seed),
        network: tidefs_valkey::Network::Guarded(tidefs_valkey::Authority::from_seed(&seed)),
        seed,
        lifetime: Lifetime::Starter,
    })?;
    for node in &cluster.description().nodes {
        println!("{} {}", node.process.pid, node.socket.display());
    }
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(cluster.stop()?)
}
