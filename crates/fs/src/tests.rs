//! Tests of this crate that need its insides: mounts that meet, and operations left half done.

mod appends;
mod at_once;
mod bed;
mod checking;
mod clocks;
mod company;
mod copies;
mod deferred;
mod early;
mod full;
mod holders;
mod hostile;
mod housekeeping;
mod interrupted;
mod known_fields;
mod layout;
mod leases;
mod links;
mod locks;
mod remembering;
mod renames;
mod round_trips;
mod sharing;
mod stopped;
mod times;
mod unforgotten;
