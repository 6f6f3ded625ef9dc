//! Options of `reflect`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use antiphon::ReflectOptions;
use clap::{Args, ValueHint};

use super::{ListenSocketArgs, MetricsArgs};
use crate::completions;
use crate::values;

/// How to reflect.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ReflectArgs {
    /// Address to listen on; some transports use the ports after it
    #[arg(short, long, value_name = "[HOST]:PORT", value_parser = values::listen, default_value = ":7710")]
    pub listen: SocketAddr,
    /// Transports, separated by commas; each can have settings [default: all]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = completions::transport_with_keys())]
    pub transports: Vec<String>,
    /// Most peers at the same time, per transport; peers whose address is not
    /// yet validated get at most half of these places, but at least 8
    #[arg(long, value_name = "N", value_parser = values::peers, default_value = "64")]
    pub max_peers: usize,
    /// Tell the network by mDNS, under this name: 'antiphon peers' shows it
    #[arg(long, value_name = "NAME", value_parser = values::session_name)]
    pub announce: Option<String>,
    /// Stop after this time [default: at Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = values::seconds)]
    pub seconds: Option<Duration>,
    /// Capture the packets at this end as pcapng for Wireshark, with their
    /// content: SCTP and DCCP without UDP, and the RTP of any transport
    #[arg(long, value_name = "FILE.pcapng", value_parser = values::new_file, value_hint = ValueHint::FilePath)]
    pub capture: Option<PathBuf>,
    #[command(flatten)]
    pub socket: ListenSocketArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

impl ReflectArgs {
    /// Converts to the facade's options.
    pub fn options(&self) -> ReflectOptions {
        ReflectOptions {
            listen: self.listen,
            transports: self.transports.clone(),
            max_peers: self.max_peers,
            announce: self.announce.clone(),
            length: self.seconds,
            capture: self.capture.clone(),
            socket: self.socket.options(),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  antiphon reflect
      serve all peers until Ctrl-C; then run on the other computer:
      antiphon compare THIS-HOST
  antiphon reflect --listen 192.0.2.7:9000 --seconds 10min
      on one address and another port, for ten minutes
  antiphon reflect --transports rtp --max-peers 4 --json
      one transport, at most four peers, a JSON line every second
  antiphon reflect --transports tcp,sctp --capture peers.pcapng
      and capture everything that peers send and get back";
