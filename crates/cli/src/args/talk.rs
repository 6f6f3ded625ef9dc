//! Options of `talk`.

use antiphon::media::conceal::Concealment;
use antiphon::{Error, Latency, MuteSwitch, ReceiveOptions, SendOptions, TalkOptions};
use clap::{Args, ValueHint};

use super::stream::{CaptureArgs, PaceArgs, PacketArgs, PictureArgs, SoundArgs, stream_options};
use super::{ListenSocketArgs, MetricsArgs, WaitArgs};
use crate::completions;
use crate::values;

/// How to talk.
#[derive(Args, Debug)]
#[command(after_help = TALK_EXAMPLES)]
pub struct TalkArgs {
    /// Whom to call: HOST, rtp://HOST:PORT, srp://HOST …; or where to wait for
    /// a call: rtp://:PORT, tcp://:PORT …; or a group, in which three and more
    /// hear one another: rtp://239.1.2.3:PORT
    #[arg(value_parser = completions::completed(values::uri, completions::schemes), hide_possible_values = true, value_hint = ValueHint::Url, default_value = "rtp://:7710")]
    pub peer: String,
    /// What to send: jack:, file:song.flac, tone:440Hz, - … [default: a sound
    /// device]
    #[arg(long, value_name = "URI", value_parser = completions::completed(values::uri, completions::sources), hide_possible_values = true, value_hint = ValueHint::Other)]
    pub source: Option<String>,
    /// Where to play or record the peer: jack:, file:peer.wav, - …; player: and
    /// NAME.mkv with its pictures, of a group each party by itself (NAME-1.mkv …)
    /// [default: a sound device]
    #[arg(long, value_name = "URI", value_parser = completions::completed(values::uri, completions::sinks), hide_possible_values = true, value_hint = ValueHint::Other)]
    pub sink: Option<String>,
    /// Hear the peer over a transport of its own, which it sends to: rtp://:PORT,
    /// tcp://:PORT …; then PEER is where the other end's --back listens
    #[arg(long, value_name = "URI", value_parser = completions::completed(values::uri, completions::schemes), hide_possible_values = true, value_hint = ValueHint::Url, conflicts_with = "monitor")]
    pub back: Option<String>,
    /// Begin muted; on a terminal, the key m mutes and unmutes
    #[arg(long)]
    pub mute: bool,
    /// Show levels, delays, losses and what happens on the whole terminal; ? lists
    /// the keys
    #[arg(long)]
    pub screen: bool,
    /// Play your own sound beside the peer's, as late as the peer hears it
    #[arg(long)]
    pub monitor: bool,

    /// Playout delay of the peer's sound; packets that arrive later are late.
    /// auto: adapts to the path: auto,min=5ms,max=50ms [default: auto; 80ms for
    /// files, pipes and players]
    #[arg(long, value_name = "TIME|auto", value_parser = str::parse::<Latency>, help_heading = "Listener")]
    pub latency: Option<Latency>,
    /// What is played in place of missing sound: silence, repetition or
    /// prediction [default: prediction]
    #[arg(long, value_name = "KIND", value_parser = completions::completed(str::parse::<Concealment>, completions::concealments), hide_possible_values = true, help_heading = "Listener")]
    pub conceal: Option<Concealment>,
    #[command(flatten)]
    pub pace: PaceArgs,

    #[command(flatten)]
    pub pictures: PictureArgs,
    #[command(flatten)]
    pub sound: SoundArgs,
    #[command(flatten)]
    pub packets: PacketArgs,

    /// Tell the network by mDNS, under this name, that this waits for a call:
    /// 'antiphon peers' shows it
    #[arg(long, value_name = "NAME", value_parser = values::session_name, help_heading = "Stream")]
    pub announce: Option<String>,
    /// Keep calling until the peer answers
    #[arg(short, long, help_heading = "Stream")]
    pub wait_for_peer: bool,
    #[command(flatten)]
    pub capture: CaptureArgs,
    /// Seed of the SSRC and the first sequence number [default: random]
    #[arg(long, value_name = "N", value_parser = values::seed, allow_negative_numbers = true, help_heading = "Stream")]
    pub seed: Option<u64>,

    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub socket: ListenSocketArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

impl TalkArgs {
    /// Converts to the facade's options. `fresh_seed` is used if no seed was given.
    pub fn options(&self, fresh_seed: u64) -> Result<TalkOptions, Error> {
        let socket = self.socket.options();
        let seed = self.seed.unwrap_or(fresh_seed);
        // An empty name asks the library for the default device.
        let device = String::new;
        let send = SendOptions {
            source: self.source.clone().unwrap_or_else(device),
            target: self.peer.clone(),
            wait_for_peer: self.wait_for_peer,
            capture: self.capture.capture.clone(),
            wait: self.wait.style(),
            socket: socket.clone(),
            seed,
            ..stream_options(&self.sound, &self.pictures, &self.packets)?
        };
        let receive = ReceiveOptions {
            sink: self.sink.clone().unwrap_or_else(device),
            latency: self.latency,
            conceal: self.conceal,
            framing: self.packets.framing,
            clock: self.pace.clock,
            wait: self.wait.style(),
            socket,
            seed,
            announce: self.announce.clone(),
            ..ReceiveOptions::default()
        };
        let (mute, back) = (MuteSwitch::new(self.mute), self.back.clone());
        Ok(TalkOptions { send, receive, mute, monitor: self.monitor, back })
    }
}

const TALK_EXAMPLES: &str = "\
Examples, as a musician:
  antiphon talk
      wait for a call, with the sound device; the other end then runs:
  antiphon talk studio.local --latency 10ms --block 64
      call it; m mutes
  antiphon talk studio.local --video film.mp4 --sink player:
      with pictures both ways, if the other end does the same
  antiphon talk rtp://239.1.2.3:5004
      three and more in one network: each runs this, and hears all others;
      with --video film.mp4 --sink player: it also sees them
As an engineer:
  antiphon talk srp://:7713 --source tone:440Hz --sink file:caller.wav
      wait for a call over a transport that repairs
  antiphon talk srp://studio.local:7713 --back tcp://:7710
      two transports; there: antiphon talk tcp://HERE:7710 --back srp://:7713
  antiphon talk tcp://192.0.2.7:7710 --source clip:demo --sink null: --json
      figures of both directions, and the delay from mouth to ear";
