//! Which files of a tree are wanted: `results/**/*.csv` is a directory, and a pattern below it.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::error::StageError;

/// Letters that make a name a pattern.
const PATTERN_LETTERS: [char; 5] = ['*', '?', '[', '{', '\\'];

/// A place in a tree, and which files below it.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The part of the pattern that is a plain path.
    pub base: PathBuf,
    matcher: Option<GlobMatcher>,
    /// As it was given, to be named.
    pattern: String,
}

impl Selection {
    /// Everything at a path.
    pub fn whole(path: &Path) -> Selection {
        Selection {
            base: path.to_owned(),
            matcher: None,
            pattern: path.to_string_lossy().into_owned(),
        }
    }

    /// `*` and `?` stay within a name, `**` does not; `[ab]` and `{a,b}` are alternatives.
    ///
    /// # Errors
    /// When it is no pattern.
    pub fn parse(pattern: &str) -> Result<Selection, StageError> {
        let is_plain =
            |part: &Component<'_>| !part.as_os_str().to_string_lossy().contains(PATTERN_LETTERS);
        let path = Path::new(pattern);
        let base: PathBuf = path.components().take_while(is_plain).collect();
        let rest: PathBuf = path.components().skip_while(is_plain).collect();
        if rest.as_os_str().is_empty() {
            return Ok(Selection::whole(&base));
        }
        let rest = rest.to_string_lossy().into_owned();
        let glob = GlobBuilder::new(&rest).literal_separator(true).build();
        let wrong = |cause| StageError::WrongPattern { pattern: pattern.to_owned(), cause };
        let matcher = Some(glob.map_err(wrong)?.compile_matcher());
        Ok(Selection { base, matcher, pattern: pattern.to_owned() })
    }

    /// The same below another directory.
    pub fn below(self, directory: &Path) -> Selection {
        Selection { base: directory.join(self.base), ..self }
    }

    /// Whether everything is wanted, directories without files included.
    pub fn is_whole(&self) -> bool {
        self.matcher.is_none()
    }

    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Whether a file is wanted, named from `base` on.
    pub fn wants(&self, relative: &Path) -> bool {
        self.matcher.as_ref().is_none_or(|matcher| matcher.is_match(relative))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(pattern: &str) -> (String, bool, bool) {
        let selection = Selection::parse(pattern).unwrap();
        let base = selection.base.to_string_lossy().into_owned();
        (base, selection.wants(Path::new("a.csv")), selection.wants(Path::new("x/a.csv")))
    }

    #[test]
    fn a_pattern_has_a_plain_beginning() {
        assert_eq!(parts("results"), ("results".to_owned(), true, true));
        assert_eq!(parts("results/*.csv"), ("results".to_owned(), true, false));
        assert_eq!(parts("results/**/*.csv"), ("results".to_owned(), true, true));
        assert_eq!(parts("*.txt"), (String::new(), false, false));
        assert_eq!(parts("**"), (String::new(), true, true));
        assert_eq!(parts("a/b/{a,b}.csv"), ("a/b".to_owned(), true, false));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let error = Selection::parse("a/[b").unwrap_err().to_string();
        assert!(error.contains("a/[b"), "{error}");
    }
}
