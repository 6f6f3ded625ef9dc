//! Options of `lab`.

use std::path::PathBuf;
use std::time::Duration;

use antiphon::core::ByteCount;
use antiphon::core::units::parse_duration;
use antiphon_experiments::{Capture, Changes, RealOptions, Which};
use clap::{Args, Subcommand, ValueHint};

use super::papers::{CLAIMS_EXAMPLES, LIST_EXAMPLES};
use super::{PaperArgs, ReportArgs};
use crate::completions;
use crate::values::{self, Setting};
use antiphon::quoted;

/// Commands of the laboratory.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

/// Commands of the laboratory.
#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// Run experiments, or continue interrupted ones
    Run(RunArgs),
    /// Check a scenario; show its plan, its numbers and their reasons
    Check(CheckArgs),
    /// List the experiments of the papers, and whether they can run
    #[command(after_help = LIST_EXAMPLES)]
    List(PaperArgs),
    /// Check the papers' claims against the results
    #[command(after_help = CLAIMS_EXAMPLES)]
    Claims(PaperArgs),
    /// Compare the results with the published ones, as HTML and CSV
    Report(ReportArgs),
    /// Run transports over a path recorded with --passport
    Replay(ReplayArgs),
}

/// Options of `lab run`.
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// What to run: scenario files (docs/laboratory.md explains them), or
    /// papers and their experiments, PAPER or PAPER/EXPERIMENT
    #[arg(required = true, value_name = "TARGET", value_parser = completions::completed(values::uri, completions::experiments), hide_possible_values = true, value_hint = ValueHint::FilePath)]
    pub targets: Vec<String>,
    /// Directory for the results; each experiment has its own below it
    #[arg(short = 'o', long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "antiphon-lab")]
    pub results: PathBuf,
    /// Of a paper, only the experiments that it describes: without those of our
    /// own about it
    #[arg(long)]
    pub published: bool,
    /// Parallel runs; results don't depend on it [default: one per core]
    #[arg(long, value_name = "N", value_parser = values::threads)]
    pub threads: Option<usize>,
    /// Repeat one run and show its figures; nothing is saved
    #[arg(long, value_name = "N", value_parser = values::run, allow_negative_numbers = true)]
    pub run: Option<u32>,
    /// With --run: capture a link, switch, cell or ring as pcapng, at all its
    /// nodes or at one: line=talk.pcapng, wlan@client=talk.pcapng
    #[arg(long, value_name = "MEDIUM[@NODE]=FILE", value_parser = values::capture, requires = "run")]
    pub capture: Vec<Capture>,
    /// Start over; existing results are moved aside
    #[arg(long, conflicts_with = "run")]
    pub fresh: bool,
    /// Use this machine's sockets, in real time, one run after the other: over
    /// loopback, or over the link emulator if the scenario has a link. 802.11
    /// and FDDI exist as models only. Results go to 'real' in the experiment's
    /// directory
    #[arg(long, conflicts_with_all = ["threads", "capture"])]
    pub real: bool,
    /// Longest run on sockets; implies --real [default: 60s, or the scenario's
    /// duration if it is 'measured']
    #[arg(long, value_name = "TIME", value_parser = values::seconds, conflicts_with_all = ["threads", "capture"])]
    pub real_duration: Option<Duration>,
    #[command(flatten)]
    pub changes: ChangeArgs,
}

impl RunArgs {
    /// Which experiments of papers are meant.
    pub fn which(&self) -> Which {
        which(self.published)
    }

    /// Runs on sockets, if they are asked for.
    pub fn real(&self) -> Option<RealOptions> {
        let duration = self.real_duration;
        (self.real || duration.is_some()).then_some(RealOptions { duration, link_method: None })
    }
}

/// Options of `lab check`.
#[derive(Args, Debug)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArgs {
    /// What to check: scenario files, or papers and their experiments
    #[arg(required = true, value_name = "TARGET", value_parser = completions::completed(values::uri, completions::experiments), hide_possible_values = true, value_hint = ValueHint::FilePath)]
    pub targets: Vec<String>,
    /// Of a paper, only the experiments that it describes
    #[arg(long)]
    pub published: bool,
    #[command(flatten)]
    pub changes: ChangeArgs,
}

impl CheckArgs {
    /// Which experiments of papers are meant.
    pub fn which(&self) -> Which {
        which(self.published)
    }
}

fn which(published: bool) -> Which {
    if published { Which::Published } else { Which::All }
}

