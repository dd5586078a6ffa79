//! One file of settings: a table for each command that takes them, `[storage]` for what `run` and `up` have in
//! common. A key is an option without its dashes, and whatever the option takes is its value.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::judged_file;

/// The tables, and the commands that each is for.
const TABLES: [(&str, &[&str]); 4] =
    [("storage", &["run", "up"]), ("run", &["run"]), ("up", &["up"]), ("lend", &["lend"])];

/// The default of one option.
#[derive(Clone, Debug)]
pub struct Setting {
    commands: &'static [&'static str],
    /// Of the argument, which tells it from the others of its command.
    pub id: String,
    key: String,
    /// They live as long as the definition of the command line, of which they become a part.
    values: Vec<&'static str>,
    file: PathBuf,
}

/// `--node-memory 4GiB (/etc/tidefs.toml)`
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{} {} ({})", self.key, self.values.join(" "), self.file.display())
    }
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    #[error("cannot read the settings in {}: {cause}; make it readable, or remove it", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error(
        "the settings in {} could be others' than yours or root's; make it yours and no one else's to write: \
         chown {user} {} && chmod go-w {}", path.display(), path.display(), path.display()
    )]
    Foreign { path: PathBuf, user: u32 },
    #[error("{}, line {line}: {why}", path.display())]
    Line { path: PathBuf, line: usize, why: String },
}

impl Wrong {
    pub fn as_usage(&self) -> clap::Error {
        clap::Error::raw(clap::error::ErrorKind::InvalidValue, format!("{self}\n"))
    }
}

impl Setting {
    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn is_for(&self, command: &str) -> bool {
        self.commands.contains(&command)
    }

    pub fn put_into(&self, command: Command) -> Command {
        self.commands.iter().fold(command, |command, name| {
            command.mut_subcommand(name, |it| {
                it.mut_arg(&self.id, |arg| {
                    // Their texts name defaults of their own; flags have none to hide.
                    let has_value = arg.get_action().takes_values();
                    arg.default_values(self.values.iter().copied())
                        .hide_default_value(has_value)
                        .required(false)
                })
            })
        })
    }
}

