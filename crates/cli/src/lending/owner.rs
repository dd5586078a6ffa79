//! Who has the file system, as others find it: its place in the line, and whether it is there. Two may take each other
//! for dead; then the later one has it, and the earlier one gives way.

use std::thread::sleep;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidefs_manager::Claim;

use super::channel::Channel;
use super::succession::{Heir, Term};
use super::words::Purpose;

/// A single refusal may come from somebody on the way.
const REFUSALS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// An heir that has taken the file system over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub term: Term,
    pub heir: Heir,
}

/// What is seen of somebody who claims the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    There,
    /// Its process has ended.
    Ended,
    /// It may be either.
    Silent,
}

impl Owner {
    /// With which its managers open the journal. Whoever started the file system claims less than anybody.
    pub fn claim(&self) -> Claim {
        let Term { count, drawn } = self.term;
        let place = serde_json::to_string(&self.heir).unwrap_or_default();
        Claim { count, drawn, place }
    }

    /// `None`: the claim does not say where its owner is.
    pub fn of(claim: &Claim) -> Option<Owner> {
        let heir = serde_json::from_str(&claim.place).ok()?;
        Some(Owner { term: Term { count: claim.count, drawn: claim.drawn }, heir })
    }

    /// `is_witnessed`: a node says that its host has the file system. That tells a filter that refuses from a process that
    /// has ended, and nothing of whether anybody can go on with it.
    pub fn presence(&self, secret: &[u8; 32], is_witnessed: impl FnOnce() -> bool) -> Presence {
        for _ in 0..REFUSALS {
            match Channel::connect(self.heir.address, Purpose::Join, secret) {
                Ok(_) => return Presence::There,
                Err(error) if error.is_refusal() => {}
                Err(error) => {
                    tracing::debug!("{}: {error}", self.heir.address);
                    return Presence::Silent;
                }
            }
            sleep(PAUSE);
        }
        if is_witnessed() { Presence::Silent } else { Presence::Ended }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::lending::Rank;

    fn at(address: std::net::SocketAddr, count: u64) -> Owner {
        Owner { term: Term { count, drawn: 7 }, heir: Heir { rank: Rank::default(), address } }
    }

    #[test]
    fn a_claim_says_who_makes_it_and_the_later_term_claims_more() {
        let address = "127.0.0.1:1".parse().unwrap();
        let (first, second) = (at(address, 1), at(address, 2));
        assert_eq!(Owner::of(&second.claim()), Some(second.clone()));
        assert!(Claim::default() < first.claim() && first.claim() < second.claim());
        assert_eq!(Owner::of(&Claim::default()), None);
    }

    #[test]
    fn who_refuses_has_ended_unless_a_node_knows_of_it_and_who_is_silent_may_live() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let owner = at(listener.local_addr().unwrap(), 1);
        // It takes the connection and says nothing.
        assert_eq!(owner.presence(&[1; 32], || true), Presence::Silent);
        drop(listener);
        assert_eq!(owner.presence(&[1; 32], || false), Presence::Ended);
        assert_eq!(owner.presence(&[1; 32], || true), Presence::Silent);
    }
}
