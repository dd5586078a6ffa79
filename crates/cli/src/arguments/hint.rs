//! What is said to those who leave `--` out before the command that is to run.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// The commands of which a command of the user's is a part.
const RUNNING_ANOTHER: [&str; 2] = ["run", "exec"];

/// The same error, with the words as they were meant where a command stands for an option.
pub fn added(mut error: Error, words: &[OsString]) -> Error {
    let Some(meant) = meant(&error, words) else { return error };
    let tip = format!("the command comes after `--`: {meant}");
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// The same error with the usage of the command as its help has it: what a variable says is taken for given there, and would
/// look as if it had to be.
pub fn without_variables(mut error: Error, words: &[OsString], mut all: Command) -> Error {
    let is_given = |word: &OsString| word.to_string_lossy().starts_with("--state");
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    if words.iter().any(is_given) || !usage.is_some_and(|usage| usage.contains("--state")) {
        return error;
    }
    all.build();
    let mut command = &mut all;
    for word in words.iter().skip(1).map(|word| word.to_string_lossy()) {
        // Options of all commands may stand before the command.
        if command.find_subcommand(word.as_ref()).is_some() {
            command = command.find_subcommand_mut(word.as_ref()).expect("it was just found");
        } else if !word.starts_with('-') {
            break;
        }
    }
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.render_usage()));
    error
}

fn meant(error: &Error, words: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let began = words.iter().position(|word| RUNNING_ANOTHER.contains(&&**word))?;
    let command = began + 1 + words[began + 1..].iter().position(|word| word == unknown)?;
    let is_meant = error.kind() == ErrorKind::UnknownArgument
        && !unknown.starts_with('-')
        && !words[..command].iter().any(|word| word == "--");
    let options = words[began..command].join(" ");
    is_meant.then(|| format!("tidefs {options} -- {}", words[command..].join(" ")))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::arguments::Arguments;

    fn said(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        added(Arguments::try_parse_from(&words).unwrap_err(), &words).to_string()
    }

    #[test]
    fn who_leaves_the_dashes_out_is_shown_where_they_belong() {
        let said_of_run = said(&["tidefs", "run", "--nodes", "2", "ls", "-l"]);
        assert!(said_of_run.contains("tidefs run --nodes 2 -- ls -l"), "{said_of_run}");
        let said_of_exec = said(&["tidefs", "exec", "--all", "ls"]);
        assert!(said_of_exec.contains("tidefs exec --all -- ls"), "{said_of_exec}");
    }

    #[test]
    fn a_directory_that_a_variable_names_is_no_part_of_the_usage() {
        // One that everybody has.
        let with_state = Arguments::command().mut_arg("state", |arg| arg.env("PATH"));
        let said = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let error = with_state.clone().try_get_matches_from(&words).unwrap_err();
            without_variables(error, &words, with_state.clone()).to_string()
        };
        let of_drain = said(&["tidefs", "-v", "drain"]);
        assert!(of_drain.contains("Usage: tidefs drain [OPTIONS] <NODE>"), "{of_drain}");
        let given = said(&["tidefs", "drain", "--state", "/there"]);
        assert!(given.contains("--state <DIR>"), "{given}");
    }

    #[test]
    fn other_mistakes_are_told_as_before() {
        for words in [&["tidefs", "run", "--nods", "2"][..], &["tidefs", "down", "run"]] {
            assert!(!said(words).contains("the command comes after"), "{words:?}");
        }
    }
}
