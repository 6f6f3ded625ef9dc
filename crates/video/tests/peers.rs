//! ffmpeg and GStreamer: what they send is put together byte for byte, what we send they play, and what we write, too.

#![allow(
    clippy::disallowed_methods,
    reason = "sockets of a test that speaks to other programs over loopback"
)]

use std::io::Cursor;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::MediaTime;
use antiphon_media::SdpOptions;
use antiphon_video::{
    AudioCodec, AudioTrack, Clip, Codec, Depacketiser, DepacketiserConfig, Frame, FrameRate, MatroskaWriter,
    OpenOptions, ReceivedFrame, VideoDescription, VideoPacketConfig, VideoPacketiser, VideoReader, h264,
};

const PEER: &str = "needs ffmpeg and GStreamer (scripts/install-peers brings them)";

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/video_file").join(name)
}

fn frames_of(data: Vec<u8>) -> Vec<Frame> {
    let options = OpenOptions { rate: Some(FrameRate { frames: 12, seconds: 1 }) };
    let mut reader = VideoReader::open(Cursor::new(data), options).expect("a file with video");
    std::iter::from_fn(|| reader.next_frame().expect("it is whole")).collect()
}

fn read(name: &str) -> Vec<Frame> {
    frames_of(std::fs::read(file(name)).expect("a file"))
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}: {PEER}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && err.trim().is_empty(), "{program} {arguments:?}: {err}");
    out.into_owned()
}

fn start(program: &str, arguments: &[String]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("{program}: {error}: {PEER}"))
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out");
    socket
}

fn port(socket: &UdpSocket) -> u16 {
    socket.local_addr().expect("it is bound").port()
}

/// What a program sends until it has ended and nothing comes any more.
fn receive(socket: &UdpSocket, codec: Codec, mut sender: Child) -> Vec<ReceivedFrame> {
    let mut depacketiser = Depacketiser::new(DepacketiserConfig::new(codec));
    let mut frames = Vec::new();
    let mut buf = [0; 65_536];
    loop {
        match socket.recv(&mut buf) {
            Ok(len) => {
                depacketiser.handle_packet(&buf[..len]).expect("RTP");
                frames.extend(std::iter::from_fn(|| depacketiser.poll_frame()));
            }
            Err(_) if sender.try_wait().expect("our child").is_some() => break,
            Err(_) => {}
        }
        if matches!(sender.try_wait(), Ok(Some(_))) {
            socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out");
        }
    }
    frames.extend(std::iter::from_fn(|| depacketiser.finish()));
    frames
}

/// Without what a program may leave out on its way: delimiters and information.
fn essence(frame: &Frame) -> Vec<u8> {
    if frame.codec != Codec::H264 {
        return frame.data.clone();
    }
    let mut out = Vec::new();
    for unit in h264::units(&frame.data).filter(|unit| !matches!(h264::kind(unit), 6 | 9)) {
        h264::push_unit(&mut out, unit);
    }
    out
}

fn assert_same(received: &[ReceivedFrame], sent: &[Frame], what: &str) {
    let whole: Vec<_> =
        received.iter().map(|frame| (frame.packets, frame.missing, frame.is_whole())).collect();
    assert!(received.iter().all(ReceivedFrame::is_whole), "{what}: all are whole: {whole:?}");
    let received: Vec<_> = received.iter().filter_map(|frame| frame.frame.as_ref()).collect();
    assert_eq!(received.len(), sent.len(), "{what}: {whole:?}");
    for (n, (received, sent)) in received.iter().zip(sent).enumerate() {
        assert!(essence(received) == essence(sent), "{what}: frame {n}");
        assert!(received.time.frames.abs_diff(sent.time.frames) <= 180, "{what}: frame {n}");
    }
}

