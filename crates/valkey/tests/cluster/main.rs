//! The store on real servers: what every store promises, and what happens when a node is killed,
//! paused, full, or strange.
//!
//! Each test starts its own nodes and ends them, also when it fails. A server that is missing makes
//! the tests that need it fail, unless TIDEFS_TEST_WITHOUT names it.

mod access;
mod at_once;
mod conformance;
mod expunged;
mod fixture;
mod forming;
mod growing;
mod head_room;
mod interrupted;
mod late;
mod leaving;
mod lent;
mod load;
mod marks;
mod mounts;
mod moving;
mod near;
mod rate;
mod scripted;
mod silent;
mod slow_links;
mod stale;
mod strangers;
mod suspended;
mod trouble;
mod witness;
