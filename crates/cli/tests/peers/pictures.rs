//! Sound and pictures together, to and from other programs: by SDP, each medium in an RTP session of its own.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use antiphon::media::SampleFormat;
use antiphon::video::{Clip, Codec, Frame, OpenOptions, VideoReader, h264};
use antiphon_testkit::unless_held_up;

use crate::child::{Child, antiphon, free_ports, program};
use crate::common::HELD_UP;
use crate::sound::Sound;

const SOUND: Sound = Sound { sample: SampleFormat::L16, rate: 48_000, channels: 2, seconds: 8 };

/// A film as long as the sound: 25 pictures a second, of H.264 with a key frame every 2 s.
struct Film {
    codec: Codec,
    path: PathBuf,
    frames: Vec<Frame>,
}

/// The bundled clip, and the same as JPEGs.
fn films(directory: &Path) -> Vec<Film> {
    let whole = directory.join("whole.mkv");
    let clip = Clip::ALL.into_iter().find(|clip| clip.name() == "h264-100").expect("it is bundled");
    std::fs::write(&whole, clip.file()).expect("a temporary file");
    let make = |codec: Codec, how: &str| {
        let path = directory.join(format!("{}.mkv", codec.encoding_name()));
        let mut command = program("ffmpeg -hide_banner -nostdin -v error -i");
        let count = PICTURES.to_string();
        command.arg(&whole).args(["-frames:v", &count]).args(how.split(' ')).arg(&path);
        Child::start(&mut command, DEADLINE).succeed();
        let frames = frames(&path);
        assert_eq!(frames.len(), PICTURES, "{codec:?}");
        Film { codec, path, frames }
    };
    vec![
        make(Codec::H264, "-c copy"),
        make(Codec::Mjpeg, "-c:v mjpeg -huffman default -pix_fmt yuvj420p -q:v 6"),
    ]
}

fn frames(path: &Path) -> Vec<Frame> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader =
        VideoReader::open(BufReader::new(file), OpenOptions::default()).expect("it has pictures");
    std::iter::from_fn(|| reader.next_frame().expect("it is whole")).collect()
}

/// Without what a program may leave out on its way, or put in: delimiters, information and parameter sets; a comment in a JPEG.
fn essence(frame: &Frame) -> Vec<u8> {
    if frame.codec != Codec::H264 {
        return scan(&frame.data).to_vec();
    }
    let mut out = Vec::new();
    for unit in h264::units(&frame.data).filter(|unit| matches!(h264::kind(unit), 1..=5)) {
        h264::push_unit(&mut out, unit);
    }
    out
}

/// The compressed picture of a JPEG.
fn scan(jpeg: &[u8]) -> &[u8] {
    let at = jpeg.windows(2).position(|marker| marker == [0xff, 0xda]).expect("a scan");
    &jpeg[at..]
}

/// Where in the sound a recording begins, in seconds, and its samples; silence in front counts.
fn sound_of(path: &Path) -> Vec<i32> {
    let raw = path.with_extension("raw");
    let mut command = program("ffmpeg -hide_banner -nostdin -v error -y -i");
    command.arg(path).args(["-map", "0:a", "-af", "aresample=async=1:first_pts=0", "-f", "s16le"]).arg(&raw);
    Child::start(&mut command, DEADLINE).succeed();
    SOUND.read_raw(&raw)
}

/// A recording has pictures of `film` in their order from some key frame on, at least `least` of them and no other bytes, each where its
/// sound is.
fn check(recording: &Path, film: &Film, least: usize, whose: &str) {
    let what = format!("{whose}, {:?}", film.codec);
    let recorded = frames(recording);
    let first = recorded.first().unwrap_or_else(|| panic!("{what}: no picture"));
    let begin = film.frames.iter().position(|frame| essence(frame) == essence(first));
    let begin = begin.unwrap_or_else(|| panic!("{what}: the first picture was never sent"));
    for (n, frame) in recorded.iter().enumerate() {
        let sent = film.frames.get(begin + n).unwrap_or_else(|| panic!("{what}: more than were sent"));
        assert!(essence(frame) == essence(sent), "{what}: picture {n} of {}", recorded.len());
    }
    assert!(recorded.len() >= least, "{what}: {} pictures", recorded.len());
    let heard = sound_of(recording);
    let silent = heard.iter().take_while(|sample| **sample == 0).count() / 2;
    let (before, _) = SOUND.assert_stretch(&heard[2 * silent..], 4, &what);
    // When the sound of the source's beginning is, or would be, in the recording.
    let origin = (silent as f64 - before as f64) / f64::from(SOUND.rate);
    let seconds = |frame: &Frame| frame.time.duration().as_secs_f64();
    let skews = recorded.iter().zip(&film.frames[begin..]);
    let skews: Vec<f64> = skews.map(|(recorded, sent)| seconds(recorded) - origin - seconds(sent)).collect();
    let worst = skews
        .iter()
        .copied()
        .fold(0.0, |worst: f64, skew| if skew.abs() > worst.abs() { skew } else { worst });
    eprintln!(
        "{what}: {} pictures from {begin} on, {before} frames before, skew {:.1} ms at most",
        recorded.len(),
        worst * 1e3
    );
    assert!(worst.abs() <= MOST_SKEW, "{what}: {skews:?}");
}

