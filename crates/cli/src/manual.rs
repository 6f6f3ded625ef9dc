//! Manual pages and shell completions, from the table that parses the arguments.

use std::io::Write;
use std::path::Path;

use antiphon::Error;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::EXIT_CODES;
use crate::exit;
use crate::output::Output;
use crate::settings;

/// Prints the completions of a shell; returns the exit code.
pub fn completions(shell: Shell, output: &mut Output) -> u8 {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut settings::command(), "antiphon", &mut text);
    output.result(&String::from_utf8_lossy(&text));
    exit::DONE
}

/// Writes `antiphon.1` and a page for each command; returns the exit code.
pub fn write(directory: &Path, output: &mut Output) -> Result<u8, Error> {
    let failed = |error: std::io::Error| {
        Error::failed(format!(
            "cannot write to {}: {error}; choose a writable directory",
            directory.display()
        ))
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let mut command = settings::command();
    command.build();
    let mut commands = Vec::new();
    collect(&command, "antiphon", &mut commands);
    let (names, commands): (Vec<String>, Vec<clap::Command>) = commands.into_iter().unzip();
    let main = command.clone().disable_help_subcommand(true);
    let pages = std::iter::once(("antiphon".to_string(), main)).chain(names.iter().cloned().zip(commands));
    for (name, command) in pages {
        let others = std::iter::once("antiphon")
            .chain(names.iter().map(String::as_str))
            .filter(|other| *other != name);
        let page = page(&name, command, others).map_err(failed)?;
        let path = directory.join(format!("{name}.1"));
        std::fs::write(&path, page).map_err(failed)?;
        output.detail(&format!("wrote {}", path.display()));
    }
    Ok(exit::DONE)
}

/// All commands below one, with the names of their pages.
fn collect(command: &clap::Command, name: &str, commands: &mut Vec<(String, clap::Command)>) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
        let name = format!("{name}-{}", sub.get_name());
        commands.push((name.clone(), sub.clone()));
        collect(sub, &name, commands);
    }
}

fn page<'a>(
    name: &str,
    command: clap::Command,
    others: impl Iterator<Item = &'a str>,
) -> std::io::Result<Vec<u8>> {
    // "Examples" and the other text after the options in help; exit codes have a section of their own.
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let command = command.name(name.to_string()).bin_name(name.replace('-', " "));
    let has_commands = command.get_subcommands().next().is_some();
    let man = Man::new(command).manual("Antiphon").title(name.to_ascii_uppercase());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    let examples = examples.replace(EXIT_CODES, "");
    section("EXAMPLES", &examples, &mut page)?;
    section("EXIT STATUS", EXIT_CODES.trim_start_matches("Exit codes:\n"), &mut page)?;
    section("ENVIRONMENT", ENVIRONMENT, &mut page)?;
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    for other in others {
        roff.text([bold(other), roman("(1)")]);
    }
    roff.to_writer(&mut page)?;
    page.flush()?;
    Ok(page)
}

/// Unformatted text, line by line.
fn section(title: &str, text: &str, page: &mut Vec<u8>) -> std::io::Result<()> {
    let text = text.trim_start_matches("Examples:\n").trim_end();
    if text.is_empty() {
        return Ok(());
    }
    let mut roff = Roff::new();
    roff.control("SH", [title]).control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff.to_writer(page)
}

const ENVIRONMENT: &str = "\
ANTIPHON_OPTION   sets --option: ANTIPHON_LINK=dsl, ANTIPHON_BUSY_POLL=yes.
                  Options override it; it overrides --config.
NO_COLOR          no colour unless --color always
COLUMNS           width of tables if standard output is not a terminal";
