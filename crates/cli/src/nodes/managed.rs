//! The manager as a thread of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use tidefs_control::Settings;
use tidefs_fuse::SystemClock;
use tidefs_manager::{Handle, Manager, Parts};
use tidefs_valkey::{Admin, MoveOptions, Timeouts, Valkey};

use super::room::Urgency;
use super::{ClusterHands, LocalNodes, ManagedRoom};

/// How often the nodes are observed, unless a quiet period is too short for that.
const INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// A manager that runs until it is stopped.
pub struct Managed {
    room: ManagedRoom,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Managed {
    /// `store` keeps the journal.
    pub fn start(
        nodes: &LocalNodes,
        store: &Arc<Valkey>,
        settings: Settings,
        options: MoveOptions,
    ) -> anyhow::Result<Managed> {
        let secret = nodes.secrets().admin.clone();
        let admin = Admin::connect(&nodes.description(), secret, Timeouts::default())?;
        let urgency = Urgency::default();
        let parts = Parts {
            hands: ClusterHands::new(admin, options, urgency.clone()),
            provisioner: nodes.clone(),
            store: Arc::clone(store),
            clock: SystemClock,
        };
        let quiet = settings.policy.scale_in.map_or(INTERVAL, |scale_in| scale_in.quiet / 2);
        let interval = quiet.clamp(INTERVAL_MIN, INTERVAL);
        let (manager, handle) = Manager::new(parts, settings, interval)?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let run = move || {
            if let Err(error) = manager.run(&asked) {
                tracing::error!("the number of nodes stays as it is: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("tidefs-manager".to_owned()).spawn(run);
        let room = ManagedRoom { manager: handle, urgency };
        Ok(Managed { room, stop, thread: thread.context("cannot start the manager")? })
    }

    pub fn handle(&self) -> &Handle {
        &self.room.manager
    }

    /// What writers of this process wait at.
    pub fn room(&self) -> &ManagedRoom {
        &self.room
    }

    /// Ends what is under way soon, at a point where every partition has one owner.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.join();
    }
}
