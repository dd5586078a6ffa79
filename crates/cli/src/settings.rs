//! What is set once for all commands: by an administrator in `/etc/tidefs.toml`, and by a user in
//! `~/.config/tidefs.toml`. A setting is the default of an option: what is given to a command, or stands in its
//! variable, comes before it, and the user's file before the administrator's.
//!
//! A file that is wrong stops those commands that it is for, and no other: what runs can always be stopped.

mod file;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches};

use crate::arguments::hint;
use crate::arguments::{Arguments, Command};
use crate::elasticity::Elasticity;
use crate::failure::Failure;
use file::Setting;
pub use file::Wrong;

/// Names one file to read in place of both; empty: none.
const NAMED_BY: &str = "TIDEFS_CONFIG";
const FOR_ALL: &str = "/etc/tidefs.toml";
const OWN: &str = "tidefs.toml";

/// Options of `run` and `up` that are refused where no node is started, beside those of growing and shrinking.
const OF_NODES: [&str; 3] = ["head-room", "server", "listen"];

/// The settings of all files, those that count last.
#[derive(Debug, Default)]
pub struct Settings {
    all: Vec<Setting>,
    wrong: Option<Wrong>,
}

impl Settings {
    pub fn read() -> Settings {
        let mut settings = Settings::default();
        for path in files(|name| std::env::var_os(name)) {
            match file::read(&path, &Arguments::command()) {
                Ok(found) => settings.all.extend(found),
                Err(wrong) => settings.wrong = settings.wrong.or(Some(wrong)),
            }
        }
        settings
    }

    /// Reads the command line with them; ends the process where it is no command, as `parse` does.
    pub fn parse(&mut self, words: &[OsString]) -> Result<Arguments, Wrong> {
        let parsed = match self.matched(words) {
            // What is missing may stand in the file.
            Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
                Err(self.wrong.take().map_or(error, |wrong| wrong.as_usage()))
            }
            parsed => parsed,
        };
        let arguments = parsed.unwrap_or_else(|error| {
            hint::added(hint::without_variables(error, words, self.command()), words).exit()
        });
        match self.wrong.take_if(|_| arguments.command.takes_settings()) {
            Some(wrong) => Err(wrong),
            None => Ok(arguments),
        }
    }

    fn matched(&mut self, words: &[OsString]) -> Result<Arguments, clap::Error> {
        let mut matches = self.command().try_get_matches_from(words)?;
        if self.leave_out_what_wants_nodes(&matches) {
            matches = self.command().try_get_matches_from(words)?;
        }
        let (name, given) = matches.subcommand().unwrap_or(("", &matches));
        let counts = |it: &Setting| {
            given.try_contains_id(&it.id).is_ok()
                && given.value_source(&it.id) == Some(ValueSource::DefaultValue)
        };
        self.all.retain(|it| it.is_for(name) && counts(it));
        Arguments::from_arg_matches_mut(&mut matches)
    }

    fn command(&self) -> clap::Command {
        let command = with_signs(Arguments::command());
        self.all.iter().fold(command, |command, setting| setting.put_into(command))
    }

    /// Without nodes, what is set of them does not matter; whether there are any may be set as well.
    fn leave_out_what_wants_nodes(&mut self, matches: &ArgMatches) -> bool {
        let Some(("run" | "up", given)) = matches.subcommand() else { return false };
        if ["nodes", "hosts", "host_commands"].iter().any(|it| given.contains_id(it)) {
            return false;
        }
        let before = self.all.len();
        let elasticity = Elasticity::augment_args(clap::Command::new("growing and shrinking"));
        let grows = |it: &Setting| elasticity.get_arguments().any(|arg| *arg.get_id() == it.id);
        let is_of_start = |it: &Setting| it.is_for("run") || it.is_for("up");
        self.all.retain(|it| !is_of_start(it) || !grows(it) && !OF_NODES.contains(&it.key()));
        self.all.len() < before
    }

    /// Leaves out a setting that was refused because it would change nothing: only what was given to the
    /// command itself is given for a reason. `false` where no setting was refused.
    pub fn give_up(&mut self, error: &anyhow::Error) -> bool {
        let Some(Failure::WithoutEffect(refused)) = error.downcast_ref() else { return false };
        let option = refused.option.split(' ').next().unwrap_or_default();
        let before = self.all.len();
        self.all.retain(|it| format!("--{}", it.key()) != option);
        self.all.len() < before
    }

    /// What was read, for whoever wonders why a command does what it does; `None` where nothing was.
    pub fn said(&self) -> Result<Option<String>, String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.to_string());
        }
        let said: Vec<_> = self.all.iter().map(ToString::to_string).collect();
        Ok((!said.is_empty()).then(|| said.join(", ")))
    }
}

/// With `-5MiB` taken for a wrong size, of which is said what a right one is, and not for an option that there is not.
fn with_signs(command: clap::Command) -> clap::Command {
    let signed = |arg: clap::Arg| {
        let names = arg.get_value_names().unwrap_or_default();
        let is_number = names.iter().any(|name| OF_NUMBERS.contains(&name.as_str()));
        if is_number && !arg.is_positional() { arg.allow_hyphen_values(true) } else { arg }
    };
    command.mut_subcommands(move |command| with_signs(command.mut_args(signed)))
}

/// What values are called that are numbers, with a unit or without.
const OF_NUMBERS: [&str; 4] = ["SIZE", "SECONDS", "N", "N | MIN..MAX"];

impl Command {
    fn takes_settings(&self) -> bool {
        matches!(self, Command::Run(_) | Command::Up(_) | Command::Lend(_))
    }
}

