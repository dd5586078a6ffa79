//! What clients feel while partitions move: fills two nodes, moves a third of everything to a new
//! one and back while threads read and write whole stripes, and prints how long requests took:
//! `TIDEFS_SERVER=redis-server cargo run --release --example moving -- 256 /tmp gentle` (MiB, folder,
//! gentle or urgent).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tidefs_model::{ByteSize, Ino, NodeClass, NodeId, StripeKey};
use tidefs_store::{Store, StripeRead, StripeWrite};
use tidefs_valkey::{
    Account, Admin, Cluster, ClusterSpec, Lifetime, Move, MoveOptions, NewNode, Options, Pace,
    Secrets, Timeouts, Valkey, find_server,
};

const STRIPE_BYTES: usize = 1 << 20;
const THREADS: u32 = 2;
const STEADY: Duration = Duration::from_secs(3);

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let stripes: u32 = arguments.next().context("how many MiB?")?.parse()?;
    let directory = arguments.next().context("below which folder?")?;
    let pace = match arguments.next().context("gentle or urgent?")?.as_str() {
        "urgent" => Pace::Urgent,
        _ => Pace::Gentle,
    };
    let directory = tempfile::Builder::new().prefix("moving-").tempdir_in(directory)?;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let spec = ClusterSpec {
        server: find_server(|name| std::env::var_os(name))?,
        directory: directory.path().to_owned(),
        hosts: Vec::new(),
        nodes: 2,
        node_memory: ByteSize::mib(u64::from(stripes) * 2),
        head_room: tidefs_valkey::HEAD_ROOM,
        secrets: Secrets::from_seed(&seed),
        network: tidefs_valkey::Network::Guarded(tidefs_valkey::Authority::from_seed(&seed)),
        seed,
        lifetime: Lifetime::Starter,
    };
    let cluster = Cluster::start(&spec)?;
    let admin = spec.secrets.admin.clone();
    let admin = Admin::connect(cluster.description(), admin, Timeouts::default())?;
    // The owner's list, to which the newcomer is added.
    let roster = Arc::new(Mutex::new(cluster.description().nodes.clone()));
    let known = Arc::clone(&roster);
    let known = move || known.lock().expect("nobody panics with it").clone();
    let store = Valkey::follow(Arc::new(known), spec.secrets.data.clone(), Options::default())?;
    println!("{}, {stripes} MiB", admin.server());
    for index in 0..stripes {
        write(&store, index)?;
    }
    felt(&store, stripes, "nothing moves", || {
        sleep(STEADY);
        Ok(0)
    })?;
    let mut id = [0; 20];
    id.copy_from_slice(&spec.secrets.data.reveal().as_bytes()[..20]);
    let newcomer = NewNode {
        server: spec.server.clone(),
        directory: spec.directory.clone(),
        host: tidefs_valkey::Host::local(),
        id: NodeId(id),
        class: NodeClass::Own,
        memory: spec.node_memory,
        accounts: spec.secrets.accounts(NodeId(id)),
        credentials: spec.network.of_node(NodeId(id)),
        asker: Account::admin(spec.secrets.admin.clone()),
        lifetime: Lifetime::Starter,
    };
    let newcomer = newcomer.start()?;
    roster.lock().expect("nobody panics with it").push(newcomer.clone());
    let joined =
        felt(&store, stripes, "a node joins", || Ok(admin.add_node(&newcomer).map(|()| 0)?));
    let moved = joined
        .and_then(|()| {
            felt(&store, stripes, "to it", || {
                carry_out(&admin, pace, &to_newcomer(&admin, newcomer.id)?)
            })
        })
        .and_then(|()| {
            felt(&store, stripes, "back", || {
                carry_out(&admin, pace, &from_newcomer(&admin, newcomer.id)?)
            })
        });
    newcomer.stop()?;
    cluster.stop()?;
    moved
}

fn to_newcomer(admin: &Admin, to: NodeId) -> anyhow::Result<Vec<Move>> {
    let placement = admin.placement()?;
    let others = admin.description().nodes.into_iter().map(|node| node.id).filter(|&id| id != to);
    let moves = others.flat_map(|from| {
        let third: Vec<_> = placement.partitions_of(from).step_by(3).collect();
        third.into_iter().map(move |partition| Move { partition, from, to })
    });
    Ok(moves.collect())
}

fn from_newcomer(admin: &Admin, from: NodeId) -> anyhow::Result<Vec<Move>> {
    let others: Vec<_> =
        admin.description().nodes.iter().map(|node| node.id).filter(|&id| id != from).collect();
    let placement = admin.placement()?;
    let moves = placement.partitions_of(from).zip(others.iter().cycle());
    Ok(moves.map(|(partition, &to)| Move { partition, from, to }).collect())
}

fn carry_out(admin: &Admin, pace: Pace, moves: &[Move]) -> anyhow::Result<u64> {
    let stop = AtomicBool::new(false);
    let options = MoveOptions { pace, ..MoveOptions::default() };
    let report = admin.move_partitions(moves, options, &|_| {}, &stop)?;
    anyhow::ensure!(report.failures.is_empty() && report.broken.is_none(), "{report:?}");
    Ok(report.bytes)
}

/// Prints how long requests took while something was done.
fn felt(
    store: &Valkey,
    stripes: u32,
    what: &str,
    action: impl FnOnce() -> anyhow::Result<u64>,
) -> anyhow::Result<()> {
    let done = AtomicBool::new(false);
    let (took, bytes, waits) = scope(|scope| {
        let done = &done;
        let run = |me| scope.spawn(move || requests(store, stripes, me, done));
        let threads: Vec<_> = (0..THREADS).map(run).collect();
        let begun = Instant::now();
        let bytes = action();
        let took = begun.elapsed();
        done.store(true, Ordering::Relaxed);
        let waits = threads.into_iter().map(|thread| thread.join().expect("a thread of requests"));
        (took, bytes, waits.collect::<anyhow::Result<Vec<_>>>())
    });
    let mut waits: Vec<Duration> = waits?.concat();
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
    println!(
        "{what:>14}: {:6.3} s, {:4} MiB moved, {:5.0} requests/s, p50 {:?}, p99 {:?}, longest {:?}",
        took.as_secs_f64(),
        bytes? >> 20,
        waits.len() as f64 / took.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(1.0),
    );
    Ok(())
}

/// Reads and writes whole stripes in turn; answers with how long each request took.
fn requests(
    store: &Valkey,
    stripes: u32,
    me: u32,
    done: &AtomicBool,
) -> anyhow::Result<Vec<Duration>> {
    let mut waits = Vec::new();
    let mut buffer = vec![0; STRIPE_BYTES];
    for count in 0_u32.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let index = (count.wrapping_mul(2_654_435_761) >> 8).wrapping_add(me) % stripes;
        let begun = Instant::now();
        if count % 2 == 0 {
            write(store, index)?;
        } else {
            let key = StripeKey { ino: Ino(7), index };
            store.read(&mut [StripeRead { key, offset: 0, buffer: &mut buffer }])?;
            anyhow::ensure!(buffer.iter().all(|byte| *byte == index as u8), "a wrong byte");
        }
        waits.push(begun.elapsed());
    }
    Ok(waits)
}

fn write(store: &Valkey, index: u32) -> anyhow::Result<()> {
    let key = StripeKey { ino: Ino(7), index };
    Ok(store.write(&[StripeWrite { key, offset: 0, bytes: &[index as u8; STRIPE_BYTES] }])?)
}
