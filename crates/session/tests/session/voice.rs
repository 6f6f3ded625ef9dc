//! Voice channels between two ports in virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Instant, PathId};
use antiphon_media::voice::{Piece, VoiceKind, VoiceMaterial, VoiceSource};
use antiphon_session::{VoicePort, VoiceReceiving, VoiceSending, VoiceSink};
use antiphon_testkit::World;

use crate::common::{SILENCE, WIRE, ms, stack};

/// Compares what every channel hears with what it was told.
struct Checked {
    sources: Vec<VoiceSource>,
    heard: Vec<u64>,
    buf: Vec<u8>,
    wrong: u64,
    sound: u64,
}

struct Sink(Rc<RefCell<Checked>>);

impl VoiceSink for Sink {
    fn piece(&mut self, channel: u16, _tick: u64, piece: Piece<'_>) {
        let checked = &mut *self.0.borrow_mut();
        let Some(place) = checked.heard.get_mut(usize::from(channel)) else { return };
        match piece {
            Piece::Sound(bytes) => {
                let expected = &mut checked.buf[..bytes.len()];
                checked.sources[usize::from(channel)].read(*place, expected);
                checked.wrong += u64::from(expected != bytes);
                *place += bytes.len() as u64;
                checked.sound += bytes.len() as u64;
            }
            Piece::Missing(bytes) => *place += bytes,
            Piece::Underflow(_) | Piece::Pause(..) => {}
        }
    }

    fn on_taken(&mut self, _tick: u64) {}
}

/// The channels of one direction.
#[derive(Clone)]
struct Way {
    sends: VoiceSending,
    receives: VoiceReceiving,
}

impl Way {
    fn new(channels: usize, size: usize, length: Duration) -> Self {
        let material = VoiceMaterial::of_kind(VoiceKind::Noise, channels as u64);
        let sources = (0..channels).map(|number| material.channel(number)).collect();
        let length = Some(length.as_micros() as u64 / 125);
        Way {
            sends: VoiceSending { length, ..VoiceSending::new(sources, size) },
            receives: VoiceReceiving::default(),
        }
    }

    fn sink(&self) -> (Rc<RefCell<Checked>>, Sink) {
        let sources = self.sends.sources.clone();
        let (heard, buf) = (vec![0; sources.len()], vec![0; 1 << 16]);
        let checked = Rc::new(RefCell::new(Checked { sources, heard, buf, wrong: 0, sound: 0 }));
        (Rc::clone(&checked), Sink(checked))
    }
}

/// Two ports after their channels have ended.
struct Ran {
    world: World<VoicePort<Sink>, VoicePort<Sink>>,
    /// What the far end heard.
    up: Rc<RefCell<Checked>>,
    down: Option<Rc<RefCell<Checked>>>,
}

fn run(name: &str, link: &str, up: &Way, down: Option<&Way>, limit: Duration) -> Ran {
    run_with(name, link, up, down, limit, |_| {})
}

fn run_with(
    name: &str,
    link: &str,
    up: &Way,
    down: Option<&Way>,
    limit: Duration,
    change: impl FnOnce(&mut World<VoicePort<Sink>, VoicePort<Sink>>),
) -> Ran {
    let now = Instant::ZERO;
    let (heard_up, sink_up) = up.sink();
    let (heard_down, sink_down) = down.unwrap_or(up).sink();
    let receives = down.map_or_else(VoiceReceiving::default, |way| way.receives);
    let mut near = VoicePort::new(now, 1, Some(up.sends.clone()), receives, sink_down);
    near.call(now, WIRE, &[PathId(0)], &*stack(name));
    let mut far = VoicePort::new(now, 2, down.map(|way| way.sends.clone()), up.receives, sink_up);
    far.listen(now, WIRE, stack(name), SILENCE);
    let mut world = World::linked(near, far, link, 1);
    change(&mut world);
    world.run(now + limit);
    Ran { world, up: heard_up, down: down.map(|_| heard_down) }
}

