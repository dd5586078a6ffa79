//! What a server asks for by an error reply.

use std::net::SocketAddr;

use crate::connection::CROWDED;
use crate::view::parse_address;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Another node holds the slot; `None` where its address is none.
    Moved(Option<SocketAddr>),
    /// The key is on its way to another node, which is to be asked this once.
    Ask(Option<SocketAddr>),
    /// The node is not ready; that passes, and the request did nothing.
    Later,
    /// The node is full.
    Full,
    /// The request is refused, now and later.
    No,
}

/// Nodes say these while they join, take slots over, or stand still for a moment; after the code, what
/// they mean. Any of them may be repeated.
const PASSING: [&str; 7] = [
    // A slot whose keys are on their way, or that nobody has claimed yet.
    "TRYAGAIN",
    "CLUSTERDOWN",
    // Data that is being taken in.
    "LOADING",
    "MASTERDOWN",
    // A function that is at work.
    "BUSY",
    // A newcomer begins as a replica of a node that never was.
    "READONLY",
    // It held the request back, and then lost the slot.
    "UNBLOCKED",
];
/// The same, of errors without a code of their own: a newcomer gets its functions while it joins, and a
/// server may have as many clients as it takes for a moment.
const PASSING_TEXTS: [&str; 2] = ["ERR Function not found", CROWDED];

pub fn said(text: &[u8]) -> Said {
    let line = String::from_utf8_lossy(text);
    let mut words = line.split(' ');
    match words.next().unwrap_or_default() {
        "MOVED" => Said::Moved(address(words)),
        "ASK" => Said::Ask(address(words)),
        "OOM" => Said::Full,
        code if PASSING.contains(&code) => Said::Later,
        _ if PASSING_TEXTS.iter().any(|text| line.starts_with(text)) => Said::Later,
        _ => Said::No,
    }
}

/// `slot address`.
fn address<'w>(mut words: impl Iterator<Item = &'w str>) -> Option<SocketAddr> {
    parse_address(words.nth(1)?).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_name_a_node() {
        let there = Some(SocketAddr::from(([127, 0, 0, 1], 7000)));
        assert_eq!(said(b"MOVED 3999 127.0.0.1:7000"), Said::Moved(there));
        assert_eq!(said(b"ASK 3999 127.0.0.1:7000"), Said::Ask(there));
        assert_eq!(said(b"MOVED 3999"), Said::Moved(None));
        assert_eq!(said(b"ASK 3999 nowhere"), Said::Ask(None));
    }

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        let passing: [&[u8]; 7] = [
            b"CLUSTERDOWN Hash slot not served",
            b"TRYAGAIN Multiple keys request during rehashing of slot",
            b"LOADING Redis is loading the dataset in memory",
            b"READONLY You can't write against a read only replica.",
            b"UNBLOCKED force unblock from blocking operation",
            b"ERR Function not found",
            b"ERR max number of clients + cluster connections reached",
        ];
        assert!(passing.iter().all(|text| said(text) == Said::Later));
        assert_eq!(said(b"OOM command not allowed when used memory > 'maxmemory'."), Said::Full);
        for refused in [&b"WRONGTYPE Operation against a key"[..], b"NOPERM", b"ERR syntax", b""] {
            assert_eq!(said(refused), Said::No);
        }
    }
}
