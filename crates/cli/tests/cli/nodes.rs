//! Runs on a cluster of real nodes.
