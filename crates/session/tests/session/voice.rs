//! Voice channels between two ports in virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{CloseReason, Instant, Participant, PathId};
use antiphon_media::voice::{
    Datum, Piece, QUIET, VoiceContent, VoiceKind, VoiceMaterial, VoiceSource, voice_header_len,
    write_voice_header,
};
use antiphon_session::{VoicePort, VoiceReceiving, VoiceRole, VoiceSending, VoiceSink};
use antiphon_testkit::World;

use crate::common::{SILENCE, WIRE, ms, stack, stack_of};

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
    fn piece(&mut self, channel: u32, _tick: u64, piece: Piece<'_>) {
        let checked = &mut *self.0.borrow_mut();
        let Some(place) = checked.heard.get_mut(channel as usize) else { return };
        match piece {
            Piece::Sound(bytes) => {
                let expected = &mut checked.buf[..bytes.len()];
                checked.sources[channel as usize].read(*place, expected);
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
    let mut near = VoicePort::new(now, 1, VoiceRole::Sender, Some(up.sends.clone()), receives, sink_down);
    near.call(now, WIRE, &[PathId(0)], &*stack(name));
    let mut far =
        VoicePort::new(now, 2, VoiceRole::Receiver, down.map(|way| way.sends.clone()), up.receives, sink_up);
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

/// More than the lower half of an SSRC tells apart.
#[test]
fn channels_of_two_pages_arrive_byte_by_byte() {
    const CHANNELS: usize = (1 << 16) + 40;
    let way = Way::new(CHANNELS, 1024, ms(300));
    let ran = run("rtp", "delay=5ms", &way, None, Duration::from_secs(30));
    assert_whole(&ran, CHANNELS as u64, ms(300), "rtp");
    assert_eq!(ran.world.far.fifo(CHANNELS - 1).map(|fifo| fifo.taken), Some(2_400));
    assert_eq!(ran.world.far.received().malformed, 0);
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
    // The sinks hear noise for as long as there are pauses; of one at the end a part, as nobody tells when it is over.
    let heard = received.fifos.pause as f64 / sent.paused as f64;
    assert!((0.99..=1.0).contains(&heard), "{heard}: {received:?}");
}

/// Pauses between what `speech:` says, of 20 channels in a minute.
#[test]
fn pauses_last_as_long_with_much_latency_as_with_little() {
    let length = ms(60_000);
    let mut way = Way::new(20, 160, length);
    let material = VoiceMaterial::of_kind(VoiceKind::Speech, 5);
    way.sends.sources = (0..20).map(|number| material.channel(number)).collect();
    way.sends.silence = Some(-45.0);
    // Longer than some pauses.
    way.receives.delay = Some(8_000);
    let ran = run("xtp", "delay=5ms", &way, None, length + Duration::from_secs(30));
    let (sent, received) = (ran.world.near.sent(ran.world.now), ran.world.far.received());
    let fifos = received.fifos;
    assert_eq!((fifos.taken, fifos.missing, fifos.overflow), (sent.bytes, 0, 0), "{fifos:?}");
    // At the end a channel that pauses is behind by the delay.
    let apart = sent.paused - fifos.pause;
    assert!(apart <= 20 * 8_000, "{apart} of {}: {received:?}", sent.paused);
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
        Participant::handle_input(&mut world.far, world.now, WIRE, input);
    }
    let goes_on = world.now + ms(100);
    world.run(goes_on);
    Participant::stop(&mut world.near, world.now);
    let limit = world.now + Duration::from_secs(5);
    world.run(limit);
    assert!(Participant::is_finished(&world.far), "{:?}", world.far.received());
}

/// A voice datum of half a datum's quiet from a sender with these SSRCs.
fn datum(sender: u16, channel: u32, timestamp: u32) -> Vec<u8> {
    let content = VoiceContent::Sound(&[]);
    let datum = Datum { sender, channel, sequence: 0, timestamp, marker: false, content };
    let mut bytes = vec![QUIET; voice_header_len(channel) + 80];
    write_voice_header(&datum, &mut bytes).expect("room");
    bytes
}

fn hand(port: &mut VoicePort<Sink>, now: Instant, mut bytes: Vec<u8>) {
    port.handle_input(now, WIRE, antiphon_testkit::datagram(&mut bytes, antiphon_testkit::NEAR, now));
    port.advance(now);
}

fn listening(way: &Way, name: &str) -> (VoicePort<Sink>, Rc<RefCell<Checked>>) {
    let (heard, sink) = way.sink();
    let mut port = VoicePort::new(Instant::ZERO, 2, VoiceRole::Receiver, None, way.receives, sink);
    port.listen(Instant::ZERO, WIRE, stack(name), SILENCE);
    (port, heard)
}

#[test]
fn another_sender_waits_until_the_first_has_ended_or_is_silent() {
    let way = Way::new(1, 160, ms(1000));
    let (mut port, heard) = listening(&way, "rtp");
    let at = |ms| Instant::from_millis(ms);
    hand(&mut port, at(100), datum(1, 0, 0));
    // One that alternates halves, and one that has only the last channel.
    hand(&mut port, at(101), datum(2, 65_535, 0));
    hand(&mut port, at(102), datum(1, 0, 80));
    let received = port.received();
    assert_eq!((received.channels, received.packets, received.malformed), (1, 2, 1));
    hand(&mut port, at(1_110), datum(2, 65_535, 0));
    let received = port.received();
    assert_eq!((received.channels, received.packets, received.malformed), (1, 3, 1));
    // A goodbye makes room at once, and what had not been heard yet is heard then.
    let mut bye = vec![0; 8];
    antiphon_media::rtcp::write_bye(2 << 16 | 65_535, &mut bye).expect("room");
    hand(&mut port, at(1_111), bye);
    let fifo = port.fifo(65_535).expect("the channel");
    assert!(fifo.taken < 80, "{fifo:?}");
    hand(&mut port, at(1_111), datum(3, 0, 0));
    assert_eq!((port.received().packets, port.received().fifos.taken), (4, 3 * 80));
    assert_eq!(heard.borrow().sound, 2 * 80, "of channel 0");
}

#[test]
fn messages_that_are_no_voice_are_counted() {
    let (mut port, _heard) = listening(&Way::new(1, 160, ms(1000)), "rtp");
    let now = Instant::from_millis(100);
    hand(&mut port, now, datum(1, 0, 0));
    // Neither RTP nor RTCP; a payload type of its own; a compound whose second packet is cut; Opus without a frame.
    let mut other = datum(1, 0, 80);
    other[1] = 96;
    let mut cut = vec![0; 8];
    antiphon_media::rtcp::write_bye(7, &mut cut).expect("room");
    cut.extend([0x81, 203, 0, 9]);
    let mut opus = datum(1, 0, 80);
    (opus[1], opus[12]) = (111, 0xff);
    opus.truncate(13);
    for bytes in [b"no voice at all".to_vec(), other, cut, opus] {
        hand(&mut port, now, bytes);
    }
    assert_eq!((port.received().malformed, port.received().packets), (4, 1));
}

#[test]
fn a_sender_that_goes_on_from_another_address_has_not_ended() {
    let way = Way::new(5, 160, ms(6000));
    let (heard, sink) = way.sink();
    let (_, silent) = way.sink();
    let now = Instant::ZERO;
    let mut near = VoicePort::new(now, 1, VoiceRole::Sender, Some(way.sends.clone()), way.receives, silent);
    near.call(now, WIRE, &[PathId(0)], &*stack("rtp"));
    let mut far = VoicePort::new(now, 2, VoiceRole::Receiver, None, way.receives, sink);
    far.listen(now, WIRE, stack("rtp"), SILENCE);
    let mut world = World::linked(near, far, "delay=5ms", 1);
    world.run_until(Instant::from_millis(2_000));
    // Its translator has chosen another port.
    world.near_path = PathId(8);
    world.run(now + Duration::from_secs(30));
    assert!(world.near.is_finished() && world.far.is_finished());
    let received = world.far.received();
    let bytes = 5 * 48_000;
    let fifos = received.fifos;
    // Admission waits until the first address is silent.
    assert!(fifos.taken > bytes / 2, "{received:?}");
    assert_eq!(
        (received.channels, received.ended, heard.borrow().sound),
        (5, 5, fifos.taken),
        "{received:?}"
    );
    assert_eq!((fifos.overflow, fifos.underflow), (0, 0), "{received:?}");
}

#[test]
fn a_listener_waits_on_after_a_peer_without_voice() {
    for name in ["xtp", "sctp", "dccp"] {
        let way = Way::new(3, 160, ms(1000));
        let mut ran = run_with(name, "delay=5ms", &way, None, ms(0), |world| {
            world.run_until(Instant::from_millis(15));
            world.near.stop(world.now);
            world.run_until(Instant::from_millis(6_000));
        });
        let now = ran.world.now;
        assert!(ran.world.near.is_finished() && !ran.world.far.is_finished(), "{name}");
        assert_eq!(ran.world.far.received().channels, 0, "{name}");
        let (_, silent) = way.sink();
        let mut next =
            VoicePort::new(now, 3, VoiceRole::Sender, Some(way.sends.clone()), way.receives, silent);
        next.call(now, WIRE, &[PathId(0)], &*stack_of(name, 3));
        ran.world.near = next;
        ran.world.near_path = PathId(9);
        ran.world.run(now + Duration::from_secs(10));
        assert!(ran.world.far.is_finished(), "{name}");
        assert_whole(&ran, 3, ms(1000), name);
        assert_eq!(ran.world.far.ended(), None, "{name}");
    }
}

#[test]
fn a_port_says_why_it_ended_before_its_channels() {
    let way = Way::new(3, 160, Duration::from_secs(3600));
    // Nobody answers.
    let ran = run_with("xtp", "delay=5ms", &way, None, Duration::from_secs(60), |world| {
        world.outage(Instant::ZERO..Instant::from_millis(3_600_000));
    });
    assert!(ran.world.near.is_finished());
    assert_eq!(ran.world.near.ended(), Some(CloseReason::TimedOut));
    // Both lose the other.
    let ran = run_with("xtp", "delay=5ms", &way, None, Duration::from_secs(120), |world| {
        world.outage(Instant::from_millis(1_000)..Instant::from_millis(3_600_000));
    });
    let reasons = [ran.world.near.ended(), ran.world.far.ended()];
    assert_eq!(reasons, [Some(CloseReason::TimedOut); 2]);
    // The receiver ends the call: the sender's is cut short, and the receiver's was stopped.
    let mut ran = run_with("xtp", "delay=5ms", &way, None, ms(1000), |_| {});
    ran.world.far.stop(ran.world.now);
    ran.world.run(Instant::from_millis(5_000));
    assert!(ran.world.near.is_finished() && ran.world.far.is_finished());
    assert_eq!([ran.world.near.ended(), ran.world.far.ended()], [Some(CloseReason::Peer), None]);
}

#[test]
fn a_blocked_transport_blocks_no_later_caller() {
    let way = Way::new(1, 160, ms(8000));
    let mut back = Way::new(20, 160, Duration::from_secs(3600));
    back.sends.lifetime = Duration::from_secs(10);
    let mut way_there = way.clone();
    way_there.receives.forever = true;
    // 20 channels need some 1.8 Mbit/s.
    let mut ran = run_with("sctp", "rate=300kbit/s,delay=5ms", &way_there, Some(&back), ms(0), |world| {
        world.run_until(Instant::from_millis(4_000));
    });
    let before = ran.world.far.sent(ran.world.now);
    assert!(before.overflow > 0, "{before:?}");
    let now = ran.world.now;
    let (heard, sink) = back.sink();
    let mut next = VoicePort::new(now, 3, VoiceRole::Sender, Some(way.sends.clone()), back.receives, sink);
    next.call(now, WIRE, &[PathId(0)], &*stack_of("sctp", 3));
    ran.world.near = next;
    ran.world.near_path = PathId(9);
    ran.world.relink(&["delay=5ms"], 2);
    ran.world.run_until(now + Duration::from_secs(8));
    assert!(heard.borrow().sound > 20 * 8_000, "{}", heard.borrow().sound);
}

#[test]
fn who_listens_does_not_decide_who_ends() {
    let way = Way::new(3, 160, ms(1000));
    let back = Way::new(2, 160, Duration::from_secs(3600));
    let (heard, sink) = way.sink();
    let (_, silent) = back.sink();
    let now = Instant::ZERO;
    let channels = Some(back.sends.clone());
    let mut near = VoicePort::new(now, 1, VoiceRole::Receiver, channels, way.receives, sink);
    near.call(now, WIRE, &[PathId(0)], &*stack("tcp"));
    let mut far = VoicePort::new(now, 2, VoiceRole::Sender, Some(way.sends.clone()), way.receives, silent);
    far.listen(now, WIRE, stack("tcp"), SILENCE);
    let mut world = World::piped(near, far, ms(5), 1 << 16);
    world.run(now + Duration::from_secs(10));
    assert!(world.near.is_finished() && world.far.is_finished());
    let fifos = world.near.received().fifos;
    assert_eq!((fifos.taken, heard.borrow().wrong), (3 * 8_000, 0), "{fifos:?}");
    assert_eq!([world.near.ended(), world.far.ended()], [None, None]);
}
