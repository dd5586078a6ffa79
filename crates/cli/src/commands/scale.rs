//! `tidefs scale`: another number of nodes.

use std::path::Path;

use crate::arguments::running::Scale;
use crate::change::change;
use crate::control::Request;

pub fn scale(options: &Scale, asked: Option<&Path>) -> anyhow::Result<()> {
    change(&Request::Scale(options.nodes), options.json, asked)
}
