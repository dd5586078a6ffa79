//! A small service that is rescaled with the Rust library: two servers become three, and one of the first leaves.
//!
//! Its servers are shelves in memory; where a real one opens connections, this one takes a lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tidefs_rescale::{
    Bucket, Change, Failure, Inventory, Progress, Server, Service, Settings, rescale,
};

/// By server, its buckets with their bytes.
struct Shelves(Mutex<BTreeMap<String, BTreeMap<String, u64>>>);

impl Service for Shelves {
    fn inventory(&self) -> Result<Inventory, Failure> {
        let shelves = self.0.lock().unwrap();
        let mut found = Inventory::default();
        for (server, held) in shelves.iter() {
            found.servers.push(Server::new(server));
            found
                .buckets
                .extend(held.iter().map(|(name, bytes)| Bucket::new(name, server, *bytes)));
        }
        Ok(found)
    }

    fn start(&self, server: &str) -> Result<(), Failure> {
        self.0.lock().unwrap().insert(server.to_owned(), BTreeMap::new());
        Ok(())
    }

    fn move_bucket(&self, bucket: &str, from: &str, to: &str) -> Result<(), Failure> {
        let mut shelves = self.0.lock().unwrap();
        if !shelves.contains_key(to) {
            return Err(format!("there is no server {to}").into());
        }
        let held = shelves.get_mut(from).and_then(|held| held.remove(bucket));
        let bytes = held.ok_or_else(|| format!("{bucket} is not on {from}"))?;
        shelves.get_mut(to).unwrap().insert(bucket.to_owned(), bytes);
        Ok(())
    }

    fn stop(&self, server: &str) -> Result<(), Failure> {
        let mut shelves = self.0.lock().unwrap();
        match shelves.get(server).is_some_and(BTreeMap::is_empty) {
            true => shelves.remove(server),
            false => return Err(format!("{server} holds something").into()),
        };
        Ok(())
    }

    fn progress(&self, progress: &Progress) {
        eprintln!("{} moved, {} to move", progress.moved, progress.to_move);
    }
}

fn main() -> Result<(), Failure> {
    let buckets = |server: u64| (0..12).map(move |at| (format!("bucket-{server}-{at}"), 1 << 20));
    let shelves = [1, 2].map(|at| (format!("server-{at}"), buckets(at).collect()));
    let service = Arc::new(Shelves(Mutex::new(shelves.into())));
    let change = Change { start: vec![Server::new("server-3")], stop: vec!["server-1".to_owned()] };
    let begun = Instant::now();
    let outcome =
        rescale(Arc::clone(&service) as _, change, Settings::default(), &|| begun.elapsed())?;
    for line in outcome.faults.iter().map(ToString::to_string) {
        eprintln!("fault: {line}");
    }
    for line in outcome.unfinished.iter().map(ToString::to_string) {
        eprintln!("left: {line}");
    }
    for (server, held) in service.0.lock().unwrap().iter() {
        println!("{server}: {} buckets", held.len());
    }
    if outcome.is_complete() { Ok(()) } else { Err("it was not finished".into()) }
}
