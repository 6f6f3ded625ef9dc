//! Options of `lab`.

use std::path::PathBuf;
use std::time::Duration;

use antiphon::core::ByteCount;
use antiphon::core::units::parse_duration;
use antiphon_experiments::{Capture, Changes, RealOptions};
use clap::{Args, Subcommand, ValueHint};

use super::{ClaimsArgs, ListArgs, ReportArgs};
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
    /// Run experiments, or continue those that were stopped
    Run(RunArgs),
    /// Check a scenario and show its plan, its numbers and their reasons
    Check(CheckArgs),
    /// List the experiments of the papers: which can run, what others need
    List(ListArgs),
    /// Say which of the papers' claims hold in the results
    Claims(ClaimsArgs),
    /// Write the results beside the printed ones, as HTML and CSV
    Report(ReportArgs),
    /// Run transports over a path that was recorded with --passport
    Replay(ReplayArgs),
}

/// Options of `lab run`.
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// What to run: scenario files (docs/laboratory.md tells how to write
    /// one), or papers and their experiments, PAPER or PAPER/EXPERIMENT
    #[arg(required = true, value_name = "TARGET", value_hint = ValueHint::FilePath)]
    pub targets: Vec<String>,
    /// Directory of the results, with one for each experiment in it
    #[arg(short = 'o', long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "antiphon-lab")]
    pub results: PathBuf,
    /// Runs at once; results don't depend on it [default: one for each core]
    #[arg(long, value_name = "N", value_parser = values::threads)]
    pub threads: Option<usize>,
    /// Do one run again and show its figures; nothing is kept
    #[arg(long, value_name = "N")]
    pub run: Option<u32>,
    /// Capture a link, switch, cell or ring of that run as pcapng, at all its
    /// nodes or at one: line=talk.pcapng, wlan@client=talk.pcapng
    #[arg(long, value_name = "MEDIUM[@NODE]=FILE", value_parser = values::capture, requires = "run")]
    pub capture: Vec<Capture>,
    /// Start again; existing runs are set aside
    #[arg(long, conflicts_with = "run")]
    pub fresh: bool,
    /// On this machine's sockets in real time, one run after the other: over
    /// loopback, or the live link emulator where the scenario has a link.
    /// What is only modelled (802.11, FDDI) is refused. Results go to 'real'
    /// in the experiment's directory
    #[arg(long, conflicts_with_all = ["threads", "capture"])]
    pub real: bool,
    /// How long each run on sockets sends at most; means --real [default: 60s,
    /// or the scenario's own where it is 'measured']
    #[arg(long, value_name = "TIME", value_parser = values::seconds, conflicts_with_all = ["threads", "capture"])]
    pub real_duration: Option<Duration>,
    #[command(flatten)]
    pub changes: ChangeArgs,
}

impl RunArgs {
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
    #[arg(required = true, value_name = "TARGET", value_hint = ValueHint::FilePath)]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub changes: ChangeArgs,
}

/// Options of `lab replay`.
#[derive(Args, Debug)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct ReplayArgs {
    /// Passport of a path, as compare, send and receive write it with
    /// --passport
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Transports, separated by commas [default: all]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = values::transport())]
    pub transports: Vec<String>,
    /// Transport whose recorded packets define the path [default: one
    /// that repairs nothing]
    #[arg(long, value_name = "TRANSPORT", value_parser = values::transport())]
    pub path: Option<String>,
    /// Seed of the transports' random numbers; the path is always the same
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// How long to stream; the path is repeated [default: as long as the
    /// recording]
    #[arg(short, long, value_name = "TIME", value_parser = values::seconds)]
    pub seconds: Option<Duration>,
    /// Size of a media packet, such as 200B [default: as recorded]
    #[arg(long, value_name = "SIZE", value_parser = values::packet)]
    pub packet: Option<ByteCount>,
    /// Time between packets, such as 5ms [default: as recorded]
    #[arg(long, value_name = "TIME", value_parser = values::seconds)]
    pub interval: Option<Duration>,
    /// Added to every delay, each way, where the recording knows only how
    /// delays differ
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0ms")]
    pub propagation: Duration,
    /// Playout delay of the listener, which repairs have to keep
    #[arg(long, value_name = "TIME", value_parser = values::seconds, default_value = "80ms")]
    pub latency: Duration,
    /// Let the sender give up packets that are older than the playout delay
    #[arg(long)]
    pub expire: bool,
    /// Return every packet and measure round trips
    #[arg(long)]
    pub reflected: bool,
}

/// Changes to the scenario.
#[derive(Args, Debug)]
#[command(next_help_heading = "Instead of what the scenario says")]
pub struct ChangeArgs {
    /// Runs at each point of the sweep
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repetitions: Option<u32>,
    /// Seed of everything random
    #[arg(long, value_name = "N")]
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
      is it right, and what would run?
  antiphon lab run my-experiment.toml
      run it; Ctrl-C stops it, the same command goes on";

const RUN_EXAMPLES: &str = "\
Examples:
  antiphon lab run my-experiment.toml
      every point of its sweep, on all cores; Ctrl-C stops it, and the same
      command goes on from there
  antiphon lab run my-experiment.toml --repetitions 30 --set loss=0%,5%
      more runs, at two points; runs that are there already are taken over
  antiphon lab run my-experiment.toml --run 17
      one run again, to the bit
  antiphon lab run my-experiment.toml --run 17 --capture line=17.pcapng
      and what passed its link, for Wireshark
  antiphon lab run my-experiment.toml --real --real-duration 20s
      the same on real sockets, three runs of 20 s at each point; reports
      show model and reality side by side

Files in antiphon-lab/my-experiment:
  results.csv    a line for each stream of each run, the same byte for byte
                 whatever the number of threads
  summary.csv    mean and 95 % confidence interval of each figure
  media.csv      what links, switches, cells and rings counted
  runs.jsonl     every run as it ended, with the command that replays it
  scenario.toml  what was run";

const REPLAY_EXAMPLES: &str = "\
Examples:
  antiphon compare studio.example --passport path.jsonl
      record what the path to a reflector does
  antiphon lab replay path.jsonl
      what would each transport have done? The same answer every time
  antiphon lab replay path.jsonl -t rtp,tcp --packet 200B --interval 5ms
      other packets over the same path";

const CHECK_EXAMPLES: &str = "\
Examples:
  antiphon lab check my-experiment.toml
  antiphon lab check my-experiment.toml --json
      every run with its seed, and every number with its reason";

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
