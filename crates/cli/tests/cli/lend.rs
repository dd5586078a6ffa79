//! Lenders: nodes of another's memory come, are used, and go again in order or not; who must not come
//! does not, and the file system is not touched by that.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tidefs_valkey::{Awake, PeerStream};

use crate::elastic::{TOOLS, servers, world_with};
use crate::kept::status;
use crate::world::{Ran, Running, World, wanted};

/// On a machine that others use as well.
const WAIT_MAX: Duration = Duration::from_secs(90);

/// A file system that lenders may join; `None` where something for it is left out.
pub struct Borrower {
    pub world: World,
    address: String,
}

impl Borrower {
    pub fn start(server: &str, options: &[&str]) -> Option<Borrower> {
        let mut world = if wanted("cgroup") { world_with(server)? } else { return None };
        fs::create_dir(world.work().join("tide")).unwrap();
        world.note();
        let up = ["up", "--mount", "tide", "--listen", "127.0.0.1:0", "--node-memory", "128MiB"];
        world.run([&up[..], options].concat()).succeeded();
        let address = fs::read_to_string(world.up().join("lend-address")).unwrap();
        Some(Borrower { world, address })
    }

    pub fn secret_file(&self) -> String {
        self.world.up().join("lend-secret").display().to_string()
    }

    /// The process that listens for lenders.
    fn owner(&self) -> Pid {
        let record = fs::read(self.world.up().join("record.json")).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        let pid = record["owner"]["pid"].as_i64().unwrap();
        Pid::from_raw(pid as i32).unwrap()
    }

    pub fn lender(&self, memory: &str, secret_file: &str) -> Running {
        self.lender_at(&self.address, memory, secret_file)
    }

    fn lender_at(&self, address: &str, memory: &str, secret_file: &str) -> Running {
        let words = ["lend", "--memory", memory, "--join", address];
        let words = [&words[..], &["--secret-file", secret_file]].concat();
        self.world.start(&mut self.world.tidefs(words))
    }

    /// What lies between a lender and the file system; it resets all connections when it is told SIGUSR1.
    /// And its address.
    fn between(&self) -> (Running, String) {
        let program = r#"
import select, signal, socket, struct, sys
class Reset(Exception): pass
def reset(*_): raise Reset
signal.signal(signal.SIGUSR1, reset)
host, port = sys.argv[1].rsplit(":", 1)
listening, pairs = socket.create_server(("127.0.0.1", 0)), {}
print(f"127.0.0.1:{listening.getsockname()[1]}", flush=True)
while True:
    try:
        for one in select.select([listening, *pairs], [], [])[0]:
            if one is listening:
                near, far = one.accept()[0], socket.create_connection((host, int(port)))
                pairs |= {near: far, far: near}
            elif data := one.recv(1 << 16):
                pairs[one].sendall(data)
            else:
                other = pairs.pop(one)
                pairs.pop(other)
                one.close(), other.close()
                break
    except Reset:
        for one in pairs:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()
        pairs = {}
"#;
        let mut python = self.world.command("/usr/bin/python3");
        let mut between = self.world.start(python.args(["-c", program, &self.address]));
        let address = between.says("\n").trim().to_owned();
        (between, address)
    }

    /// Speaks as a lender does, with the right secret, and says what it is told; what it hears.
    fn claim(&self, claims: &[Value]) -> Vec<String> {
        self.claim_as("lend", claims)
    }

    /// As a lender (`lend`) or as a host (`join`).
    pub fn claim_as(&self, whom: &str, claims: &[Value]) -> Vec<String> {
        let (purpose, secret) = match whom {
            "lend" => ("lend.tidefs", self.secret_file()),
            _ => ("join.tidefs", self.world.up().join("join-secret").display().to_string()),
        };
        let secret = fs::read_to_string(secret).unwrap();
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(secret.trim().as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
        }
        let socket = TcpStream::connect(&self.address).unwrap();
        socket.set_write_timeout(Some(WAIT_MAX)).unwrap();
        let until = Awake::now() + WAIT_MAX;
        let stream = PeerStream::connect(socket, purpose, &bytes, until).unwrap();
        stream.socket().set_read_timeout(Some(WAIT_MAX)).unwrap();
        let mut lines = BufReader::new(stream);
        let mut answered = |claim: &Value| {
            lines.get_mut().write_all(format!("{claim}\n").as_bytes()).unwrap();
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            line.trim().to_owned()
        };
        claims.iter().map(&mut answered).collect()
    }

