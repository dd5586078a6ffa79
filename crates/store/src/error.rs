//! Why a store could not do what it was asked.

/// A failure of a store. Nothing was changed unless the variant says otherwise, or the call took
/// several keys, or it was a write of stripe bytes, of which a part may have been made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The node that holds the key has no room left for what was to be written.
    #[error("{endpoint} is full")]
    Full { endpoint: Box<str> },
    /// The node is full, and whoever waited for room there does not want to any more.
    #[error("nobody waits any more for room on {endpoint}")]
    Interrupted { endpoint: Box<str> },
    /// The node that holds the key did not answer in time, or is gone.
    #[error("{endpoint} does not answer")]
    Unavailable { endpoint: Box<str> },
    /// The node went away while it was at work: the change may have been made, or not.
    #[error("{endpoint} went away; whether it made the change is not known")]
    Indeterminate { endpoint: Box<str> },
    /// The node refuses this client's name or secret, or a command to it.
    #[error("{endpoint} refuses access; check the secret in the state directory")]
    Denied { endpoint: Box<str> },
    /// This client was expelled, and what it had begun is not done any more.
    #[error("this mount was expelled: it was silent for too long")]
    Expelled,
    /// The node's answer makes no sense.
    #[error("{endpoint} answered with something that is not understood")]
    Malformed { endpoint: Box<str> },
    /// No node is known to hold the key's partition.
    #[error("no node holds partition {partition}")]
    Unplaced { partition: u16 },
    /// What is missing of the stripe was lost with a node that died; it is no hole.
    #[error("bytes were lost with a node that held partition {partition}")]
    Lost { partition: u16 },
    /// What a node answered for a stripe is not what was written there last.
    #[error("the bytes of stripe {index} of inode {ino} were altered, replaced or withheld")]
    Forged { ino: u64, index: u32 },
    /// A key was asked for a value, or a value was given, that is longer than a stripe may be.
    #[error("a value of {bytes} bytes is too large")]
    TooLarge { bytes: u64 },
}
