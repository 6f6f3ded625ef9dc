//! Options of `link`.

use std::net::SocketAddr;
use std::time::Duration;

use antiphon::core::units::parse_duration;
use antiphon::link::DuplexSpec;
use antiphon::net::Network;
use clap::{ArgGroup, Args};

use crate::completions;
use crate::values;

/// How to emulate a link.
#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
    override_usage = USAGE,
    group = ArgGroup::new("between").args(["listen", "from_netns", "list"]).required(true)
)]
pub struct LinkArgs {
    /// The link: a preset, keys, or a preset with keys that change it, such as
    /// wifi-home,loss=5%,up.rate=2Mbit/s
    #[arg(value_name = "SPEC", value_parser = completions::completed(values::link, completions::presets), hide_possible_values = true, default_value = "ideal", hide_default_value = true)]
    pub spec: String,

    /// List presets and keys, with the reason for every number
    #[arg(long, help_heading = "Where")]
    pub list: bool,
    /// Proxy: address that programs send to
    #[arg(long, value_name = "[HOST]:PORT", value_parser = values::listen, requires = "to", help_heading = "Where")]
    pub listen: Option<SocketAddr>,
    /// Proxy: address that their datagrams are forwarded to
    #[arg(long, value_name = "HOST:PORT", value_parser = values::call, requires = "listen", help_heading = "Where")]
    pub to: Option<SocketAddr>,
    /// Proxy: carry TCP connections instead of datagrams
    #[arg(long, requires = "listen", help_heading = "Where")]
    pub tcp: bool,
    /// Router (as root): network namespace at the near end of the link, by
    /// name (ip netns), process id or path
    #[arg(
        long,
        value_name = "NETNS",
        requires = "to_netns",
        conflicts_with = "listen",
        help_heading = "Where"
    )]
    pub from_netns: Option<String>,
    /// Router: network namespace at the far end of the link
    #[arg(
        long,
        value_name = "NETNS",
        requires = "from_netns",
        conflicts_with = "listen",
        help_heading = "Where"
    )]
    pub to_netns: Option<String>,

    /// Random seed: the same seed makes the same losses at the same time
    #[arg(long, value_name = "N", value_parser = values::seed, allow_negative_numbers = true, default_value = "1", help_heading = "Run")]
    pub seed: u64,
    /// Stop after this time [default: at Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = values::seconds, help_heading = "Run")]
    pub seconds: Option<Duration>,
    /// Most clients at the same time; others are refused and counted
    #[arg(long, value_name = "N", value_parser = values::peers, default_value = "64", help_heading = "Run")]
    pub max_flows: usize,
    /// Forget a client that has sent nothing for this long
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s", help_heading = "Run")]
    pub idle: Duration,
    /// Proxy: only take packets and connections from this address or network,
    /// such as 192.0.2.0/24; can be repeated [default: from everyone]
    #[arg(long, value_name = "CIDR", value_delimiter = ',', requires = "listen", help_heading = "Where")]
    pub allow: Vec<Network>,
    /// Ask for real-time scheduling
    #[arg(long, help_heading = "Run")]
    pub real_time: bool,

    #[command(flatten)]
    pub changes: Changes,
}

/// Changes to both directions of SPEC.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Changes to SPEC, in both directions")]
pub struct Changes {
    /// Sending rate, such as 20Mbit/s, or none for no limit
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// Queue limit, such as 100kB or 50packets
    #[arg(long, value_name = "LIMIT")]
    pub queue: Option<String>,
    /// One-way propagation delay, such as 10ms
    #[arg(long, value_name = "TIME")]
    pub delay: Option<String>,
    /// Mean extra delay without reordering, such as 2ms/pareto
    #[arg(long, value_name = "TIME")]
    pub jitter: Option<String>,
    /// Interruptions: 40ms/4s is 40 ms every 4 s on average
    #[arg(long, value_name = "TIMES")]
    pub stall: Option<String>,
    /// Packet loss, such as 5%, 1%/15ms in fades of 15 ms, or 5%/before-queue
    #[arg(long, value_name = "SHARE")]
    pub loss: Option<String>,
    /// Packets delayed so that others overtake them, such as 1%/5ms
    #[arg(long, value_name = "SHARE")]
    pub reorder: Option<String>,
    /// Packets that arrive twice, such as 0.1%
    #[arg(long, value_name = "SHARE")]
    pub duplicate: Option<String>,
    /// Packets with one bit inverted, such as 0.1%
    #[arg(long, value_name = "SHARE")]
    pub corrupt: Option<String>,
}

