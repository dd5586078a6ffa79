//! The report of a run: what it used, what it held, how it grew and shrank, and why.
//!
//! [`Report::new`] takes plain facts, and [`Report::write`] makes `report.json` of them. This crate
//! knows no cluster, reads no clock and measures nothing: a real run and a simulated one are told in
//! the same way.

mod balance;
mod error;
mod facts;
mod json;
mod report;
mod totals;

pub use error::ReportError;
pub use facts::{Decision, Kind, NodeUsage, Reconfiguration, Row, RunFacts};
pub use report::Report;
pub use totals::{StaticRun, Totals};
