//! `tidefs drain`: one node less, and which.

use std::path::Path;

use crate::arguments::running::Drain;
use crate::change::change;
use crate::control::Request;

pub fn drain(options: &Drain, asked: Option<&Path>) -> anyhow::Result<()> {
    change(&Request::Drain(options.node.clone()), options.json, asked)
}
