//! Memory of an SRP association: no allocation per packet once it runs, and little per client of a server.

mod common;

use std::time::Duration;

use antiphon_core::{Endpoint, Instant, Message, Role, Tag};
use antiphon_proto::srp::{Decision, Mode, Settings, SrpEndpoint};
use antiphon_testkit::{Counting, Steps};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ONE_WAY: Duration = Duration::from_millis(15);
const MAX_DATAGRAM: usize = 1472;

/// Two endpoints and wires that lose one datagram of ten.
fn pair(settings: &Settings) -> Steps {
    let open = |role| Box::new(SrpEndpoint::new(settings, role, MAX_DATAGRAM, 3, Instant::ZERO)) as _;
    Steps::new([Role::Caller, Role::Listener].map(open), ONE_WAY, 0.1, 2)
}

/// Advances time without sending.
fn wait(pair: &mut Steps, millis: u32) {
    (0..millis).for_each(|_| pair.step([true; 2], |_, _, _| ()));
}

/// `count` messages of `len` bytes in both directions, one every 5 ms, every other one less urgent.
fn stream(pair: &mut Steps, count: u32, len: usize) {
    for n in 0..count {
        pair.step([true; 2], |_, now, end| {
            let deadline = Some(now + Duration::from_millis(80));
            let message = Message::new(Tag::NONE, &MESSAGE[..len], deadline);
            let message = Message { priority: (n % 2) as u8, ..message };
            end.send(now, message).expect("an idle queue accepts");
        });
        wait(pair, 4);
    }
}

/// Sends `count` messages at one instant.
fn burst(pair: &mut Steps, count: u32, len: usize) {
    pair.step([true; 2], |_, now, end| {
        for _ in 0..count {
            let message = Message::new(Tag::NONE, &MESSAGE[..len], None);
            end.send(now, message).expect("an idle queue accepts");
        }
    });
    wait(pair, 99);
}

const MESSAGE: [u8; 8192] = [7; 8192];

fn settings() -> [Settings; 3] {
    let latency = Duration::from_millis(80);
    let nearest = Settings { decide: Decision::Nearest, ..Settings::new(Mode::Improved, latency) };
    [Settings::new(Mode::Improved, latency), nearest, Settings::new(Mode::AsPublished, latency)]
}

#[test]
fn a_running_stream_allocates_nothing() {
    for settings in settings() {
        // Audio of one packet a message, and messages of three in the mode that supports them.
        for len in [500, 4000] {
            if settings.mode == Mode::AsPublished && len > 1400 {
                continue;
            }
            let mut pair = pair(&settings);
            // Half a second shows the stream's pace. Long messages use every buffer for their parts once, as after the
            // first stall; the published client's places are filled in turn.
            stream(&mut pair, 100, len);
            if len > MAX_DATAGRAM || settings.mode == Mode::AsPublished {
                burst(&mut pair, 12, len);
                stream(&mut pair, 3000, len);
            }
            let delivered = pair.delivered;
            let calls = Counting::calls(|| stream(&mut pair, 3000, len));
            assert_eq!(calls, 0, "{settings:?}, messages of {len} bytes");
            assert!(pair.delivered - delivered > 5_000, "the stream flows: {}", pair.delivered - delivered);
            let stats = pair.ends.each_ref().map(|side| side.stats().counters.retransmitted);
            assert!(stats.iter().all(|n| *n > 100), "and is repaired: {stats:?}");
        }
    }
    // Checks that the counter works.
    assert_eq!(Counting::calls(|| drop(Vec::<u8>::with_capacity(1))), 2);
}

/// An endpoint that has sent for two seconds.
fn in_use(uri: &str) -> Box<dyn Endpoint> {
    let mut endpoint = common::endpoint(uri, Role::Listener, 1);
    let mut buf = [0; 2048];
    for n in 0..100 {
        let now = Instant::from_millis(20 * n);
        endpoint.handle_timeout(now);
        endpoint
            .send(now, Message::new(Tag::NONE, &[1; 500], Some(now + common::PLAYOUT_DELAY)))
            .expect("an idle queue accepts");
        while endpoint.poll_transmit(now, &mut buf).is_some() {}
        while endpoint.poll_event().is_some() {}
    }
    endpoint
}

/// Memory per peer of a server of each of these transports; each peer gets 50 packets of 500 bytes a second.
#[test]
fn associations_of_other_transports_take_under_64_kb() {
    for uri in ["rtp", "arq", "arq?mode=as-published", "arq?congestion=aimd", "arq?reliability=full"] {
        let (held, _endpoint) = Counting::held(|| in_use(uri));
        println!("{uri}: {held} bytes");
        assert!(held < 64_000, "{uri}: {held} bytes");
    }
}

#[test]
fn a_client_takes_under_64_kb_beside_its_buffer() {
    for settings in settings() {
        let (held, idle) =
            Counting::held(|| SrpEndpoint::new(&settings, Role::Listener, MAX_DATAGRAM, 3, Instant::ZERO));
        let fresh = held + size_of::<SrpEndpoint>() as i64;
        println!("{:?}: {fresh} bytes", settings.mode);
        assert!(fresh < 48_000, "an association that is not used: {fresh} bytes, {settings:?}");
        assert_eq!(idle.poll_timeout(), None, "an idle association wants no time-out");
        // In use: 50 packets of 500 bytes a second both ways, with losses. The memory is that of the repair buffer.
        let (held, pair) = Counting::held(|| {
            let mut pair = pair(&settings);
            for _ in 0..500 {
                stream(&mut pair, 1, 500);
                wait(&mut pair, 15);
            }
            pair
        });
        let per_side = (held - pair.own_bytes() as i64) / 2 - size_of::<SrpEndpoint>() as i64;
        let kept = match settings.mode {
            // 256 messages at the server, and some of the client's places, filled in turn.
            Mode::AsPublished => (256 + 60) * 500,
            // A second of packets, each with its header.
            Mode::Improved => 52 * 516,
        };
        println!("{:?} in use: {} bytes and {kept} of buffer", settings.mode, per_side - kept);
        assert!(per_side - kept < 64_000, "{per_side} bytes a side, {kept} of them buffer, {settings:?}");
    }
}
