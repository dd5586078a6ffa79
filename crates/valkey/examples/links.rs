//! What a link costs: whole stripes written and read, small requests one after the other, and
//! partitions that move, over unix sockets, plain TCP and TLS, in turn:
//! `cargo run --release --example links -- 256 5 /tmp` (MiB, runs, folder). Of each figure the
//! least, the middle and the most of all runs; processor time is this program's and the servers'.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context as _;
use tidefs_model::{ByteSize, Ino, ShardKey, StripeKey};
use tidefs_store::{Batch, Store, StripeRead, StripeWrite};
use tidefs_valkey::{
    Admin, Authority, Cluster, ClusterDescription, ClusterSpec, HEAD_ROOM, Lifetime, Move,
    MoveOptions, Network, Options, Pace, Pass, Secrets, Timeouts, Valkey, find_server,
};

const STRIPE_BYTES: usize = 1 << 20;
const ROUNDS: u32 = 10_000;
/// What `/proc` counts in.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Clone, Copy, Debug)]
enum Link {
    Socket,
    Plain,
    Tls,
}

/// Of one run: a second's worth, and what a second of processor time is worth.
#[derive(Default)]
struct Figures(Vec<(&'static str, f64)>);

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let stripes: u32 = arguments.next().context("how many MiB?")?.parse()?;
    let runs: usize = arguments.next().context("how many runs?")?.parse()?;
    let directory = arguments.next().context("below which folder?")?;
    let links = [Link::Socket, Link::Plain, Link::Tls];
    let mut all: Vec<Vec<Figures>> = links.iter().map(|_| Vec::new()).collect();
    for _ in 0..runs {
        for (link, figures) in links.iter().zip(&mut all) {
            figures.push(run(*link, stripes, Path::new(&directory))?);
        }
    }
    for (link, runs) in links.iter().zip(&all) {
        let Some(first) = runs.first() else { continue };
        for (at, (what, _)) in first.0.iter().enumerate() {
            let mut found: Vec<f64> = runs.iter().map(|run| run.0[at].1).collect();
            found.sort_by(f64::total_cmp);
            let (least, most) = (found[0], found[found.len() - 1]);
            let middle = found[found.len() / 2];
            println!("{link:?}: {what:34} {least:10.0} {middle:10.0} {most:10.0}");
        }
    }
    Ok(())
}

fn run(link: Link, stripes: u32, directory: &Path) -> anyhow::Result<Figures> {
    let directory = tempfile::Builder::new().prefix("links-").tempdir_in(directory)?;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let network = match link {
        Link::Plain => Network::Trusted,
        Link::Socket | Link::Tls => Network::Guarded(Authority::from_seed(&seed)),
    };
    let spec = ClusterSpec {
        server: find_server(|name| std::env::var_os(name))?,
        directory: directory.path().to_owned(),
        hosts: Vec::new(),
        nodes: 2,
        node_memory: ByteSize::mib(u64::from(stripes) * 2 + 64),
        head_room: HEAD_ROOM,
        secrets: Secrets::from_seed(&seed),
        network,
        seed,
        lifetime: Lifetime::Starter,
    };
    let cluster = Cluster::start(&spec)?;
    let pass = |secret: &tidefs_valkey::Secret| Pass {
        secret: secret.clone(),
        credentials: spec.network.of_client(),
    };
    let mut nodes = cluster.description().nodes.clone();
    if !matches!(link, Link::Socket) {
        // Nobody knows their sockets.
        nodes.iter_mut().for_each(|node| node.socket = "".into());
    }
    let mut pids = vec![std::process::id()];
    pids.extend(nodes.iter().map(|node| node.process.pid));
    let roster = Arc::new(ClusterDescription { nodes });
    let store = Valkey::follow(roster, pass(&spec.secrets.data), Options::default())?;
    let mut figures = Figures::default();
    let bytes = vec![7; STRIPE_BYTES];
    figures.take(["MiB/s written", "MiB written by a processor second"], stripes, &pids, || {
        for index in 0..stripes {
            store.write(&[StripeWrite { key: key(index), offset: 0, bytes: &bytes }])?;
        }
        Ok(())
    })?;
    let mut buffer = vec![0; STRIPE_BYTES];
    figures.take(["MiB/s read", "MiB read by a processor second"], stripes, &pids, || {
        for index in 0..stripes {
            store.read(&mut [StripeRead { key: key(index), offset: 0, buffer: &mut buffer }])?;
            anyhow::ensure!(buffer == bytes, "a wrong byte");
        }
        Ok(())
    })?;
    figures.take(["rounds/s", "rounds by a processor second"], ROUNDS, &pids, || {
        let shard = ShardKey { directory: Ino(7), index: 0 };
        (0..ROUNDS)
            .try_for_each(|_| Ok(store.batch(shard, &Batch::new().add("n", 0, 1)).map(drop)?))
    })?;
    let admin = pass(&spec.secrets.admin);
    let admin = Admin::connect(cluster.description(), admin, Timeouts::default())?;
    let (from, to) = (id_of(&cluster, 0), id_of(&cluster, 1));
    let placement = admin.placement()?;
    let moves = placement.partitions_of(from).map(|partition| Move { partition, from, to });
    let moves: Vec<_> = moves.collect();
    figures.take(["MiB/s moved", "MiB moved by a processor second"], stripes / 2, &pids, || {
        let options = MoveOptions { pace: Pace::Urgent, ..MoveOptions::default() };
        let report = admin.move_partitions(&moves, options, &|_| {}, &AtomicBool::new(false))?;
        anyhow::ensure!(report.failures.is_empty() && report.broken.is_none(), "{report:?}");
        Ok(())
    })?;
    Ok(figures)
}

impl Figures {
    fn take(
        &mut self,
        [second, processor]: [&'static str; 2],
        count: u32,
        pids: &[u32],
        work: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let used = || pids.iter().map(|pid| seconds_of(*pid)).sum::<f64>();
        let (before, begun) = (used(), Instant::now());
        work()?;
        let took = begun.elapsed().as_secs_f64();
        self.0.push((second, f64::from(count) / took));
        self.0.push((processor, f64::from(count) / (used() - before)));
        Ok(())
    }
}

/// Of user and system: fields 14 and 15, counted from 1.
fn seconds_of(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let times = fields.split(' ').skip(11).take(2).filter_map(|time| time.parse::<u64>().ok());
    times.sum::<u64>() as f64 / TICKS_PER_SECOND
}

fn key(index: u32) -> StripeKey {
    StripeKey { ino: Ino(7), index }
}

fn id_of(cluster: &Cluster, number: usize) -> tidefs_model::NodeId {
    cluster.description().nodes[number].id
}
