//! Options of `reflect`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use antiphon::ReflectOptions;
use clap::{Args, ValueHint};

use super::SocketArgs;
use crate::values;

/// How to reflect.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ReflectArgs {
    /// Address to listen on; transports take this port and some after it
    #[arg(short, long, value_name = "[HOST]:PORT", value_parser = values::listen, default_value = ":7710")]
    pub listen: SocketAddr,
    /// Transports, separated by commas [default: all]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = values::transport_with_keys())]
    pub transports: Vec<String>,
    /// Peers at once, per transport; those that proved nothing yet have
    /// half of these places, 8 at least
    #[arg(long, value_name = "N", value_parser = values::peers, default_value = "64")]
    pub max_peers: usize,
    /// Stop after this time [default: at Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = values::seconds)]
    pub seconds: Option<Duration>,
    /// Write what crosses the wire, for Wireshark, and beside it what is
    /// inside: SCTP and DCCP out of UDP, and the RTP in any transport
    #[arg(long, value_name = "FILE.pcapng", value_hint = ValueHint::FilePath)]
    pub capture: Option<PathBuf>,
    #[command(flatten)]
    pub socket: SocketArgs,
}

impl ReflectArgs {
    /// Converts to the facade's options.
    pub fn options(&self) -> ReflectOptions {
        ReflectOptions {
            listen: self.listen,
            transports: self.transports.clone(),
            max_peers: self.max_peers,
            length: self.seconds,
            capture: self.capture.clone(),
            socket: self.socket.options(),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  antiphon reflect
      for all callers, until Ctrl-C; on the other computer then:
      antiphon compare THIS-HOST
  antiphon reflect --listen 192.0.2.7:9000 --seconds 10min
      on one address and another port, for ten minutes
  antiphon reflect --transports rtp --max-peers 4 --json
      one transport, four peers, a JSON line every second
  antiphon reflect --transports tcp,sctp --capture peers.pcapng
      with all that its peers send and get back in a capture";
