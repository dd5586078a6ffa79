//! What of a running file system was lost with nodes that died. How a tree is searched for it is `crate::lost`.

use std::path::Path;
use std::time::{Duration, Instant};

use tidefs_fs::{Format, partition_of_seals};
use tidefs_model::{Granted, Ino, NodeId, ShardKey, StripeKey};
use tidefs_report::Losses;

use super::FileSystem;
use crate::lost::{self, Lost};
use crate::mount_table;
use crate::view::LostView;

/// For others to hold what a node that died held.
const RECOVERY_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl FileSystem {
    /// What nodes that died took with them, for programs.
    pub fn losses(&self, lost: Option<&Lost>) -> Losses {
        let nodes = self.dead_nodes().iter().map(|dead| LostView::from(dead).to_string()).collect();
        lost.unwrap_or(&Lost::default()).losses(nodes)
    }

    /// What cannot be read any more below a mount, because of nodes that died; `None` where none did.
    pub fn lost(&self, mount: &Path) -> Option<Lost> {
        // Also those whose partitions others hold by now.
        if self.dead_nodes().is_empty() {
            return None;
        }
        let unseen = || Lost { incomplete: true, ..Lost::default() };
        if !mount_table::is_ours(mount) {
            return Some(unseen());
        }
        self.wait_for_recovery();
        let nodes = self.nodes();
        let dead: Vec<_> = self.dead_nodes().iter().map(|node| node.number).collect();
        let alive = nodes.iter().filter(|(number, _)| !dead.contains(number));
        let alive: Vec<NodeId> = alive.filter_map(|(_, node)| node.id.parse().ok()).collect();
        let Ok(store) = self.store() else { return Some(unseen()) };
        store.refresh();
        let losses = store.losses();
        let is_held = |partition| store.holder(partition).is_some_and(|it| alive.contains(&it));
        let is_sealed = self.is_sealed();
        // A file of which seals may have been lost has no holes that can be told from that, wherever they lie.
        let lost_any = losses.values().fold(Granted::default(), |all, one| Granted {
            inos: all.inos.max(one.inos),
            serials: all.serials.max(one.serials),
        });
        let is_lost = |path: &Path, stripe: StripeKey, last: u32| {
            let partition = stripe.partition();
            let bytes_lost =
                || losses.contains_key(&partition.number()) && store.has_lost(stripe, last);
            let seals_lost =
                || is_sealed && lost_any.covers(stripe.ino) && store.may_lack_seals(stripe);
            // Whoever asks a node that died waits for long.
            !is_held(partition)
                || is_sealed && !is_held(partition_of_seals(stripe))
                || bytes_lost() && !lost::is_readable(path, stripe, last)
                // Who may not open a file does not learn whether its seals are there.
                || seals_lost() && lost::may_be_opened(path) && !lost::is_readable(path, stripe, last)
        };
        let lost_names = |directory: Ino| {
            (0..Format::default().shards).any(|index| {
                let partition = ShardKey { directory, index }.partition();
                let lost = losses.get(&partition.number());
                !is_held(partition) || lost.is_some_and(|lost| lost.covers(directory))
            })
        };
        let lost = Lost::find(mount, is_lost, lost_names);
        lost.files.iter().for_each(|file| tracing::info!("lost: {}", file.display()));
        let directories = lost.directories.iter();
        directories.for_each(|it| tracing::info!("names lost in: ./{}", it.display()));
        Some(lost)
    }

    /// Until others hold what nodes that died held, as far as there are others: what is looked at meanwhile seems
    /// neither lost nor there.
    fn wait_for_recovery(&self) {
        let give_up = Instant::now() + RECOVERY_MAX;
        let is_under_way = || {
            let waiting = self.dead_nodes().iter().filter(|node| node.lost.is_none()).count();
            waiting > 0 && self.nodes().len() > waiting
        };
        while self.manager().is_some() && is_under_way() && Instant::now() < give_up {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
