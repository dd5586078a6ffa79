//! Rescalings of a simulated service: what comes of good and of bad callbacks.

mod driven;
mod faults;
mod random;
mod sim;
mod well;