fn files(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some(named) = variable(NAMED_BY) {
        return if named.is_empty() { Vec::new() } else { vec![named.into()] };
    }
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let own = variable("XDG_CONFIG_HOME").and_then(absolute);
    let own = own.or_else(|| Some(variable("HOME").and_then(absolute)?.join(".config")));
    let own = own.map(|folder| folder.join(OWN));
    let files = [PathBuf::from(FOR_ALL)].into_iter().chain(own);
    files.filter(|path| path.symlink_metadata().is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn settings(text: &str) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidefs.toml");
        fs::write(&path, text).unwrap();
        Settings { all: file::read(&path, &Arguments::command()).unwrap(), wrong: None }
    }

    fn run(settings: &mut Settings, words: &str) -> crate::arguments::Run {
        let words = ["tidefs", "run"].into_iter().chain(words.split_whitespace());
        let words: Vec<_> = words.chain(["--", "true"]).map(OsString::from).collect();
        match settings.matched(&words).unwrap().command {
            Command::Run(run) => run,
            other => panic!("{other:?} is not run"),
        }
    }

    const TEXT: &str = "[storage]\nnode-memory = \"1GiB\"\nhead-room = \"16MiB\"\nmount = '/fast'\n\
        policy = 'nso+asi'\nquiet-period = 7\n[run]\nquiet = true\n[lend]\nidle = 5\n";

    #[test]
    fn settings_are_defaults_that_options_come_before() {
        let said = run(&mut settings(TEXT), "--nodes 1..3 --node-memory 64MiB");
        assert_eq!(said.storage.node_memory, Some(tidefs_model::ByteSize::mib(64)));
        assert_eq!(said.storage.head_room, Some(tidefs_model::ByteSize::mib(16)));
        assert_eq!(said.storage.mount, PathBuf::from("/fast"));
        assert_eq!(said.storage.elasticity.quiet_period.unwrap().as_secs(), 7);
        assert!(said.quiet);
    }

    #[test]
    fn what_is_set_of_nodes_does_not_matter_without_any() {
        let said = run(&mut settings(TEXT), "");
        assert_eq!((said.storage.head_room, said.storage.elasticity.policy), (None, None));
        assert_eq!(said.storage.mount, PathBuf::from("/fast"));
        let said = run(&mut settings("[storage]\nnodes = '2..4'\nhead-room = '9MiB'\n"), "");
        assert_eq!(said.storage.nodes.unwrap().max, 4);
        assert!(said.storage.head_room.is_some());
    }

    #[test]
    fn what_is_set_and_has_no_effect_is_given_up_but_what_is_given_is_not() {
        let refused = |option: &str| {
            let option = option.to_owned();
            let (beside, advice) = (String::new(), String::new());
            let why = crate::without_effect::WithoutEffect { option, beside, advice };
            anyhow::Error::from(Failure::WithoutEffect(why))
        };
        let mut set = settings(TEXT);
        run(&mut set, "--nodes 3 --quiet-period 9");
        assert!(!set.give_up(&refused("--quiet-period")), "it was given");
        assert!(set.give_up(&refused("--policy nso+asi")));
        assert_eq!(run(&mut set, "--nodes 3").storage.elasticity.policy, None);
        assert!(!set.give_up(&refused("--policy nso+asi")), "it is gone already");
    }

    #[test]
    fn numbers_below_zero_are_refused_with_what_would_be_right() {
        for (words, right) in [
            ("run --nodes 2 --node-memory -5MiB -- true", "such as 256MiB"),
            ("run --nodes 2 --head-room -1 -- true", "such as 256MiB"),
            ("run --nodes -2 -- true", "--nodes <N | MIN..MAX>"),
            ("run --nodes 1..3 --quiet-period -7s -- true", "--quiet-period <SECONDS>"),
            ("lend --memory -1GiB --join 10.0.0.1:7400 --secret-file s", "such as 256MiB"),
            ("plan bench --servers -3", "--servers <N>"),
            ("top --times -1", "whole number"),
        ] {
            let words: Vec<_> =
                ["tidefs"].into_iter().chain(words.split(' ')).map(OsString::from).collect();
            let said = Settings::default().matched(&words).unwrap_err().to_string();
            assert!(said.contains("invalid value '-"), "{said}");
            assert!(said.contains(right), "no {right} in {said}");
        }
    }

    #[test]
    fn a_missing_option_may_be_set() {
        let mut set = settings("[lend]\njoin = '10.0.0.1:7400'\nsecret-file = '/s'\nidle = 5\n");
        let words = ["tidefs", "lend", "--memory", "1GiB"].map(OsString::from);
        let Command::Lend(lend) = set.matched(&words).unwrap().command else { panic!("lend") };
        assert_eq!((lend.idle.as_secs(), lend.secret_file), (5, PathBuf::from("/s")));
    }

    #[test]
    fn the_users_file_counts_after_the_administrators() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join(OWN);
        fs::write(&own, "").unwrap();
        let at = |name: &'static str| {
            let value = folder.path().as_os_str().to_owned();
            files(move |asked| (asked == name).then(|| value.clone())).pop()
        };
        assert_eq!(at("XDG_CONFIG_HOME"), Some(own));
        assert_eq!(at(NAMED_BY), Some(folder.path().to_owned()));
        let none = files(|asked| (asked == NAMED_BY).then(OsString::new));
        assert!(none.is_empty());
        let mut both = settings("[storage]\nmount = '/one'\n");
        both.all.extend(settings("[run]\nmount = '/other'\n").all);
        assert_eq!(run(&mut both, "").storage.mount, PathBuf::from("/other"));
    }
}
