//! The words of `tidefs placement`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub struct Placement {
    /// A directory of a mount
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Where the bytes of files go that are made in it from now on; without it, what is set is printed
    #[arg(value_name = "PLACEMENT", value_enum)]
    pub wanted: Option<Wanted>,
}

/// What a directory can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wanted {
    /// To the node of the host that writes them
    Local,
    /// To all nodes
    Striped,
}

impl From<Wanted> for tidefs_fs::Layout {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Local => tidefs_fs::Layout::Local,
            Wanted::Striped => tidefs_fs::Layout::Striped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidefs_fs::Layout;

    #[test]
    fn the_words_are_the_values_of_the_attribute() {
        for wanted in Wanted::value_variants() {
            let word = wanted.to_possible_value().expect("it has a word");
            assert_eq!(Layout::from(*wanted).name(), word.get_name());
        }
        assert_eq!(Wanted::value_variants().len(), Layout::NAMES.len());
    }
}
