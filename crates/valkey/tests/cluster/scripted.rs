//! Nodes that say what a test has written down: every answer that a server may give while nodes come
//! and go, at the moment at which it is wanted, and nodes that leave in the middle of a request.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tidefs_model::{ByteSize, Ino, NodeClass, NodeId, ShardKey, StripeKey};
use tidefs_store::{Batch, Store, StoreError};
use tidefs_valkey::{
    ClusterDescription, ConnectError, NodeDescription, Options, ProcessId, Secret, Timeouts, Valkey,
};

use crate::fixture::read;

mod refusing;

const STRIPE: StripeKey = StripeKey { ino: Ino(3), index: 0 };
const SHARD: ShardKey = ShardKey { directory: Ino(3), index: 0 };
/// What the function answers to a batch that was applied and reads nothing.
const APPLIED: &str = "*2\r\n:-1\r\n:0\r\n";

/// What becomes of a request for a key.
#[derive(Clone, Debug)]
enum Turn {
    Say(String),
    /// It is answered well once there was no time for so many connections as are to be left waiting.
    Hold,
    HangUp,
    /// All have these views from now on, and the node hangs up.
    GiveAway(Vec<View>),
    /// The node has left: it hangs up, nobody listens there any more, and the others have these views.
    Leave(Vec<View>),
}

fn refuse(error: &str) -> Turn {
    Turn::Say(format!("-{error}\r\n"))
}

/// What a node knows: who is a member, and which of them holds all slots.
#[derive(Clone, Debug)]
struct View {
    members: &'static [u8],
    holder: u8,
}

const fn view(members: &'static [u8], holder: u8) -> View {
    View { members, holder }
}

impl View {
    fn text(&self, itself: u8) -> String {
        let line = |&number: &u8| {
            let id = NodeId([number; 20]);
            let flags = if number == itself { "myself,master" } else { "master" };
            let slots = if number == self.holder { " 0-16383" } else { "" };
            format!("{id} 127.0.0.1:{number}@2 {flags} - 0 0 1 connected{slots}\n")
        };
        self.members.iter().map(line).collect()
    }
}

/// What all nodes share: what the next requests for keys meet, and each node's view.
#[derive(Default)]
struct Script {
    turns: VecDeque<Turn>,
    views: Vec<View>,
    /// Requests for keys that each node has had.
    asked: Vec<u32>,
    /// How long an answer takes, of those to requests for keys and of views.
    takes: Duration,
    views_take: Duration,
    views_given: u32,
    /// These answer no question for a view before another node was asked.
    silent: Vec<u8>,
    /// So many connections more get no answer, since there is no time for them.
    left_waiting: u32,
    /// What is held is so until this is taken back.
    holds: bool,
}

struct Scripted {
    script: Arc<Mutex<Script>>,
    store: Valkey,
    directory: tempfile::TempDir,
}

impl Scripted {
    /// Nodes that count from 1, with their views, and a client that knows them all.
    fn start(views: &[View]) -> Scripted {
        Scripted::start_with(views, Duration::from_secs(30))
    }

    /// With another time-out.
    fn start_with(views: &[View], wait: Duration) -> Scripted {
        let timeouts = Timeouts { connect: wait, reply: wait };
        Scripted::start_busy(views, timeouts, 0).unwrap()
    }

    /// Nodes that have no time for the first connections.
    fn start_busy(
        views: &[View],
        timeouts: Timeouts,
        left_waiting: u32,
    ) -> Result<Scripted, ConnectError> {
        let directory = tempfile::tempdir().unwrap();
        let asked = vec![0; views.len()];
        let script = Script { views: views.to_vec(), asked, left_waiting, ..Script::default() };
        let script = Arc::new(Mutex::new(script));
        let numbers = 1..=views.len() as u8;
        let nodes = numbers.map(|number| start_node(number, directory.path(), &script)).collect();
        let options = Options { timeouts, ..Options::default() };
        let description = ClusterDescription { nodes };
        let store = Valkey::connect(&description, Secret::from_text("secret"), options)?;
        Ok(Scripted { script, store, directory })
    }

    fn alone() -> Scripted {
        Scripted::start(&[view(&[1], 1)])
    }

    /// The next requests for keys meet these, one each; later ones are answered well.
    fn will(&self, turns: &[Turn]) {
        self.script.lock().unwrap().turns = turns.iter().cloned().collect();
    }

