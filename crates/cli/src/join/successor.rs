//! This host in the line of those that may take the file system over: where it listens, and what it has of the file
//! system once it has done so.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use anyhow::Context;

use crate::age_clock::AgeClock;
use crate::file_system::FileSystem;
use crate::lending::{Awaiting, Ballot, Legacy, Succession};
use crate::state::{ClusterRecord, Keys, Paths};

/// Cheap to clone; clones are one.
#[derive(Clone)]
pub struct Successor {
    awaiting: Arc<Awaiting>,
    /// In a directory of its own, since what programs of this host find is the host's.
    paths: Paths,
    file_system: Arc<OnceLock<Arc<FileSystem>>>,
}

impl Successor {
    /// Listens from now on, until this process ends.
    pub fn begin(
        at: IpAddr,
        secret: &[u8; 32],
        ballot: Ballot,
        home: &Paths,
    ) -> io::Result<Successor> {
        let awaiting = Arc::new(Awaiting::begin(at, secret, ballot)?);
        let paths = Paths::new(home.directory.join("owned"));
        Ok(Successor { awaiting, paths, file_system: Arc::default() })
    }

    pub fn address(&self) -> SocketAddr {
        self.awaiting.address()
    }

    /// Has the file system from now on; answers where hosts come to it.
    pub fn take_over(
        &self,
        legacy: &Legacy,
        keys: &Keys,
        nodes: &ClusterRecord,
        succession: Succession,
        age: AgeClock,
    ) -> anyhow::Result<SocketAddr> {
        crate::state::make_private(&self.paths.directory).context("no place for it")?;
        keys.write(&self.paths)?;
        nodes.rewrite(&self.paths)?;
        let file_system = FileSystem::adopt(legacy, &self.paths, succession, age, &self.awaiting)?;
        let _ = self.file_system.set(file_system);
        Ok(self.address())
    }

    /// Ends what it has of the file system where somebody else has that for good; this host's node and mount go on there.
    pub fn gives_way(&self) {
        self.file_system.get().filter(|it| it.gives_way()).iter().for_each(|it| drop(it.stop()));
    }

    /// Has it no more. Others may take it over.
    pub fn end(&self) {
        self.file_system.get().iter().for_each(|it| drop(it.stop()));
    }
}
