//! What a lender and a borrower say to each other.
//!
//! The lender asks, the borrower answers, on one connection that lasts as long as the loan. A
//! lender that has not been heard for [`LEASE`] counts as gone with all that its node held, and a
//! lender that has not been answered for [`ANSWER_WAIT`], which is much less, ends its node: so
//! neither goes on with what the other has given up, also when no word gets through. Both count
//! only time in which they run, so a whole job may be stopped and go on.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidefs_model::NodeClass;

use super::host_words::{FromHost, ToHost};

/// Longer than a loaded machine stands still.
pub const LEASE: Duration = Duration::from_secs(20);
/// For an answer to a beat.
pub const ANSWER_WAIT: Duration = Duration::from_secs(12);

/// The same where hosts vote: a host that is alone ends its node later, as the others may elect somebody meanwhile.
pub const VOTERS_LEASE: Duration = Duration::from_secs(30);
/// For somebody to be elected, from the last word of whoever had the file system.
pub const VOTERS_WAIT: Duration = Duration::from_secs(22);

/// For somebody to take the file system over when whoever had it has ended; after that hosts end what they have of it.
pub const SUCCEEDED_WITHIN: Duration = Duration::from_secs(60);

/// What a secret lets in to, and so what is expected of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A victim node, and nothing that a mount knows.
    Lend,
    /// All that a host of the file system's own needs: nodes of the own class, and mounts.
    Join,
}

impl Purpose {
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Lend => "lend.tidefs",
            Purpose::Join => "join.tidefs",
        }
    }

    pub fn named(name: &str) -> Option<Purpose> {
        [Purpose::Lend, Purpose::Join].into_iter().find(|it| it.name() == name)
    }

    /// Of the nodes that are offered.
    pub fn class(self) -> NodeClass {
        match self {
            Purpose::Lend => NodeClass::Victim,
            Purpose::Join => NodeClass::Own,
        }
    }

    /// No word is nearly as long.
    pub fn line_bytes_max(self) -> usize {
        match self {
            Purpose::Lend => 64 << 10,
            // The status of a file system has some hundred bytes for each node, and a check names files.
            Purpose::Join => 16 << 20,
        }
    }
}

/// What a lender asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToBorrower {
    /// Would a node with this much memory be welcome? Its id, and the public half of a key that stays
    /// with it, in hexadecimal digits.
    Offer { memory_bytes: u64, id: String, key: String },
    /// It runs, and answers there, as seen from the borrower's end of this connection.
    Join {
        id: String,
        port: u16,
        bus_port: u16,
        memory_bytes: u64,
        /// It is wanted when the file system grows the next time, and not before.
        #[serde(default)]
        is_reserve: bool,
        /// Of a host that was asked for: its name.
        provided: Option<String>,
    },
    /// The connection of a loan broke, and this one goes on with it; only who had that one's key can
    /// prove it.
    Resume { id: String, proof: String },
    /// A node of a host that joined comes to whoever has taken the file system over.
    Bring { id: String, port: u16, bus_port: u16, memory_bytes: u64 },
    /// The lender is there, and wants its node back or not.
    Beat { wants_back: bool },
    /// Beside nodes.
    Host(FromHost),
}

/// What a borrower answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromBorrower {
    /// Who is to be let in by the node: hashes of secrets, from which nobody gets in. Once the node is
    /// used, its clients send it the secrets themselves.
    Terms {
        accounts: String,
        /// By which the node and others know each other; none where the network is trusted.
        certificate: Option<Certificate>,
    },
    Standing {
        state: State,
        /// What keeps it from being another.
        why: Option<String>,
    },
    Refused(String),
    /// The file system ends, with all that belongs to it.
    Over,
    Host(ToHost),
}

/// Of the node that was offered, and of who signed it; in PEM.
#[derive(Debug, Serialize, Deserialize)]
pub struct Certificate {
    pub authority: String,
    pub certificate: String,
}

/// How it stands with a lent node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is not in use yet.
    Waiting,
    InUse,
    /// It is being emptied.
    Leaving,
    /// It is not in use any more.
    Free,
}

/// Bytes as digits, as [`secret_of`] reads them.
pub fn digits_of(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file or a variable holds no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("64 hexadecimal digits are a secret")]
pub struct ParseSecretError;

/// The secret that lenders and borrowers share, as it is kept in a file.
pub fn secret_of(text: &str) -> Result<[u8; 32], ParseSecretError> {
    let text = text.trim().as_bytes();
    let mut secret = [0; 32];
    if text.len() != 2 * secret.len() || !text.iter().all(u8::is_ascii_hexdigit) {
        return Err(ParseSecretError);
    }
    for (byte, digits) in secret.iter_mut().zip(text.chunks(2)) {
        let digits = std::str::from_utf8(digits).map_err(|_| ParseSecretError)?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| ParseSecretError)?;
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_from_its_digits() {
        assert_eq!(secret_of(&format!("{}\n", "0f".repeat(32))), Ok([15; 32]));
        for text in ["", "0f", &"0g".repeat(32), &"é".repeat(32), &"0f".repeat(33)] {
            assert_eq!(secret_of(text), Err(ParseSecretError), "{text}");
        }
    }
}
