//! What lets a program in that asks for metrics: a text that both know.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::{fmt, str};

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::judged_file;

/// Fewer characters could be guessed.
const LENGTH_MIN: usize = 16;
/// It stands in one line of a request.
const LENGTH_MAX: usize = 1_024;

#[derive(Clone, Serialize, Deserialize)]
pub struct Token(String);

/// It is no text for a log.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// A new one that nobody can guess.
    pub fn draw() -> Result<Token, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// That of an administrator, as Prometheus reads it: without blanks around it.
    ///
    /// # Errors
    /// Says why the file cannot be used, and what to do.
    pub fn read(path: &Path) -> Result<Token, String> {
        let is_own = |found: &fs::Metadata| {
            if found.mode() & 0o007 != 0 {
                let why = "everybody may read it or write to it; chmod o=";
                return Err(io::Error::other(format!("{why} {}", path.display())));
            }
            if found.len() > 2 * LENGTH_MAX as u64 {
                return Err(io::Error::other(format!("it has more than {LENGTH_MAX} characters")));
            }
            Ok(())
        };
        Token::of(&judged_file::read(path, is_own).map_err(|error| error.to_string())?)
    }

    fn of(bytes: &[u8]) -> Result<Token, String> {
        let text = str::from_utf8(bytes).unwrap_or("\0").trim();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token is one word of ASCII characters".to_owned());
        }
        if !(LENGTH_MIN..=LENGTH_MAX).contains(&text.len()) {
            return Err(format!(
                "it has {} characters; give {LENGTH_MIN} to {LENGTH_MAX}, such as what \
                 `openssl rand -hex 32` prints",
                text.len()
            ));
        }
        Ok(Token(text.to_owned()))
    }

    /// Writes a file, which must not be there, that only this user can read.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut options = fs::File::options();
        let mut made = options.write(true).create_new(true).mode(0o600).open(path)?;
        made.write_all(self.0.as_bytes())
    }

    /// Whether the value of a request's header `Authorization` shows it. How long that takes says nothing
    /// but how long the token is.
    pub fn is_shown_by(&self, header: &[u8]) -> bool {
        let Some((scheme, shown)) = header.split_at_checked("Bearer ".len()) else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ")
            && bool::from(shown.trim_ascii().ct_eq(self.0.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_shown_whole_and_as_a_bearer_or_not_at_all() {
        let token = Token::of(b"  0123456789abcdef\n").unwrap();
        for header in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef "] {
            assert!(token.is_shown_by(header.as_bytes()), "{header}");
        }
        for header in [
            "",
            "Bearer",
            "Bearer ",
            "0123456789abcdef",
            "Basic 0123456789abcdef",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789ABCDEF",
        ] {
            assert!(!token.is_shown_by(header.as_bytes()), "{header}");
        }
        assert!(!format!("{token:?}").contains('0'));
    }

    #[test]
    fn one_that_is_made_is_found_again_and_only_its_user_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::draw().unwrap();
        token.write(&path).unwrap();
        assert!(token.write(&path).is_err(), "a token is never replaced");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Token::read(&path).unwrap().0, token.0);
        assert_ne!(Token::draw().unwrap().0, token.0);
    }

    #[test]
    fn a_file_that_is_no_secret_or_no_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let refused = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Token::read(&path).err().unwrap_or_default()
        };
        let good = "0123456789abcdef";
        assert_eq!(refused(good, 0o640), "");
        assert!(refused(good, 0o644).contains("chmod o= "));
        for text in ["", "short", &"long".repeat(257)] {
            assert!(refused(text, 0o600).contains("characters"), "{text}");
        }
        for text in ["two words of a token", "0123456789abcdéf0123", "012345678\09abcdef"] {
            assert!(refused(text, 0o600).contains("one word"), "{text}");
        }
        assert!(Token::read(folder.path()).unwrap_err().contains("no file"));
        assert!(Token::read(&folder.path().join("none")).is_err());
    }
}
