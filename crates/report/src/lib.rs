//! The report of a run: what it used, what it held, how it grew and shrank, and why.
//!
//! [`Report::new`] takes plain facts, and [`Report::write`] makes three files of them:
//! `report.json` for programs, `timeline.svg` for a paper or a slide, and `report.html`, one page
//! that needs no network and no script. This crate knows no cluster, reads no clock and measures
//! nothing: a real run and a simulated one are told in the same way.

mod balance;
mod chart;
mod error;
mod facts;
mod files;
mod json;
mod markup;
mod page;
mod report;
mod thin;
mod totals;
mod words;

pub use chart::{BoxPanel, box_plots};
pub use error::ReportError;
pub use facts::{
    ByCommand, CommandUse, DeadFiles, Decision, Kind, LeftOut, Losses, NodeUsage, PhaseTime,
    Reconfiguration, Row, RunFacts,
};
pub use page::{Compared, comparison};
pub use report::Report;
pub use totals::{StaticRun, Totals};
pub use words::instant_to_the_second;