    fn is_through(&self) -> bool {
        self.script.lock().unwrap().turns.is_empty()
    }

    fn asked(&self) -> Vec<u32> {
        self.script.lock().unwrap().asked.clone()
    }

    fn update(&self) -> Result<(), StoreError> {
        let outcome = self.store.batch(SHARD, &Batch::new().add("n", 0, 1))?;
        assert!(outcome.applied());
        Ok(())
    }
}

fn start_node(number: u8, directory: &Path, script: &Arc<Mutex<Script>>) -> NodeDescription {
    let directory = directory.join(format!("node-{number}"));
    fs::create_dir(&directory).unwrap();
    let socket = directory.join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let (script, path) = (Arc::clone(script), socket.clone());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), script, path) = (stream, Arc::clone(&script), path.clone()) else {
                break;
            };
            thread::spawn(move || serve(number, stream, &script, path));
        }
    });
    NodeDescription {
        id: NodeId([number; 20]),
        class: NodeClass::Own,
        address: SocketAddr::from(([127, 0, 0, 1], number.into())),
        bus_port: 2,
        socket,
        directory,
        memory: ByteSize::mib(64),
        process: ProcessId { pid: 0, started_ticks: 0 },
    }
}

/// One connection.
fn serve(number: u8, stream: UnixStream, script: &Mutex<Script>, socket: PathBuf) {
    let mut requests = BufReader::new(stream.try_clone().unwrap());
    let mut replies = stream;
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let is_left_waiting = {
        let mut script = script.lock().unwrap();
        let left = script.left_waiting;
        script.left_waiting = left.saturating_sub(1);
        left > 0
    };
    if is_left_waiting {
        // Until the client gives it up.
        while next_request(&mut requests).is_some() {}
        return;
    }
    while let Some(words) = next_request(&mut requests) {
        let script_of_all = script;
        let mut script = script.lock().unwrap();
        let at = usize::from(number) - 1;
        let (mut takes, mut held) = (Duration::ZERO, false);
        let said = match (words[0].as_str(), words.get(1).map_or("", String::as_str)) {
            ("CLUSTER", "MYID") => bulk(&NodeId([number; 20]).to_string()),
            ("CLUSTER", "NODES") => {
                script.views_given += 1;
                if script.silent.contains(&number) {
                    drop(script);
                    // Until the client gives it up.
                    drop(next_request(&mut requests));
                    return;
                }
                takes = script.views_take;
                bulk(&script.views[at].text(number))
            }
            ("INFO", _) => bulk("redis_version:7.2.4\r\n"),
            ("COMMAND", _) => "*2\r\n*-1\r\n*-1\r\n".to_owned(),
            ("CLIENT", "ID" | "KILL") => ":7\r\n".to_owned(),
            ("AUTH" | "CLIENT" | "ASKING", _) => "+OK\r\n".to_owned(),
            (command, _) => {
                script.asked[at] += 1;
                takes = script.takes;
                match script.turns.pop_front() {
                    Some(Turn::Hold) => {
                        held = true;
                        bulk("kept")
                    }
                    Some(Turn::HangUp) => return,
                    Some(Turn::GiveAway(views)) => {
                        script.views = views;
                        return;
                    }
                    Some(Turn::Leave(views)) => {
                        script.views = views;
                        fs::remove_file(&socket).unwrap();
                        return;
                    }
                    Some(Turn::Say(said)) => said,
                    None if command == "FCALL" => APPLIED.to_owned(),
                    None => bulk("kept"),
                }
            }
        };
        drop(script);
        thread::sleep(takes);
        let holds = |script: &Script| script.holds || script.left_waiting > 0;
        while held && holds(&script_of_all.lock().unwrap()) {
            thread::sleep(Duration::from_millis(1));
        }
        if replies.write_all(said.as_bytes()).is_err() {
            return;
        }
    }
}

/// The words of a request; `None` at the end.
fn next_request(requests: &mut BufReader<UnixStream>) -> Option<Vec<String>> {
    let count = number(requests, '*')?;
    let word = |_| {
        let mut bytes = vec![0; number(requests, '$')? + 2];
        requests.read_exact(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned())
    };
    (0..count).map(word).collect()
}

fn number(requests: &mut BufReader<UnixStream>, kind: char) -> Option<usize> {
    let mut line = String::new();
    requests.read_line(&mut line).ok()?;
    line.strip_prefix(kind)?.trim_end().parse().ok()
}

