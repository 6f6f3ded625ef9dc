//! Options of `peers`.

use std::time::Duration;

use clap::Args;

use crate::values;

/// How long to listen.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PeersArgs {
    /// Listen for so long: programs answer within a second, streams to groups
    /// are announced every 5 to 30 s
    #[arg(short, long, value_name = "TIME", value_parser = values::seconds, default_value = "10s")]
    pub seconds: Duration,
    /// Network interface, by name or address
    #[arg(long, value_name = "NAME")]
    pub iface: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  antiphon peers                 programs and streams that were started with
                                 --announce, those of AES67 devices, PulseAudio
                                 and PipeWire
  antiphon peers -s 2s           programs alone
  antiphon peers -s 1m --json    for a minute, as JSON";
