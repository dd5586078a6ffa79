//! A list of sources and destinations, one pair a line, as UnifyFS's and other staging tools take it:
//! words apart by blanks, in double quotes where they have blanks themselves; `\` keeps the letter
//! behind it. Empty lines and those that begin with `#` are left out.

use std::path::PathBuf;

use crate::error::ManifestError;

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub source: PathBuf,
    pub destination: PathBuf,
}

/// Reads a manifest.
///
/// # Errors
/// The first line that is no pair.
pub fn parse_manifest(text: &str) -> Result<Vec<Pair>, ManifestError> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let wanted = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let pair = |(number, line)| {
        let words = words(line).ok_or(ManifestError::OpenQuotation { line: number })?;
        match <[String; 2]>::try_from(words) {
            Ok([source, destination]) => {
                Ok(Pair { source: source.into(), destination: destination.into() })
            }
            Err(words) => Err(ManifestError::NotAPair { line: number, found: words.len() }),
        }
    };
    wanted.map(pair).collect()
}

/// `None` where a quotation does not end.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                quoted = !quoted;
                // Two marks alone are an empty word.
                word.get_or_insert_default();
            }
            '\\' => word.get_or_insert_default().push(letters.next().unwrap_or('\\')),
            blank if blank.is_whitespace() && !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    (!quoted).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(source: &str, destination: &str) -> Pair {
        Pair { source: source.into(), destination: destination.into() }
    }

    #[test]
    fn lines_are_pairs() {
        let text = "# a comment\n\n/a /b\n  \"/with blank\"\t/c\n/quote\\\" \"d \\\" e\"\n";
        let pairs = [pair("/a", "/b"), pair("/with blank", "/c"), pair("/quote\"", "d \" e")];
        assert_eq!(parse_manifest(text).unwrap(), pairs);
    }

    #[test]
    fn what_is_no_pair_is_named_by_its_line() {
        let refused = |text| parse_manifest(text).unwrap_err();
        assert_eq!(refused("/a /b\n/c"), ManifestError::NotAPair { line: 2, found: 1 });
        assert_eq!(refused("/a /b /c"), ManifestError::NotAPair { line: 1, found: 3 });
        assert_eq!(refused("\"/a /b"), ManifestError::OpenQuotation { line: 1 });
    }
}
