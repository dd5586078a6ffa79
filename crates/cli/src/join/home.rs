//! What is kept on this host of a file system that runs elsewhere: an instance as it has where it runs, so
//! that `mount`, `status` and the others find it here.

use crate::failure::Failure;
use crate::lending::Entered;
use crate::state::{Base, Instance, Kind, Paths};

/// In its base, as `up` calls its own; an agent of a `run` is called as that is.
pub const JOINED: &str = "up";

/// Removed when it is dropped.
pub struct Home(Option<Instance>);

impl Home {
    /// Refused where another file system has its place.
    pub fn make(base: &Base, name: &str) -> Result<Home, Failure> {
        Ok(Home(Some(base.create(name, Kind::Host)?)))
    }

    /// With what this host was told when it entered.
    pub fn fill(&self, entered: &Entered) -> Result<(), Failure> {
        let mut record = self.instance().read()?;
        record.nodes = entered.nodes.records();
        self.instance().write(&record)?;
        entered.keys.write(self.paths())
    }

    fn instance(&self) -> &Instance {
        self.0.as_ref().expect("it is there until it is dropped")
    }

    pub fn paths(&self) -> &Paths {
        &self.instance().paths
    }

    /// Gives a sign of life from time to time; asked to often.
    pub fn beat(&self) {
        self.instance().beat();
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Instance::remove);
    }
}