/// Sends sound and pictures of both films, and has `player` record them by the SDP file.
fn recorded_by(whose: &str, player: impl Fn(&Film, &Path, &Path) -> Command) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for film in films(directory.path()) {
        let name = film.codec.encoding_name();
        let (sdp, out) =
            (directory.path().join(format!("{name}.sdp")), directory.path().join(format!("{name}-out.mkv")));
        // Two ports above the sound's are the pictures'.
        let target = format!("rtp://127.0.0.1:{}", antiphon_testkit::free_ports(4));
        let mut command = antiphon(["send", &SOUND.uri(), &target, "--wait-for-peer", "--video"]);
        let mut sender = Child::start(command.arg(&film.path).arg("--sdp").arg(&sdp), DEADLINE);
        sender.wait_for("wrote");
        let player = Child::start(&mut player(&film, &sdp, &out), DEADLINE);
        sender.succeed();
        player.succeed();
        // It may join after the first key frame.
        check(&out, &film, PICTURES - 2 * 50, whose);
    }
}

#[test]
#[ignore = "needs ffmpeg; scripts/install-peers brings it"]
fn ffmpeg_records_our_sound_and_pictures_in_sync() {
    unless_held_up(HELD_UP, || {
        recorded_by("ffmpeg", |_, sdp, out| {
            let mut command =
                program("ffmpeg -hide_banner -nostdin -nostats -protocol_whitelist file,udp,rtp -i");
            command.arg(sdp).args(["-c:v", "copy", "-c:a", "pcm_s16le", "-y"]).arg(out);
            command
        });
    });
}

#[test]
#[ignore = "needs GStreamer; scripts/install-peers brings it"]
fn gstreamer_records_our_sound_and_pictures_in_sync() {
    unless_held_up(HELD_UP, || {
        recorded_by("GStreamer", |film, sdp, out| {
            let pictures = match film.codec {
                Codec::H264 => "rtph264depay ! h264parse",
                _ => "rtpjpegdepay",
            };
            program(&format!(
                "gst-launch-1.0 -e filesrc location={} ! sdpdemux name=d d. ! {pictures} ! queue ! matroskamux name=m ! filesink location={} \
                 d. ! rtpL16depay ! audioconvert ! audio/x-raw,format=S16LE ! queue ! m.",
                sdp.display(),
                out.display()
            ))
        });
    });
}

/// Has `sender` send each film with the sound, to the ports given, and records it by an SDP file. `reports`: whether it has RTCP, and so says
/// goodbye.
fn recorded_from(
    whose: &str,
    reports: bool,
    describe: impl Fn(&Film, &Path, u16, u16) -> PathBuf,
    sender: impl Fn(&Film, &Path, u16, u16) -> Command,
) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let raw = directory.path().join("sound.raw");
    SOUND.write_raw(&raw);
    for film in films(directory.path()) {
        let ports = free_ports(2);
        let sdp = describe(&film, directory.path(), ports[0], ports[1]);
        let out = directory.path().join(format!("{}-taken.mkv", film.codec.encoding_name()));
        let mut receiver = Child::start(antiphon(["receive", "--json"]).arg(&sdp).arg(&out), DEADLINE);
        receiver.wait_for("listening on");
        let sender = Child::start(&mut sender(&film, &raw, ports[0], ports[1]), DEADLINE);
        let ended = if reports {
            let ended = receiver.end();
            // GStreamer's rtpbin, which has said goodbye, does not end its RTCP where its thread for that was faster than the end of the stream
            // (gst_rtp_session_send_rtcp of GStreamer 1.22 asks whether the pad has ended already).
            sender.terminate();
            ended
        } else {
            sender.succeed();
            receiver.wait_until_played(f64::from(SOUND.seconds) - 0.02);
            receiver.interrupt();
            receiver.end()
        };
        assert_eq!(ended.code, Some(if reports { 0 } else { 130 }), "{whose}: {}{}", ended.out, ended.err);
        let pictures = &ended.summary()["pictures"];
        let counted = ["whole", "written", "broken", "packets_missing"].map(|name| pictures[name].as_u64());
        let all = Some(PICTURES as u64);
        assert_eq!(counted, [all, all, Some(0), Some(0)], "{whose}: {pictures}");
        let as_they_arrive = ended.err.contains("as they arrive");
        assert_eq!(as_they_arrive, !reports, "{whose}: {}", ended.err);
        check(&out, &film, PICTURES, whose);
    }
}

