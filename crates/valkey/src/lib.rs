//! A [`Store`](tidefs_store::Store) on a Valkey Cluster, and the processes that make one.
//!
//! [`Cluster`] starts storage nodes on this machine and makes a cluster of them; [`Valkey`] is the
//! store on any such cluster; [`Admin`] adds and removes nodes and moves partitions while clients
//! use them. Partition *p* is slot *p*. This crate alone speaks the protocol of the servers; it
//! knows keys and bytes, and no files.
//!
//! From the wire upwards: `wire` lays out requests and takes replies apart; `connection`,
//! `inbound` and `stream` move them over one socket; `pool` lends a node's connections; `lane` and `exchange`
//! keep several nodes busy from one thread; `topology` knows who holds what; `client` follows
//! partitions that move and repeats what may be repeated; `store` turns the trait's calls into all
//! that.

mod admin;
mod awake;
mod batches;
mod certificates;
mod client;
mod cluster;
mod connection;
mod down;
mod endpoint;
mod error;
mod exchange;
mod fault;
mod function;
mod given_up;
mod guard;
mod host;
mod in_turn;
mod inbound;
mod job;
mod key_listing;
mod lane;
mod lent;
mod listing;
mod login;
mod losses;
mod mount_accounts;
mod near;
mod once;
mod options;
mod overview;
mod peer;
mod places;
mod pool;
mod private_network;
mod probe;
mod process;
mod roster;
mod said;
mod slot;
mod store;
mod stream;
mod told;
mod topology;
mod verdict;
mod view;
mod wire;
mod witness;

pub use admin::{
    Admin, AdminError, Finished, Move, MoveFailure, MoveOptions, MoveReport, Observation, Owner,
    Ownership, Pace, PartitionSizes, Probe, Readings, Step, StepKind, Unfinished,
};
pub use awake::{Awake, LOOK_EVERY};
pub use certificates::{Authority, Credentials, Network, NodeKey, PUBLIC_KEY_BYTES};
pub use cluster::{
    Cluster, ClusterDescription, ClusterSpec, NODE_MEMORY_MIN, NODES_MAX, NewNode, NodeDescription,
};
pub use endpoint::{Account, Endpoint, Pass, Secret, Successor, Timeouts};
pub use error::{ClusterError, ConnectError, ProcessError};
pub use fault::Fault;
pub use function::HEAD_ROOM;
pub use guard::Guard;
pub use host::{Host, is_here};
pub use lent::{Countersign, LentLine, LentNode, LentUsage, identity_at, proven_at};
pub use mount_accounts::MountAccounts;
pub use options::Options;
pub use peer::{PeerError, PeerSecrets, PeerStream};
pub use private_network::PrivateNetwork;
pub use probe::{Abilities, Server, Version};
pub use process::{
    Accounts, Distrust, Lifetime, ProcessId, Secrets, ServerProgram, choose_server, find_server,
    trusts,
};
pub use roster::Roster;
pub use store::Valkey;
pub use wire::Malformed;
pub use witness::{ConnectedFrom, witness};
