//! What a lender wants of its node, asked for by a thread of its own: a node that is busy or stands still
//! answers late, and its lender has a deadline to keep. Nothing here waits for the node.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use tidefs_model::ByteSize;
use tidefs_valkey::{LentLine, LentUsage};

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
        let idle =
            |list: &mut List| list.budget.is_none() && !list.purge && !list.look && !list.is_over;
        let waited = self.is_changed.wait_while(self.list(), idle);
        let mut list = waited.unwrap_or_else(PoisonError::into_inner);
        let (budget, purge, look) = (list.budget.take(), list.purge, list.look);
        (list.purge, list.look) = (false, false);
        (!list.is_over).then_some(List { budget, purge, look, ..List::default() })
    }

    fn serve(&self, mut line: LentLine) {
        while let Some(List { budget, purge, look, .. }) = self.next() {
            if let Some(Err(fault)) = budget.map(|budget| line.set_budget(budget)) {
                tracing::warn!("the node's budget is not changed: {fault}");
            }
            if purge && let Err(fault) = line.purge() {
                tracing::debug!("the node keeps free pieces: {fault}");
            }
            if look {
                match line.usage() {
                    Ok(usage) => self.list().seen = Some(usage),
                    Err(fault) => tracing::debug!("the node says nothing of itself: {fault}"),
                }
            }
        }
    }
}
