//! What a workflow will need: a forecast from its graph and from what has been observed so far.
//!
//! The graph gives the course of the bytes (`Curve`). Of the run, bytes over time are observed and
//! nothing else. From both it is found in which stretch of the curve the run is; from that, how many
//! bytes will be in use when nodes that are wished for now can serve, and for how long fewer nodes
//! would do. What is expected is always added to what is in use, and what is observed to rise goes on
//! rising: a forecast that is wrong costs memory or time, never room for what is there.
//!
//! How long nodes take to come is learned, and so are the factors by which runtimes and sizes differ
//! from the graph. Where more nodes came than thresholds would hold, and in vain, they go, and what was told is
//! believed again when it begins. A forecast that keeps being wrong is silent, and the thresholds decide.

mod advice;
mod bound;
mod curve;
mod follow;
mod outlook;
mod pace;
mod rival;
mod shape;
mod staging;
mod stretches;

pub use advice::{Advice, Forecaster};
pub use curve::{Course, Curve, Stretch};
pub use pace::Pace;
