//! Sound, pictures and data of one session, each over a transport of its own.

use std::time::Duration;

use antiphon_core::{BitRate, Instant, WireId};
use antiphon_session::{Change, SharedPath, VideoEnd};

use crate::data_beside::{Sink, add_data, content, sent};
use crate::video::{Pictures, Shared};
use crate::wired::Wired;
use crate::world::ms;

/// The wires of pictures and of data.
const VIDEO: WireId = WireId(1);
const DATA: WireId = WireId(2);

/// Sound over the first transport and link, pictures over the second one, and so much data over the third.
fn world(
    [sound, video, data]: [(&str, &str); 3],
    delay: Option<Duration>,
    bytes: usize,
) -> (Wired, Shared, Sink) {
    let (seen, got) = (Shared::default(), Sink::default());
    let pictures = Pictures::new(ms(40), 4, 95);
    let mut world = Wired::with_pictures_apart(&[sound, video], delay, pictures, Box::new(seen.clone()));
    world.near.set_congestion_manager(Box::new(SharedPath::new(3)));
    world.add_data_apart(data, |near| add_data(near, content(bytes), |_| {}), Box::new(got.clone()));
    (world, seen, got)
}

#[test]
fn each_medium_goes_over_a_transport_of_its_own() {
    let link = "delay=10ms";
    for (video, data) in [
        ("sctp", "arq?reliability=full"),
        ("srp", "sctp?reliability=full"),
        ("xtp", "rtp"),
        ("rtp", "xtp?reliability=full"),
        ("dccp", "srp?reliability=full"),
    ] {
        let names = [("rtp", link), (video, link), (data, link)];
        let (mut world, seen, got) = world(names, None, 200_000);
        world.end_flawless();
        let mut joined = world.changes.clone();
        joined.sort_by_key(|change| format!("{change:?}"));
        assert_eq!(joined, [Change::Joined(VIDEO), Change::Joined(DATA)], "{video}, {data}");
        assert_eq!(seen.whole(4).len(), 95, "{video}: {:?}", world.near.video_sent().next());
        assert!(got.0.lock().unwrap().bytes == content(200_000), "{data}: {:?}", sent(&world.near));
        assert_eq!(got.0.lock().unwrap().length, Some(200_000), "{data}");
        // 12 s of sound; 380 000 bytes of pictures; and none of one goes over the wire of another.
        let bytes = [WireId(0), VIDEO, DATA].map(|wire| world.sent[&wire]);
        assert!(bytes[0] < 2_600_000, "{video}, {data}: {bytes:?}");
        assert!((380_000..560_000).contains(&bytes[1]), "{video}, {data}: {bytes:?}");
        assert!((200_000..320_000).contains(&bytes[2]), "{video}, {data}: {bytes:?}");
        assert_eq!(world.far.video_end(), Some(VideoEnd::Whole), "{video}, {data}");
    }
}

/// What becomes of one of them touches neither the sound nor the other one.
#[test]
fn a_transport_that_is_dead_touches_no_other_medium() {
    for dead in [VIDEO, DATA] {
        let link = |wire| if wire == dead { "loss=100%" } else { "delay=10ms" };
        let names = [("rtp", "delay=10ms"), ("sctp", link(VIDEO)), ("xtp?reliability=full", link(DATA))];
        let (mut world, seen, got) = world(names, Some(ms(200)), 100_000);
        world.end_flawless();
        let (pictures, data) = (seen.whole(4).len(), got.0.lock().unwrap().bytes.len());
        let expected = if dead == VIDEO { (0, 100_000) } else { (95, 0) };
        assert_eq!((pictures, data), expected, "{dead:?}: {:?}", world.changes);
        let alive = if dead == VIDEO { DATA } else { VIDEO };
        assert!(world.changes.contains(&Change::Joined(alive)), "{:?}", world.changes);
        assert!(!world.changes.contains(&Change::Joined(dead)), "{:?}", world.changes);
    }
}

/// A recording waits for what comes later than the sound, each by its own path.
#[test]
fn a_recording_waits_for_the_end_of_each() {
    for (video, data) in [("delay=300ms", "delay=10ms"), ("delay=10ms", "delay=300ms")] {
        let names = [("rtp", "delay=10ms"), ("rtp", video), ("sctp?reliability=full", data)];
        let (seen, got) = (Shared::default(), Sink::default());
        let pictures = Pictures::new(ms(40), 4, 300);
        let mut world = Wired::with_pictures_apart(&names[..2], None, pictures, Box::new(seen.clone()));
        let rate = |near: &mut _| add_data(near, content(180_000), |one| one.rate = Some(BitRate(120_000)));
        world.add_data_apart(names[2], rate, Box::new(got.clone()));
        world.end_flawless();
        assert_eq!(seen.whole(4).len(), 300, "{video}");
        assert_eq!(got.0.lock().unwrap().length, Some(180_000), "{data}: {:?}", sent(&world.near));
    }
}

/// All three share one path, and the manager hears of all that arrives, over whichever association that is told.
#[test]
fn what_arrives_of_each_medium_counts() {
    for (video, data) in [("rtp", "sctp"), ("srp", "rtp")] {
        let link = "delay=10ms";
        let names = [("rtp", link), (video, link), (data, link)];
        let (mut world, _, _) = world(names, Some(ms(200)), 20_000_000);
        world.run_for(ms(3_000));
        let path = world.near.path_figures();
        let data = sent(&world.near).bytes as f64 * 8.0 / 3.0;
        // Sound of 1.6 Mbit/s, pictures of 0.8, and data, which take what there is.
        let arrived = path.delivered.expect("it is told") * 8.0;
        assert!(data > 2e6 && arrived > 1.4e6 + data / 2.0, "{arrived}, data {data}, {path:?}");
    }
}

/// A receiver that is started again knows neither: both are shown to it again.
#[test]
fn both_come_again_to_a_receiver_that_is_started_again() {
    let names = [("rtp", "delay=10ms"), ("srp", "delay=10ms")];
    let delay = Some(ms(200));
    let seen = Shared::default();
    let mut world =
        Wired::with_pictures_apart(&names, delay, Pictures::new(ms(40), 4, 290), Box::new(seen.clone()));
    let slow = |near: &mut _| add_data(near, content(400_000), |one| one.rate = Some(BitRate(240_000)));
    world.add_data_apart(("sctp", "delay=10ms"), slow, Box::new(Sink::default()));
    world.run_for(ms(3_000));
    let (second, got) = (Shared::default(), Sink::default());
    world.start_receiver(&names, delay, Box::new(second.clone()));
    world.listen_for_data("sctp", Box::new(got.clone()));
    world.run_until(Instant::from_millis(20_000));
    let whole = second.whole(4).len();
    assert!(whole >= 215 - 5 * 25, "{whole}, {:?}", world.changes);
    let has = got.0.lock().unwrap().has.iter().filter(|has| **has).count();
    assert!(has > 100_000, "{has}, {:?}", world.changes);
}
