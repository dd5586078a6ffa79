//! Asks nodes the same, and the next one as well where one takes its time.
//!
//! A node that stands still takes a request and does not answer for the whole time-out. Whoever asks one node after
//! the other would wait for that with each of them. So each is asked by a thread of its own, and after a slice of
//! that time the next one is asked too. The first answers count; a thread that nobody waits for any more ends with
//! its own time-out. A node that still owes an answer is not asked by another thread meanwhile.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use tidefs_model::NodeId;
use tidefs_store::caller;

use crate::fault::Fault;
use crate::pool::Node;
use crate::wire::{Reply, Request};

/// A node that works answers sooner, also a busy one.
const SLICE: Duration = Duration::from_millis(500);

pub type Answered = (Arc<Node>, Result<Reply, Fault>);

/// The nodes that owe an answer.
#[derive(Clone, Default)]
pub struct Owing(Arc<Mutex<BTreeSet<NodeId>>>);

impl Owing {
    fn all(&self) -> MutexGuard<'_, BTreeSet<NodeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the nodes for their words, and has each answer looked at until one is enough (`true`). Those that owe an
    /// answer since before come last, and one after the other.
    pub fn ask_in_turn(
        &self,
        nodes: Vec<Arc<Node>>,
        words: &'static [&'static str; 2],
        mut is_enough: impl FnMut(Answered) -> bool,
    ) {
        let (mut silent, others): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|node| self.all().contains(&node.id));
        let (answer, answered) = mpsc::channel();
        let mut open = 0;
        for node in others {
            match self.begin(&node, words, answer.clone()) {
                true => open += 1,
                false => silent.push(node),
            }
            while open > 0
                && let Ok(heard) = answered.recv_timeout(SLICE)
            {
                open -= 1;
                let failed = heard.1.is_err();
                if is_enough(heard) {
                    return;
                }
                // One that answered is not waited for, and a late answer of another one may yet come.
                if failed || open == 0 {
                    break;
                }
            }
        }
        drop(answer);
        if answered.iter().any(&mut is_enough) {
            return;
        }
        for node in silent {
            let said = node.ask(&Request::of(words));
            if is_enough((node, said)) {
                return;
            }
        }
    }

    /// `false`: there is no thread for it.
    fn begin(
        &self,
        node: &Arc<Node>,
        words: &'static [&'static str; 2],
        answer: mpsc::Sender<Answered>,
    ) -> bool {
        self.all().insert(node.id);
        let (owing, asked) = (self.clone(), Arc::clone(node));
        let (term, asked_in) = (caller::term(), caller::asked_term());
        let ask = move || {
            let said = on_behalf(term, asked_in, || asked.ask(&Request::of(words)));
            owing.all().remove(&asked.id);
            // The caller may have heard enough.
            let _ = answer.send((asked, said));
        };
        let name = "tidefs-map".to_owned();
        let begun = thread::Builder::new().name(name).spawn(ask).is_ok();
        if !begun {
            self.all().remove(&node.id);
        }
        begun
    }
}

/// A thread that works for another one belongs to the same terms.
fn on_behalf<T>(term: Option<u64>, asked_in: Option<u64>, work: impl FnOnce() -> T) -> T {
    let work = || match asked_in {
        Some(asked) => caller::asked_in(asked, work),
        None => work(),
    };
    match term {
        Some(term) => caller::in_term(term, work),
        None => work(),
    }
}
