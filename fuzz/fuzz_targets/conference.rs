//! A party of a call over a group that hears hostile datagrams: no panic, each pump ends, and no more parties than there is room
//! for.
#![no_main]

mod ends;

use std::time::Duration;

use antiphon_core::{Epoch, Input, Instant, NtpTime, Participant, PathId, WireId};
use antiphon_media::conceal::Concealment;
use antiphon_media::packet::{EncodingName, Marking, VideoStream};
use antiphon_media::{NullSink, Sink, StreamFormat};
use antiphon_session::{
    Latency, LongGaps, OpenSink, Parties, PartiesConfig, PartySinks, PlayoutDelay, ReceiveError,
    ReceiveTrackConfig, Session, SessionConfig, StreamFraming, VideoArrived, VideoSink, Written,
};
use arbitrary::Arbitrary;
use ends::stack;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    /// Any bytes.
    Noise { path: u8, bytes: Vec<u8> },
    /// RTP packets in a row (RFC 3550 §5.1) of one of a few senders, with a format that the payload type tells.
    Rtp { path: u8, kind: u8, number: u16, time: u32, ssrc: u8, packets: u8, payload: u8 },
    /// Packets of pictures in a row, of one of a few sources, beside the sound of one of the senders.
    Pictures { path: u8, source: u8, sound: u8, clock: u64, packets: u8, payload: u8 },
    /// A compound RTCP packet of one of them: an empty receiver report, a goodbye.
    Bye { path: u8, ssrc: u8 },
    Advance { ms: u16 },
}

const WIRE: WireId = WireId(0);
const MOST: usize = 3;

/// A sink of its own for each party.
struct Apart;

impl PartySinks for Apart {
    fn open(&mut self, _now: Instant, _ssrc: u32, _path: PathId) -> (OpenSink, Box<dyn VideoSink>) {
        (Box::new(|format, _| Ok(Box::new(NullSink::new(format)) as Box<dyn Sink>)), Box::new(Apart))
    }

    fn on_error(&mut self, _ssrc: u32, _error: &ReceiveError) {}

    fn close(&mut self, _ssrc: u32, _sink: Option<Box<dyn Sink>>, _written: Option<Written>) {}
}

impl VideoSink for Apart {
    fn on_packet(&mut self, _packet: &VideoArrived<'_>) {}
}

fn session(is_apart: bool) -> Session {
    let delay = Duration::from_millis(20);
    let config = SessionConfig {
        cname: "fuzz".into(),
        epoch: Epoch::default(),
        seed: 1,
        playout_delay: PlayoutDelay::Of(delay),
        tells: Some(PlayoutDelay::Of(delay)),
        reflected: None,
        ends_with_stream: true,
        framing: StreamFraming::Rtp,
        two_way: false,
    };
    let track = ReceiveTrackConfig {
        latency: Some(Latency::Of(delay)),
        conceal: Concealment::Silence,
        description: None,
        any_payload_type: false,
        silence: Duration::from_secs(1),
        ordered: false,
        reliable: false,
        long_gaps: LongGaps::Silence,
        completed_later: false,
    };
    let sink = NullSink::new(StreamFormat::new(8_000, 1).expect("a format"));
    let mut session = Session::new(config, Instant::ZERO);
    let parties = PartiesConfig { track, packet: 160, most: MOST };
    session.set_parties(match is_apart {
        true => Parties::apart(parties, Box::new(Apart)),
        false => Parties::new(parties, Box::new(sink), Instant::ZERO),
    });
    session.call(Instant::ZERO, WIRE, &[PathId(0)], &*stack("rtp", "", 1));
    session
}

fn hear(session: &mut Session, now: Instant, path: u8, bytes: &mut [u8]) {
    let path = PathId(1 + u32::from(path % 4));
    session.handle_input(now, WIRE, Input::Datagram { path, bytes, received_at: now });
}

fn pictures(source: u8, sound: u8, clock: u64, (packets, payload): (u8, u8)) -> Vec<Vec<u8>> {
    let encoding = EncodingName::new("VP8").expect("a word");
    let mut stream = VideoStream::new(encoding, 127, u32::from(sound % 6), u64::from(source % 4));
    let packet = |n: u64| {
        let mut packet = vec![0; 512];
        let ticks = (clock ^ n) & 0xffff_ffff;
        let (at, ntp) = ((ticks, Marking::default()), NtpTime::from_bits(clock));
        let len = stream.packet(at, ntp, &vec![0x55; payload.into()], &mut packet)?;
        stream.advance();
        packet.truncate(len);
        Some(packet)
    };
    (0..u64::from(packets % 8)).filter_map(packet).collect()
}

fuzz_target!(|input: (bool, Vec<Step>)| {
    let (is_apart, steps) = input;
    let (mut session, mut now, mut buf) = (session(is_apart), Instant::from_millis(1), [0; 2048]);
    for step in steps {
        match step {
            Step::Noise { path, mut bytes } => hear(&mut session, now, path, &mut bytes),
            Step::Rtp { path, kind, number, time, ssrc, packets, payload } => {
                for n in 0..u16::from(packets % 8) {
                    let mut packet = vec![0x80, kind % 12];
                    packet.extend_from_slice(&number.wrapping_add(n).to_be_bytes());
                    let time = time.wrapping_add(u32::from(n) * u32::from(payload));
                    packet.extend_from_slice(&time.to_be_bytes());
                    packet.extend_from_slice(&u32::from(ssrc % 6).to_be_bytes());
                    packet.resize(12 + usize::from(payload), 0x55);
                    hear(&mut session, now, path, &mut packet);
                }
            }
            Step::Pictures { path, source, sound, clock, packets, payload } => {
                for mut packet in pictures(source, sound, clock, (packets, payload)) {
                    hear(&mut session, now, path, &mut packet);
                }
            }
            Step::Bye { path, ssrc } => {
                let mut packet = vec![0x80, 201, 0, 1, 0, 0, 0, ssrc % 6, 0x81, 203, 0, 1, 0, 0, 0, ssrc % 6];
                hear(&mut session, now, path, &mut packet);
            }
            Step::Advance { ms } => now += Duration::from_millis((ms % 4_096).into()),
        }
        session.advance(now);
        while session.poll_ready().is_some() {}
        let sent = (0..64).take_while(|_| session.poll_transmit(now, WIRE, &mut buf).is_some()).count();
        assert!(sent < 64, "{sent} datagrams after one step");
        assert!(session.parties().is_none_or(|parties| parties.len() <= MOST));
    }
});
