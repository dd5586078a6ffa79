//! The configuration of a storage node.

use std::path::Path;

use super::accounts;
use super::{NodeSpec, socket_of};

pub const FILE_NAME: &str = "node.conf";
pub const TABLE_NAME: &str = "nodes.conf";
pub const AUTHORITY_NAME: &str = "authority.pem";
pub const CERTIFICATE_NAME: &str = "certificate.pem";
pub const KEY_NAME: &str = "key.pem";

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
    let (ip, bus_port) = (spec.address.ip(), spec.bus_port);
    let ports = ports(spec);
    let directory = quoted(&spec.directory);
    let socket = quoted(&socket_of(&spec.directory));
    let accounts = quoted(&spec.directory.join(accounts::FILE_NAME));
    let memory = spec.memory.0;
    format!(
        "{COMMON}\n\
         bind {ip}\n\
         {ports}\
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

/// What listens at the node's address. A client that came by the socket is told of other nodes by their
/// plain ports, so both ports have the same number.
fn ports(spec: &NodeSpec) -> String {
    let port = spec.address.port();
    if spec.credentials.is_none() {
        return format!("port {port}\n");
    }
    let file = |name: &str| quoted(&spec.directory.join(name));
    let (authority, certificate, key) =
        (file(AUTHORITY_NAME), file(CERTIFICATE_NAME), file(KEY_NAME));
    format!(
        "port 0\n\
         tls-port {port}\n\
         cluster-announce-port {port}\n\
         cluster-announce-tls-port {port}\n\
         tls-ca-cert-file {authority}\n\
         tls-cert-file {certificate}\n\
         tls-key-file {key}\n\
         tls-auth-clients yes\n\
         tls-protocols TLSv1.3\n\
         tls-cluster yes\n\
         tls-replication yes\n"
    )
}

/// The last words of a server that does not know these settings, or cannot heed them.
pub fn lacks_tls(log: &str) -> bool {
    log.contains("Failed finding TLS support")
        || log.contains("Bad directive") && log.contains("'tls-")
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
    fn a_server_without_tls_is_known_by_its_last_words() {
        assert!(lacks_tls(
            "# Missing implement of connection type tls | # Failed finding TLS support."
        ));
        assert!(lacks_tls(
            "*** FATAL CONFIG FILE ERROR | >>> 'tls-port 7' | Bad directive or wrong number of arguments"
        ));
        assert!(!lacks_tls("Bad directive") && !lacks_tls("Failed to configure TLS"));
    }

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(quoted(Path::new("/tmp/a b")), "\"/tmp/a b\"");
        assert_eq!(quoted(Path::new("/tmp/\"\\é\n")), "\"/tmp/\\\"\\\\\\xc3\\xa9\\x0a\"");
    }
}
