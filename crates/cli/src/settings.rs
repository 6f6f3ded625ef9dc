//! Merges flags, environment and configuration file into one set of arguments: flags win over `ANTIPHON_*` variables,
//! these over the file. Keys of the file and names of the variables are derived from the table of options, so that none
//! is missing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use antiphon::Error;
use antiphon::core::{did_you_mean, nearest};
use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, CommandFactory, FromArgMatches};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::args::{Cli, Color};

/// One setting of the file.
#[derive(Debug)]
struct Setting {
    /// Command that it applies to; `None`: all commands that have the option.
    command: Option<String>,
    key: String,
    value: String,
    line: usize,
}

/// Reads everything. Help and version are returned as errors, too, as in clap.
pub fn parse(arguments: Vec<OsString>) -> Result<Cli, Failure> {
    let arguments: Vec<OsString> = arguments.into_iter().map(crate::values::shield).collect();
    let arguments = help_on_topics(arguments);
    let mut command = command();
    let (config, color) = glance(&command, &arguments);
    command = command.color(color);
    let settings = match &config {
        Some(path) => read(path, &command)?,
        None => Vec::new(),
    };
    for setting in &settings {
        command = apply(command, setting);
    }
    let matches = command.try_get_matches_from_mut(arguments).and_then(|m| Cli::from_arg_matches(&m));
    matches.map_err(|error| Failure::Clap { origin: origin(&error, &settings, config.as_deref()), error })
}

/// Why there are no arguments.
#[derive(Debug)]
pub enum Failure {
    /// Help, version, or clap's refusal; `origin` is the place of the refused value, if not on the command line.
    Clap {
        /// Clap's error.
        error: clap::Error,
        /// File and line.
        origin: Option<String>,
    },
    /// The configuration file.
    Config(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Config(error)
    }
}

/// `help transports` is no help on a command but a command of its own, with its own options.
fn help_on_topics(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_option = |word: &OsString| word.to_string_lossy().starts_with('-');
    let topic = arguments.windows(2).skip(1).position(|pair| pair == ["help", "transports"]).map(|at| at + 1);
    // Before it only options of the program itself, and their values.
    let is_first =
        |at: usize| (1..at).all(|word| is_option(&arguments[word]) || is_option(&arguments[word - 1]));
    if let Some(at) = topic.filter(|at| is_first(*at)) {
        arguments.remove(at);
    }
    arguments
}

/// The table of commands, with the environment variable of every option.
pub fn command() -> clap::Command {
    let named = |arg: clap::Arg| {
        let Some(long) = arg.get_long().filter(|long| !NOT_SETTINGS.contains(long)) else { return arg };
        let variable = variable(long);
        let arg = arg.env(variable).hide_env(true);
        // As a flag it takes no value, but as a variable it does: yes, on, 1, true.
        match arg.get_action() {
            ArgAction::SetTrue => arg.value_parser(BoolishValueParser::new()),
            _ => arg,
        }
    };
    everywhere(Cli::command(), &named)
}

/// Applies `change` to every option of a command and of its subcommands.
fn everywhere(command: clap::Command, change: &dyn Fn(clap::Arg) -> clap::Arg) -> clap::Command {
    command.mut_args(change).mut_subcommands(|sub| everywhere(sub, change))
}

/// Options that cannot be settings.
const NOT_SETTINGS: [&str; 5] = ["help", "version", "list", "run", "fresh"];

/// `--link-method` is `ANTIPHON_LINK_METHOD`.
fn variable(long: &str) -> String {
    format!("ANTIPHON_{}", long.replace('-', "_").to_ascii_uppercase())
}

/// Variables with our prefix that set nothing, each with the most similar valid name.
pub fn unknown_variables() -> Vec<String> {
    let known: Vec<String> = keys(&command(), None).iter().map(|key| variable(key)).collect();
    let ours = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let unknown = ours.filter(|name| name.starts_with("ANTIPHON_") && !known.contains(name));
    let mut told: Vec<String> = unknown
        .map(|name| {
            let near = nearest(&name, known.iter().map(String::as_str));
            format!("the environment variable {name} is unknown{}", did_you_mean(near))
        })
        .collect();
    told.sort();
    told
}

/// Reads the options that must be known before everything else can be read.
fn glance(command: &clap::Command, arguments: &[OsString]) -> (Option<PathBuf>, clap::ColorChoice) {
    let matches = command.clone().ignore_errors(true).try_get_matches_from(arguments);
    let (mut config, mut color) = (None, None);
    let mut level = matches.as_ref().ok();
    // A global option appears at the level at which it was written.
    while let Some(matches) = level {
        let here = matches.try_get_one::<PathBuf>("config").ok().flatten();
        config = here.cloned().or(config);
        let here = matches.try_get_one::<Color>("color").ok().flatten();
        color = here.copied().filter(|color| *color != Color::Auto).or(color);
        level = matches.subcommand().map(|(_, sub)| sub);
    }
    let color = match color {
        Some(Color::Always) => clap::ColorChoice::Always,
        Some(Color::Never) => clap::ColorChoice::Never,
        Some(Color::Auto) | None => clap::ColorChoice::Auto,
    };
    (config, color)
}

