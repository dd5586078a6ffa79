//! The configuration of a storage node.

use std::path::Path;

use super::accounts;
use super::{NodeSpec, socket_of};

pub const FILE_NAME: &str = "node.conf";
pub const TABLE_NAME: &str = "nodes.conf";

/// Ten years, in milliseconds. There is no failover, so no node has to judge another one dead; and
/// a node that saw half of the cluster fail would refuse to serve its own keys.
pub const NODE_TIMEOUT_MS: u64 = 315_360_000_000;

/// Directives that are the same for every node. Every one of them is known to Redis 7.0.
const COMMON: &str = "\
daemonize no
supervised no
logfile \"\"
always-show-logo no
protected-mode yes
unixsocketperm 600
maxclients 4096
timeout 0

# Nothing is ever written to a disk; a forked child that moves slots does not spend time on packing.
save \"\"
appendonly no
rdbcompression no

# A full node says so and keeps what it has.
maxmemory-policy noeviction
lazyfree-lazy-user-del yes
lazyfree-lazy-server-del yes
lazyfree-lazy-user-flush yes
client-query-buffer-limit 64mb
proto-max-bulk-len 64mb
# Small shards are kept packed.
hash-max-listpack-entries 64
hash-max-listpack-value 256

# A node serves its keys whatever becomes of the others.
cluster-enabled yes
cluster-require-full-coverage no
cluster-allow-reads-when-down yes
cluster-replica-no-failover yes
cluster-allow-replica-migration no
# There are no replicas; a backlog for them would copy every write.
repl-backlog-size 16kb
repl-backlog-ttl 1

io-threads 1
latency-tracking no
slowlog-log-slower-than -1
";

pub fn config(spec: &NodeSpec) -> String {
    let ip = spec.address.ip();
    let (port, bus_port) = (spec.address.port(), spec.bus_port);
    let directory = quoted(&spec.directory);
    let socket = quoted(&socket_of(&spec.directory));
    let accounts = quoted(&spec.directory.join(accounts::FILE_NAME));
    let memory = spec.memory.0;
    format!(
        "{COMMON}\n\
         bind {ip}\n\
         port {port}\n\
         cluster-port {bus_port}\n\
         cluster-announce-ip {ip}\n\
         cluster-config-file {TABLE_NAME}\n\
         cluster-node-timeout {NODE_TIMEOUT_MS}\n\
         unixsocket {socket}\n\
         dir {directory}\n\
         aclfile {accounts}\n\
         maxmemory {memory}\n"
    )
}

/// A path as one word of a configuration file, whatever bytes it has.
fn quoted(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let letters = bytes.iter().map(|&byte| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    format!("\"{}\"", letters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(quoted(Path::new("/tmp/a b")), "\"/tmp/a b\"");
        assert_eq!(quoted(Path::new("/tmp/\"\\é\n")), "\"/tmp/\\\"\\\\\\xc3\\xa9\\x0a\"");
    }
}