#[test]
#[ignore = "needs ffmpeg (scripts/install-peers brings it)"]
fn what_ffmpeg_sends_is_put_together_byte_for_byte() {
    for (name, codec) in [
        ("h264.mkv", Codec::H264),
        ("vp8.webm", Codec::Vp8),
        ("vp9.webm", Codec::Vp9),
        ("mjpeg.mkv", Codec::Mjpeg),
    ] {
        let socket = socket();
        let path = file(name).display().to_string();
        let to = format!("rtp://127.0.0.1:{}?pkt_size=400", port(&socket));
        let mut arguments = vec!["-v", "error", "-re", "-i", &path, "-c", "copy"];
        if codec == Codec::H264 {
            // Parameter sets in front of each key frame, as our reader puts them.
            arguments.extend(["-bsf:v", "h264_mp4toannexb"]);
        }
        arguments.extend(["-strict", "experimental", "-f", "rtp", &to]);
        let sender = start("ffmpeg", &arguments.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_same(&receive(&socket, codec, sender), &read(name), name);
    }
}

#[test]
#[ignore = "needs GStreamer (scripts/install-peers brings it)"]
fn what_gstreamer_sends_is_put_together_byte_for_byte() {
    for (name, codec, chain) in [
        ("h264.mkv", Codec::H264, "matroskademux ! h264parse ! rtph264pay mtu=400 config-interval=-1"),
        ("vp8.webm", Codec::Vp8, "matroskademux ! rtpvp8pay mtu=400"),
        ("mjpeg.mkv", Codec::Mjpeg, "matroskademux ! jpegparse ! rtpjpegpay mtu=400"),
    ] {
        let socket = socket();
        let path = file(name).display().to_string();
        let line =
            format!("-q filesrc location={path} ! {chain} ! udpsink host=127.0.0.1 port={}", port(&socket));
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        assert_same(&receive(&socket, codec, start("gst-launch-1.0", &arguments)), &read(name), name);
    }
}

/// Sends the frames again and again until the program has enough; time goes on.
fn send(mut receiver: Child, frames: &[Frame], config: VideoPacketConfig, port: u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let mut packetiser = VideoPacketiser::new(config, 5).expect("a possible configuration");
    let mut buf = vec![0; config.max_packet];
    // Nobody sends into it: it paces.
    let (_keeps, pace) = mpsc::channel::<()>();
    for n in 0..3_000u64 {
        if receiver.try_wait().expect("our child").is_some_and(|status| status.success()) {
            return;
        }
        let mut frame = frames[n as usize % frames.len()].clone();
        frame.time = MediaTime::new(n * 900, 90_000);
        let made = packetiser.packetise(&frame, &mut buf, |_, packet| {
            // Before the program listens, the kernel may refuse.
            let _refused = socket.send_to(packet, ("127.0.0.1", port));
        });
        made.expect("it fits");
        let _ = pace.recv_timeout(Duration::from_millis(8));
    }
    let _ = receiver.kill();
    panic!("the program did not take what it was sent");
}

/// The frames that a program has recorded stand one behind the other in what was sent in a circle.
fn assert_part_of(recorded: &[Frame], sent: &[Frame], what: &str) {
    assert!(recorded.len() >= 8, "{what}: {} frames", recorded.len());
    let begin = sent.iter().position(|frame| essence(frame) == essence(&recorded[0]));
    let begin = begin.unwrap_or_else(|| panic!("{what}: the first frame was never sent"));
    for (n, frame) in recorded.iter().enumerate() {
        assert!(essence(frame) == essence(&sent[(begin + n) % sent.len()]), "{what}: frame {n}");
    }
}

fn description(codec: Codec, frames: &[Frame], port: u16) -> String {
    let config = if codec == Codec::H264 { h264::parameter_sets(&frames[0].data) } else { Vec::new() };
    let description = VideoDescription {
        address: Some([127, 0, 0, 1].into()),
        port: Some(port),
        marking: Some(antiphon_video::MARKING_ID),
        config,
        ..VideoDescription::new(codec)
    };
    description.to_sdp(&SdpOptions {
        name: "a test".into(),
        session_id: 1,
        origin: [127, 0, 0, 1].into(),
        ttl: 1,
    })
}

/// A port that was free a moment ago, and the next one for RTCP.
fn free_port() -> u16 {
    port(&socket()) & !1
}

#[test]
#[ignore = "needs ffmpeg (scripts/install-peers brings it)"]
fn ffmpeg_records_what_we_send_byte_for_byte() {
    // ffmpeg 5.1 records no VP9 from RTP, its own included.
    let directory = tempfile::tempdir().expect("a directory");
    for (name, codec) in [("h264.mkv", Codec::H264), ("vp8.webm", Codec::Vp8), ("mjpeg.mkv", Codec::Mjpeg)] {
        let frames = read(name);
        let port = free_port();
        let sdp = directory.path().join(format!("{name}.sdp"));
        std::fs::write(&sdp, description(codec, &frames, port)).expect("a file");
        let recorded = directory.path().join(format!("{name}.mkv"));
        let (sdp, out) = (sdp.display().to_string(), recorded.display().to_string());
        let whitelist =
            ["-v", "error", "-analyzeduration", "1000000", "-protocol_whitelist", "file,udp,rtp", "-i", &sdp];
        let arguments = [&whitelist[..], &["-c", "copy", "-frames:v", "12", "-y", &out]].concat();
        let receiver = start("ffmpeg", &arguments.into_iter().map(str::to_owned).collect::<Vec<_>>());
        let config = VideoPacketConfig { max_packet: 500, ..VideoPacketConfig::new(codec) };
        send(receiver, &frames, config, port);
        assert_part_of(&frames_of(std::fs::read(&recorded).expect("it was written")), &frames, name);
    }
}

#[test]
#[ignore = "needs GStreamer (scripts/install-peers brings it)"]
fn gstreamer_records_what_we_send_byte_for_byte() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, codec, chain) in [
        ("h264.mkv", Codec::H264, "rtph264depay ! video/x-h264,stream-format=byte-stream,alignment=au"),
        ("vp8.webm", Codec::Vp8, "rtpvp8depay ! matroskamux"),
        ("mjpeg.mkv", Codec::Mjpeg, "rtpjpegdepay ! matroskamux"),
    ] {
        let frames = read(name);
        let port = free_port();
        let recorded = directory.path().join(format!("{name}.mkv"));
        let encoding = codec.encoding_name();
        let config = VideoPacketConfig { max_packet: 500, ..VideoPacketConfig::new(codec) };
        let caps = format!(
            "application/x-rtp,media=video,clock-rate=90000,encoding-name={encoding},payload={}",
            config.payload_type
        );
        let line = format!(
            "-q -e udpsrc port={port} num-buffers=80 caps={caps} ! {chain} ! filesink location={}",
            recorded.display()
        );
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        send(start("gst-launch-1.0", &arguments), &frames, config, port);
        let recorded = std::fs::read(&recorded).expect("it was written");
        assert!(recorded.len() > 1_000, "{name}: {} bytes were recorded", recorded.len());
        let mut recorded = frames_of(recorded);
        // It stopped in the middle of a frame.
        recorded.pop();
        recorded.truncate(12);
        assert_part_of(&recorded, &frames, name);
    }
}

