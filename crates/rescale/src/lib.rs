//! Rescaling for services of any kind that keep buckets on servers: inventory in, plan out, and a rescaling
//! that is driven by callbacks.
//!
//! A **bucket** is what the service places and moves as one; a **server** holds buckets. [`plan()`] says which
//! bucket goes where when servers come and go, weighing load, bytes and time (Cheriere et al.: Pufferscale,
//! CCGrid 2020). [`rescale()`] carries that out with what a [`Service`] offers: it starts servers, moves
//! buckets and stops servers, several at a time, and believes nothing but the service's inventory. Callbacks
//! may fail, hang or say what is not so; a bucket stays at its old place until the inventory has it at its
//! new one alone, and a server is stopped only when the inventory has nothing on it.
//!
//! This crate moves no data itself and does no I/O: it has threads for callbacks, and nothing else. Who has an
//! event loop of their own drives [`Rescaling`] with it.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::{Arc, Mutex};
//! use std::time::Instant;
//! use tidefs_rescale::*;
//!
//! /// Servers by name, each with its buckets and their bytes.
//! struct Shelves(Mutex<BTreeMap<String, BTreeMap<String, u64>>>);
//!
//! impl Service for Shelves {
//!     fn inventory(&self) -> Result<Inventory, Failure> {
//!         let shelves = self.0.lock().unwrap();
//!         let mut found = Inventory::default();
//!         for (server, buckets) in shelves.iter() {
//!             found.servers.push(Server::new(server));
//!             found.buckets.extend(buckets.iter().map(|(name, bytes)| Bucket::new(name, server, *bytes)));
//!         }
//!         Ok(found)
//!     }
//!
//!     fn start(&self, server: &str) -> Result<(), Failure> {
//!         self.0.lock().unwrap().insert(server.to_owned(), BTreeMap::new());
//!         Ok(())
//!     }
//!
//!     fn move_bucket(&self, bucket: &str, from: &str, to: &str) -> Result<(), Failure> {
//!         let mut shelves = self.0.lock().unwrap();
//!         let bytes = shelves.get_mut(from).and_then(|it| it.remove(bucket)).ok_or("not there")?;
//!         shelves.get_mut(to).ok_or("no such server")?.insert(bucket.to_owned(), bytes);
//!         Ok(())
//!     }
//!
//!     fn stop(&self, server: &str) -> Result<(), Failure> {
//!         let mut shelves = self.0.lock().unwrap();
//!         if !shelves[server].is_empty() {
//!             return Err("it holds something".into());
//!         }
//!         shelves.remove(server);
//!         Ok(())
//!     }
//! }
//!
//! let buckets = |server: u64| (0..8).map(move |at| (format!("bucket-{server}-{at}"), 1 << 20));
//! let shelves = [1, 2].map(|at| (format!("server-{at}"), buckets(at).collect()));
//! let service = Arc::new(Shelves(Mutex::new(shelves.into())));
//! let change = Change { start: vec![Server::new("server-3")], stop: vec!["server-1".to_owned()] };
//! let begun = Instant::now();
//! let outcome = rescale(service, change, Settings::default(), &|| begun.elapsed())?;
//! assert!(outcome.is_complete());
//! assert_eq!(outcome.stopped, ["server-1"]);
//! assert_eq!(outcome.after.data_balance, 1.0);
//! # Ok::<(), Refused>(())
//! ```

mod call;
mod drive;
mod inventory;
mod outcome;
mod plan;
mod rescaling;
mod service;
mod settings;

pub use call::{Answer, Call, CallId, Question};
pub use drive::rescale;
pub use inventory::{Bucket, Inventory, InventoryError, Server};
pub use outcome::{Fault, Outcome, Progress, Unfinished};
pub use plan::{
    Change, Least, Measures, Move, ParseWeightsError, Plan, Refused, Weights, measures, plan,
};
pub use rescaling::Rescaling;
pub use service::{Failure, Service};
pub use settings::Settings;
