//! The same with real threads: callbacks that do what they should, that panic, and that hang.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tidefs_rescale::{
    Bucket, Failure, Inventory, Outcome, Progress, Server, Service, Settings, rescale,
};

use crate::sim::change;

type Shelves = BTreeMap<String, BTreeMap<String, u64>>;

struct Store {
    shelves: Mutex<Shelves>,
    told: Mutex<Vec<Progress>>,
    /// What the move of a bucket does instead of moving it.
    trap: Mutex<Option<(String, Trap)>>,
}

enum Trap {
    Panics,
    /// Until the sender is dropped.
    Hangs(Receiver<()>),
}

impl Store {
    fn new(trap: Option<(&str, Trap)>) -> Arc<Store> {
        let buckets = |server: u64| (0..8).map(move |at| (format!("b{server}-{at}"), 100));
        let shelves = [0, 1].map(|server| (format!("s{server}"), buckets(server).collect()));
        let trap = trap.map(|(bucket, trap)| (bucket.to_owned(), trap));
        Arc::new(Store {
            shelves: Mutex::new(shelves.into()),
            told: Mutex::default(),
            trap: Mutex::new(trap),
        })
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap()
    }

    fn held(&self) -> Vec<usize> {
        self.shelves().values().map(BTreeMap::len).collect()
    }
}

impl Service for Store {
    fn inventory(&self) -> Result<Inventory, Failure> {
        let mut found = Inventory::default();
        for (server, buckets) in self.shelves().iter() {
            found.servers.push(Server::new(server));
            let bucket = |(name, bytes): (&String, &u64)| Bucket::new(name, server, *bytes);
            found.buckets.extend(buckets.iter().map(bucket));
        }
        Ok(found)
    }

    fn start(&self, server: &str) -> Result<(), Failure> {
        self.shelves().insert(server.to_owned(), BTreeMap::new());
        Ok(())
    }

    fn move_bucket(&self, bucket: &str, from: &str, to: &str) -> Result<(), Failure> {
        let trap = self.trap.lock().unwrap().take_if(|(trapped, _)| trapped == bucket);
        match trap {
            Some((_, Trap::Panics)) => panic!("the disk is gone"),
            Some((_, Trap::Hangs(end))) => {
                let _ = end.recv();
                return Err("it hung".into());
            }
            None => {}
        }
        let mut shelves = self.shelves();
        let bytes = shelves.get_mut(from).and_then(|it| it.remove(bucket)).ok_or("not there")?;
        shelves.get_mut(to).ok_or("no such server")?.insert(bucket.to_owned(), bytes);
        Ok(())
    }

    fn stop(&self, server: &str) -> Result<(), Failure> {
        self.shelves().remove(server);
        Ok(())
    }

    fn progress(&self, progress: &Progress) {
        self.told.lock().unwrap().push(*progress);
    }
}

fn run(store: &Arc<Store>, move_within: Duration) -> Outcome {
    let settings = Settings { move_within, ..Settings::default() };
    let begun = Instant::now();
    let service: Arc<dyn Service> = Arc::<Store>::clone(store);
    rescale(service, change(2..3, &["s1"]), settings, &|| begun.elapsed()).unwrap()
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn all_goes_well_and_the_end_is_told() {
    let store = Store::new(None);
    let outcome = run(&store, LONG);
    assert!(outcome.is_complete() && outcome.faults.is_empty(), "{outcome:?}");
    assert_eq!(store.held(), [8, 8]);
    let told = store.told.lock().unwrap();
    let last = told.last().expect("it was told");
    assert_eq!((last.moved, last.to_move, last.started, last.stopped), (8, 0, 1, 1));
}

#[test]
fn a_callback_that_panics_has_failed() {
    let store = Store::new(Some(("b1-0", Trap::Panics)));
    let outcome = run(&store, LONG);
    assert!(outcome.is_complete(), "{outcome:?}");
    assert_eq!(outcome.faults.len(), 1, "{:?}", outcome.faults);
    let fault = outcome.faults[0].to_string();
    assert!(fault.contains("b1-0") && fault.contains("it panicked: the disk is gone"), "{fault}");
    assert_eq!(store.held(), [8, 8]);
}

#[test]
fn a_callback_that_hangs_is_left_behind() {
    let (end, hangs) = channel();
    let store = Store::new(Some(("b1-0", Trap::Hangs(hangs))));
    let outcome = run(&store, Duration::from_millis(200));
    assert_eq!(outcome.calls_running, 1);
    assert!(!outcome.is_complete());
    assert_eq!(store.shelves()["s1"].len(), 1, "only what hangs is left");
    drop(end);
}
