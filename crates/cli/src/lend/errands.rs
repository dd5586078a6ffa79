//! What a lender wants of its node, asked for by a thread of its own: a node that is busy or stands still
//! answers late, and its lender has a deadline to keep. Nothing here waits for the node.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use tidefs_model::ByteSize;
use tidefs_valkey::{LentLine, LentUsage};

/// What has left a node that is being emptied goes back to the machine in pieces of this size.
const HANDED_OVER: ByteSize = ByteSize::mib(4);
/// Between two looks at how much has left it.
const HAND_OVER_PAUSE: Duration = Duration::from_millis(5);

/// The thread ends when this is dropped, or when the node has answered after that.
pub struct Errands(Arc<Desk>);

struct Desk {
    list: Mutex<List>,
    is_changed: Condvar,
}

/// Each errand is there once, however often it is asked for.
#[derive(Default)]
struct List {
    budget: Option<ByteSize>,
    purge: bool,
    look: bool,
    /// From now on what leaves the node goes back to the machine.
    hand_over: bool,
    /// What the node said last, until it is taken.
    seen: Option<LentUsage>,
    is_over: bool,
}

impl Errands {
    pub fn to(line: LentLine) -> io::Result<Errands> {
        let desk = Arc::new(Desk { list: Mutex::default(), is_changed: Condvar::new() });
        let errands = Errands(Arc::clone(&desk));
        Builder::new().name("errands".to_owned()).spawn(move || desk.serve(line))?;
        Ok(errands)
    }

    /// The node is to hold no more than this from now on.
    pub fn set_budget(&self, budget: ByteSize) {
        self.add(|list| list.budget = Some(budget));
    }

    /// Pieces that are free in the node are to go back to the machine.
    pub fn purge(&self) {
        self.add(|list| list.purge = true);
    }

    /// From now on what leaves the node goes back to the machine at once: the server would keep it for ten
    /// seconds.
    pub fn hand_over(&self) {
        self.add(|list| list.hand_over = true);
    }

    /// What the node has said of itself since this was asked last; and asks it again.
    pub fn usage(&self) -> Option<LentUsage> {
        self.add(|list| {
            list.look = true;
            list.seen.take()
        })
    }

    fn add<T>(&self, put: impl FnOnce(&mut List) -> T) -> T {
        let put = put(&mut self.0.list());
        self.0.is_changed.notify_one();
        put
    }
}

impl Drop for Errands {
    fn drop(&mut self) {
        self.add(|list| list.is_over = true);
    }
}

impl Desk {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: it is over.
    fn next(&self) -> Option<List> {
        let is_idle =
            |list: &mut List| list.budget.is_none() && !list.purge && !list.look && !list.is_over;
        let mut list = self.list();
        let waited = match list.hand_over {
            false => self.is_changed.wait_while(list, |list| is_idle(list) && !list.hand_over),
            true => self
                .is_changed
                .wait_timeout_while(list, HAND_OVER_PAUSE, is_idle)
                .map(|(list, _)| list)
                .map_err(|poisoned| PoisonError::new(poisoned.into_inner().0)),
        };
        list = waited.unwrap_or_else(PoisonError::into_inner);
        let (budget, purge, look) = (list.budget.take(), list.purge, list.look);
        (list.purge, list.look) = (false, false);
        let next = List { budget, purge, look, hand_over: list.hand_over, ..List::default() };
        (!list.is_over).then_some(next)
    }

    fn serve(&self, mut line: LentLine) {
        // What the node used when free pieces last went back to the machine.
        let mut purged = None;
        while let Some(List { budget, mut purge, look, hand_over, .. }) = self.next() {
            if let Some(Err(fault)) = budget.map(|budget| line.set_budget(budget)) {
                tracing::warn!("the node's budget is not changed: {fault}");
            }
            if look || hand_over {
                match line.usage() {
                    Ok(usage) => {
                        let before = *purged.get_or_insert(usage.used);
                        if hand_over && usage.used.0 + HANDED_OVER.0 <= before.0 {
                            purged = Some(usage.used);
                            purge = true;
                        }
                        self.list().seen = Some(usage);
                    }
                    Err(fault) => tracing::debug!("the node says nothing of itself: {fault}"),
                }
            }
            if purge && let Err(fault) = line.purge() {
                tracing::debug!("the node keeps free pieces: {fault}");
            }
        }
    }
}