#[test]
fn a_node_that_is_not_ready_is_asked_again() {
    let nodes = Scripted::alone();
    for error in [
        "CLUSTERDOWN Hash slot not served",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "LOADING Redis is loading the dataset in memory",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "BUSY Redis is busy running a script.",
        "READONLY You can't write against a read only replica.",
        "UNBLOCKED force unblock from blocking operation, instance state changed",
        "ERR Function not found",
        "ASK 1 127.0.0.1:1",
        "MOVED 1 127.0.0.1:1",
        // Nobody knows that node, and then it turns out that the slot has not moved.
        "ASK 1 127.0.0.1:99",
        "MOVED 1 127.0.0.1:99",
    ] {
        nodes.will(&[refuse(error)]);
        assert_eq!(read(&nodes.store, STRIPE, 4).unwrap(), b"kept", "{error}");
        nodes.will(&[refuse(error), refuse(error)]);
        assert_eq!(nodes.update(), Ok(()), "{error}");
        assert!(nodes.is_through(), "{error}");
    }
}

/// Or else a node that refuses slowly would keep a program for many times as long.
#[test]
fn who_is_refused_slowly_is_told_after_twice_the_time_out() {
    let nodes = Scripted::start_with(&[view(&[1], 1)], Duration::from_secs(1));
    nodes.will(&vec![refuse("TRYAGAIN Multiple keys request during rehashing of slot"); 100]);
    nodes.script.lock().unwrap().takes = Duration::from_millis(200);
    assert!(matches!(read(&nodes.store, STRIPE, 4), Err(StoreError::Unavailable { .. })));
    // Those that fit into two seconds. It was 20 where the time of answers did not count.
    assert!(nodes.asked()[0] <= 10, "{:?}", nodes.asked());
}

/// Or else the last one waits for as many answers as there are callers.
#[test]
fn several_that_want_a_new_map_at_once_take_the_same_one() {
    let nodes = Scripted::alone();
    nodes.will(&vec![refuse("CLUSTERDOWN Hash slot not served"); 8]);
    {
        let mut script = nodes.script.lock().unwrap();
        (script.views_given, script.views_take) = (0, Duration::from_millis(1_200));
        // So that all are refused before the first has a map, and none takes the map of the beginning for new.
        script.takes = Duration::from_millis(1_200);
    }
    thread::scope(|scope| {
        let read = || read(&nodes.store, STRIPE, 4).unwrap();
        let all: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
        all.into_iter().for_each(|it| assert_eq!(it.join().unwrap(), b"kept"));
    });
    let given = nodes.script.lock().unwrap().views_given;
    assert!(given <= 4, "{given} maps for eight that asked at once");
}

/// Or else it would take a time-out of half a minute for each of the two.
#[test]
fn a_map_is_had_while_nodes_that_were_asked_before_are_silent() {
    let all: &[u8] = &[1, 2, 3];
    let views = || vec![view(all, 3); 3];
    let nodes = Scripted::start_with(&views(), Duration::from_secs(3_600));
    nodes.script.lock().unwrap().silent = vec![1, 2];
    // Those that owe an answer are not asked again, and everybody has a map all the same.
    for _ in 0..3 {
        nodes.store.refresh().unwrap();
    }
    let given = nodes.script.lock().unwrap().views_given;
    assert_eq!(read(&nodes.store, STRIPE, 4).unwrap(), b"kept");
    nodes.store.refresh().unwrap();
    let once_more = nodes.script.lock().unwrap().views_given;
    assert_eq!(once_more, given + 1, "the silent ones are asked once");
}

#[test]
fn where_one_partition_went_the_others_are_looked_for() {
    let nodes = Scripted::start(&[view(&[1, 2], 1), view(&[1, 2], 1)]);
    nodes.script.lock().unwrap().views = vec![view(&[1, 2], 2), view(&[1, 2], 2)];
    nodes.will(&[refuse("MOVED 1 127.0.0.1:2")]);
    assert_eq!(read(&nodes.store, STRIPE, 4).unwrap(), b"kept");
    assert_eq!(nodes.asked(), [1, 1]);
    for index in 1..=8 {
        let stripe = StripeKey { index, ..STRIPE };
        assert_eq!(read(&nodes.store, stripe, 4).unwrap(), b"kept");
    }
    assert_eq!(nodes.asked(), [1, 9], "none of them is asked for where it was");
}