    /// What answers as any server of that identity does that lets everybody in; and its port. It says what
    /// it is told.
    fn impostor(&self, id: &str) -> (Running, u16) {
        let program = r#"
import socket, sys
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
while True:
    lines = listening.accept()[0].makefile("rwb")
    while head := lines.readline():
        words = []
        for _ in range(int(head[1:])):
            length = int(lines.readline()[1:])
            words.append(lines.read(length + 2)[:-2].decode())
        print(*words, flush=True)
        said = {"CLUSTER": f"+{sys.argv[1]}", "ACL": "*1\r\n+default"}.get(words[0], "+OK")
        said = ":1" if words[1:] == ["ID"] else said
        lines.write(said.encode() + b"\r\n")
        lines.flush()
"#;
        let mut python = self.world.command("/usr/bin/python3");
        let mut impostor = self.world.start(python.args(["-c", program, id]));
        let port = impostor.says("\n").trim().parse().unwrap();
        (impostor, port)
    }

    /// It is refused at once.
    fn refuses(&self, memory: &str, secret_file: &str, parts: &[&str]) {
        self.lender(memory, secret_file).end().refused(1, parts);
        self.is_untouched();
    }

    /// Nobody has come, nothing is under way, and files can be written and read.
    fn is_untouched(&self) {
        let seen = status(&self.world);
        assert_eq!(victims(&seen).count(), 0, "{seen}");
        assert!(seen["reconfiguration"].is_null(), "{seen}");
        assert_eq!(seen["lost_nodes"].as_array().map(Vec::len), Some(0), "{seen}");
        self.script("make 7 1 > tide/7 && make 7 1 | cmp - tide/7 && rm tide/7").succeeded();
    }

    /// A shell script with the tools.
    pub fn script(&self, script: &str) -> Ran {
        self.world.shell(&format!("{TOOLS}\n{script}"))
    }