/// Everything that was sent was heard, and nothing else.
fn assert_whole(ran: &Ran, channels: u64, length: Duration, name: &str) {
    let (near, received) = (ran.world.near.sent(ran.world.now), ran.world.far.received());
    let bytes = channels * (length.as_micros() as u64 / 125);
    assert_eq!(received.fifos.taken, bytes, "{name}: {received:?}, {near:?}");
    assert_eq!((received.fifos.underflow, received.fifos.missing), (0, 0), "{name}: {received:?}");
    assert_eq!((received.channels, received.ended, ran.up.borrow().wrong), (channels, channels, 0), "{name}");
}

#[test]
fn ten_channels_arrive_byte_by_byte_over_every_datagram_transport() {
    for name in ["rtp", "sctp", "dccp", "srp", "arq", "xtp"] {
        let mut way = Way::new(10, 160, ms(2000));
        let back = Way::new(3, 160, ms(2500));
        if name == "dccp" {
            // It begins slowly (RFC 5348 §4.2).
            way.receives.delay = Some(800);
        }
        let ran = run(name, "delay=5ms", &way, Some(&back), Duration::from_secs(30));
        assert_whole(&ran, 10, ms(2000), name);
        assert!(ran.world.near.received().channels == 3, "{name}: {:?}", ran.world.near.received());
        let down = ran.down.expect("it went both ways");
        let down = down.borrow();
        // The caller leaves when its own channels have ended.
        assert!(down.wrong == 0 && down.sound >= 3 * 15_000, "{name}: {}", down.sound);
        // Then nobody is there to hear, and sources stop.
        let back = ran.world.far.sent(ran.world.now);
        assert!(name == "dccp" || back.overflow == 0 && back.refused == 0, "{name}: {back:?}");
        // The caller's last goodbye comes by 2.15 s; sinks are looked after every 0.25 s.
        assert!(back.captured < 3 * 17_200, "{name}: {back:?}");
    }
}

#[test]
fn a_thousand_channels_arrive_byte_by_byte() {
    let way = Way::new(1000, 160, ms(5000));
    let ran = run("xtp", "delay=5ms", &way, None, Duration::from_secs(30));
    assert_whole(&ran, 1000, ms(5000), "xtp");
    let sent = ran.world.near.sent(ran.world.now);
    assert_eq!((sent.packets, sent.acked, sent.overflow), (250_000, 250_000, 0));
}

#[test]
#[ignore = "a minute; run it with the release profile"]
fn a_thousand_channels_arrive_byte_by_byte_for_ten_minutes() {
    let length = Duration::from_secs(600);
    let way = Way::new(1000, 1024, length);
    let ran = run("xtp", "delay=5ms", &way, Some(&way), length + Duration::from_secs(30));
    assert_whole(&ran, 1000, length, "xtp");
    let down = ran.down.expect("it went both ways");
    assert_eq!((down.borrow().wrong, ran.world.near.received().fifos.underflow), (0, 0));
}

/// Ten minutes between clocks 100 ppm apart differ by 480 bytes, of which the FIFO bears half a datum.
const APART: u64 = 480 - 80;

#[test]
fn a_faster_sink_finds_its_fifo_empty_as_often_as_calculated() {
    let length = Duration::from_secs(600);
    let mut way = Way::new(20, 160, length);
    way.receives.clock_ppm = 100;
    let ran = run("xtp", "delay=5ms", &way, None, length + Duration::from_secs(30));
    let received = ran.world.far.received();
    for channel in 0..20 {
        let fifo = ran.world.far.fifo(channel).expect("it was received");
        // The sink's first byte may be one earlier or later.
        assert!(fifo.underflow.abs_diff(APART) <= 1, "channel {channel}: {fifo:?}");
    }
    let bytes = 20 * 4_800_000;
    assert_eq!((received.fifos.taken, received.fifos.overflow, ran.up.borrow().wrong), (bytes, 0, 0));
}

