//! Calls of several with pictures, on real sockets: a multicast group on loopback.

#[path = "common/mod.rs"]
mod common;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon::net::OsClock;
use antiphon::video::{Clip, Codec, Frame, OpenOptions, VideoReader};
use antiphon::{
    Error, ErrorKind, PartyRecording, ReceiveOptions, SendOptions, Stop, TalkOptions, TalkSummary, talk,
};
use common::{assert_claps_in_step, free_port, scratch};

fn frames(mut reader: VideoReader) -> Vec<Frame> {
    std::iter::from_fn(|| reader.next_frame().expect("a good file")).collect()
}

fn film(path: &Path) -> Vec<Frame> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    frames(VideoReader::open(file, OpenOptions::default()).unwrap())
}

/// Those that call in this group.
struct Group {
    directory: PathBuf,
    target: String,
}

/// A party that calls, and what is told of it.
struct Calling(JoinHandle<(Result<TalkSummary, Error>, Vec<String>)>);

impl Group {
    fn new(name: &str, last: u8) -> Self {
        let (directory, port) = (scratch(name), free_port());
        fs::write(directory.join("sound.ogg"), antiphon::sound::Clip::Clapper.bytes(48_000)).unwrap();
        Group { directory, target: format!("rtp://239.61.9.{last}:{port}?iface=127.0.0.1") }
    }

