//! Where metrics and the page are served, as `status` tells it.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where programs that watch find metrics, and what lets them in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricsView {
    pub url: String,
    /// Shows the file system to people.
    #[serde(default)]
    pub page: String,
    pub token_file: PathBuf,
    /// Lets in to the page, which names files, and to metrics.
    #[serde(default)]
    pub page_token_file: PathBuf,
    /// The host on which these files are, by its name; null where that is this one.
    #[serde(default)]
    pub host: Option<String>,
}

impl fmt::Display for MetricsView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MetricsView { url, page, token_file, page_token_file, host } = self;
        write!(
            f,
            "{url} with the token in {}, and a page at {page} with that in {}",
            token_file.display(),
            page_token_file.display()
        )?;
        match host {
            Some(host) => write!(f, ", on {host}"),
            None => Ok(()),
        }
    }
}