/// Why a file is not parsed.
enum Refusal {
    Foreign,
    Unreadable(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(cause: io::Error) -> Refusal {
        Refusal::Unreadable(cause)
    }
}

/// What the file sets of the options of `program`.
pub fn read(path: &Path, program: &Command) -> Result<Vec<Setting>, Wrong> {
    let unreadable = |cause| Wrong::Unreadable { path: path.to_owned(), cause };
    let user = rustix::process::geteuid().as_raw();
    // It names the program that nodes run.
    let is_believed =
        |found: &Metadata| [user, 0].contains(&found.uid()) && found.mode() & 0o022 == 0;
    let read = judged_file::read(path, |found| match is_believed(found) {
        true => Ok(()),
        false => Err(Refusal::Foreign),
    });
    let bytes = read.map_err(|refusal| match refusal {
        Refusal::Foreign => Wrong::Foreign { path: path.to_owned(), user },
        Refusal::Unreadable(cause) => unreadable(cause),
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|error| unreadable(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    parse(&text, path, program).map_err(|(at, why)| {
        let line = text[..at.start.min(text.len())].matches('\n').count() + 1;
        Wrong::Line { path: path.to_owned(), line, why }
    })
}

type Refused = (Range<usize>, String);

fn parse(text: &str, file: &Path, program: &Command) -> Result<Vec<Setting>, Refused> {
    let tables = DeTable::parse(text).map_err(|error| {
        let why = format!("{}; settings look like node-memory = \"4GiB\"", error.message());
        (error.span().unwrap_or_default(), why)
    })?;
    let mut settings = Vec::new();
    // In the order of `TABLES`, so that what is for one command counts after what is for two.
    for (name, table) in tables.get_ref() {
        let known = TABLES.iter().any(|(known, _)| name.get_ref() == known);
        if !known || !table.get_ref().is_table() {
            return Err((name.span(), no_table(name.get_ref(), table.get_ref())));
        }
    }
    for (name, commands) in TABLES {
        let Some(table) = tables.get_ref().get(name).and_then(|it| it.get_ref().as_table()) else {
            continue;
        };
        for (key, value) in table {
            settings.push(setting(commands, key, value, file, program)?);
        }
    }
    Ok(settings)
}

fn no_table(name: &str, value: &DeValue<'_>) -> String {
    let known: Vec<_> = TABLES.iter().map(|(name, _)| format!("[{name}]")).collect();
    let known = known.join(", ");
    match value {
        DeValue::Table(_) => format!("there are no settings of [{name}]; the tables are {known}"),
        _ => format!("{name} stands in no table; put it below one of {known}"),
    }
}

fn setting(
    commands: &'static [&'static str],
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    file: &Path,
    program: &Command,
) -> Result<Setting, Refused> {
    let name = key.get_ref().as_ref();
    let mut id = String::new();
    let values = words(value.get_ref()).ok_or_else(|| {
        let kind = value.get_ref().type_str();
        (value.span(), format!("{name} is a {kind}; give what --{name} takes, in quotes"))
    })?;
    for command in commands {
        let options = options(program, command);
        let arg = options.get_arguments().find(|arg| arg.get_long() == Some(name));
        let tried = try_it(&options, arg, name, &values);
        tried.map_err(|why| (key.span(), format!("{why}; see: tidefs {command} --help")))?;
        id = arg.map(|arg| arg.get_id().to_string()).unwrap_or_default();
    }
    let values = values.into_iter().map(|value| &*value.leak()).collect();
    Ok(Setting { commands, id, key: name.to_owned(), values, file: file.to_owned() })
}

/// As a command line has them.
fn words(value: &DeValue<'_>) -> Option<Vec<String>> {
    let word = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(is_on) => Some(is_on.to_string()),
        _ => None,
    };
    match value {
        DeValue::Array(values) => values.iter().map(|value| word(value.get_ref())).collect(),
        value => word(value).map(|word| vec![word]),
    }
}

/// A command that can be given one option alone.
fn options(program: &Command, command: &str) -> Command {
    let command = program.find_subcommand(command).expect("a command of TABLES").clone();
    command.no_binary_name(true).disable_help_flag(true).mut_args(|arg| arg.required(false))
}

fn try_it(
    options: &Command,
    arg: Option<&Arg>,
    name: &str,
    values: &[String],
) -> Result<(), String> {
    let is_flag = arg.is_some_and(|arg| matches!(arg.get_action(), ArgAction::SetTrue));
    if is_flag {
        let is_bool = matches!(values, [one] if one == "true" || one == "false");
        return if is_bool { Ok(()) } else { Err(format!("{name} is true or false")) };
    }
    let tried = values.iter().map(|value| format!("--{name}={value}"));
    match options.clone().try_get_matches_from(tried) {
        Ok(_) => Ok(()),
        Err(error) => Err(in_one_line(&error.to_string())),
    }
}

/// What a refusal says, without the usage that follows it.
fn in_one_line(refusal: &str) -> String {
    let lines = refusal.lines().map(str::trim);
    let said = lines.take_while(|line| !line.starts_with("Usage") && !line.starts_with("For more"));
    let said: Vec<_> = said.filter(|line| !line.is_empty()).collect();
    said.join("; ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Arguments;

    fn refused(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.toml");
        fs::write(&path, text).unwrap();
        let error = read(&path, &Arguments::command()).expect_err(text).to_string();
        error.replace(&path.display().to_string(), "FILE")
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_what_to_do() {
        for (text, line, parts) in [
            ("[storage]\nnode-memory = 4GiB\n", 2, &["node-memory = \"4GiB\""][..]),
            ("[storage]\n\nnode-memory = 'lots'\n", 3, &["lots", "tidefs run --help"]),
            ("[storage]\nnode-memry = '1GiB'\n", 2, &["--node-memry", "--node-memory"]),
            ("# a line\nnodes = 4\n", 2, &["no table", "[storage]"]),
            ("[storge]\nnodes = 4\n", 1, &["[storge]", "[storage]"]),
            ("[storage]\nreport = '/r'\n", 2, &["--report", "tidefs up --help"]),
            ("[run]\nquiet = 'very'\n", 2, &["true or false"]),
            ("[run]\nmount = { at = '/m' }\n", 2, &["mount", "in quotes"]),
            ("[run]\nmount = ['/m', '/n']\n", 2, &["cannot be used multiple times"]),
            ("[run]\nmount = '/m'\nmount = '/n'\n", 3, &["duplicate"]),
            ("[lend]\nidle = 0\n", 2, &["while it is still wanted back", "lend --help"]),
        ] {
            let said = refused(text);
            for part in parts.iter().copied().chain([format!("FILE, line {line}: ").as_str()]) {
                assert!(said.contains(part), "no {part} in {said}, of {text}");
            }
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }

    #[test]
    fn a_file_that_others_may_write_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.toml");
        fs::write(&path, "").unwrap();
        assert!(read(&path, &Arguments::command()).unwrap().is_empty());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let error = read(&path, &Arguments::command()).unwrap_err().to_string();
        assert!(error.contains("chmod go-w"), "{error}");
    }
}
