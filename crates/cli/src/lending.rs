//! Other machines that lend nodes, or join with nodes and mounts: what both sides say to each other, and the
//! file system's side of it. The lender's side is in `lend`, a host's in `join`.

mod ballot;
mod channel;
mod door;
mod host_words;
mod hosts;
mod listening;
mod offers;
mod owner;
mod place;
mod polling;
mod service;
mod sessions;
mod succession;
mod taking;
mod voting;
mod words;

pub use ballot::Ballot;
pub use channel::{Channel, ChannelError, ChannelKey};
pub use host_words::{Entered, FromHost, ToHost, Vote};
pub use hosts::Hosts;
pub use listening::{Awaiting, Listening, Terms};
pub use offers::Offers;
pub use owner::{Owner, Presence};
pub use place::Place;
pub use polling::{asked, who_has_it};
pub use sessions::Answers;
pub use succession::{Heir, Legacy, Rank, Succession, Term};
pub use voting::Found;
#[cfg(test)]
pub use voting::Voters;
pub use words::{
    ANSWER_WAIT, Certificate, FromBorrower, Purpose, SUCCEEDED_WITHIN, State, ToBorrower,
    digits_of, secret_of,
};