/// Every option of the command called `only`, or of all, as a key of the file.
fn keys(command: &clap::Command, only: Option<&str>) -> Vec<String> {
    let longs =
        |c: &clap::Command| c.get_arguments().filter_map(|arg| Some(arg.get_long()?.to_string())).collect();
    let mut keys: Vec<String> = longs(command);
    for sub in command.get_subcommands().filter(|sub| only.is_none_or(|name| sub.get_name() == name)) {
        keys.extend::<Vec<String>>(longs(sub));
        sub.get_subcommands().for_each(|inner| keys.extend(longs(inner)));
    }
    keys.retain(|key| !NOT_SETTINGS.contains(&key.as_str()) && key != "config");
    keys.sort();
    keys.dedup();
    keys
}

/// More than any sensible set of options takes.
const MAX_FILE: u64 = 256 * 1024;

fn read(path: &Path, command: &clap::Command) -> Result<Vec<Setting>, Error> {
    use std::io::Read;
    let name = path.display();
    let unreadable = |error: std::io::Error| Error::usage(format!("--config {name}: {error}"));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE {
        return Err(Error::usage(format!(
            "--config {name}: larger than {MAX_FILE} bytes, so it is not a settings file"
        )));
    }
    interpret(&text, command).map_err(|(line, why)| Error::usage(format!("{name}, line {line}: {why}")))
}

/// The settings in a text; errors have their line.
fn interpret(text: &str, command: &clap::Command) -> Result<Vec<Setting>, (usize, String)> {
    let at = |offset: usize| text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
    let table = DeTable::parse(text)
        .map_err(|error| (error.span().map_or(1, |span| at(span.start)), error.message().to_string()))?;
    let mut settings = Vec::new();
    collect(table.get_ref(), None, command, &at, &mut settings)?;
    // Settings for one command come after, and so override, those for all.
    settings.sort_by_key(|setting| setting.command.is_some());
    Ok(settings)
}

/// Reads the settings of one table; errors have their line.
fn collect(
    table: &DeTable<'_>,
    section: Option<&str>,
    command: &clap::Command,
    line_of: &dyn Fn(usize) -> usize,
    settings: &mut Vec<Setting>,
) -> Result<(), (usize, String)> {
    let known = keys(command, section);
    for (key, value) in table {
        let line = line_of(key.span().start);
        let name: &str = key.get_ref();
        if let (None, DeValue::Table(inner)) = (section, value.get_ref()) {
            let commands: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
            if !commands.contains(&name) {
                let near = nearest(name, commands);
                return Err((line, format!("unknown command '{name}'{}", did_you_mean(near))));
            }
            collect(inner, Some(name), command, line_of, settings)?;
            continue;
        }
        let key = name.replace('_', "-");
        if !known.contains(&key) {
            let near = nearest(&key, known.iter().map(String::as_str));
            return Err((line, format!("unknown key '{name}'{}", did_you_mean(near))));
        }
        let value = plain(value).map_err(|why| (line, format!("{name}: {why}")))?;
        settings.push(Setting { command: section.map(Into::into), key, value, line });
    }
    Ok(())
}

/// As it would be typed; lists are joined by commas.
fn plain(value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.to_string()),
        DeValue::Float(number) => Ok(number.to_string()),
        DeValue::Boolean(yes) => Ok(yes.to_string()),
        DeValue::Array(items) => Ok(items.iter().map(plain).collect::<Result<Vec<_>, _>>()?.join(",")),
        DeValue::Datetime(_) | DeValue::Table(_) => Err("write a string, such as \"80ms\"".into()),
    }
}

/// Makes a setting the option's default, which clap reads last.
fn apply(command: clap::Command, setting: &Setting) -> clap::Command {
    let set = |arg: clap::Arg| match arg.get_long() {
        Some(long) if long == setting.key => arg.default_value(setting.value.clone()),
        _ => arg,
    };
    let concerned = |name: &str| setting.command.as_deref().is_none_or(|only| only == name);
    let command = if setting.command.is_none() { command.mut_args(set) } else { command };
    command.mut_subcommands(|sub| if concerned(sub.get_name()) { everywhere(sub, &set) } else { sub })
}

