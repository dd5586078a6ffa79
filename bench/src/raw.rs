//! The yardstick for a Valkey node: a plain client that moves the same bytes to and from the same
//! server over the same unix socket, in the same pieces, and does nothing else.
//!
//! It keeps [`DEPTH`] requests under way on one connection, copies nothing that it can avoid, and
//! is written without a library, so that it shares no code with what it judges. It writes whole
//! stripes with `SET` and reads them with `GET`, as Tidefs does and as its account may.

use std::fs;
use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use ring::hmac;
use serde::Deserialize;

use crate::figures::Figure;
use crate::workloads::{REQUEST_BYTES, payload};

/// Requests that are sent before the reply to the first is awaited.
const DEPTH: u64 = 8;
/// A server that says nothing for this long is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// The account of mounts.
const ACCOUNT: &str = "tidefs";

/// How to reach a server.
pub struct Server {
    pub socket: PathBuf,
    pub user: String,
    pub password: String,
}

impl Server {
    /// The first node of the file system that this process works in, as `tidefs run` wrote it
    /// down for other processes of the same user.
    pub fn of_this_run() -> anyhow::Result<Server> {
        #[derive(Deserialize)]
        struct Cluster {
            nodes: Vec<Node>,
        }
        #[derive(Deserialize)]
        struct Node {
            id: String,
            socket: PathBuf,
        }
        let state = std::env::var_os("TIDEFS_STATE").context("this is not inside tidefs run")?;
        let path = Path::new(&state).join("cluster.json");
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let cluster: Cluster = serde_json::from_slice(&text)?;
        let node = cluster.nodes.into_iter().next().context("the cluster has no node")?;
        let secret = fs::read_to_string(path.with_file_name("secret"))?;
        let password = shown_to(&secret, &node.id);
        Ok(Server { socket: node.socket, user: ACCOUNT.to_owned(), password })
    }
}

/// What a node lets mounts in with.
fn shown_to(secret: &str, node: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let shown = hmac::sign(&key, format!("shown to {node}").as_bytes());
    shown.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn measure(server: &Server, bytes: u64) -> anyhow::Result<Vec<(Figure, f64)>> {
    let mut client = Client::connect(server)?;
    let stripes = bytes / REQUEST_BYTES as u64;
    let block = payload(REQUEST_BYTES);
    let mib_per_second =
        |started: Instant| bytes as f64 / f64::from(1 << 20) / started.elapsed().as_secs_f64();
    let started = Instant::now();
    client.write_all(stripes, &block)?;
    let written = mib_per_second(started);
    let started = Instant::now();
    let last = client.read_all(stripes, block.len())?;
    let read = mib_per_second(started);
    ensure!(last == block, "the server does not hold what was written");
    client.delete_all(stripes)?;
    Ok(vec![(Figure::SequentialWrite, written), (Figure::SequentialRead, read)])
}

/// One connection. Replies come in the order of the requests.
struct Client {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Client {
    fn connect(server: &Server) -> anyhow::Result<Client> {
        let writer = UnixStream::connect(&server.socket)
            .with_context(|| format!("cannot connect to {}", server.socket.display()))?;
        writer.set_read_timeout(Some(PATIENCE))?;
        writer.set_write_timeout(Some(PATIENCE))?;
        let mut client = Client { reader: BufReader::new(writer.try_clone()?), writer };
        client.send(&["AUTH", &server.user], server.password.as_bytes())?;
        client.line()?;
        Ok(client)
    }

    fn write_all(&mut self, stripes: u64, block: &[u8]) -> anyhow::Result<()> {
        for stripe in 0..stripes {
            self.send(&["SET", &key(stripe)], block)?;
            if stripe >= DEPTH {
                self.line()?;
            }
        }
        for _ in 0..stripes.min(DEPTH) {
            self.line()?;
        }
        Ok(())
    }

    /// Returns the last stripe.
    fn read_all(&mut self, stripes: u64, stripe_bytes: usize) -> anyhow::Result<Vec<u8>> {
        let mut block = vec![0; stripe_bytes];
        for stripe in 0..stripes + DEPTH {
            if stripe < stripes {
                self.send(&["GET"], key(stripe).as_bytes())?;
            }
            if (DEPTH..stripes + DEPTH).contains(&stripe) {
                self.bulk(&mut block)?;
            }
        }
        Ok(block)
    }

    fn delete_all(&mut self, stripes: u64) -> anyhow::Result<()> {
        for stripe in 0..stripes {
            self.send(&["UNLINK"], key(stripe).as_bytes())?;
            self.line()?;
        }
        Ok(())
    }

    /// Sends a command, its last word straight from where it lies.
    fn send(&mut self, words: &[&str], last: &[u8]) -> io::Result<()> {
        let mut head = format!("*{}\r\n", words.len() + 1).into_bytes();
        for word in words {
            head.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        head.extend_from_slice(format!("${}\r\n", last.len()).as_bytes());
        let mut slices = [IoSlice::new(&head), IoSlice::new(last), IoSlice::new(b"\r\n")];
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let sent = self.writer.write_vectored(rest)?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            IoSlice::advance_slices(&mut rest, sent);
        }
        Ok(())
    }

    /// A reply of one line, without its ending; an error of the server is an error.
    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            None => bail!("the server closed the connection"),
            Some(refusal) if refusal.starts_with('-') => {
                bail!("the server says: {}", &refusal[1..])
            }
            Some(line) => Ok(line.to_owned()),
        }
    }

    fn bulk(&mut self, block: &mut [u8]) -> anyhow::Result<()> {
        let head = self.line()?;
        ensure!(head == format!("${}", block.len()), "a stripe was expected, and not {head}");
        self.reader.read_exact(block)?;
        let mut ending = [0; 2];
        Ok(self.reader.read_exact(&mut ending)?)
    }
}

/// The account may touch names of this form only. The part in braces spreads them over slots, as
/// those of stripes are.
fn key(stripe: u64) -> String {
    format!("{{{:03}}}sraw-{stripe}", stripe % 1000)
}
