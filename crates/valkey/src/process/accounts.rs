//! Who may do what on a storage node.
//!
//! Mounts get the commands that the store uses and no others: no scripts, no configuration, no
//! other keys. All of the commands are known to Redis 7.0, because a server does not start with an
//! account that may do something unknown to it.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use tidefs_model::NodeId;

use crate::endpoint::{
    ADMIN_ACCOUNT, Account, CHECK_ACCOUNT, DATA_ACCOUNT, LENDER_ACCOUNT, NEWCOMER_ACCOUNT, Secret,
};
use crate::lent::Countersign;
use crate::slot::KEY_PATTERNS;
use crate::wire::Request;

pub const FILE_NAME: &str = "accounts";

/// Everything that a mount asks of a node, and that the functions do in its name.
const DATA_COMMANDS: [&str; 26] = [
    "auth",
    "hello",
    "ping",
    "client|setname",
    "client|id",
    "client|kill",
    "cluster|myid",
    "cluster|nodes",
    "cluster|info",
    "command|info",
    "info",
    "dbsize",
    "asking",
    "fcall",
    "hget",
    "hmget",
    "hset",
    "hdel",
    "hscan",
    "exists",
    "get",
    "set",
    "getrange",
    "setrange",
    "strlen",
    "unlink",
];

/// What a check of the whole file system needs beyond that: which keys there are.
const CHECK_COMMANDS: [&str; 1] = ["scan"];

/// What whoever lends a node asks of it, and of no other: how full it is, and to hold less.
const LENDER_COMMANDS: [&str; 10] = [
    "auth",
    "hello",
    "ping",
    "client|setname",
    "client|id",
    "client|kill",
    "cluster|myid",
    "info",
    "config|set",
    "memory|purge",
];

/// What a node sends to another one that takes partitions from it, which nobody answers: so all that a
/// program's writes may become.
const GIVER_COMMANDS: [&str; 8] = [
    "+@write",
    "+@transaction",
    "+@connection",
    "-@dangerous",
    "-@scripting",
    "-client",
    "-function",
    "+cluster|syncslots",
];

/// The same where it sends key by key.
const KEYWISE_GIVER_COMMANDS: [&str; 4] = ["+auth", "+select", "+restore", "+restore-asking"];

/// Who it is, and who is let in: one name among these is the countersign.
const NEWCOMER_COMMANDS: [&str; 6] =
    ["auth", "hello", "client|setname", "client|id", "cluster|myid", "acl|users"];

/// The secrets of a cluster. Mounts need the first, whoever forms and changes the cluster the second
/// as well; the third is for checks.
#[derive(Clone, Debug)]
pub struct Secrets {
    pub data: Secret,
    pub admin: Secret,
    pub check: Secret,
}

impl Secrets {
    /// Two secrets from random bytes that are used for nothing else.
    pub fn from_seed(seed: &[u8; 32]) -> Secrets {
        let secret = |name: &str| {
            let hash = Sha256::new().chain_update(seed).chain_update(name).finalize();
            Secret::from_bytes(&hash)
        };
        Secrets {
            data: secret(DATA_ACCOUNT),
            admin: secret(ADMIN_ACCOUNT),
            check: secret(CHECK_ACCOUNT),
        }
    }
}

/// Who is let in by one node: names, rights and hashes of secrets, as the server reads them. From a
/// hash nobody gets in, so it may be given to whoever offers a node. Clients log in to the node with
/// what it is shown of their secrets, which lets them in nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accounts {
    node: NodeId,
    text: String,
}

impl Accounts {
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Those that another process wrote down for a node.
    pub fn from_text(node: NodeId, text: &str) -> Accounts {
        Accounts { node, text: text.to_owned() }
    }

    fn with(&self, more: &str) -> Accounts {
        Accounts { node: self.node, text: format!("{}{more}", self.text) }
    }

    /// Whoever lends the node is let in as well.
    pub fn with_lender(&self, secret: &Secret) -> Accounts {
        let commands = LENDER_COMMANDS.map(|command| format!("+{command}")).join(" ");
        let hash = hashed(secret, self.node);
        self.with(&format!("user {LENDER_ACCOUNT} on #{hash} resetchannels -@all {commands}\n"))
    }
}