fn ffmpeg(film: &Film, raw: &Path, (sound, pictures): (u16, u16), more: &[&str]) -> Command {
    let mut command = program("ffmpeg -hide_banner -nostdin -nostats -v error -re -i");
    let to = |port: u16| format!("rtp://127.0.0.1:{port}?pkt_size=1400");
    command.arg(&film.path).args(["-re", "-f", "s16le", "-ar", "48000", "-ac", "2", "-i"]).arg(raw);
    command
        .args(["-map", "0:v", "-c:v", "copy", "-f", "rtp", "-rtpflags", "send_bye"])
        .args(more)
        .arg(to(pictures));
    command
        .args(["-map", "1:a", "-c:a", "pcm_s16be", "-f", "rtp", "-rtpflags", "send_bye"])
        .args(more)
        .arg(to(sound));
    command
}

#[test]
#[ignore = "needs ffmpeg; scripts/install-peers brings it"]
fn we_record_sound_and_pictures_that_ffmpeg_sends() {
    unless_held_up(HELD_UP, || {
        let describe = |film: &Film, directory: &Path, sound: u16, pictures: u16| {
            let sdp = directory.join(format!("{}.sdp", film.codec.encoding_name()));
            let name = sdp.display().to_string();
            // The description does not depend on how long the stream is: a first, short run writes it.
            let mut first = ffmpeg(film, &directory.join("sound.raw"), (sound, pictures), &["-t", "0.1"]);
            Child::start(first.args(["-sdp_file", &name]), DEADLINE).succeed();
            sdp
        };
        recorded_from("ffmpeg", true, describe, |film, raw, sound, pictures| {
            ffmpeg(film, raw, (sound, pictures), &[])
        });
    });
}

/// SDP as one writes it by hand for a pipeline.
fn for_gstreamer(film: &Film, directory: &Path, sound: u16, pictures: u16) -> PathBuf {
    let sdp = directory.join(format!("{}.sdp", film.codec.encoding_name()));
    let (number, map) = match film.codec {
        Codec::H264 => (96, "a=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1\r\n"),
        _ => (26, ""),
    };
    let text = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=GStreamer\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {sound} RTP/AVP 97\r\n\
         a=rtpmap:97 L16/48000/2\r\nm=video {pictures} RTP/AVP {number}\r\n{map}"
    );
    std::fs::write(&sdp, text).expect("a temporary file");
    sdp
}

fn gstreamer(film: &Film, raw: &Path, (sound, pictures): (u16, u16), reports: bool) -> Command {
    let pay = match film.codec {
        Codec::H264 => "h264parse config-interval=-1 ! rtph264pay pt=96",
        _ => "jpegparse ! rtpjpegpay",
    };
    let sound_of = format!(
        "filesrc location={} ! rawaudioparse format=pcm pcm-format=s16le sample-rate=48000 num-channels=2 ! audioconvert ! rtpL16pay pt=97",
        raw.display()
    );
    let pictures_of = format!("filesrc location={} ! matroskademux ! {pay}", film.path.display());
    let to = |port: u16| format!("udpsink host=127.0.0.1 port={port}");
    if !reports {
        return program(&format!(
            "gst-launch-1.0 {sound_of} ! {} {pictures_of} ! {}",
            to(sound),
            to(pictures)
        ));
    }
    let rtcp = |port: u16| format!("{} sync=false async=false", to(port + 1));
    program(&format!(
        "gst-launch-1.0 rtpbin name=b {sound_of} ! b.send_rtp_sink_0 {pictures_of} ! b.send_rtp_sink_1 \
         b.send_rtp_src_0 ! {} b.send_rtcp_src_0 ! {} b.send_rtp_src_1 ! {} b.send_rtcp_src_1 ! {}",
        to(sound),
        rtcp(sound),
        to(pictures),
        rtcp(pictures)
    ))
}