#[test]
#[ignore = "needs ffmpeg (scripts/install-peers brings it)"]
fn ffmpeg_plays_every_recording_with_its_sound() {
    let directory = tempfile::tempdir().expect("a directory");
    for clip in Clip::ALL {
        let mut reader = clip.open().expect("a file");
        let recorded = directory.path().join(format!("{}.mkv", clip.name()));
        let out = std::io::BufWriter::new(std::fs::File::create(&recorded).expect("a file"));
        let audio = AudioTrack { codec: AudioCodec::Pcm16, rate: 8_000, channels: 1 };
        let mut writer = MatroskaWriter::new(out, reader.info().clone(), Some(audio));
        let (mut frames, mut heard) = (0, 0);
        while let Some(frame) = reader.next_frame().expect("it is whole") {
            writer.write_frame(&frame).expect("it is written");
            frames += 1;
            // Sound as far as the picture.
            while heard * 90_000 < frame.time.frames * 8_000 {
                let block: Vec<f32> = (0..800).map(|n| ((n as f32) * 0.3).sin() * 0.5).collect();
                writer.write_samples(MediaTime::new(heard, 8_000), &block).expect("it is written");
                heard += 800;
            }
        }
        drop(writer.finish().expect("it is written"));
        let path = recorded.display().to_string();
        let count = |stream: &str, entry: &str| {
            let show = format!("stream={entry}");
            let arguments = [
                "-v",
                "error",
                "-count_frames",
                "-select_streams",
                stream,
                "-show_entries",
                &show,
                "-of",
                "csv=p=0",
                &path,
            ];
            run("ffprobe", &arguments).trim().to_owned()
        };
        assert_eq!(count("v", "nb_read_frames"), frames.to_string(), "{clip:?}");
        assert_eq!(count("a", "codec_name,sample_rate"), "pcm_s16le,8000", "{clip:?}");
        // Decoded without a complaint, cut off in the middle as well.
        run("ffmpeg", &["-v", "error", "-threads", "1", "-i", &path, "-f", "null", "-"]);
        let whole = std::fs::read(&recorded).expect("it was written");
        std::fs::write(&recorded, &whole[..whole.len() / 2]).expect("it is written");
        let counted = Command::new("ffprobe")
            .args([
                "-v",
                "quiet",
                "-count_frames",
                "-select_streams",
                "v",
                "-show_entries",
                "stream=nb_read_frames",
            ])
            .args(["-of", "csv=p=0", &path])
            .output();
        let counted = String::from_utf8_lossy(&counted.expect("it ran before").stdout).into_owned();
        let part: u64 = counted.trim().parse().expect("a number");
        assert!(part > frames / 3 && part < frames, "{clip:?}: {part} of {frames}");
    }
}