impl LinkArgs {
    /// The link with its changes.
    pub fn spec(&self) -> Result<DuplexSpec, antiphon::Error> {
        if let (Some(listen), Some(to)) = (self.listen, self.to)
            && is_same(listen, to)
        {
            return Err(antiphon::Error::usage(format!(
                "--listen {listen} --to {to}: that is the same place, and would forward to itself; give --to the \
                 address of the program behind the link"
            )));
        }
        Ok(self.changes.apply(&self.spec).parse()?)
    }
}

/// Whether datagrams to `to` come back to a socket at `listen`. Port 0 means one that the system chooses.
fn is_same(listen: SocketAddr, to: SocketAddr) -> bool {
    let here = listen.ip() == to.ip() || listen.ip().is_unspecified() && to.ip().is_loopback();
    here && listen.port() == to.port() && to.port() != 0
}

impl Changes {
    fn pairs(&self) -> [(&'static str, &Option<String>); 9] {
        [
            ("rate", &self.rate),
            ("queue", &self.queue),
            ("delay", &self.delay),
            ("jitter", &self.jitter),
            ("stall", &self.stall),
            ("loss", &self.loss),
            ("reorder", &self.reorder),
            ("duplicate", &self.duplicate),
            ("corrupt", &self.corrupt),
        ]
    }

    /// `spec` without its own values of changed keys, followed by the changes.
    fn apply(&self, spec: &str) -> String {
        let given = || self.pairs().into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        let changed = |word: &str| {
            let key = word.split('=').next().unwrap_or(word).trim();
            let bare = key.strip_prefix("up.").or(key.strip_prefix("down.")).unwrap_or(key);
            word.contains('=') && given().any(|(name, _)| name == bare)
        };
        let kept = spec.split(',').filter(|word| !changed(word)).map(String::from);
        kept.chain(given().map(|(key, value)| format!("{key}={value}"))).collect::<Vec<_>>().join(",")
    }
}

const USAGE: &str = "\
antiphon link [SPEC] --listen [HOST]:PORT --to HOST:PORT [OPTIONS]
       antiphon link [SPEC] --from-netns NETNS --to-netns NETNS [OPTIONS]
       antiphon link --list";

const EXAMPLES: &str = "\
Examples:
  antiphon link --list
      the presets and their settings
  antiphon link wifi-busy --listen :7711 --to studio.local:7710
      then: antiphon send file:song.flac rtp://localhost:7711
  antiphon link --loss 5% --delay 30ms --listen :7711 --to 127.0.0.1:7710
      only 5 % loss and 30 ms each way
  antiphon link dsl --tcp --listen :8080 --to 127.0.0.1:80
      rate, queue and delay for TCP connections; a TCP proxy can't model loss
  antiphon link lte --from-netns a --to-netns b --seed 7
      as root, between two namespaces: all IP traffic";

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(spec: &str, changes: Changes) -> String {
        changes.apply(spec).parse::<DuplexSpec>().unwrap().to_string()
    }

    #[test]
    fn changes_replace_what_the_spec_says_in_both_directions() {
        let loss = || Changes { loss: Some("5%".into()), ..Changes::default() };
        assert_eq!(applied("ideal", loss()), "loss=5%");
        assert_eq!(applied("delay=10ms,loss=1%/3", loss()), "delay=10ms,loss=5%");
        assert_eq!(applied("up.loss=1%,down.loss=2%,delay=10ms", loss()), "delay=10ms,loss=5%");
        let none = Changes { loss: Some("none".into()), ..Changes::default() };
        assert!(!applied("wifi-home", none).contains("loss"));
        assert_eq!(applied("wifi-home", Changes::default()), "wifi-home");
    }

    #[test]
    fn every_key_of_a_link_can_be_changed() {
        let names = Changes::default().pairs().map(|(key, _)| key);
        assert_eq!(names, antiphon::link::KEYS.map(|(key, ..)| key));
    }
}
