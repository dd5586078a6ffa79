//! The binary as its users meet it: real processes, real mounts, real nodes.
//!
//! Each test has a [`World`](world::World) of its own and ends with the question whether
//! everything is as before. What a test needs and the machine lacks makes it fail, unless
//! `TIDEFS_TEST_WITHOUT` names it: `fuse`, `server`, `faketime`, `prometheus` (a parser of metrics),
//! `user` (running as somebody other than root).

mod bad_input;
mod belonging;
mod by_command;
mod clocks;
mod dead_files;
mod deaths;
mod elastic;
mod fsck;
mod handed_over;
mod hostile;
mod joining;
mod kept;
mod killed;
mod lend;
mod metrics;
mod nodes;
mod over_ssh;
mod placement;
mod planning;
mod provision_runner;
mod remounted;
mod run;
mod scarcity;
mod sealed;
mod settings;
mod signals;
mod staging;
mod standing_still;
mod stopped;
mod terminal;
mod user;
mod waiting;
mod whereabouts;
mod world;
