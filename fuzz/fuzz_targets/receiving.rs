//! A receiving session on every datagram transport that hears hostile datagrams from several paths: no panic, and each
//! pump ends.
#![no_main]

mod ends;

use std::time::Duration;

use antiphon_core::{Epoch, Input, Instant, Participant, PathId, WireId};
use antiphon_media::conceal::Concealment;
use antiphon_proto::{Substrate, TRANSPORTS};
use antiphon_session::{Latency, 
    LongGaps, PlayoutDelay, ReceiveTrack, ReceiveTrackConfig, Session, SessionConfig, StreamFraming,
};
use arbitrary::Arbitrary;
use ends::stack;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    /// Any bytes.
    Noise { path: u8, bytes: Vec<u8> },
    /// An RTP packet (RFC 3550 §5.1) of one of a few senders.
    Rtp { path: u8, kind: u8, number: u16, time: u32, ssrc: u8, payload: Vec<u8> },
    Advance { ms: u16 },
}

const WIRE: WireId = WireId(0);

fn session(scheme: &str, latency: Option<Duration>) -> Session {
    let config = SessionConfig {
        cname: "fuzz".into(),
        epoch: Epoch::default(),
        seed: 1,
        playout_delay: PlayoutDelay::Unbounded,
        tells: Some(latency.map_or(PlayoutDelay::Unbounded, PlayoutDelay::Of)),
        reflected: None,
        ends_with_stream: false,
        framing: StreamFraming::Rtp,
        two_way: false,
    };
    // The sink cannot be opened; `media`'s tests drive the buffer that adapts.
    let track = ReceiveTrackConfig {
        latency: latency.map(Latency::Of),
        conceal: Concealment::default(),
        description: None,
        any_payload_type: true,
        silence: Duration::from_secs(2),
        ordered: false,
        reliable: false,
        long_gaps: LongGaps::Silence,
        completed_later: false,
    };
    let mut session = Session::new(config, Instant::ZERO);
    // Streams are followed up to the sink, which cannot be opened.
    let no_sink = Box::new(|_format, _sample| Err("no sink".to_string()));
    session.set_receive_track(ReceiveTrack::new(track, no_sink, None));
    session.listen(Instant::ZERO, WIRE, stack(scheme, "", 1), Duration::from_secs(2));
    session
}

fn hear(session: &mut Session, now: Instant, path: u8, bytes: &mut [u8]) {
    let path = PathId(u32::from(path % 4));
    session.handle_input(now, WIRE, Input::Datagram { path, bytes, received_at: now });
}

fuzz_target!(|input: (u8, Option<u8>, Vec<Step>)| {
    let datagram: Vec<_> = TRANSPORTS.iter().filter(|one| one.substrate == Substrate::Udp).collect();
    let scheme = datagram[usize::from(input.0) % datagram.len()].scheme;
    let latency = input.1.map(|ms| Duration::from_millis(u64::from(ms) + 1));
    let mut session = session(scheme, latency);
    let mut now = Instant::from_millis(1);
    let mut buf = [0; 2048];
    for step in input.2 {
        match step {
            Step::Noise { path, mut bytes } => hear(&mut session, now, path, &mut bytes),
            Step::Rtp { path, kind, number, time, ssrc, payload } => {
                let mut packet = vec![0x80, kind];
                packet.extend_from_slice(&number.to_be_bytes());
                packet.extend_from_slice(&time.to_be_bytes());
                packet.extend_from_slice(&u32::from(ssrc % 3).to_be_bytes());
                packet.extend_from_slice(&payload);
                hear(&mut session, now, path, &mut packet);
            }
            Step::Advance { ms } => now += Duration::from_millis(ms.into()),
        }
        session.advance(now);
        while session.poll_ready().is_some() {}
        // More than this for one datagram would be a flood.
        let sent = (0..64).take_while(|_| session.poll_transmit(now, WIRE, &mut buf).is_some()).count();
        assert!(sent < 64, "{sent} datagrams after one step");
    }
});
