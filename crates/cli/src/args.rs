//! The one table of commands and options. Parser, help, manual, completions, configuration file and environment
//! variables are all read from it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

mod compare;
mod doctor;
mod lab;
mod link;
mod metrics;
mod papers;
mod peers;
mod receive;
mod reflect;
mod send;
mod socket;
mod stream;
mod talk;
mod voice;

pub use compare::CompareArgs;
pub use doctor::DoctorArgs;
pub use lab::{CheckArgs, LabArgs, LabCommand, ReplayArgs, RunArgs};
pub use link::LinkArgs;
pub use metrics::MetricsArgs;
pub use papers::{PaperArgs, ReportArgs};
pub use peers::PeersArgs;
pub use receive::ReceiveArgs;
pub use reflect::ReflectArgs;
pub use send::SendArgs;
pub use socket::{ListenSocketArgs, SocketArgs, WaitArgs};
pub use talk::TalkArgs;
pub use voice::{VoiceArgs, VoiceReceiveArgs, VoiceSendArgs};

use crate::values;

/// Live audio over many transports: measured, compared, streamed
#[derive(Debug, Parser)]
#[command(
    name = "antiphon",
    version,
    max_term_width = WIDTH,
    propagate_version = true,
    disable_help_subcommand = false,
    after_help = AFTER_HELP
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// The width of help texts, whatever the terminal's.
pub const WIDTH: usize = 80;

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare transports on a link and recommend one for each purpose
    Compare(Box<CompareArgs>),
    /// Stream a source to a peer
    Send(Box<SendArgs>),
    /// Receive a stream and play or record it
    Receive(Box<ReceiveArgs>),
    /// Talk with a peer: send and receive at once
    Talk(Box<TalkArgs>),
    /// Return packets to their senders: the far end of compare
    Reflect(ReflectArgs),
    /// Emulate a link between programs, with loss, delay and queues
    Link(Box<LinkArgs>),
    /// Run experiments in virtual time over modelled networks
    Lab(LabArgs),
    /// List audio sources and sinks
    #[command(after_help = DEVICES_EXAMPLES)]
    Devices,
    /// Find streams that are announced in the network
    Peers(PeersArgs),
    /// Check this machine for live audio and say what to change
    Doctor(DoctorArgs),
    /// What each transport offers: what `help transports` means
    #[command(hide = true)]
    Transports,
    /// Write the manual pages
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// Directory to write antiphon.1, antiphon-compare.1 … to
        #[arg(value_hint = ValueHint::DirPath)]
        directory: PathBuf,
    },
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Options of every command.
#[derive(Args, Debug)]
#[command(next_help_heading = "General")]
pub struct Global {
    /// Print results as JSON, one object per line
    #[arg(long, global = true)]
    pub json: bool,
    /// Read settings from a TOML file; options and environment override it
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Stop after this time, with exit code 124
    #[arg(long, global = true, value_name = "TIME", value_parser = values::seconds)]
    pub time_limit: Option<Duration>,
    /// Colour in tables and messages
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value = "auto")]
    pub color: Color,
    /// Print more: notes on scheduling, sockets and the link
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Print results and errors only
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// When to use colour. In `auto`, `NO_COLOR` and a standard output that is no terminal switch it off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[allow(
    missing_docs,
    reason = "documentation would turn the short list of values in every help into a long one"
)]
pub enum Color {
    Auto,
    Always,
    Never,
}

macro_rules! exit_codes {
    () => {
        "\
Exit codes:
    0  done
    1  failed while running
    2  usage: an invalid command, option, file or address
    3  a --require was not met
    4  the peer is unreachable or refuses
    5  authentication failed (reserved)
  124  stopped by --time-limit
  130  interrupted by Ctrl-C or a signal; results so far are printed"
    };
}

/// The exit codes, for help and manual.
pub const EXIT_CODES: &str = exit_codes!();

const AFTER_HELP: &str = concat!(
    "\
Examples:
  antiphon compare                     which transport suits a home WLAN
  antiphon reflect                     on the other computer, then here:
  antiphon compare studio.local        which transport suits this path
  antiphon receive rtp://:7710 file:take.wav
  antiphon send file:song.flac rtp://192.0.2.7:7710
  antiphon talk studio.local           both ways at once
  antiphon help compare                all options of a command
  antiphon help transports             what each transport offers

",
    exit_codes!(),
    "

Every option can also be set in a TOML file (--config FILE: link = \"dsl\", or
below [compare] for one command) and in the environment (ANTIPHON_LINK=dsl).
Options override the environment, and the environment overrides the file.
Quantities need a unit: 80ms, 15s, 48kHz, 20Mbit/s, 1.8%."
);

const DEVICES_EXAMPLES: &str = "\
Examples:
  antiphon devices               the list, with example URIs
  antiphon devices --json        the same as JSON
  antiphon compare --source tone:sweep";

const MAN_EXAMPLES: &str = "\
Examples:
  antiphon man ~/.local/share/man/man1
  man antiphon-compare";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  antiphon completions bash > ~/.local/share/bash-completion/completions/antiphon
  antiphon completions zsh > ~/.zfunc/_antiphon
  antiphon completions fish > ~/.config/fish/completions/antiphon.fish";
