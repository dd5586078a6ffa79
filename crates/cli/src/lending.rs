//! Other machines that lend nodes, or join with nodes and mounts: what both sides say to each other, and the
//! file system's side of it. The lender's side is in `lend`, a host's in `join`.

mod channel;
mod door;
mod host_words;
mod hosts;
mod listening;
mod offers;
mod owner;
mod place;
mod service;
mod sessions;
mod succession;
mod taking;
mod words;

pub use channel::{Channel, ChannelError, ChannelKey};
pub use host_words::{Entered, FromHost, ToHost};
pub use hosts::Hosts;
pub use listening::{Awaiting, Listening, Terms};
pub use offers::Offers;
pub use owner::{Owner, Presence};
pub use place::Place;
pub use sessions::Answers;
pub use succession::{Legacy, Rank, Succession, Term};
pub use words::{
    ANSWER_WAIT, Certificate, FromBorrower, Purpose, SUCCEEDED_WITHIN, State, ToBorrower,
    digits_of, secret_of,
};