impl Secrets {
    /// Of a node of this cluster.
    pub fn accounts(&self, node: NodeId) -> Accounts {
        Accounts { node, text: accounts(self, node) }
    }
}

impl Accounts {
    /// Whoever asks with the challenge learns who the node is, and that it knows the answer: it is the
    /// name of an account with which nobody gets in.
    pub fn with_countersign(&self, countersign: &Countersign) -> Accounts {
        let commands = NEWCOMER_COMMANDS.map(|command| format!("+{command}")).join(" ");
        let (hash, answer) = (hashed(&countersign.challenge, self.node), countersign.answer());
        self.with(&format!(
            "user {NEWCOMER_ACCOUNT} on #{hash} resetchannels -@all {commands}\n\
             user {answer} off resetchannels -@all\n"
        ))
    }
}

/// What the account of a mount may do, in the words of the server.
fn data_rules() -> String {
    let mut data = String::from("resetchannels -@all");
    for pattern in KEY_PATTERNS {
        write!(data, " ~{pattern}").expect("a string takes all");
    }
    for command in DATA_COMMANDS {
        write!(data, " +{command}").expect("a string takes all");
    }
    data
}

/// The order that makes an account for one mount on a node, or leaves it as it is.
pub fn make_account(account: &Account, node: NodeId) -> Request<'static> {
    let rules = format!("reset on #{} {}", hashed(&account.secret, node), data_rules());
    set_user(&account.name, &rules)
}

/// The same for a node that gives partitions to another one, whole or key by key, with what it is to show
/// that one, and the rule of which keys it may write.
pub fn make_giver(name: &str, secret: &Secret, is_whole: bool, keys: &str) -> Request<'static> {
    let commands = if is_whole { &GIVER_COMMANDS[..] } else { &KEYWISE_GIVER_COMMANDS[..] };
    set_user(name, &format!("reset on #{} -@all {} {keys}", hash(secret), commands.join(" ")))
}

fn set_user(name: &str, rules: &str) -> Request<'static> {
    let words = ["ACL", "SETUSER", name];
    Request::of(&words.into_iter().chain(rules.split(' ')).collect::<Vec<_>>())
}

/// The order that ends an account, with all connections that logged in with it.
pub fn end_account(name: &str) -> Request<'static> {
    Request::of(&["ACL", "DELUSER", name])
}

/// The file that the server takes its accounts from. It holds no secret, only hashes.
fn accounts(secrets: &Secrets, node: NodeId) -> String {
    let data = data_rules();
    let check = CHECK_COMMANDS.map(|command| format!("+{command}")).join(" ");
    format!(
        "user default off\n\
         user {DATA_ACCOUNT} on #{} {data}\n\
         user {ADMIN_ACCOUNT} on #{} ~* &* +@all\n\
         user {CHECK_ACCOUNT} on #{} {data} {check}\n",
        hashed(&secrets.data, node),
        hashed(&secrets.admin, node),
        hashed(&secrets.check, node),
    )
}

fn hashed(secret: &Secret, node: NodeId) -> String {
    hash(&secret.shown_to(node))
}

fn hash(secret: &Secret) -> String {
    Secret::from_bytes(&Sha256::digest(secret.reveal())).reveal().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_hashes_only() {
        let secrets = Secrets::from_seed(&[7; 32]);
        let (node, other) = (NodeId([1; 20]), NodeId([2; 20]));
        let text = accounts(&secrets, node);
        assert!(!text.contains(secrets.data.reveal()) && !text.contains(secrets.admin.reveal()));
        assert!(!text.contains(secrets.admin.shown_to(node).reveal()));
        assert!(text.contains(&hashed(&secrets.admin, node)));
        assert!(!text.contains(&hashed(&secrets.admin, other)));
        assert_ne!(secrets.data.reveal(), secrets.admin.reveal());
        assert_eq!(
            format!("{secrets:?}"),
            "Secrets { data: Secret(..), admin: Secret(..), check: Secret(..) }"
        );
        assert_eq!(
            hash(&Secret::from_text("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        for forbidden in ["eval", "function", "config", "migrate", "keys", "scan", "@all ~*"] {
            let data = text.lines().nth(1).unwrap();
            assert!(!data.contains(&format!("+{forbidden}")), "{forbidden}");
        }
    }
}
