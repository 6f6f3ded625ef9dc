//! We take what others send.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use antiphon::media::SampleFormat;
use antiphon_testkit::unless_held_up;

use crate::child::{Child, antiphon, free_ports, program};
use crate::common::HELD_UP;
use crate::sound::{SOUNDS, Sound};

/// A stream of another program: what it carries, and how our receiver is told.
struct Theirs {
    sound: Sound,
    port: u16,
    told: Told,
    /// Whether the sender's BYE comes to where we listen.
    says_bye: bool,
    /// Whether its RTCP goes to the port of its sound.
    one_port: bool,
}

enum Told {
    /// By the SDP that the sender wrote.
    Sdp(PathBuf),
    /// By `--format`.
    Format(String),
    /// Not at all: its payload type is a static one.
    Static,
}

impl Theirs {
    /// The receiver, once it listens.
    fn receiver(&self, recording: &Path) -> Child {
        let source = format!("rtp://127.0.0.1:{}", self.port);
        let mut command = antiphon(["receive", &source, "--json"]);
        command.arg(recording);
        match &self.told {
            Told::Sdp(path) => drop(command.arg("--sdp").arg(path)),
            Told::Format(format) => drop(command.arg("--format").arg(format)),
            Told::Static => {}
        }
        let mut receiver = Child::start(&mut command, DEADLINE);
        receiver.wait_for("listening on");
        receiver
    }

    /// Lets the receiver end and compares its recording with the source: nothing may be missing, nothing added.
    fn check(&self, mut receiver: Child, recording: &Path, whose: &str) {
        let seconds = f64::from(self.sound.seconds);
        if !self.says_bye {
            // What is recorded is told every second; a sender that says nothing any more is no end of the recording.
            receiver.wait_until_played(seconds - SHORTEST_PACKET);
            receiver.interrupt();
        }
        let ended = receiver.end();
        let expected = if self.says_bye { 0 } else { 130 };
        assert_eq!(ended.code, Some(expected), "{whose}, {:?}: {}{}", self.sound, ended.out, ended.err);
        let summary = ended.summary();
        for count in ["lost", "late", "duplicate", "reordered", "concealed", "malformed", "unknown_sources"] {
            assert_eq!(summary[count], 0, "{count} from {whose}, {:?}: {summary}", self.sound);
        }
        let (heard, sent) = (self.sound.read_wav(recording), self.sound.samples());
        assert_eq!(heard.len(), sent.len(), "samples from {whose}, {:?}: {summary}", self.sound);
        let wrong = (0..sent.len()).find(|at| heard[*at] != sent[*at]);
        assert_eq!(wrong, None, "sample that differs, {whose}, {:?}", self.sound);
    }
}

/// Takes all streams at once.
fn takes(whose: &str, streams: Vec<Theirs>, sender: impl Fn(&Theirs) -> Command) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let listening = streams.iter().enumerate().map(|(number, stream)| {
        let recording = directory.path().join(format!("{number}.wav"));
        let receiver = stream.receiver(&recording);
        (stream, recording, receiver)
    });
    let running = listening.collect::<Vec<_>>().into_iter().map(|(stream, recording, receiver)| {
        let sender = Child::start(&mut sender(stream), DEADLINE);
        (stream, recording, receiver, sender)
    });
    for (stream, recording, receiver, sender) in running.collect::<Vec<_>>() {
        sender.succeed();
        stream.check(receiver, &recording, whose);
    }
}

/// Writes every sound into a file; half as long as what is played, as nothing is missed here.
fn sources(directory: &Path) -> Vec<(Sound, Option<u8>)> {
    let sounds = SOUNDS.map(|(sound, payload_type)| (Sound { seconds: 4, ..sound }, payload_type));
    for (sound, _) in &sounds {
        sound.write_raw(&raw(directory, sound));
    }
    sounds.to_vec()
}

fn raw(directory: &Path, sound: &Sound) -> PathBuf {
    directory.join(format!("{}.raw", sound.name()))
}

fn format_flag(sound: &Sound) -> String {
    format!("{}/{}/{}", sound.sample.name(), sound.rate, sound.channels)
}

