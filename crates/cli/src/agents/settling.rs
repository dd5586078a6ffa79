//! Agents and the file system that they are for: what it is started with, how they join it, and that it has
//! their nodes.

use std::fs;
use std::net::SocketAddr;

use anyhow::Context;

use super::{Agents, Order, Reached, Way};
use crate::arguments::serving::Serving;
use crate::elasticity::NodeRange;
use crate::failure::Failure;
use crate::file_system::{FileSystem, Size};
use crate::mount_point::MountPoint;
use crate::slurm;

/// Nodes by which a file system grows at once. In one step each new node takes its part from the first alone, in
/// several from all that came before, and each pair of nodes is a move of its own; but each has to hear of all others
/// that come at the same time before any is used.
const AT_ONCE: u16 = 15;

impl Agents {
    /// Has the file system be one that those who are there can join. Fewer hosts have fewer nodes.
    ///
    /// # Errors
    /// When nobody says by which address this host is reached.
    pub fn fit(&self, size: &mut Size) -> Result<(), Failure> {
        let satellites = size.provision.as_ref().and_then(|it| it.most);
        if size.listen.is_none() && (self.there() > 0 || satellites.is_some()) {
            let address = self.caller().or_else(|| satellites.and_then(|_| slurm::own_address()));
            let address = address.ok_or(Failure::NoAddressForHosts)?;
            size.listen = Some(SocketAddr::new(address, 0));
        }
        let here = size.nodes_here.unwrap_or(1);
        let most = here + u16::try_from(self.there()).unwrap_or(u16::MAX);
        size.nodes = size.nodes.map(|NodeRange { min, max }| match self.wanted.one_each {
            true => NodeRange { min, max: most + satellites.unwrap_or(0) },
            false => NodeRange { min: min.min(most), max },
        });
        Ok(())
    }

    /// Has them join the file system, and the file system have as many nodes as were asked for.
    ///
    /// # Errors
    /// When there are fewer hosts than there have to be, or it does not grow.
    pub fn settle(
        mut self,
        file_system: &FileSystem,
        size: &Size,
        mount: &MountPoint,
        serving: Serving,
        goes_on: impl Fn() -> Result<(), Failure>,
    ) -> anyhow::Result<Agents> {
        // They are this process's children, and not those of what it runs.
        let _ = file_system.roll.set(self.roll().clone());
        let paths = &file_system.paths;
        self.log_to(&paths.host_logs());
        if self.there() == 0 {
            return Ok(self);
        }
        let read = |path| fs::read_to_string(path).context("cannot read where hosts join");
        let address = read(paths.lend_address())?.trim().parse().context("no address")?;
        let secret = read(paths.join_secret())?.trim().to_owned();
        let name = paths.directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let wanted = self.wanted.clone();
        let order = |way: &Way| Order {
            name: name.clone(),
            address,
            secret: secret.clone(),
            mount: mount.path.clone(),
            memory_bytes: wanted.bytes_of(way),
            serving,
        };
        self.join(&order, goes_on)?;
        Reached::write(&self.reached(), paths).context("cannot note which hosts are there")?;
        self.watch();
        let (here, there) = (size.nodes_here.unwrap_or(1), self.there() as u16);
        let nodes = match (size.nodes, self.wanted.one_each) {
            (Some(nodes), false) => size.elasticity.first(nodes),
            _ => here + there,
        };
        let steps = (here..nodes).step_by(AT_ONCE.into()).skip(1).chain([nodes]);
        for nodes in steps.filter(|nodes| *nodes > here) {
            file_system.scale(nodes)?;
        }
        if file_system.outlives() {
            self.stay();
        }
        Ok(self)
    }
}