#[test]
fn what_does_not_pass_is_told_at_once() {
    let nodes = Scripted::alone();
    for (error, expected) in [
        ("OOM command not allowed when used memory > 'maxmemory'.", "is full"),
        ("NOPERM this user has no permissions to run the command", "refuses access"),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", "not understood"),
        ("MOVED 1 nowhere", "not understood"),
    ] {
        nodes.will(&[refuse(error)]);
        let said = read(&nodes.store, STRIPE, 4).unwrap_err().to_string();
        assert!(said.contains(expected), "{error}: {said}");
        // A batch for which a node is too full is asked for once more, in the node's head-room.
        let asked = if expected == "is full" { 2 } else { 1 };
        nodes.will(&vec![refuse(error); asked]);
        let said = nodes.update().unwrap_err().to_string();
        assert!(said.contains(expected), "{error}: {said}");
        assert!(nodes.is_through(), "{error}");
    }
    assert_eq!(nodes.update(), Ok(()));
}

#[test]
fn what_got_lost_is_repeated_when_that_does_no_harm() {
    let nodes = Scripted::alone();
    let hang_up = |times| nodes.will(&vec![Turn::HangUp; times]);
    hang_up(2);
    assert_eq!(read(&nodes.store, STRIPE, 4).unwrap(), b"kept");
    hang_up(10);
    assert_eq!(read(&nodes.store, STRIPE, 4).unwrap(), b"kept", "it may be about to end");
    hang_up(51);
    assert!(matches!(read(&nodes.store, STRIPE, 4), Err(StoreError::Unavailable { .. })));
    // The node is there, so it may have made the update before it hung up.
    hang_up(1);
    assert!(matches!(nodes.update(), Err(StoreError::Indeterminate { .. })));
    hang_up(1);
    assert!(nodes.store.batch(SHARD, &Batch::new().present("n")).unwrap().applied());
    assert!(nodes.is_through());
}

#[test]
fn a_node_that_ends_and_takes_connections_for_a_moment_is_given_up_for_who_holds_its_partitions() {
    let before = view(&[1, 2, 3], 1);
    let after = view(&[2, 3], 2);
    let nodes = Scripted::start(&[before.clone(), before.clone(), before.clone()]);
    nodes.will(&[Turn::HangUp, Turn::GiveAway(vec![before, after.clone(), after])]);
    assert_eq!(read(&nodes.store, STRIPE, 4).unwrap(), b"kept");
    assert_eq!(nodes.asked(), [2, 1, 0]);
}

/// Node 1 holds everything and leaves when it is asked for a key; node 2 and 3 know what is said.
fn after_it_left(second: View, third: View) -> (Result<(), StoreError>, Vec<u32>) {
    let before = view(&[1, 2, 3], 1);
    let nodes = Scripted::start(&[before.clone(), before.clone(), before.clone()]);
    nodes.will(&[Turn::Leave(vec![before, second, third])]);
    (nodes.update(), nodes.asked())
}

#[test]
fn an_update_that_was_lost_with_a_node_that_left_is_made_elsewhere() {
    let (done, asked) = after_it_left(view(&[2, 3], 2), view(&[2, 3], 2));
    assert_eq!((done, asked), (Ok(()), vec![1, 1, 0]));
}

#[test]
fn others_that_have_yet_to_forget_a_node_that_left_are_no_harm() {
    let (done, asked) = after_it_left(view(&[1, 2, 3], 2), view(&[1, 2, 3], 2));
    assert_eq!((done, asked), (Ok(()), vec![1, 1, 0]));
}

#[test]
fn a_node_that_leaves_as_well_and_is_told_nothing_any_more_is_not_believed() {
    // Several nodes that leave at the same time are told of each other or not, as it comes.
    let (done, asked) = after_it_left(view(&[1, 2, 3], 1), view(&[3], 3));
    assert_eq!((done, asked), (Ok(()), vec![1, 0, 1]));
}

#[test]
fn an_update_that_was_lost_with_a_node_that_died_is_in_doubt() {
    let (done, asked) = after_it_left(view(&[1, 2, 3], 1), view(&[1, 2, 3], 1));
    assert!(matches!(done, Err(StoreError::Indeterminate { .. })), "{done:?}");
    assert_eq!(asked, [1, 0, 0]);
}