/// ffmpeg as a sender. Its RTCP goes to the port above, or beside the sound though from a port of its own.
fn ffmpeg(directory: &Path, sound: &Sound, port: u16, rtcp_beside: bool, more: &[&str]) -> Command {
    let (wide, codec) = match sound.sample {
        SampleFormat::L24 => ("s24le", "pcm_s24be"),
        SampleFormat::MuLaw => ("s16le", "pcm_mulaw"),
        SampleFormat::ALaw => ("s16le", "pcm_alaw"),
        _ => ("s16le", "pcm_s16be"),
    };
    let (source, Sound { rate, channels, .. }) = (raw(directory, sound), sound);
    let mut command = program("ffmpeg -hide_banner -nostdin -nostats -re");
    command.args(["-f", wide, "-ar", &rate.to_string(), "-ac", &channels.to_string(), "-i"]).arg(source);
    let rtcp = if rtcp_beside { format!("&rtcpport={port}") } else { String::new() };
    let target = format!("rtp://127.0.0.1:{port}?pkt_size=1400{rtcp}");
    command.args(["-c:a", codec, "-f", "rtp", "-rtpflags", "send_bye"]).args(more).arg(target);
    command
}

#[test]
#[ignore = "needs ffmpeg; scripts/install-peers brings it"]
fn we_take_what_ffmpeg_sends() {
    unless_held_up(HELD_UP, || {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let sounds = sources(directory.path());
        let mut ports = free_ports(3 * sounds.len()).into_iter();
        let mut streams = Vec::new();
        for (number, (sound, payload_type)) in sounds.into_iter().enumerate() {
            let mut add = |told, one_port| {
                let port = ports.next().expect("three for each sound");
                // Its RTCP goes to the next port, where we listen if the sound's is even (RFC 3550 §11).
                let says_bye = one_port || port.is_multiple_of(2);
                streams.push(Theirs { sound, port, told, says_bye, one_port });
            };
            let sdp = directory.path().join(format!("{}.sdp", sound.name()));
            // The description does not depend on how long the stream is: a first, short run writes it.
            let more = ["-t", "0.01", "-sdp_file", &sdp.display().to_string()];
            Child::start(&mut ffmpeg(directory.path(), &sound, SOME_PORT, true, &more), DEADLINE).succeed();
            add(Told::Sdp(sdp), number % 2 == 0);
            match payload_type {
                Some(_) => add(Told::Static, true),
                None => add(Told::Format(format_flag(&sound)), false),
            }
        }
        takes("ffmpeg", streams, |stream| {
            ffmpeg(directory.path(), &stream.sound, stream.port, stream.one_port, &[])
        });
    });
}

/// The description of the short run names this port, where nothing listens; `receive` listens where its URI says.
const SOME_PORT: u16 = 9;

#[test]
#[ignore = "needs GStreamer; scripts/install-peers brings it"]
fn we_take_what_gstreamer_sends() {
    unless_held_up(HELD_UP, || {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let sounds = sources(directory.path());
        let ports = free_ports(sounds.len());
        let streams = sounds.into_iter().zip(ports).map(|((sound, payload_type), port)| {
            let told = if payload_type.is_some() { Told::Static } else { Told::Format(format_flag(&sound)) };
            Theirs { sound, port, told, says_bye: false, one_port: false }
        });
        takes("GStreamer", streams.collect(), |stream| {
            let Theirs { sound, port, .. } = stream;
            let (pay, wide) = match sound.sample {
                SampleFormat::L24 => ("rtpL24pay", "s24le"),
                SampleFormat::MuLaw => ("mulawenc ! rtppcmupay", "s16le"),
                SampleFormat::ALaw => ("alawenc ! rtppcmapay", "s16le"),
                // Left alone it takes 96.
                _ if (sound.rate, sound.channels) == (44_100, 1) => ("rtpL16pay pt=11", "s16le"),
                _ if (sound.rate, sound.channels) == (44_100, 2) => ("rtpL16pay pt=10", "s16le"),
                _ => ("rtpL16pay", "s16le"),
            };
            let Sound { rate, channels, .. } = sound;
            program(&format!(
                "gst-launch-1.0 filesrc location={} ! rawaudioparse format=pcm pcm-format={wide} sample-rate={rate} \
             num-channels={channels} ! audioconvert ! {pay} ! udpsink host=127.0.0.1 port={port}",
                raw(directory.path(), sound).display()
            ))
        });
    });
}

/// Four seconds of sound, twice that for a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
/// In seconds: 48 kHz stereo L24 in packets of 1400 bytes; a recording that lacks a packet is shorter by more.
const SHORTEST_PACKET: f64 = 0.004;
