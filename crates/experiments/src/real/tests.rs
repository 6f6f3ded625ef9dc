use std::path::Path;
use std::sync::{Mutex, PoisonError};

use antiphon_lab::figures::StreamFigures;
use antiphon_net::netns::Means;
use antiphon_testkit::unless_held_up;

use super::super::{Outcome, RunOptions, Setting as On, kept, run};
use super::*;

/// One sender of many frames over a link.
fn job(link: &str, more: &str) -> Job {
    let text = format!(
        "title='Known'\nduration='1h'\ndrain='1s'\nnode.a={{}}\nnode.b={{}}\n[link.line]\nbetween=['a','b']\n{link}\n\
         [stream.s]\nfrom='a'\nto='b'\nframe='200B'\ninterval='2ms'\nlatency='20ms'\n{more}"
    );
    Job::new("test", "test.toml", &text).unwrap()
}

fn options(results: &Path, duration: Duration) -> RunOptions {
    let real = RealOptions { duration: Some(duration), link_method: None };
    RunOptions { results: results.into(), real: Some(real), ..RunOptions::default() }
}

/// What lies between the delays that these tests find and those that they bear.
const BEARS: Duration = Duration::from_millis(10);

fn millis(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// Two runs at once would share the processors and the measurement.
fn on_sockets(job: &Job, duration: Duration) -> Outcome {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    // A test that failed meanwhile leaves nothing half done.
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let results = tempfile::tempdir().unwrap();
    run(job, &options(results.path(), duration), &Stop::new(), &mut |_| {}).unwrap()
}

fn first(outcome: &Outcome) -> StreamFigures {
    outcome.finished[0].streams[0].1
}

fn counter(outcome: &Outcome, name: &str) -> f64 {
    let media = &outcome.finished[0].media[0];
    media.counters.iter().find(|(other, _)| other == name).unwrap().1
}

fn has_router() -> bool {
    let means = antiphon_net::netns::probe();
    if let Means::Forbidden(why) = &means {
        antiphon_testkit::skip_without_namespace(&format!("no router here: {why}"));
    }
    !matches!(means, Means::Forbidden(_))
}

/// The instrument, against theory and against the model: twice 600 frames over 20 ms and 5 % of loss.
#[test]
fn a_known_link_delays_and_loses_as_it_should_and_as_the_model_does() {
    // A fixed number of frames, so that a slow machine sends the same packets.
    let frames = "interval='1ms'\ncount=600";
    let job = job("delay='20ms'\nloss='5%'", "transport='rtp'");
    let text = job.scenario.text().replace("interval='2ms'", frames);
    let twice = super::super::Changes { repetitions: Some(2), ..Default::default() };
    let job = Job::new("test", "t", &text).and_then(|job| job.with(&twice)).unwrap();
    let longest = millis(5000);
    let outcome = on_sockets(&job, longest);
    let mut received = [0.0; 2];
    for finished in &outcome.finished {
        let figures = finished.streams[0].1;
        assert_eq!(figures.sent, Some(600.0));
        received[0] += figures.received.unwrap();
        // Nothing arrives early. Half of all arrive within the time that a loaded machine takes to wake four threads; a
        // second pass of the link, or a timer of whole ticks (4 ms), takes longer.
        let (least, half) = (20.0, figures.delay_p50_ms.unwrap());
        assert!((least..least + 2.0).contains(&half), "{half} ms");
        assert!(figures.delay_mean_ms.unwrap() >= least);
        assert_eq!((figures.duplicate, figures.reordered, figures.broken), (Some(0.0), Some(0.0), Some(0.0)));
        assert_eq!(figures.wire_bytes, Some(600.0 * 228.0));
        // The same run in the model.
        let setup = Setup { duration: longest, ..job.scenario.setup_of(&finished.run).unwrap() };
        let modelled = antiphon_lab::world::run(&setup, finished.run.seed).unwrap().streams[0].1;
        assert_eq!((modelled.sent, modelled.delay_p50_ms), (figures.sent, Some(20.0)));
        received[1] += modelled.received.unwrap();
        if has_router() {
            let lost = finished.media[0].counters.iter().find(|(name, _)| name == "up_lost").unwrap().1;
            assert_eq!(lost, 600.0 - figures.received.unwrap());
        }
    }
    // Binomial: 0.63 % standard deviation; 4 of them exclude a link without losses and one that draws twice (9.75 %).
    let lost = received.map(|received| 100.0 - received / 12.0);
    assert!(lost.iter().all(|lost| (2.5..=7.5).contains(lost)), "{lost:?} %");
}

/// The seed of a run's media reaches the real link as it does the modelled one: a fade, or the time between two, lasts longer than any
/// test, so that the seed alone decides whether a run's frames are lost.
#[test]
fn the_seed_of_a_run_decides_its_losses_as_in_the_model() {
    if !has_router() {
        // A proxy forks the seed once more, for each flow.
        return;
    }
    let job = job("loss='1000s/1000s/100%/0%'", "transport='rtp'\ncount=20");
    let six = super::super::Changes { repetitions: Some(6), ..Default::default() };
    let job = job.with(&six).unwrap();
    let length = millis(500);
    let outcome = on_sockets(&job, length);
    let mut runs = Vec::new();
    for finished in &outcome.finished {
        let setup = Setup { duration: length, ..job.scenario.setup_of(&finished.run).unwrap() };
        let modelled = antiphon_lab::world::run(&setup, finished.run.seed).unwrap().streams[0].1;
        let real = finished.streams[0].1;
        runs.push([modelled, real].map(|figures| (figures.sent, figures.received)));
    }
    assert_eq!(runs.len(), 6);
    for [modelled, real] in &runs {
        assert_eq!(modelled, real, "{runs:?}");
    }
    for received in [0.0, 20.0] {
        assert!(runs.contains(&[(Some(20.0), Some(received)); 2]), "both occur: {runs:?}");
    }
}

/// A stream of 0.9 Mbit/s of IP packets and as much other traffic exceed a link of 1.2 Mbit/s.
#[test]
fn other_traffic_crosses_the_same_link() {
    if !has_router() {
        return;
    }
    let beside = "transport='rtp'\n[traffic.beside]\nkind='constant'\nfrom='a'\nto='b'\nrate='0.8Mbit/s'\npayload='200B'\n\
                  [traffic.ping]\nkind='ping'\nfrom='b'\nto='a'\ninterval='20ms'\ncount=100\n\
                  [traffic.bulk]\nkind='tcp'\nfrom='b'\nto='a'";
    let link = "up.rate='1.2Mbit/s'\nup.queue='3000B'\ndown.rate='20Mbit/s'\ndelay='5ms'";
    let outcome = on_sockets(&job(link, beside), millis(600));
    let (offered, overflowed) = (counter(&outcome, "up_offered"), counter(&outcome, "up_overflowed"));
    // 300 frames, 300 packets of the traffic (480 kbit), 30 echoes, and the acknowledgements of the TCP.
    assert!(offered > 600.0, "{offered}");
    assert!(overflowed > 60.0, "{overflowed}");
    let figures = first(&outcome);
    // 3000 bytes at 1.2 Mbit/s: 20 ms beside the 5; a few more packets are already being sent.
    let longest = figures.delay_p99_ms.unwrap();
    assert!((20.0..40.0).contains(&longest), "{longest} ms");
    assert!(figures.lost_percent.unwrap() > 5.0);
    let (name, ping) = &outcome.finished[0].streams[1];
    assert_eq!((name.as_str(), ping.sent), ("ping", Some(30.0)));
    assert!(ping.rtt_mean_ms.unwrap() > 10.0);
    // A TCP alone on 20 Mbit/s carries more than 1 Mbit in half a second, even in slow start.
    assert!(counter(&outcome, "down_delivered_bytes") > 125_000.0);
}

#[test]
fn loopback_returns_frames_of_datagrams_and_of_byte_streams() {
    for transport in ["rtp", "tcp", "sctp"] {
        let reflected = format!("transport='{transport}'\nreflected=true");
        // Four wake-ups take a tenth of a millisecond. A busy machine may be late throughout one or two runs; a timer
        // of whole ticks (4 ms), or a wait that only its time-out ends (50 ms), is late in all.
        let mut trips = Vec::new();
        while trips.len() < 3 && trips.iter().all(|trip| *trip >= 2.0) {
            let outcome = on_sockets(&job("link='ideal'", &reflected), millis(200));
            let figures = first(&outcome);
            // A packet due in the last moments may miss the end.
            assert!(
                figures.sent > Some(90.0) && figures.lost_percent == Some(0.0),
                "{transport}: {figures:?}"
            );
            assert!(outcome.finished[0].media.is_empty() && figures.delay_mean_ms.is_none());
            trips.push(figures.rtt_mean_ms.unwrap());
        }
        assert!(trips.iter().any(|trip| *trip > 0.0 && *trip < 2.0), "{transport}: {trips:?} ms");
    }
    let sound = "transport='rtp'\nsound={rate='48kHz',channels=2,block=240}";
    let text =
        job("link='ideal'", "transport='rtp'").scenario.text().replace("frame='200B'\ninterval='2ms'\n", "");
    let outcome =
        on_sockets(&Job::new("test", "t", &text.replace("transport='rtp'", sound)).unwrap(), millis(300));
    let figures = first(&outcome);
    assert_eq!(figures.lost_percent, Some(0.0));
    assert!(figures.sent >= Some(60.0) && figures.concealed_percent.is_some(), "{figures:?}");
}

/// A stream and a video beside it, as in the study of two streams, or pictures beside the sound of one session.
fn two_streams(link: &str, video: &str) -> Job {
    let text = format!(
        "title='Two'\nduration='1h'\ndrain='1s'\nnode.a={{}}\nnode.b={{}}\nlink.line={{between=['a','b'],{link}}}\n\
         [stream.audio]\ntransport='rtp'\nfrom='a'\nto='b'\nlatency='200ms'\nbeside='video'\n{video}"
    );
    Job::new("test", "test.toml", &text).unwrap()
}

/// Twenty frames of four packets, from 0.2 s on.
const FRAMES: &str = "frame='4000B'\npacket='1000B'\ninterval='50ms'\ncount=20";

/// A video's figures, and those of the audio beside it, are the model's: 4000 bytes take 8.2 ms on a link of 4 Mbit/s, and 5 more.
#[test]
fn a_video_is_measured_beside_audio_as_in_the_model() {
    if !has_router() {
        return;
    }
    unless_held_up(BEARS, || {
        let longest = millis(1_500);
        let mut both = Vec::new();
        for transport in ["rtp", "tcp", "sctp"] {
            let video = format!(
                "frame='96B'\ninterval='20ms'\n[stream.video]\ntransport='{transport}'\nfrom='a'\nto='b'\nstart='200ms'\n\
                 [stream.video.video]\nchoose='all'\n{FRAMES}"
            );
            both.push((transport, two_streams("delay='5ms',rate='4Mbit/s'", &video)));
        }
        let session = format!(
            "patience='200ms'\n[stream.audio.sound]\nrate='48kHz'\nchannels=1\nopus='16kbit/s'\nblock=960\n\
             [stream.audio.pictures]\nname='video'\nstart='200ms'\n{FRAMES}"
        );
        both.push(("pictures of a session", two_streams("delay='5ms',rate='4Mbit/s'", &session)));
        for (what, job) in both {
            let outcome = on_sockets(&job, longest);
            let finished = &outcome.finished[0];
            let setup = Setup { duration: longest, ..job.scenario.setup_of(&finished.run).unwrap() };
            let model = antiphon_lab::world::run(&setup, finished.run.seed).unwrap();
            let names = |streams: &[(String, StreamFigures)]| -> Vec<String> {
                streams.iter().map(|(name, _)| name.clone()).collect()
            };
            assert_eq!(names(&finished.streams), ["audio", "video"], "{what}");
            assert_eq!(names(&model.streams), ["audio", "video"], "{what}");
            let [(_, audio), (_, video)] = &finished.streams[..] else { unreachable!() };
            let modelled = model.streams[1].1;
            assert_eq!(
                (video.sent, video.frames_sent, video.frames_whole),
                (Some(80.0), Some(20.0), Some(20.0)),
                "{what}"
            );
            assert_eq!((modelled.sent, modelled.frames_whole), (video.sent, video.frames_whole), "{what}");
            let delay = video.frame_delay_mean_ms.unwrap();
            assert!((13.0..100.0).contains(&delay), "{what}: {delay} ms");
            // Some packets of audio arrive beside one of the video, and others don't.
            assert!(audio.gap_shared_ms.is_some() && audio.gap_unshared_ms.is_some(), "{what}: {audio:?}");
            assert_eq!(audio.missed_1000ms_percent, Some(0.0), "{what}");
        }
    });
}

/// Where the queue holds two of a frame's four packets no frame is whole.
#[test]
fn frames_that_lost_a_packet_are_not_whole() {
    if !has_router() {
        return;
    }
    let video = format!(
        "frame='96B'\ninterval='20ms'\n[stream.video]\ntransport='rtp'\nfrom='a'\nto='b'\nstart='200ms'\n\
         [stream.video.video]\nchoose='all'\n{FRAMES}"
    );
    let outcome = on_sockets(&two_streams("up.rate='400kbit/s',up.queue='2packets'", &video), millis(1_500));
    let (name, video) = &outcome.finished[0].streams[1];
    assert_eq!((name.as_str(), video.frames_sent, video.frames_whole), ("video", Some(20.0), Some(0.0)));
    // Of 20 intervals all but the first, which is nobody's fault.
    assert!(video.freeze_percent >= Some(94.0), "{video:?}");
}

#[test]
fn a_run_that_ends_before_a_stream_begins_is_refused() {
    let results = tempfile::tempdir().unwrap();
    let job = job("link='ideal'", "transport='rtp'\nstart='2s'");
    let error = run(&job, &options(results.path(), millis(2_000)), &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(
        error.message.contains("'s' begins after 2s") && error.message.contains("--real-duration"),
        "{error}"
    );
    assert_eq!((error.exit_code(), std::fs::read_dir(results.path()).unwrap().count()), (2, 0));
}

#[test]
fn what_is_only_modelled_is_refused_before_anything_is_written() {
    let text = "title='x'\nduration='1s'\nnode.a={}\nnode.b={}\ncell.w={access-point='a',stations=['b']}\n\
                [traffic.p]\nkind='ping'\nfrom='a'\nto='b'\ninterval='1s'\ncount=1";
    let results = tempfile::tempdir().unwrap();
    let job = Job::new("test", "test.toml", text).unwrap();
    let error = run(&job, &options(results.path(), millis(100)), &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(error.message.contains("'w' is an 802.11 cell: that exists as a model only"), "{error}");
    assert_eq!((error.exit_code(), std::fs::read_dir(results.path()).unwrap().count()), (2, 0));
}

#[test]
fn runs_on_sockets_are_kept_apart_and_go_on() {
    let results = tempfile::tempdir().unwrap();
    let job = job("link='ideal'", "transport='rtp'")
        .with(&super::super::Changes { repetitions: Some(2), ..Default::default() });
    let (job, options) = (job.unwrap(), options(results.path(), millis(60)));
    // Stopped in its first run, it keeps nothing and ends soon.
    let (stop, clock) = (Stop::new(), OsClock::new());
    stop.ask();
    let outcome = run(&job, &options, &stop, &mut |_| {}).unwrap();
    assert!(outcome.interrupted && outcome.finished.is_empty());
    assert!(clock.now().as_nanos() < 2_000_000_000);
    let mut expected = Vec::new();
    let outcome = run(&job, &options, &Stop::new(), &mut |p| expected.push(p.expected)).unwrap();
    assert_eq!((outcome.before, outcome.finished.len()), (0, 2));
    // Two runs of 60 ms, with set-up and drain.
    assert!((millis(120)..millis(2000)).contains(&expected[0].unwrap()), "{:?}", expected[0]);
    let table = std::fs::read_to_string(results.path().join("test/real/results.csv")).unwrap();
    assert!(table.lines().nth(1).unwrap().contains(",real,s,"), "{table}");
    assert_eq!(kept(&job, results.path(), On::Model).unwrap().0.runs(), 0);
    assert_eq!(kept(&job, results.path(), On::Real).unwrap().0, outcome.results());
    let again = run(&job, &options, &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!((again.before, &again.finished), (2, &outcome.finished));
    let longer = run(&job, &super::tests::options(results.path(), millis(70)), &Stop::new(), &mut |_| {});
    let told = longer.unwrap_err().message;
    assert!(
        told.contains("another length (real, 60ms, not real, 70ms)") && told.contains("--fresh"),
        "{told}"
    );
}
