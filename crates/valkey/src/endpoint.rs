//! Where a node is reached, who asks there, and for how long.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::hmac;
use tidefs_model::NodeId;

use crate::certificates::{ClientTls, Credentials};

/// The address of a node: its unix socket on this machine, else TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Unix {
        path: PathBuf,
        id: NodeId,
    },
    /// The node that is to answer there proves it, unless the network is trusted.
    Tcp {
        address: SocketAddr,
        id: NodeId,
    },
}

impl Endpoint {
    pub fn socket(&self) -> Option<&Path> {
        if let Endpoint::Unix { path, .. } = self { Some(path) } else { None }
    }

    /// The node that is to answer there.
    pub fn id(&self) -> NodeId {
        let (Endpoint::Unix { id, .. } | Endpoint::Tcp { id, .. }) = self;
        *id
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix { path, .. } => write!(f, "{}", path.display()),
            Endpoint::Tcp { address, .. } => write!(f, "{address}"),
        }
    }
}

/// How long a call waits before it gives a node up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection to be made and its owner to be let in.
    pub connect: Duration,
    /// For any progress of a request or a reply; also for a free connection.
    pub reply: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { connect: Duration::from_secs(1), reply: Duration::from_secs(10) }
    }
}

/// A password. It is never printed and never put on a command line. No node is shown it: each is shown
/// another one that follows from it, with which nobody gets in anywhere else.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Writes random bytes as hexadecimal digits; 32 bytes are a good secret.
    pub fn from_bytes(random: &[u8]) -> Secret {
        Secret(random.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// A secret that was kept as text.
    pub fn from_text(text: &str) -> Secret {
        Secret(text.into())
    }

    /// What a node lets its owner in with.
    pub fn shown_to(&self, node: NodeId) -> Secret {
        self.derived(&["shown to ", &node.to_string()])
    }

    /// From which neither this one follows nor what else is derived from it.
    pub(crate) fn derived(&self, words: &[&str]) -> Secret {
        let mut made =
            hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes()));
        words.iter().for_each(|word| made.update(word.as_bytes()));
        Secret::from_bytes(made.sign().as_ref())
    }

    /// The text itself, to keep in a private file or to send to a server.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Who asks: the name of an account of the servers, and its secret.
#[derive(Clone, Debug)]
pub struct Account {
    pub name: Cow<'static, str>,
    pub secret: Secret,
    /// How it is reached over a network; none where that is trusted.
    pub(crate) tls: Option<ClientTls>,
    /// Who orders something alone, and takes over from whoever did so before.
    pub(crate) successor: Option<Successor>,
}

/// Who changes a cluster, or lets mounts in, in place of one that did so before. What that one had ordered, and a node has
/// not carried out yet, it never does: each node ends its connections before it is told anything by the successor.
#[derive(Clone, Debug)]
pub struct Successor {
    /// How the names of all those begin that do the same.
    office: &'static str,
    name: Box<str>,
}

/// How connections are called on which it is only asked who has the nodes.
pub(crate) const WITNESS: &str = "tidefs-witness";

/// How all connections of those are called that change a cluster one after the other.
const MANAGERS: &str = "tidefs-manager-";
/// The same of those that let mounts in.
const DOORS: &str = "tidefs-door-";

impl Successor {
    /// Who changes the cluster. `number` is one that no other one of it has had.
    pub fn new(number: &str) -> Successor {
        Successor::of(MANAGERS, number)
    }

    /// Who lets mounts in.
    pub fn at_the_door(number: &str) -> Successor {
        Successor::of(DOORS, number)
    }

    fn of(office: &'static str, number: &str) -> Successor {
        Successor { office, name: format!("{office}{number}").into() }
    }

    /// What its connections are called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a connection of this name is one of somebody before.
    pub(crate) fn succeeds(&self, name: &str) -> bool {
        name.starts_with(self.office) && name != &*self.name
    }
}

/// What lets somebody in at the nodes of a file system.
#[derive(Clone, Debug)]
pub struct Pass {
    pub secret: Secret,
    /// None where the network is trusted.
    pub credentials: Option<Credentials>,
}

impl From<Secret> for Pass {
    fn from(secret: Secret) -> Pass {
        Pass { secret, credentials: None }
    }
}

/// The account of checks: what a mount may do, and listing the keys.
pub const CHECK_ACCOUNT: &str = "tidefs-check";
/// The account of mounts: it may do what the store needs and nothing else.
pub const DATA_ACCOUNT: &str = "tidefs";
/// The account of whoever forms the cluster.
pub const ADMIN_ACCOUNT: &str = "tidefs-admin";

/// The account of whoever lends a node, on that node alone.
pub const LENDER_ACCOUNT: &str = "tidefs-lender";

/// The account that a node is asked with who it is, before a secret of the cluster is shown to it.
pub const NEWCOMER_ACCOUNT: &str = "tidefs-newcomer";

/// Before the id of a node: the account by which it gives partitions to another one, which is there for
/// as long as they move.
pub const GIVER_PREFIX: &str = "tidefs-giver-";

impl Account {
    fn new(name: impl Into<Cow<'static, str>>, pass: Pass) -> Account {
        let tls = pass.credentials.as_ref().map(ClientTls::new);
        Account { name: name.into(), secret: pass.secret, tls, successor: None }
    }

    /// Of one mount, in one of its terms.
    pub fn mount(name: String, pass: impl Into<Pass>) -> Account {
        Account::new(name, pass.into())
    }

    pub fn newcomer(pass: impl Into<Pass>) -> Account {
        Account::new(NEWCOMER_ACCOUNT, pass.into())
    }

    pub fn lender(pass: impl Into<Pass>) -> Account {
        Account::new(LENDER_ACCOUNT, pass.into())
    }

    pub fn data(pass: impl Into<Pass>) -> Account {
        Account::new(DATA_ACCOUNT, pass.into())
    }

    pub fn admin(pass: impl Into<Pass>) -> Account {
        Account::new(ADMIN_ACCOUNT, pass.into())
    }

    /// The admin who only asks who has the nodes.
    pub(crate) fn witness(pass: impl Into<Pass>) -> Account {
        Account::admin(pass).of_successor(Some(Successor::of(WITNESS, "")))
    }

    pub(crate) fn of_successor(self, successor: Option<Successor>) -> Account {
        Account { successor, ..self }
    }

    pub fn check(pass: impl Into<Pass>) -> Account {
        Account::new(CHECK_ACCOUNT, pass.into())
    }
}