    /// A party with the sound and the pictures of a clip for so many seconds, which calls already.
    fn calls(&self, clip: Option<Clip>, seconds: u64, sink: String) -> Calling {
        let video = clip.map(|clip| {
            let path = self.directory.join(format!("{}.mkv", clip.codec().encoding_name()));
            fs::write(&path, clip.file()).unwrap();
            path
        });
        let options = TalkOptions {
            send: SendOptions {
                source: self.directory.join("sound.ogg").display().to_string(),
                video: video.into_iter().collect(),
                target: self.target.clone(),
                length: Some(Duration::from_secs(seconds)),
                ..SendOptions::default()
            },
            receive: ReceiveOptions { sink, ..ReceiveOptions::default() },
            ..TalkOptions::default()
        };
        let (ready, is_ready) = mpsc::channel();
        let calling = std::thread::spawn(move || {
            let mut told = Vec::new();
            let mut notice = |sentence: String| {
                let _nobody_waits_any_more = ready.send(());
                told.push(sentence);
            };
            let ended = talk(&options, &Stop::new(), &mut notice, &mut |_| {});
            (ended, told)
        });
        is_ready.recv().expect("it says that it talks");
        Calling(calling)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn sink(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _left_for_a_look = fs::remove_dir_all(&self.directory);
    }
}

impl Calling {
    fn ends(self) -> (TalkSummary, Vec<String>) {
        let (ended, told) = self.0.join().unwrap();
        (ended.expect("a call on loopback"), told)
    }
}

/// The clip with pictures of this codec.
fn clip_of(codec: Codec) -> Clip {
    [Clip::H264, Clip::Vp8, Clip::Av1].into_iter().find(|clip| clip.codec() == codec).expect("it was sent")
}

/// What was recorded of a party.
struct Recorded {
    codec: Codec,
    pictures: usize,
    /// How much of the party's sound had been sent before the first that was heard, in seconds.
    missed: f64,
}

/// From one packet of sound to the next, in seconds.
const PACKET: f64 = 256.0 / 48_000.0;
/// From one key frame of a clip to the next, in seconds.
const SINCE_KEY_FRAME: f64 = 2.0;

impl Recorded {
    /// Who is there from the beginning misses the packet that shows that a party streams, and gets every picture as it is due.
    fn is_from_the_beginning(&self) -> bool {
        self.missed < 1.1 * PACKET
    }
}

/// What was recorded is, from its first key frame on, what was sent, each picture at its time. Those from before the first sound are at the beginning: one of a whole packet
/// of sound earlier that came as it was due, or those since the last key frame, sent again.
fn is_as_sent(recording: &Path) -> Recorded {
    let got = film(recording);
    let codec = got[0].codec;
    let sent = frames(clip_of(codec).open().unwrap());
    let first = sent.iter().position(|frame| frame.data == got[0].data).expect("it was sent");
    let shift =
        |got: &Frame, sent: &Frame| got.time.duration().as_secs_f64() - sent.time.duration().as_secs_f64();
    let last = got.len() - 1;
    let since = shift(&got[last], &sent[first + last]);
    for (got_one, sent_one) in got.iter().zip(&sent[first..]) {
        assert!(got_one.data == sent_one.data, "{codec}: a picture is not the one that was sent");
        let due = sent_one.time.duration().as_secs_f64() + since;
        let off = got_one.time.duration().as_secs_f64() - due.max(0.0);
        assert!(off.abs() < 0.003, "{codec}: {off} s off");
    }
    let due = |frame: &Frame| frame.time.duration().as_secs_f64() + since;
    let keys = sent[first..=first + last].iter().filter(|frame| frame.picture.key);
    let before = keys.filter(|frame| due(frame) < 0.0).count();
    assert!(before <= 1, "{codec}: {before} key frames are older than the first sound");
    assert!(got[0].picture.key, "{codec}: nothing decodes the first picture");
    // The file's times are milliseconds.
    let missed = -since;
    let packets = (missed / PACKET).round();
    assert!(packets >= 1.0, "{codec}: a party is heard {missed} s before it begins");
    assert!(missed < SINCE_KEY_FRAME, "{codec}: {missed} s before the first sound");
    assert!((missed - packets * PACKET).abs() < 0.001, "{codec}: {missed} s are no whole packets of sound");
    Recorded { codec, pictures: got.len(), missed }
}

#[test]
fn each_of_three_records_the_two_others() {
    let group = Group::new("film-group", 1);
    let parties = [Clip::H264, Clip::Vp8, Clip::Av1].map(|clip| {
        let name = clip.codec().encoding_name();
        (clip, group.calls(Some(clip), 4, group.sink(&format!("of-{name}.mkv"))))
    });
    let ended = parties.map(|(own, calling)| (own, calling.ends()));
    // Whose pictures were sent again.
    let answers = ended.each_ref().map(|(own, (summary, _))| {
        let sent = summary.status.sent.pictures.as_ref().expect("pictures are sent");
        (own.codec(), sent.caught_up)
    });
    for (own, (summary, told)) in ended {
        assert!(summary.shortfall.is_none() && summary.recording.is_none(), "{summary:?}");
        assert_eq!(summary.recordings.len(), 2, "{told:?}");
        let mut codecs = Vec::new();
        for (n, recording) in (1..).zip(&summary.recordings) {
            let file = group.file(&format!("of-{}-{n}.mkv", own.codec().encoding_name()));
            assert_eq!(recording.sound.file, file);
            let recorded = is_as_sent(&file);
            let (codec, written) = (recorded.codec, recorded.pictures);
            codecs.push(codec);
            let is_answered = answers.iter().any(|(of, answers)| *of == codec && *answers > 0);
            let missed = recorded.missed;
            assert!(
                recorded.is_from_the_beginning() || is_answered,
                "{codec}: {missed} s before, {answers:?}"
            );
            // Those that began later miss pictures up to a key frame, of which there is one in two seconds.
            assert!((45..=100).contains(&written), "{written} pictures: {:?}", recording.pictures);
            assert_eq!((recording.pictures.written, recording.pictures.broken), (written as u64, 0));
            let seconds = recording.sound.sample_frames as f64 / f64::from(recording.sound.rate);
            assert!((3.0..=4.0).contains(&seconds), "{seconds} s");
            assert_eq!(recording.sound.missing_sample_frames, 0);
            let skew = recording.pictures.skew.expect("pictures were recorded");
            assert!(skew.worst_ms < 3.0, "{skew:?}");
            let who = format!("is recorded in '{}'", file.display());
            assert!(told.iter().any(|sentence| sentence.contains(&who)), "{told:?}");
            assert!(recording.address.as_ref().is_some_and(|at| at.starts_with("127.")), "{recording:?}");
        }
        assert!(codecs[0] != codecs[1] && !codecs.contains(&own.codec()), "{codecs:?}");
        let all = summary.status.received.pictures.expect("the sum");
        let sum: u64 = summary.recordings.iter().map(|one| one.pictures.whole).sum();
        assert_eq!(all.whole, sum);
        let sent = summary.status.sent.pictures.expect("pictures are sent");
        assert_eq!((sent.refused, sent.expired), (0, 0), "{sent:?}");
        assert!(sent.left_out <= 5, "{sent:?}");
    }
}

fn pause(clock: &OsClock, time: Duration) {
    let until = clock.now() + time;
    while clock.now() < until {
        std::thread::park_timeout(until.since(clock.now()));
    }
}

/// One that joins in the middle of two seconds between key frames is sent what came since the last one: it need not wait for the next.
#[test]
fn one_that_joins_late_has_pictures_from_a_key_frame_before_that() {
    one_joins_late(&Group::new("late-film-group", 6), Who::Sends);
}

/// The same where a party without pictures is likely to be heard first.
#[test]
fn one_that_joins_late_and_hears_another_first_has_them_as_well() {
    one_joins_late(&Group::new("later-film-group", 7), Who::Listens);
}

/// Who calls first.
#[derive(PartialEq)]
enum Who {
    Sends,
    Listens,
}

fn one_joins_late(group: &Group, first: Who) {
    let listener = || group.calls(None, 6, group.sink("first.mkv"));
    let early = (first == Who::Listens).then(listener);
    let sends = group.calls(Some(Clip::H264), 6, "null:".into());
    let listens = early.unwrap_or_else(listener);
    let clock = OsClock::new();
    pause(&clock, Duration::from_millis(700));
    let late = group.calls(None, 3, group.sink("late.mkv"));
    let began = clock.now();
    // The first one that is heard is the first file. A header waits for the first key frame that can be decoded, or, without any, for five seconds of sound.
    let files = [1, 2].map(|number| group.file(&format!("late-{number}.mkv")));
    let has_begun = |film: &PathBuf| fs::metadata(film).is_ok_and(|file| file.len() > 0);
    while !files.iter().any(has_begun) {
        assert!(clock.now().since(began) < Duration::from_secs(3), "no picture came");
        pause(&clock, Duration::from_millis(5));
    }
    println!("the file has begun after {:?}", clock.now().since(began));
    let (summary, told) = late.ends();
    let with_pictures = |recording: &&PartyRecording| recording.pictures.written > 0;
    let recording = summary.recordings.iter().find(with_pictures).expect("it records the one that sends");
    let Recorded { pictures: written, missed, .. } = is_as_sent(&recording.sound.file);
    let pictures = &recording.pictures;
    assert_eq!((pictures.written, pictures.packets_missing), (written as u64, 0), "{told:?}");
    // It leaves while they go on, perhaps in the middle of one.
    assert!(pictures.broken <= 1, "{pictures:?}");
    // It joined by then, and the key frame before that is the first one.
    assert!((0.7..2.0).contains(&missed), "{missed} s");
    // All of the three seconds but those at the end that had not come, and those since the key frame before.
    assert!(written >= 70, "{written} pictures");
    let (listened, _) = listens.ends();
    let first = is_as_sent(&group.file("first-1.mkv")).pictures;
    assert!(first >= 140, "{first} pictures");
    let (sent, _) = sends.ends();
    let pictures = sent.status.sent.pictures.expect("it sends some");
    assert!((1..=2).contains(&pictures.caught_up), "{pictures:?}");
    assert_eq!(
        (listened.recordings[0].pictures.broken, listened.recordings[0].sound.missing_sample_frames),
        (0, 0)
    );
}

/// Its arguments are its title.
fn player(directory: &Path, text: &str) -> String {
    let path = directory.join("player");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("player:{}", path.display())
}

/// A party that comes gets a player, and one that leaves ends its own; the others go on.
#[test]
fn each_party_has_a_player_while_it_is_there() {
    let group = Group::new("player-group", 2);
    let text = format!("cat > {0}/$$.part; mv {0}/$$.part {0}/$$.mkv", group.directory.display());
    let watching = group.calls(None, 6, player(&group.directory, &text));
    let first = group.calls(Some(Clip::Vp8), 4, "null:".into());
    let second = group.calls(Some(Clip::H264), 2, "null:".into());
    let told = [second.ends(), first.ends()].map(|(_, told)| told);
    // Their sinks are for sound alone.
    let left_out =
        |told: &Vec<String>| told.iter().filter(|one| one.contains("sends pictures as well")).count();
    assert_eq!(told.each_ref().map(left_out), [1, 1], "{told:?}");
    let (summary, told) = watching.ends();
    assert!(!summary.interrupted && summary.recordings.is_empty() && summary.shortfall.is_none());
    assert_eq!(told.iter().filter(|one| one.contains("left the call")).count(), 2, "{told:?}");
    let films = fs::read_dir(&group.directory).unwrap().map(|entry| entry.unwrap().path());
    let name =
        |path: &PathBuf| path.file_stem().and_then(|name| name.to_str()?.parse::<u32>().ok()).is_some();
    let mut codecs = Vec::new();
    for path in films.filter(name) {
        assert!(
            path.extension().is_some_and(|end| end == "mkv"),
            "a player that was not ended: {}",
            path.display()
        );
        let got = film(&path);
        codecs.push(got[0].codec);
        let least = if got[0].codec == Codec::H264 { 20 } else { 60 };
        assert!(got.len() >= least, "{} pictures of {}", got.len(), got[0].codec);
    }
    codecs.sort_by_key(|codec| codec.encoding_name());
    assert_eq!(codecs, [Codec::H264, Codec::Vp8], "one player each");
    let pictures = summary.status.received.pictures.expect("the sum of those that are gone");
    assert!(pictures.written >= 80, "{pictures:?}");
}

/// A window that is closed ends nothing but itself, and the last one the call.
#[test]
fn the_last_player_that_is_closed_ends_the_call() {
    let group = Group::new("player-closed-group", 3);
    let sinks = player(&group.directory, "head -c 300000 > /dev/null");
    let watching = group.calls(None, 30, sinks);
    let first = group.calls(Some(Clip::Vp8), 4, "null:".into());
    let second = group.calls(Some(Clip::H264), 4, "null:".into());
    let (summary, told) = watching.ends();
    assert!(summary.interrupted && summary.shortfall.is_none(), "{summary:?}");
    assert!(told.iter().any(|one| one == "the player was closed"), "{told:?}");
    let closed = told.iter().filter(|one| one.contains("was closed: it is not heard any more")).count();
    assert!(closed >= 1, "{told:?}");
    [first.ends(), second.ends()].iter().for_each(|(ended, _)| assert!(ended.shortfall.is_none()));
}

#[test]
fn what_a_group_cannot_have_is_refused() {
    let group = Group::new("film-group-refused", 4);
    let path = |name: &str| group.file(name);
    fs::write(path("low.mkv"), Clip::Vp8.file()).unwrap();
    fs::write(path("taken-2.mkv"), "").unwrap();
    let refused = |video: &[&str], sink: &str| {
        let send = SendOptions {
            source: "tone:440Hz?seconds=1s".into(),
            video: video.iter().map(|name| path(name)).collect(),
            target: group.target.clone(),
            ..SendOptions::default()
        };
        let receive = ReceiveOptions { sink: sink.into(), ..ReceiveOptions::default() };
        let options = TalkOptions { send, receive, ..TalkOptions::default() };
        let error = talk(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err("nothing is sent");
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
        error.message
    };
    assert!(refused(&["low.mkv", "low.mkv"], "null:").contains("name one with --video"));
    let stdout = refused(&[], "-?format=mkv");
    assert!(stdout.contains("player:") || stdout.contains("terminal"), "{stdout}");
    let taken = refused(&[], &group.sink("taken.mkv"));
    assert!(taken.contains("taken-2.mkv"), "{taken}");
}

/// As an ordinary player sees it, each click of a party is heard when its picture is white.
#[test]
#[ignore = "needs ffmpeg, which scripts/install-peers installs"]
fn the_clappers_of_a_group_are_in_step_for_ffmpeg() {
    let group = Group::new("clapper-group", 5);
    let records = group.calls(None, 7, group.sink("of.mkv"));
    let others = [Clip::H264, Clip::Vp8].map(|clip| group.calls(Some(clip), 6, "null:".into()));
    others.into_iter().for_each(|other| assert!(other.ends().0.shortfall.is_none()));
    let (summary, _) = records.ends();
    assert_eq!(summary.recordings.len(), 2);
    for recording in &summary.recordings {
        assert_claps_in_step(&recording.sound.file, &[]);
    }
}
