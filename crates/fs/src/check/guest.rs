//! Being one of several mounts while something is repaired.
//!
//! A mount that is alone remembers directories and records without asking the store again. What a
//! repair puts right there may be what it remembers, so the check comes as one more mount would, and
//! leaves when it is done.

use tidefs_store::Store;

use super::Check;
use super::living::{LOOK_EVERY, Living};
use crate::error::Error;
use crate::membership::{self, Membership, SILENCE_MAX};

/// A registration that ends with [`Check::leave`].
pub struct Guest(Membership);

impl<S: Store> Check<'_, S> {
    /// Comes, and waits until every mount that lives knows of it.
    ///
    /// # Errors
    /// When a mount that lives does not take note, as none that works does.
    pub fn come(&self, living: &Living) -> Result<Guest, Error> {
        let began = self.clock.steady();
        let guest = Guest(Membership::join(self.store, self.name, began)?);
        loop {
            let members = membership::members(self.store)?;
            let mut unaware = members.iter().filter(|member| !member.shares);
            if !unaware.any(|member| living.has(member.mount)) {
                return Ok(guest);
            }
            if self.clock.steady() - began > SILENCE_MAX {
                self.leave(guest)?;
                return Err(Error::Contended);
            }
            self.pause_as(&guest)?;
        }
    }

    pub fn leave(&self, guest: Guest) -> Result<(), Error> {
        guest.0.leave(self.store)
    }

    /// Lets a moment pass, and the others see that the guest is still there.
    pub fn pause_as(&self, guest: &Guest) -> Result<(), Error> {
        self.surroundings.pause(LOOK_EVERY);
        self.stay(guest)
    }

    pub fn stay(&self, guest: &Guest) -> Result<(), Error> {
        guest.0.tick(self.store, self.clock.steady()).map(drop)
    }
}
