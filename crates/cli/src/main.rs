//! `antiphon`, the command line: reads arguments, calls the facade crate, displays the results.
//!
//! ```text
//! args (the table) ─ settings (flags, environment, file) ─ one module per command ─ antiphon ─ output
//! ```
//!
//! No streaming logic here. Results go to standard output, messages to standard error; exit codes are in [`exit`].

mod args;
mod compare;
mod completions;
mod devices;
mod doctor;
mod exit;
mod grid;
mod keys;
mod lab;
mod link;
mod manual;
mod monitor;
mod output;
mod peers;
mod programmes;
mod progress;
mod reflect;
mod screen;
mod settings;
mod signals;
mod status_line;
mod stream;
mod table;
mod talk;
mod transports;
mod values;
mod voice;

use std::process::ExitCode;

use antiphon::Error;

use args::{Cli, Command};
use output::Output;
use settings::Failure;

fn main() -> ExitCode {
    let cli = match settings::parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(failure) => return ExitCode::from(refuse(&failure)),
    };
    let mut output = Output::new(&cli.global);
    for told in settings::unknown_variables() {
        output.talk(&format!("note: {told}"));
    }
    let code = run(&cli, &mut output).unwrap_or_else(|error| {
        output.error(&format!("error: {error}"));
        error.exit_code()
    });
    ExitCode::from(output.code(code))
}

fn run(cli: &Cli, output: &mut Output) -> Result<u8, Error> {
    match &cli.command {
        Command::Compare(args) => compare::run(args, &cli.global, output),
        Command::Send(args) => stream::send_run(args, &cli.global, output),
        Command::Receive(args) => stream::receive_run(args, &cli.global, output),
        Command::Talk(args) => talk::run(args, &cli.global, output),
        Command::Reflect(args) => reflect::run(args, &cli.global, output),
        Command::Link(args) => link::run(args, &cli.global, output),
        Command::Lab(args) => lab::lab(args, &cli.global, output),
        Command::Peers(args) => peers::run(args, &cli.global, output),
        Command::Doctor(args) => doctor::run(args, &cli.global, output),
        Command::Devices => Ok(devices::run(output)),
        Command::Transports => Ok(transports::run(output)),
        Command::Man { directory } => manual::write(directory, output),
        Command::Completions { shell } => Ok(manual::completions(*shell, output)),
    }
}

/// Prints why nothing runs; help and version are not failures.
fn refuse(failure: &Failure) -> u8 {
    match failure {
        Failure::Clap { error, origin } => {
            // If standard error is closed, nothing can be printed.
            let _ = error.print();
            if let Some(origin) = origin {
                eprintln!("\nThe value is set in {origin}.");
            }
            if error.use_stderr() { exit::USAGE } else { exit::DONE }
        }
        Failure::Config(error) => {
            eprintln!("error: {error}");
            error.exit_code()
        }
    }
}
