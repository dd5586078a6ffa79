//! As whom a node gives partitions to another one: an account at the taker, which is there for as long as
//! they move, and may do no more than that.
//!
//! A server has one secret for all nodes that it gives to. So the takers of the own class are shown the same
//! one; a lent taker, which keeps what it is shown, another one that opens nothing but itself. A lent giver
//! is let in to write stripes, and neither to read them nor to touch metadata.

use tidefs_model::NodeClass;

use super::moves::Carriage;
use super::{Admin, AdminError, Managed};
use crate::endpoint::{GIVER_PREFIX, Secret};
use crate::process::{end_account, make_giver};
use crate::slot::STRIPES_PATTERN;
use crate::wire::Malformed;

pub struct Giver {
    pub name: String,
    /// As the taker is shown it.
    pub secret: Secret,
    is_lent: bool,
    /// It sends whole slots.
    is_whole: bool,
}

impl Giver {
    pub fn between(admin: &Admin, from: &Managed, to: &Managed) -> Giver {
        let is_lent = |node: &Managed| node.description.class == NodeClass::Victim;
        let (giver, taker) = (from.id().to_string(), to.id().to_string());
        let taker = if is_lent(to) { &taker } else { "own" };
        let secret = admin.access.login.account().secret.derived(&["giver ", &giver, " ", taker]);
        let name = format!("{GIVER_PREFIX}{giver}");
        let is_whole = admin.server.abilities.atomic_slot_migration;
        Giver { name, secret, is_lent: is_lent(from), is_whole }
    }

    /// Has a taker let it in.
    pub fn let_in(&self, to: &Managed) -> Result<(), AdminError> {
        let keys = if self.is_lent { format!("%W~{STRIPES_PATTERN}") } else { "~*".to_owned() };
        to.ask(&make_giver(&self.name, &self.secret, self.is_whole, &keys)).map(|_| ())
    }
}

impl Drop for Carriage<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.to.ask(&end_account(&self.giver.name)) {
            tracing::warn!(node = %self.to.id(), %error, "still lets in a node that gave to it");
        }
    }
}

impl Admin {
    /// Of a mover that was killed.
    pub(super) fn end_givers(&self) -> Result<(), AdminError> {
        for (managed, _) in self.knowing() {
            let names = managed.say(&["ACL", "USERS"])?;
            let names = names.into_array().map_err(|malformed| managed.error(malformed.into()))?;
            for name in names {
                let name: Result<&str, Malformed> = name.text();
                if let Some(name) = name.ok().filter(|name| name.starts_with(GIVER_PREFIX)) {
                    managed.ask(&end_account(name))?;
                }
            }
        }
        Ok(())
    }
}