    pub fn until(&self, what: &str, there: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let seen = status(&self.world);
            if there(&seen) {
                return seen;
            }
            assert!(begun.elapsed() < WAIT_MAX, "{what}: {seen:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn ends(self) {
        self.world.run(["down"]).succeeded();
        self.world.is_as_before();
    }
}

pub fn victims(seen: &Value) -> impl Iterator<Item = &Value> {
    let nodes = seen["nodes"].as_array().unwrap().iter();
    nodes.filter(|node| node["class"] == "victim")
}

/// How the kernel schedules a process: field 41 of proc_pid_stat(5). 3 is as a batch task, 0 as usual.
fn scheduled(process: i32) -> String {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(38).unwrap().to_owned()
}

/// A lender, and its node, which is a child of one of its threads.
fn both(lender: &Running) -> [i32; 2] {
    let lender = lender.child.id() as i32;
    let threads = fs::read_dir(format!("/proc/{lender}/task")).unwrap();
    let children = |it: fs::DirEntry| fs::read_to_string(it.path().join("children")).unwrap();
    let all: String = threads.map(|thread| children(thread.unwrap())).collect();
    [lender, all.trim().parse().expect("one child")]
}

/// All is at rest with so many victims that hold something.
pub fn rests_with(count: usize) -> impl Fn(&Value) -> bool {
    move |seen| {
        let held = victims(seen).filter(|node| node["partitions"].as_u64() > Some(0));
        held.count() == count && victims(seen).count() == count && seen["reconfiguration"].is_null()
    }
}

#[test]
fn memory_is_lent_and_given_back_with_nothing_lost() {
    for server in servers() {
        let options = ["--nodes", "2", "--own-share", "0.25"];
        let Some(borrower) = Borrower::start(server, &options) else { return };
        let lender = borrower.lender("128MiB", &borrower.secret_file());
        borrower.until("it is taken in", rests_with(1));
        assert_eq!(both(&lender).map(scheduled), ["3", "3"], "they interrupt nobody");
        assert_eq!(scheduled(borrower.owner().as_raw_nonzero().get()), "0");
        borrower.script("for i in $(seq 30); do make $i 1 > tide/$i || exit 1; done").succeeded();
        let holds_most = |seen: &Value| {
            rests_with(1)(seen)
                && victims(seen).all(|node| node["memory_used_bytes"].as_u64() > Some(20 << 20))
        };
        borrower.until("the victim has its share", holds_most);
        lender.send(Signal::TERM);
        let ended = lender.end().succeeded();
        assert!(ended.stderr.contains("given back"), "{}", ended.stderr);
        borrower.until("it has gone", rests_with(0));
        let ran = borrower.script("cd tide && check 30 1 && rm *").succeeded();
        assert!(!ran.stderr.contains("died"), "{}", ran.stderr);
        borrower.is_untouched();
        borrower.ends();
    }
}

#[test]
fn a_lender_that_is_killed_takes_with_it_what_only_it_held() {
    for server in servers() {
        let Some(borrower) = Borrower::start(server, &["--nodes", "1", "--own-share", "0.5"])
        else {
            return;
        };
        let lender = borrower.lender("128MiB", &borrower.secret_file());
        borrower.until("it is taken in", rests_with(1));
        borrower.script("for i in $(seq 30); do make $i 1 > tide/$i || exit 1; done").succeeded();
        let endpoint = {
            let seen = borrower.until("it holds something", |seen| {
                victims(seen).all(|node| node["memory_used_bytes"].as_u64() > Some(8 << 20))
            });
            let victim = victims(&seen).next().expect("the victim");
            victim["endpoint"].as_str().unwrap().to_owned()
        };
        lender.send(Signal::KILL);
        lender.end().ended_with(137);
        let named = |seen: &Value| {
            let lost = &seen["lost_nodes"][0];
            let held = lost["partitions"].as_u64() > Some(0);
            lost["endpoint"] == endpoint.as_str() && lost["given_up"] == true && held
        };
        borrower.until("the loss is named", named);
        borrower.until("others hold its partitions", |seen| seen["reconfiguration"].is_null());
        let told = borrower.world.run(["status"]).succeeded().stdout;
        assert!(told.contains("answer I/O errors; `tidefs fsck` names them"), "{told}");
        let checked = borrower.world.run(["fsck", "--json"]);
        let checked: Value = serde_json::from_str(&checked.stdout).unwrap();
        let named = checked["lost_files"].as_array().map_or(0, Vec::len);
        assert!(named > 0 && named < 30, "{checked:#}");
        let figures = borrower.script(
            r#"
            echo 3 > /proc/sys/vm/drop_caches 2> /dev/null
            cd tide; right=0; lost=0
            for i in $(seq 30); do
                if cat $i > ../out 2> ../why; then
                    make $i 1 | cmp - ../out || exit 3
                    right=$((right + 1))
                else
                    grep -q 'Input/output error' ../why || exit 4
                    lost=$((lost + 1))
                fi
            done
            rm -f ../out ../why
            [ $right -gt 0 ] && [ $lost -gt 0 ] || { echo "right $right lost $lost"; exit 5; }
            rm *
            for i in $(seq 5); do make $i 1 > $i || exit 6; done
            check 5 1 && rm *
            "#,
        );
        figures.succeeded();
        // The next one clears away what the killed one left.
        let lender = borrower.lender("128MiB", &borrower.secret_file());
        borrower.until("another is taken in", rests_with(1));
        lender.send(Signal::INT);
        lender.end().succeeded();
        borrower.ends();
    }
}

/// The borrower stands still, and the lender hears what it is told all the same: it would else say that it
/// is out of touch, after twelve seconds.
#[test]
fn a_lender_hears_signals_while_nobody_answers_it() {
    let Some(borrower) = Borrower::start("valkey", &["--nodes", "1"]) else { return };
    let mut lender = borrower.lender("128MiB", &borrower.secret_file());
    lender.notes("the node is in use");
    // One that ends before it holds anything is no loss.
    borrower.until("it holds something", rests_with(1));
    let owner = borrower.owner();
    kill_process(owner, Signal::STOP).unwrap();
    lender.send(Signal::TERM);
    lender.notes("once more ends the node at once");
    let begun = Instant::now();
    while both(&lender).map(scheduled) != ["0", "0"] {
        assert!(begun.elapsed() < WAIT_MAX, "they are kept back from emptying the node");
        std::thread::sleep(Duration::from_millis(10));
    }
    lender.send(Signal::TERM);
    let ended = lender.end();
    kill_process(owner, Signal::CONT).unwrap();
    ended.refused(1, &["before it was empty"]);
    borrower.until("the loss is dealt with", |seen| {
        rests_with(0)(seen) && seen["lost_nodes"][0]["given_up"] == true
    });
    borrower.ends();
}

/// No policy adds nodes, and the lent one has less than a third of the room.
#[test]
fn a_writer_that_fills_a_lent_node_goes_on_with_the_own_nodes_room() {
    let options = ["--nodes", "3", "--policy", "static", "--own-share", "0"];
    let Some(borrower) = Borrower::start("valkey", &options) else { return };
    let lender = borrower.lender("128MiB", &borrower.secret_file());
    borrower.until("it is taken in", rests_with(1));
    borrower.script("for i in $(seq 300); do make $i 1 > tide/$i || exit 1; done").succeeded();
    borrower.script("cd tide && check 300 1 && rm *").succeeded();
    lender.send(Signal::TERM);
    lender.end().succeeded();
    borrower.until("it has gone", rests_with(0));
    borrower.ends();
}

#[test]
fn a_connection_that_is_reset_is_made_again_and_nothing_is_lost() {
    let Some(borrower) = Borrower::start("valkey", &["--nodes", "1", "--own-share", "0.5"]) else {
        return;
    };
    let (between, address) = borrower.between();
    let mut lender = borrower.lender_at(&address, "128MiB", &borrower.secret_file());
    borrower.until("it is taken in", rests_with(1));
    borrower.script("for i in $(seq 10); do make $i 1 > tide/$i || exit 1; done").succeeded();
    between.send(Signal::USR1);
    lender.notes("the connection broke");
    lender.notes("the connection is there again");
    borrower.script("cd tide && check 10 1 && rm *").succeeded();
    let seen = borrower.until("it is there still", rests_with(1));
    assert_eq!(seen["lost_nodes"].as_array().map(Vec::len), Some(0), "{seen}");
    lender.send(Signal::TERM);
    let ended = lender.end().succeeded();
    assert!(ended.stderr.contains("given back"), "{}", ended.stderr);
    between.send(Signal::KILL);
    between.end().ended_with(137);
    borrower.until("it has gone", rests_with(0));
    borrower.ends();
}

#[test]
fn who_must_not_lend_is_refused_with_the_reason() {
    let Some(borrower) = Borrower::start("valkey", &["--nodes", "2"]) else { return };
    let own = borrower.secret_file();
    borrower.refuses("1000TiB", &own, &["more than this machine may use", "--memory"]);
    borrower.refuses("128MiB", "no/such/file", &["cannot read the secret in no/such/file"]);
    borrower.script(&format!("printf %064d 7 > wrong; head -c 10 {own} > short")).succeeded();
    borrower.refuses("128MiB", "wrong", &["the secret is not this file system's"]);
    borrower.refuses("128MiB", "short", &["64 hexadecimal digits"]);
    borrower.script("rm wrong short").succeeded();
    let words = ["lend", "--memory", "128MiB", "--join", "127.0.0.1:1", "--secret-file", &own];
    borrower.world.run(words).refused(1, &["no file system can be joined at 127.0.0.1:1"]);
    claims_another_identity(&borrower);
    borrower.ends();
}

fn offer(id: &str) -> Value {
    json!({"offer": {"id": id, "key": "11".repeat(32), "memory_bytes": 1 << 26}})
}

fn join(id: &str, port: u16) -> Value {
    json!({"join": {"id": id, "port": port, "bus_port": 2, "memory_bytes": 1 << 26}})
}

/// Neither an own node's identity, nor its address, nor that of a node that another has lent, or offers.
fn claims_another_identity(borrower: &Borrower) {
    let seen = status(&borrower.world);
    let [id, endpoint] = ["id", "endpoint"].map(|name| seen["nodes"][0][name].as_str().unwrap());
    let port: u16 = endpoint.rsplit_once(':').unwrap().1.parse().unwrap();
    let (new, newer) = ("ab".repeat(20), "ac".repeat(20));
    let claims =
        [offer(id), join(id, 1), offer(&new), join(&new, port), join(&newer, 1), offer("nonsense")];
    let said = borrower.claim(&claims);
    let expected = [
        "is the identity of another node",
        "was not offered on this connection",
        "terms",
        "claims the address of another node",
        "was not offered on this connection",
        "40 hexadecimal digits",
    ];
    for (line, expected) in said.iter().zip(expected) {
        assert!(line.contains(expected), "{line}");
    }
    let said = borrower.claim(&[offer(&new)]);
    assert!(said[0].contains("is the identity of another node"), "{}", said[0]);
    borrower.is_untouched();
    let lender = borrower.lender("128MiB", &borrower.secret_file());
    let seen = borrower.until("it is taken in", rests_with(1));
    let lent = victims(&seen).next().expect("the victim")["id"].clone();
    let said = borrower.claim(&[offer(lent.as_str().unwrap())]);
    assert!(said[0].contains("is the identity of another node"), "{}", said[0]);
    lender.send(Signal::TERM);
    lender.end().succeeded();
    borrower.until("it has gone", rests_with(0));
    borrower.is_untouched();
}

/// Nobody talks to it before it has proved what it is.
#[test]
fn whoever_is_not_the_node_that_is_lent_hears_nothing() {
    let Some(borrower) = Borrower::start("valkey", &["--nodes", "1"]) else { return };
    let id = "cd".repeat(20);
    let (impostor, port) = borrower.impostor(&id);
    let said = borrower.claim(&[offer(&id), join(&id, port)]);
    assert!(said[1].contains("does not let this file system in"), "{}", said[1]);
    // What it hears is no request, and it says so and ends.
    let heard = impostor.end();
    assert!(heard.stdout.lines().count() <= 1, "{}", heard.stdout);
    borrower.is_untouched();
    borrower.ends();
}

/// On a network that is trusted; it has the node's identity, and lets everybody in.
#[test]
fn whoever_is_not_the_node_that_is_lent_sees_no_secret_of_the_cluster() {
    let options = ["--nodes", "1", "--network", "trusted"];
    let Some(borrower) = Borrower::start("valkey", &options) else { return };
    let id = "cd".repeat(20);
    let (mut impostor, port) = borrower.impostor(&id);
    let said = borrower.claim(&[offer(&id), join(&id, port)]);
    assert!(said[1].contains("does not prove to be what is lent"), "{}", said[1]);
    let told = impostor.says("ACL USERS");
    let asked: Vec<_> = told.lines().filter(|line| line.starts_with("AUTH")).collect();
    assert!(asked.len() == 1 && asked[0].starts_with("AUTH tidefs-newcomer "), "{told}");
    impostor.send(Signal::KILL);
    impostor.end().ended_with(137);
    borrower.is_untouched();
    borrower.ends();
}

#[test]
fn a_user_who_may_make_no_control_group_is_refused() {
    if !wanted("cgroup") || !wanted("server") {
        return;
    }
    let Some(world) = World::of_ordinary_user() else { return };
    world.has_server();
    world.shell("printf %064d 7 > secret").succeeded();
    let words = ["lend", "--memory", "64MiB", "--join", "127.0.0.1:1", "--secret-file", "secret"];
    world.run(words).refused(1, &["needs a control group", "run as root"]);
    world.shell("rm secret").succeeded();
    world.is_as_before();
}