#[test]
fn a_faster_source_finds_the_fifo_full_as_often_as_calculated() {
    let length = Duration::from_secs(600);
    let mut way = Way::new(20, 160, length);
    way.sends.clock_ppm = 100;
    way.sends.length = Some(4_800_480);
    let ran = run("xtp", "delay=5ms", &way, None, length + Duration::from_secs(30));
    for channel in 0..20 {
        let fifo = ran.world.far.fifo(channel).expect("it was received");
        assert!(fifo.overflow.abs_diff(APART) <= 1, "channel {channel}: {fifo:?}");
        assert_eq!((fifo.taken + fifo.overflow, fifo.underflow, fifo.missing), (4_800_480, 0, 0));
    }
}

#[test]
fn no_datum_is_longer_than_a_packet_of_the_path() {
    for (name, pieces) in [("xtp", 1), ("sctp", 1), ("rtp", 3), ("dccp", 3)] {
        let mut way = Way::new(4, 4096, ms(4096));
        way.sends.max_packet = 1380;
        way.receives.delay = Some(4096);
        let mut lens = None;
        let ran = run_with(name, "delay=5ms", &way, None, Duration::from_secs(30), |world| {
            lens = Some(world.log(|leaving| leaving.bytes.len()));
        });
        assert_whole(&ran, 4, ms(4096), name);
        let longest = lens.expect("it was logged").borrow().iter().copied().max();
        assert!(longest.is_some_and(|len| len <= 1452), "{name}: {longest:?}");
        // A transport that cuts messages gets them whole.
        assert_eq!(ran.world.near.sent(ran.world.now).packets, 4 * 8 * pieces, "{name}");
    }
}

#[test]
fn a_lossy_path_costs_what_is_lost_unless_it_is_repaired_in_time() {
    let link = "delay=5ms,loss=3%";
    let way = Way::new(20, 160, ms(20_000));
    let lost = run("rtp", link, &way, None, Duration::from_secs(60));
    let fifos = lost.world.far.received().fifos;
    // 60 000 bytes per channel and percent; lost data at the ends are not known to be missing.
    assert!((70_000..130_000).contains(&fifos.missing), "{fifos:?}");
    assert_eq!((fifos.underflow, fifos.overflow, lost.up.borrow().wrong), (0, 0, 0), "{fifos:?}");
    let mut way = Way::new(20, 160, ms(20_000));
    way.receives.delay = Some(400);
    way.sends.lifetime = ms(50);
    let repaired = run("xtp", link, &way, None, Duration::from_secs(60));
    assert_eq!(repaired.up.borrow().wrong, 0);
    let fifos = repaired.world.far.received().fifos;
    assert!(fifos.missing < 3_200 && fifos.underflow == 0, "{fifos:?}");
    assert!(
        repaired.world.link().direction(antiphon_link::Direction::Up).counters().dropped() > 500,
        "it was lossy"
    );
}

#[test]
fn pauses_are_not_sent_and_sound_like_the_room() {
    let length = ms(60_000);
    let mut way = Way::new(20, 160, length);
    let material = VoiceMaterial::of_kind(VoiceKind::Speech, 5);
    way.sends.sources = (0..20).map(|number| material.channel(number)).collect();
    way.sends.silence = Some(-45.0);
    let ran = run("xtp", "delay=5ms", &way, None, length + Duration::from_secs(30));
    let (sent, received) = (ran.world.near.sent(ran.world.now), ran.world.far.received());
    let paused = sent.paused as f64 / sent.captured as f64;
    // 61.5 % of the time nobody speaks (ITU-T P.59); a hangover of 200 ms is sent after each spurt of 2.6 s.
    assert!((0.40..0.65).contains(&paused), "{paused}");
    assert_eq!((received.fifos.taken, received.fifos.missing, received.fifos.underflow), (sent.bytes, 0, 0));
    // The sinks hear noise for as long as there are pauses, but for half a datum each time that speech begins.
    let heard = received.fifos.pause as f64 / sent.paused as f64;
    assert!((0.95..1.05).contains(&heard), "{heard}: {received:?}");
}

