//! What a manager does about nodes that die, where there is none. A fixed number of nodes needs nobody who
//! decides, but others must hold what a dead node held: new files find room everywhere then, and a file that
//! lost bytes can be written again.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use tidefs_control::Failure;
use tidefs_fs::Format;
use tidefs_manager::{Hands, Provisioner, put_right};
use tidefs_model::ByteSize;
use tidefs_valkey::{Admin, ClusterDescription, MoveOptions, Timeouts, Valkey};

use super::{ClusterHands, LocalNodes, Steps, Urgency};

/// Between two looks at the nodes' processes.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// So many looks between two at what the nodes hold, so that it is known about how much is lost.
const LOOKS_A_MEASUREMENT: u32 = 20;
/// The longest pause between two tries, where the nodes that are left do not answer.
const RETRY_MAX: Duration = Duration::from_secs(8);

pub struct Takeover {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: JoinHandle<()>,
}

impl Takeover {
    /// `store` is the file system's.
    pub fn watch(
        nodes: &LocalNodes,
        store: &Arc<Valkey>,
        head_room: ByteSize,
        format: Format,
    ) -> anyhow::Result<Takeover> {
        let description = nodes.nodes().into_iter().map(|(_, node)| node).collect();
        let description = ClusterDescription { nodes: description };
        let admin =
            Admin::connect(&description, nodes.secrets().admin.clone(), Timeouts::default())?;
        let hands = ClusterHands::new(
            admin.with_head_room(head_room),
            Arc::clone(store),
            MoveOptions::default(),
            Urgency::default(),
            Steps::from_environment(),
            format,
        );
        let over = Arc::<(Mutex<bool>, Condvar)>::default();
        let (nodes, told) = (nodes.clone(), Arc::clone(&over));
        let thread = std::thread::Builder::new().name("takeover".to_owned());
        let thread = thread.spawn(move || run(&nodes, &hands, &told)).context("no thread")?;
        Ok(Takeover { over, thread })
    }

    /// Nodes that end from here on have been ended.
    pub fn stop(self) {
        let (over, changed) = &*self.over;
        *over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("what took over from dead nodes has panicked");
        }
    }
}

fn run(nodes: &LocalNodes, hands: &ClusterHands, over: &(Mutex<bool>, Condvar)) {
    let mut pause = LOOK_EVERY;
    for look in 0_u32.. {
        let is_over = over.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = over.1.wait_timeout_while(is_over, pause, |is_over| !*is_over);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
        pause = match take_over(nodes, hands, look) {
            Ok(()) => LOOK_EVERY,
            Err(failure) => {
                tracing::debug!("nobody holds yet what a dead node held: {}", failure.what);
                (pause * 2).min(RETRY_MAX)
            }
        };
    }
}

fn take_over(nodes: &LocalNodes, hands: &ClusterHands, look: u32) -> Result<(), Failure> {
    if !nodes.ended()?.is_empty() {
        return put_right(hands, nodes);
    }
    if look.is_multiple_of(LOOKS_A_MEASUREMENT) {
        hands.observe()?;
    }
    Ok(())
}
