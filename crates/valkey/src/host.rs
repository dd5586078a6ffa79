//! Where a node runs: the address that it listens on, and the words before its server's command.
//!
//! A host reads the node's folder under the same path as this machine does. What ends the process
//! that was started here must end the server too: `ip netns exec` and `nsenter` become the server.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use tidefs_model::NodeId;

use crate::endpoint::Endpoint;
use crate::private_network::PrivateNetwork;

/// A host that nodes may be started on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    /// Of the host, as all other hosts call it.
    pub address: IpAddr,
    /// What starts a program there: the words that come before it. None for this machine.
    pub command: Vec<String>,
    /// Where only this machine's nodes are; none: what other programs use.
    pub network: Option<PrivateNetwork>,
}

impl Host {
    /// This machine, reached by nobody else.
    pub fn local() -> Host {
        Host::here(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// This machine, as others call it.
    pub fn here(address: IpAddr) -> Host {
        Host { name: "localhost".to_owned(), address, command: Vec::new(), network: None }
    }

    /// This machine, where nodes have a network to themselves.
    pub fn apart(network: PrivateNetwork) -> Host {
        Host { network: Some(network), ..Host::local() }
    }

    /// Nobody listens on the port, as far as can be told from here.
    pub(crate) fn is_free(&self, port: u16) -> bool {
        !self.command.is_empty()
            || self.network.is_some()
            || TcpListener::bind((self.address, port)).is_ok()
    }
}

/// Whether the address belongs to this machine, or to the network name space of this process.
pub fn is_here(address: IpAddr) -> bool {
    address.is_loopback() || addresses().contains(&address.to_canonical())
}

/// Those of the interfaces. Where they cannot be asked for nobody is here, and TCP reaches everybody;
/// whether an address can be bound to says nothing, since a machine may allow that for any.
fn addresses() -> Vec<IpAddr> {
    let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let ip = |address: nix::sys::socket::SockaddrStorage| match address.as_sockaddr_in() {
        Some(address) => Some(IpAddr::V4(address.ip())),
        None => address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())),
    };
    interfaces.filter_map(|interface| interface.address.and_then(ip)).collect()
}

/// How this process reaches a node: a node of the same host by its socket, another one by its
/// address, also where the folder is shared and the socket could be opened.
pub fn endpoint(address: std::net::SocketAddr, socket: &Path, id: NodeId) -> Endpoint {
    if is_here(address.ip()) {
        Endpoint::Unix { path: PathBuf::from(socket), id }
    } else {
        Endpoint::Tcp { address, id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a packet to somewhere would be sent from is an address of this machine.
    #[test]
    fn addresses_of_the_interfaces_are_here() {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        assert!(
            is_here("127.0.0.1".parse().unwrap()) && addresses().iter().any(IpAddr::is_loopback)
        );
        if socket.connect("192.0.2.7:9").is_ok() {
            assert!(is_here(socket.local_addr().unwrap().ip()));
        }
        for elsewhere in ["192.0.2.7", "2001:db8::7", "::ffff:192.0.2.7"] {
            assert!(!is_here(elsewhere.parse().unwrap()), "{elsewhere}");
        }
    }

    #[test]
    fn only_a_node_of_this_host_is_reached_by_its_socket() {
        let socket = PathBuf::from("/x/s");
        let here = "127.0.0.1:7000".parse().unwrap();
        // Set aside for documentation, so nobody has it.
        let elsewhere = "192.0.2.7:7000".parse().unwrap();
        let id = NodeId([7; 20]);
        assert_eq!(endpoint(here, &socket, id), Endpoint::Unix { path: socket.clone(), id });
        assert_eq!(endpoint(elsewhere, &socket, id), Endpoint::Tcp { address: elsewhere, id });
    }
}