/// Place of a refused value, if it came from the file.
fn origin(error: &clap::Error, settings: &[Setting], path: Option<&Path>) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (arg, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let long = arg.strip_prefix("--")?.split([' ', '=']).next()?;
    let found = |setting: &&Setting| {
        setting.key == long && setting.value.split(',').chain([&*setting.value]).any(|v| v == value)
    };
    let setting = settings.iter().rev().find(found)?;
    Some(format!("{}, line {}", path?.display(), setting.line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Command;
    use clap::Parser;
    use proptest::prelude::*;

    #[test]
    fn the_table_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_text_that_is_not_toml_is_refused_with_its_line() {
        for (text, line, word) in [
            ("\n\nlink = [", 3, ""),
            ("seed = 1\nlnik = 'dsl'", 2, "'link'"),
            ("[compare]\nseed = 2\nlatncy = '1ms'", 3, "'latency'"),
            ("[compre]\nseed = 2", 1, "'compare'"),
            ("[send]\nlink = 'dsl'", 2, "unknown key 'link'"),
            ("seed = 2026-01-01", 1, "seed"),
            ("list = true", 1, "list"),
        ] {
            let (at, why) = interpret(text, &command()).unwrap_err();
            assert!(at == line && why.contains(word), "{text}: {at}: {why}");
        }
    }

    /// The arguments of a command line without environment and file.
    fn parsed(arguments: &[&str]) -> crate::args::Command {
        Cli::try_parse_from(std::iter::once(&"antiphon").chain(arguments)).unwrap().command
    }

    #[test]
    fn without_options_the_defaults_are_those_of_the_library() {
        let Command::Compare(args) = parsed(&["compare"]) else { panic!("compare") };
        let library = antiphon::CompareOptions { command: "it".into(), ..Default::default() };
        assert_eq!(format!("{:?}", args.options("it".into()).unwrap()), format!("{library:?}"));
        let Command::Send(args) = parsed(&["send", "clip:demo", "rtp://h:1"]) else { panic!("send") };
        let library = antiphon::SendOptions { target: "rtp://h:1".into(), ..Default::default() };
        assert_eq!(format!("{:?}", args.options(1).unwrap()), format!("{library:?}"));
        let Command::Receive(args) = parsed(&["receive", "rtp://:7710", "null:"]) else { panic!("receive") };
        let library = antiphon::ReceiveOptions { sink: "null:".into(), ..Default::default() };
        assert_eq!(format!("{:?}", args.options(1).unwrap()), format!("{library:?}"));
        let Command::Reflect(args) = parsed(&["reflect"]) else { panic!("reflect") };
        assert_eq!(format!("{:?}", args.options()), format!("{:?}", antiphon::ReflectOptions::default()));
    }

    #[test]
    fn every_option_reaches_the_library() {
        let given = "compare -l dsl -t tcp -s 3s --seed 9 --link-method proxy -i tone:1kHz -c 1 -r 44.1kHz -b 64 -f l24 \
                     --latency 20ms --conceal silence --no-expire --protect repeat:3,spacing=4ms -o none \
                     --capture x.pcapng --passport x.passport --busy-poll --dscp cs5 --priority 2 --send-timeout 5ms \
                     --peer-patience 6s --receive-buffer 2kB --send-buffer 3kB --kernel-poll 50us --congestion cubic \
                     --fragment --ttl 4 --iface lo";
        let given: Vec<&str> = given.split(' ').collect();
        let Command::Compare(args) = parsed(&given) else { panic!("compare") };
        let made = format!("{:?}", args.options("it".into()).unwrap());
        let default =
            format!("{:?}", antiphon::CompareOptions { command: "it".into(), ..Default::default() });
        // Field by field (names are those of the structs), every value is another than the default.
        let fields = |text: &str| text.split(", ").map(String::from).collect::<Vec<_>>();
        let kept: Vec<String> =
            fields(&made).into_iter().filter(|field| fields(&default).contains(field)).collect();
        let of_links = [
            "duplicate",
            "corrupt",
            "reorder",
            "stall",
            "rate: Some(BitRate",
            "burst",
            "peer:",
            "queue",
            "loss",
        ];
        let unexpected: Vec<&String> =
            kept.iter().filter(|field| !of_links.iter().any(|name| field.contains(name))).collect();
        // Other addresses of a peer are in its URI (`peers=`), as is the one source of a group (`source=`); `compare` has
        // none of them, and hears only its own run. Whether a group has members with addresses of their own follows from the
        // transport, and only a call joins a group that it sends to (`joins`). The one in use (`current`) is known to a running stream
        // that measures again, which has no time for the part of the hosts (`hosts_part`). Films are files that must be there, and have
        // tests of their own (`video`). Segmented sends are chosen by what sends, not by a person (`segments`).
        let known = [
            "command",
            "current: None",
            "hosts_part: true",
            "other_peers",
            "members: false",
            "joins: false",
            "source: None",
            "segments: false",
            "video: []",
            "video_rate: None",
            "allow: AllowList",
            "denied",
        ];
        assert!(
            unexpected.iter().all(|field| known.iter().any(|name| field.contains(name))),
            "{unexpected:?}\n{made}"
        );
    }

    proptest! {
        #[test]
        fn no_file_panics(text in "([a-z]{1,8}|[\\[\\]='\"{}.,\n# é0-9-]){0,40}") {
            let _ = interpret(&text, &command());
        }
    }
}