/// Options of `lab replay`.
#[derive(Args, Debug)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct ReplayArgs {
    /// Recording of a path, made by compare, send or receive with --passport
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Transports, separated by commas [default: all]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = completions::transport())]
    pub transports: Vec<String>,
    /// Transport whose recorded packets define the path [default: one without
    /// retransmission]
    #[arg(long, value_name = "TRANSPORT", value_parser = completions::transport())]
    pub path: Option<String>,
    /// Seed of the transports; the path is always the same
    #[arg(long, value_name = "N", value_parser = values::seed, allow_negative_numbers = true, default_value = "1")]
    pub seed: u64,
    /// How long to stream; a shorter recording is repeated [default: the length
    /// of the recording]
    #[arg(short, long, value_name = "TIME", value_parser = values::seconds)]
    pub seconds: Option<Duration>,
    /// Size of a media packet, such as 200B [default: as recorded]
    #[arg(long, value_name = "SIZE", value_parser = values::packet)]
    pub packet: Option<ByteCount>,
    /// Time between packets, such as 5ms [default: as recorded]
    #[arg(long, value_name = "TIME", value_parser = values::seconds)]
    pub interval: Option<Duration>,
    /// Added to every one-way delay, for recordings that have only the
    /// differences of delays
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0ms")]
    pub propagation: Duration,
    /// Playout delay of the listener: the deadline of retransmissions
    #[arg(long, value_name = "TIME", value_parser = values::seconds, default_value = "80ms")]
    pub latency: Duration,
    /// Let packets expire that are older than the playout delay
    #[arg(long)]
    pub expire: bool,
    /// Return every packet and measure round trips
    #[arg(long)]
    pub reflected: bool,
}

/// Changes to the scenario.
#[derive(Args, Debug)]
#[command(next_help_heading = "Changes to the scenario")]
pub struct ChangeArgs {
    /// Runs at each point of the sweep
    #[arg(long, value_name = "N", value_parser = values::repetitions, allow_negative_numbers = true)]
    pub repetitions: Option<u32>,
    /// Seed of everything random
    #[arg(long, value_name = "N", value_parser = values::seed, allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Values of a variable of the sweep, separated by commas
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::setting)]
    pub set: Vec<Setting>,
}

impl ChangeArgs {
    /// Converts to the facade's options.
    pub fn changes(&self) -> Changes {
        Changes {
            repetitions: self.repetitions,
            seed: self.seed,
            set: self.set.iter().map(|set| (set.name.clone(), set.values.clone())).collect(),
        }
    }

    /// The same as arguments of a command line, each with a space in front; empty if nothing is changed.
    pub fn words(&self) -> String {
        let number = |name: &str, value: Option<u64>| {
            // A value that was not changed needs no argument.
            value.map(|value| format!(" --{name} {value}")).unwrap_or_default()
        };
        let mut words = number("repetitions", self.repetitions.map(u64::from)) + &number("seed", self.seed);
        for set in &self.set {
            words += &format!(" --set {}", quoted(&format!("{}={}", set.name, set.values.join(","))));
        }
        words
    }
}

const EXAMPLES: &str = "\
Examples:
  antiphon lab check my-experiment.toml
      check it and show what would run
  antiphon lab run my-experiment.toml
      run it; after Ctrl-C, the same command continues";

const RUN_EXAMPLES: &str = "\
Examples:
  antiphon lab run my-experiment.toml
      every point of its sweep, on all cores; after Ctrl-C, the same command
      continues
  antiphon lab run my-experiment.toml --repetitions 30 --set loss=0%,5%
      more runs, at two points; existing runs are kept
  antiphon lab run srp --published
      what the paper did; without --published also what we asked about it
  antiphon lab run my-experiment.toml --run 17
      repeat one run bit for bit
  antiphon lab run my-experiment.toml --run 17 --capture line=17.pcapng
      the same, with a capture of its link for Wireshark
  antiphon lab run my-experiment.toml --real --real-duration 20s
      the same on real sockets, three runs of 20 s at each point; reports
      compare model and reality

Files in antiphon-lab/my-experiment:
  results.csv    a line for each stream of each run; does not depend on the
                 number of threads
  summary.csv    mean and 95 % confidence interval of each figure
  media.csv      counters of links, switches, cells and rings
  runs.jsonl     every finished run, with the command that repeats it
  scenario.toml  the scenario that was run";

const REPLAY_EXAMPLES: &str = "\
Examples:
  antiphon compare studio.example --passport path.jsonl
      record the path to a reflector
  antiphon lab replay path.jsonl
      how each transport would have done; the same result every time
  antiphon lab replay path.jsonl -t rtp,tcp --packet 200B --interval 5ms
      other packets over the same path";

const CHECK_EXAMPLES: &str = "\
Examples:
  antiphon lab check my-experiment.toml
  antiphon lab check my-experiment.toml --json
      every run with its seed, every number with its reason";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_as_the_words_that_made_them() {
        let set = |text| values::setting(text).unwrap();
        let args =
            ChangeArgs { repetitions: Some(3), seed: Some(7), set: vec![set("a=1%,2%"), set("b=x y")] };
        assert_eq!(args.words(), " --repetitions 3 --seed 7 --set a=1%,2% --set 'b=x y'");
        assert_eq!(args.changes().set[0], ("a".into(), vec!["1%".into(), "2%".into()]));
    }
}
