//! A node is one storage process with an id, an address and a capacity.

use std::fmt;
use std::str::FromStr;

/// Identity of one life of a storage process: 160 random bits, written as 40 hexadecimal digits.
/// A process that restarts is a new node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub [u8; 20]);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {self}")
    }
}

/// The text is not 40 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a node id has 40 hexadecimal digits")]
pub struct ParseNodeIdError;

impl FromStr for NodeId {
    type Err = ParseNodeIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() != 40 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(ParseNodeIdError);
        }
        let mut id = [0; 20];
        for (byte, at) in id.iter_mut().zip((0..40).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| ParseNodeIdError)?;
        }
        Ok(NodeId(id))
    }
}

/// Whose memory a node lends (MemFSS, section III).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeClass {
    /// Reserved for this file system; the only class that holds metadata.
    Own,
    /// Another tenant's memory, to be given back when the tenant needs it.
    Victim,
}

impl fmt::Display for NodeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeClass::Own => "own",
            NodeClass::Victim => "victim",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_id_survives_its_text_form() {
        let text = "00ff10a0b0c0d0e0f00112233445566778899aab";
        assert_eq!(text.parse::<NodeId>().unwrap().to_string(), text);
        assert_eq!("00ff".parse::<NodeId>(), Err(ParseNodeIdError));
        assert_eq!("é".repeat(20).parse::<NodeId>(), Err(ParseNodeIdError));
    }
}
