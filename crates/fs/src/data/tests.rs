//! The data path over an embedded store that can be told to fail or to hold still, with small
//! stripes so that borders are everywhere.

mod ahead;
mod faults;
mod lost;
mod model;
mod order;
mod pinned;
mod rig;
mod room;
mod schedules;
mod shared;
mod sparse;
mod stale;
mod threads;
