//! What hosts are asked that vote: whether they would hear somebody, and whom they hear.

use std::net::SocketAddr;
use std::thread::scope;
use std::time::Duration;

use super::channel::{Channel, ChannelError};
use super::host_words::{FromHost, ToHost, Vote};
use super::owner::Owner;
use super::succession::Term;
use super::words::{FromBorrower, Purpose, ToBorrower};

/// For an answer of one that may be silent as well.
const ANSWER_WITHIN: Duration = Duration::from_millis(1500);

/// `None`: it answers something else.
pub fn asked(
    address: SocketAddr,
    secret: &[u8; 32],
    word: FromHost,
) -> Result<Option<Vote>, ChannelError> {
    let mut channel = Channel::connect_within(address, Purpose::Join, secret, ANSWER_WITHIN)?;
    channel.patience(ANSWER_WITHIN)?;
    channel.say(&ToBorrower::Host(word))?;
    Ok(match channel.hear()? {
        FromBorrower::Host(ToHost::Vote(vote)) => Some(*vote),
        _ => None,
    })
}

/// Who has the file system by now as these know, for one that had it in an earlier term and that more than half do not hear.
pub fn who_has_it(voters: &[SocketAddr], secret: &[u8; 32], own: Term) -> Option<Owner> {
    let version = Default::default();
    let votes: Vec<_> = scope(|scope| {
        let asks = |address: &SocketAddr| {
            let address = *address;
            scope.spawn(move || asked(address, secret, FromHost::Vote { term: None, version }))
        };
        let asked: Vec<_> = voters.iter().map(asks).collect();
        asked.into_iter().filter_map(|it| it.join().ok()?.ok().flatten()).collect()
    });
    let owners = votes.into_iter().filter_map(|vote| vote.owner).filter(|owner| owner.term > own);
    owners.max_by_key(|owner| owner.term)
}
