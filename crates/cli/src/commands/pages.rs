//! `tidefs pages`: the manual pages and the shells' completions, as packages install them.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::{Shell, generate_to};

use crate::arguments::{Arguments, Pages};

/// Where each shell looks, below the directory that packages share data in.
const COMPLETIONS: [(Shell, &str, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "tidefs.bash", "tidefs"),
    (Shell::Zsh, "zsh/vendor-completions", "_tidefs", "_tidefs"),
    (Shell::Fish, "fish/vendor_completions.d", "tidefs.fish", "tidefs.fish"),
];

pub fn pages(options: &Pages) -> anyhow::Result<()> {
    let made = |path: &Path| {
        fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
    };
    let unwritten = |path: &Path| format!("cannot write to {}", path.display());
    let manual = options.directory.join("man/man1");
    made(&manual)?;
    clap_mangen::generate_to(visible(Arguments::command()), &manual)
        .with_context(|| unwritten(&manual))?;
    for (shell, folder, generated, name) in COMPLETIONS {
        let folder = options.directory.join(folder);
        made(&folder)?;
        generate_to(shell, &mut visible(Arguments::command()), "tidefs", &folder)
            .and_then(|_| fs::rename(folder.join(generated), folder.join(name)))
            .with_context(|| unwritten(&folder))?;
    }
    Ok(())
}

/// Without what only `tidefs` itself asks for.
fn visible(command: clap::Command) -> clap::Command {
    let shown: Vec<_> = command.get_subcommands().filter(|it| !it.is_hide_set()).cloned().collect();
    let about = command.get_long_about().or(command.get_about()).cloned().unwrap_or_default();
    let after = command.get_after_help().cloned().unwrap_or_default();
    let options: Vec<_> = command.get_arguments().cloned().collect();
    clap::Command::new("tidefs")
        .version(crate::version::line())
        .about(about)
        .after_help(after)
        .args(options)
        .subcommands(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_every_shell_its_words() {
        let folder = tempfile::tempdir().unwrap();
        pages(&Pages { directory: folder.path().to_owned() }).unwrap();
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
        for command in Arguments::command().get_subcommands() {
            let page = folder.path().join(format!("man/man1/tidefs-{}.1", command.get_name()));
            assert_eq!(page.exists(), !command.is_hide_set(), "{}", page.display());
        }
        assert!(text("man/man1/tidefs-run.1").contains("node\\-memory"));
        for (_, folder, _, name) in COMPLETIONS {
            let words = text(&format!("{folder}/{name}"));
            assert!(words.contains("node-memory") && !words.contains("holder"), "{name}");
        }
    }
}
