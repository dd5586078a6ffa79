//! The three files of a report.

use std::fs;
use std::path::Path;

use crate::chart;
use crate::error::ReportError;
use crate::json;
use crate::page;
use crate::report::Report;

impl Report {
    /// Writes `report.json`, `timeline.svg` and `report.html` into a folder, which is made where it
    /// is absent. Files of an earlier report are replaced.
    pub fn write(&self, directory: &Path) -> Result<(), ReportError> {
        fs::create_dir_all(directory)
            .map_err(|source| ReportError::Directory { path: directory.to_owned(), source })?;
        let json = json::encode(self).map_err(|source| ReportError::Json { source })?;
        let files = [
            ("report.json", json),
            ("timeline.svg", chart::timeline_document(self)),
            ("report.html", page::document(self)),
        ];
        for (name, text) in files {
            let path = directory.join(name);
            fs::write(&path, text).map_err(|source| ReportError::File { path, source })?;
        }
        Ok(())
    }
}