#[test]
#[ignore = "needs ffmpeg (scripts/install-peers brings it)"]
fn ffmpeg_hears_opus_beside_the_picture() {
    let directory = tempfile::tempdir().expect("a directory");
    let recorded = directory.path().join("opus.webm");
    let frames = read("vp8.webm");
    let mut encoder = antiphon_media::opus::Encoder::new(1, 960, 32_000);
    let audio = AudioTrack { codec: AudioCodec::Opus { pre_skip: 312 }, rate: 48_000, channels: 1 };
    let info = antiphon_video::StreamInfo::new(Codec::Vp8);
    let mut writer = MatroskaWriter::new(Vec::new(), info, Some(audio));
    for (n, frame) in (0u64..).zip(&frames) {
        writer.write_frame(frame).expect("memory");
        for packet in 4 * n..4 * n + 4 {
            let sound: Vec<f32> =
                (0..960).map(|at| ((packet * 960 + at) as f32 * 0.05).sin() * 0.5).collect();
            let mut out = [0; 1_500];
            let len = encoder.encode(&sound, &mut out).expect("it fits");
            writer.write_audio(MediaTime::new(packet * 960, 48_000), &out[..len]).expect("memory");
        }
    }
    std::fs::write(&recorded, writer.finish().expect("memory")).expect("a file");
    let path = recorded.display().to_string();
    run("ffmpeg", &["-v", "error", "-i", &path, "-f", "null", "-"]);
    let shown = run(
        "ffprobe",
        &[
            "-v",
            "error",
            "-count_packets",
            "-select_streams",
            "a",
            "-show_entries",
            "stream=codec_name,nb_read_packets",
            "-of",
            "csv=p=0",
            &path,
        ],
    );
    assert_eq!(shown.trim(), "opus,48");
}
