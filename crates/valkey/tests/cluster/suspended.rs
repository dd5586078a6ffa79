//! A whole job that is suspended, as a scheduler does it, and goes on later than any time-out.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tidefs_model::{ByteSize, Ino, NodeClass, ShardKey};
use tidefs_store::{Batch, Store};
use tidefs_valkey::{
    ClusterDescription, NodeDescription, Options, ProcessId, Secret, Timeouts, Valkey,
};

use crate::fixture::{Kind, Running, on_each_server, start};

/// Names the nodes, a line each, for the client of its own that a test starts.
const NODES: &str = "TIDEFS_SUSPENDED_NODES";
const SECRET: &str = "TIDEFS_SUSPENDED_SECRET";
const REPLY: Duration = Duration::from_secs(10);
/// Longer than a reply may take.
const SUSPENDED: Duration = Duration::from_secs(12);

/// The client: counts on both nodes without a pause until its input ends. It does nothing unless a
/// test has started it.
#[test]
#[ignore = "it is the client of another test"]
fn client() {
    let Ok(nodes) = std::env::var(NODES) else { return };
    let description = ClusterDescription { nodes: nodes.lines().map(node).collect() };
    let secret = Secret::from_text(&std::env::var(SECRET).unwrap());
    let timeouts = Timeouts { reply: REPLY, ..Timeouts::default() };
    let options = Options { timeouts, ..Options::default() };
    let store = Valkey::connect(&description, secret, options).unwrap();
    let ended = std::thread::spawn(|| std::io::stdin().lines().count());
    let shards = (0..).map(|index| ShardKey { directory: Ino(9), index });
    let holder = |shard: &ShardKey| store.holder(shard.partition());
    let first = shards.clone().next().unwrap();
    let second = shards.into_iter().find(|shard| holder(shard) != holder(&first)).unwrap();
    let mut count = 0;
    while count == 0 || !ended.is_finished() {
        count += 1;
        let batch = Batch::new().add("n", 0, 1).read("n");
        for mut outcome in store.batches(&[(first, batch.clone()), (second, batch)]).unwrap() {
            let counted = Some(u64::to_be_bytes(count).to_vec());
            assert_eq!(outcome.take(0), counted, "each was made once");
        }
        if count == 1 {
            println!("counting");
        }
    }
    println!("counted on");
    std::io::stdout().flush().unwrap();
}

fn node(line: &str) -> NodeDescription {
    let words: Vec<_> = line.split(' ').collect();
    let [id, address, socket] = words[..] else { panic!("{line}") };
    NodeDescription {
        id: id.parse().unwrap(),
        class: NodeClass::Own,
        address: address.parse::<SocketAddr>().unwrap(),
        bus_port: 0,
        socket: socket.into(),
        directory: socket.into(),
        memory: ByteSize::mib(64),
        process: ProcessId { pid: 0, started_ticks: 0 },
    }
}

fn start_client(running: &Running) -> Child {
    let line =
        |node: &NodeDescription| format!("{} {} {}", node.id, node.address, node.socket.display());
    let nodes: Vec<_> = running.nodes().iter().map(line).collect();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "suspended::client", "--ignored", "--nocapture"])
        .env(NODES, nodes.join("\n"))
        .env(SECRET, running.cluster().secrets().data.reveal())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn tell(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

fn a_suspended_job_goes_on_as_if_nothing_had_been(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let mut client = start_client(&running);
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.ends_with("counting")), "the client does not begin");
    let tell_nodes =
        |signal| running.nodes().iter().for_each(|node| tell(node.process.pid, signal));
    // The client has requests at the nodes when it is stopped, and looks for the replies before they
    // go on.
    tell_nodes(Signal::STOP);
    sleep(Duration::from_millis(100));
    tell(client.id(), Signal::STOP);
    sleep(SUSPENDED);
    tell(client.id(), Signal::CONT);
    sleep(Duration::from_millis(100));
    tell_nodes(Signal::CONT);
    drop(client.stdin.take());
    let counted_on = lines.any(|line| line.ends_with("counted on"));
    assert!(client.wait().unwrap().success() && counted_on, "its I/O failed");
}

on_each_server![a_suspended_job_goes_on_as_if_nothing_had_been];