#[test]
fn channels_in_opus_arrive_whole_in_fewer_bytes() {
    let length = ms(3010);
    for (loss, name) in [("", "xtp"), (",loss=2%", "rtp")] {
        let mut way = Way::new(4, 160, length);
        let material = VoiceMaterial::of_kind(VoiceKind::Tones, 1);
        way.sends.sources = (0..4).map(|number| material.channel(number)).collect();
        way.sends.opus = Some(16_000);
        let mut bytes = None;
        let ran = run_with(name, &format!("delay=5ms{loss}"), &way, None, Duration::from_secs(30), |world| {
            bytes = Some(world.log(|leaving| leaving.bytes.len()));
        });
        let (sent, fifos) = (ran.world.near.sent(ran.world.now), ran.world.far.received().fifos);
        // The last frame is filled up: 24 080 bytes of voice are 151 frames.
        assert_eq!((sent.captured, sent.packets), (4 * 24_080, 4 * 151), "{name}: {sent:?}");
        assert_eq!((fifos.underflow, fifos.overflow), (0, 0), "{name}: {fifos:?}");
        let whole = 4 * 151 * 160;
        let missing = u64::from(!loss.is_empty()) * whole / 20;
        assert!(fifos.taken <= whole && fifos.taken + missing >= whole, "{name}: {fifos:?}");
        let bytes: usize = bytes.expect("it was logged").borrow().iter().sum();
        // Mu-law needs 96 000 bytes, and headers and acknowledgements as much again.
        assert!(bytes < 120_000, "{name}: {bytes}");
    }
}

#[test]
fn a_source_faster_than_the_transport_overflows_at_the_sender() {
    let mut way = Way::new(20, 160, ms(20_000));
    way.sends.lifetime = Duration::from_secs(10);
    // 20 channels need some 1.8 Mbit/s on this link.
    let ran = run("sctp", "rate=1Mbit/s,delay=5ms,queue=30kB", &way, None, Duration::from_secs(60));
    let sent = ran.world.near.sent(ran.world.now);
    assert!(sent.overflow > 500_000, "{sent:?}");
    assert_eq!(sent.captured, sent.bytes + sent.overflow + sent.refused, "{sent:?}");
}

#[test]
fn urgent_channels_come_first_where_the_transport_sorts() {
    let mut way = Way::new(20, 160, ms(5000));
    way.sends.priorities = (0..20).map(|number| u8::from(number >= 5)).collect();
    let ran = run("xtp?sort=on&out-rate=1Mbit/s", "delay=5ms", &way, None, Duration::from_secs(60));
    let taken = |channel| ran.world.far.fifo(channel).map_or(0, |fifo| fifo.taken);
    let (urgent, other) = ((0..5).map(taken).min(), (5..20).map(taken).max());
    assert_eq!(urgent, Some(40_000));
    assert!(other < Some(38_000), "{other:?}");
}

#[test]
fn a_port_that_is_stopped_says_goodbye_and_one_that_hears_nonsense_goes_on() {
    let way = Way::new(3, 160, Duration::from_secs(3600));
    let ran = run_with("rtp", "delay=5ms", &way, None, ms(1000), |_| {});
    let mut world = ran.world;
    for bytes in [&b"\x80"[..], b"\x80\x00", &[0x80; 12], &[0x80; 40], &[0xff; 13], &[0; 300]] {
        let mut bytes = bytes.to_vec();
        let input = antiphon_testkit::datagram(&mut bytes, antiphon_testkit::NEAR, world.now);
        antiphon_core::Participant::handle_input(&mut world.far, world.now, WIRE, input);
    }
    let goes_on = world.now + ms(100);
    world.run(goes_on);
    antiphon_core::Participant::stop(&mut world.near, world.now);
    let limit = world.now + Duration::from_secs(5);
    world.run(limit);
    assert!(antiphon_core::Participant::is_finished(&world.far), "{:?}", world.far.received());
}