#[test]
#[ignore = "needs GStreamer and ffmpeg; scripts/install-peers brings them"]
fn we_record_sound_and_pictures_that_gstreamer_sends() {
    unless_held_up(HELD_UP, || {
        recorded_from("GStreamer", true, for_gstreamer, |film, raw, sound, pictures| {
            gstreamer(film, raw, (sound, pictures), true)
        });
    });
}

/// Without RTCP they are put together as they arrive, and the user is told.
#[test]
#[ignore = "needs GStreamer and ffmpeg; scripts/install-peers brings them"]
fn we_record_what_gstreamer_sends_without_reports() {
    unless_held_up(HELD_UP, || {
        recorded_from("GStreamer", false, for_gstreamer, |film, raw, sound, pictures| {
            gstreamer(film, raw, (sound, pictures), false)
        });
    });
}

/// Takes RTCP of a sender to `to` and answers back to `back`, from one port, as `udpsink` and `udpsrc` of GStreamer have one each.
fn relay(to: u16, back: u16) -> u16 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let port = socket.local_addr().expect("it is bound").port();
    // It ends with the test's process.
    std::thread::spawn(move || {
        let mut buf = [0; 2_000];
        while let Ok((len, from)) = socket.recv_from(&mut buf) {
            let next = if from.port() == to { back } else { to };
            let _refused_while_nobody_listens = socket.send_to(&buf[..len], ("127.0.0.1", next));
        }
    });
    port
}

/// The stream has one key frame, at its beginning, which is over when the receiver comes: GStreamer makes another one as we ask for it.
#[test]
#[ignore = "needs GStreamer and ffmpeg; scripts/install-peers brings them"]
fn gstreamer_makes_a_key_frame_when_we_ask() {
    unless_held_up(HELD_UP, || {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (ports, out) = (free_ports(3), directory.path().join("take.mkv"));
        let (sound, pictures, answers) = (ports[0], ports[1], ports[2]);
        let rtcp = relay(pictures + 1, answers);
        let sdp = directory.path().join("vp8.sdp");
        let text = format!(
            "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=GStreamer\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {sound} RTP/AVP 97\r\n\
             a=rtpmap:97 L16/48000/2\r\nm=video {pictures} RTP/AVPF 96\r\na=rtpmap:96 VP8/90000\r\n"
        );
        std::fs::write(&sdp, text).expect("a temporary file");
        let to = |port: u16| format!("udpsink host=127.0.0.1 port={port}");
        let mut sender = program(&format!(
            "gst-launch-1.0 -v rtpbin name=b rtp-profile=avpf audiotestsrc is-live=true num-buffers=400 samplesperbuffer=960 ! \
             audio/x-raw,rate=48000,channels=2 ! audioconvert ! rtpL16pay pt=97 ! b.send_rtp_sink_0 videotestsrc is-live=true \
             num-buffers=200 ! video/x-raw,width=320,height=240,framerate=25/1 ! vp8enc deadline=1 keyframe-max-dist=100000 ! \
             rtpvp8pay pt=96 ! b.send_rtp_sink_1 b.send_rtp_src_0 ! {} b.send_rtcp_src_0 ! {} sync=false async=false \
             b.send_rtp_src_1 ! {} b.send_rtcp_src_1 ! {} sync=false async=false udpsrc port={answers} ! b.recv_rtcp_sink_1",
            to(sound),
            to(sound + 1),
            to(pictures),
            to(rtcp)
        ));
        let mut sender = Child::start(&mut sender, DEADLINE);
        // The caps of what leaves are told with the first packet.
        sender.wait_until("pictures", |line| line.contains("send_rtp_src_1") && line.contains("VP8"));
        let receiver = Child::start(antiphon(["receive", "--json"]).arg(&sdp).arg(&out), DEADLINE);
        // Its source for RTCP does not end.
        let ended = receiver.end();
        sender.interrupt();
        assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
        let counted = &ended.summary()["pictures"];
        let of = |name: &str| counted[name].as_u64().expect("a number");
        // It may take a report's interval until we know where to ask.
        assert!(of("written") >= 50 && of("written") <= of("whole"), "{counted}");
        assert!(frames(&out).first().is_some_and(|frame| frame.picture.key));
    });
}

/// Pictures in a film: 25 in each second.
const PICTURES: usize = 200;
/// A picture and a half: programs begin their two sessions one after the other.
const MOST_SKEW: f64 = 0.06;
/// Eight seconds of sound, and as much again for a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
