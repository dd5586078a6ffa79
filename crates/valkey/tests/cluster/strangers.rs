//! Programs of other users, which reach what listens on this machine and know no secret.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_store::Store;
use tidefs_valkey::NodeDescription;

use crate::fixture::{Kind, Running, on_each_server, read, start, write};
use crate::growing::{assert_whole, carry_out, shares};

/// How long a server may take to believe what it is told, or not to.
const HEARD_WITHIN: Duration = Duration::from_secs(3);
const NAME_BYTES: usize = 40;
const SLOT_BYTES: usize = 16_384 / 8;
const ADDRESS_BYTES: usize = 46;

/// A greeting by which a server takes somebody into its table who is where `address` says.
fn greeting(address: &[u8], port: u16, bus_port: u16) -> Vec<u8> {
    let mut bytes = b"RCmb".to_vec();
    bytes.extend(2_256_u32.to_be_bytes());
    for field in [1, port, 2, 0] {
        bytes.extend(field.to_be_bytes());
    }
    bytes.extend([0; 3 * 8]);
    bytes.extend([b'e'; NAME_BYTES]);
    bytes.extend([0; SLOT_BYTES + NAME_BYTES]);
    bytes.extend(address.iter().copied().chain(std::iter::repeat(0)).take(ADDRESS_BYTES));
    bytes.extend([0; 2 + 30 + 2]);
    bytes.extend(bus_port.to_be_bytes());
    // A primary; all is well.
    bytes.extend([0, 1, 0, 0, 0, 0]);
    assert_eq!(bytes.len(), 2_256);
    bytes
}

fn greet(node: &NodeDescription, greeting: &[u8]) {
    let bus = SocketAddr::new(node.address.ip(), node.bus_port);
    // Whoever hangs up in the middle has not listened.
    if let Ok(mut stream) = TcpStream::connect(bus) {
        let _ = stream.write_all(greeting);
        sleep(Duration::from_millis(200));
    }
}

pub fn table_of(running: &Running, number: usize) -> String {
    running.admin(number).say("CLUSTER NODES")
}

/// Text of a table that is none, or spoils the lines around it.
const ODD: [&[u8]; 4] = [b"\xff\xfe no text", b"two words", b"a\nb c d e f g h", b"\n\n"];

fn a_greeting_whose_address_is_no_text_does_nothing(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let admin = running.changer(&[]);
    let store = running.connect();
    for odd in ODD {
        greet(running.node(0), &greeting(odd, 7, 8));
    }
    // Whether a server took it in or not: all goes on at once.
    store.refresh().unwrap();
    write(&store, running.stripe_on(0), b"kept").unwrap();
    assert_eq!(admin.placement().unwrap().disputed(), []);
    let newcomer = running.newcomer(kind);
    admin.add_node(&newcomer.0).unwrap();
    assert_whole(&admin, &carry_out(&admin, &shares(&admin, newcomer.0.id, 64)));
    assert_eq!(read(&running.connect(), running.stripe_on(0), 4).unwrap(), b"kept");
    forgets(&running, &admin, 2);
}

/// Within a moment each node's table has these nodes and no others.
fn forgets(running: &Running, admin: &tidefs_valkey::Admin, nodes: usize) {
    let until = Instant::now() + Duration::from_secs(30);
    for number in 0..running.nodes().len() {
        loop {
            admin.turn_strangers_out();
            let table = table_of(running, number);
            // The reply's length comes first and an empty line last.
            if table.trim().lines().skip(1).count() == nodes {
                break;
            }
            assert!(Instant::now() < until, "node {number} still knows a stranger: {table}");
            sleep(Duration::from_millis(50));
        }
    }
}

/// A cluster of somebody else's joins ours, as anybody can who reaches the bus: no client shows it a
/// secret.
fn a_node_that_nobody_vouches_for_is_shown_no_secret(kind: Kind) {
    let (Some(running), Some(theirs)) = (start(kind, 2), start(kind, 1)) else { return };
    let store = running.connect();
    let (ours, stranger) = (running.node(0), theirs.node(0));
    let (ip, port): (IpAddr, u16) = (ours.address.ip(), ours.address.port());
    theirs.admin(0).say(&format!("CLUSTER MEET {ip} {port} {}", ours.bus_port));
    greet(ours, &greeting(b"127.0.0.1", stranger.address.port(), stranger.bus_port));
    let heard = Instant::now() + HEARD_WITHIN;
    while Instant::now() < heard && !table_of(&running, 0).contains(&stranger.id.to_string()) {
        sleep(Duration::from_millis(20));
    }
    store.refresh().unwrap();
    let overview = store.overview().unwrap();
    let ids: Vec<_> = overview.nodes.iter().map(|node| node.id.clone()).collect();
    assert!(!ids.contains(&stranger.id.to_string()), "{ids:?}");
    assert_eq!(theirs.admin(0).say("ACL LOG"), "*0\r\n", "somebody tried to log in there");
}

on_each_server![
    a_greeting_whose_address_is_no_text_does_nothing,
    a_node_that_nobody_vouches_for_is_shown_no_secret,
];
