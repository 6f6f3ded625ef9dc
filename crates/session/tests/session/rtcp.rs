//! What the reports of a session say (RFC 3550 §6).

use std::time::Duration;

use antiphon_core::{Input, Instant, Participant, PathId, WireId, Wires, pump};
use antiphon_media::rtcp::{RtcpItem, visit_compound};
use antiphon_session::{PlayoutDelay, Session};
use antiphon_testkit::{Noise, stereo};

use crate::world::{WIRE, ms, sending, stack, track_config};

/// What a session sends.
#[derive(Default)]
struct Sent(Vec<Vec<u8>>);

impl Wires for Sent {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        let mut buf = [0; 2048];
        while let Some(transmit) = participant.poll_transmit(now, wire, &mut buf) {
            self.0.push(buf[..transmit.len].to_vec());
        }
    }

    fn close(&mut self, _now: Instant, _wire: WireId) {}
}

fn sender() -> Session {
    let noise = Noise::new(stereo(), 48_000 * 30);
    sending(&*stack("rtp"), noise, track_config(stereo(), 5), PlayoutDelay::Of(ms(80)))
}

/// Drives `session` alone from `now` until `until`; returns what it sent.
fn run(session: &mut Session, mut now: Instant, until: Instant) -> Vec<Vec<u8>> {
    let mut sent = Sent::default();
    loop {
        pump(session, now, &mut sent);
        match session.poll_timeout() {
            Some(next) if next <= until => now = now.max(next),
            _ => return sent.0,
        }
    }
}

fn hand_in(session: &mut Session, now: Instant, bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let input = Input::Datagram { path: PathId(0), bytes: &mut bytes, received_at: now };
    session.handle_input(now, WIRE, input);
}

fn is_rtcp(bytes: &[u8]) -> bool {
    (192..=223).contains(&bytes[1])
}

fn ssrc_of(rtp: &[u8]) -> u32 {
    u32::from_be_bytes(rtp[8..12].try_into().expect("four bytes"))
}

/// Bytes of an RTP packet without its header and extension.
fn payload(rtp: &[u8]) -> u32 {
    let extension = match rtp[0] & 0x10 {
        0 => 0,
        _ => 4 + 4 * usize::from(u16::from_be_bytes([rtp[14], rtp[15]])),
    };
    (rtp.len() - 12 - extension) as u32
}

#[test]
fn sender_reports_count_payload_only() {
    let sent = run(&mut sender(), Instant::ZERO, Instant::ZERO + Duration::from_secs(5));
    let (mut packets, mut octets, mut reports) = (0, 0, 0);
    for bytes in &sent {
        if !is_rtcp(bytes) {
            packets += 1;
            octets += payload(bytes);
            continue;
        }
        visit_compound(bytes, |item| {
            if let RtcpItem::Sender { info, .. } = item {
                assert_eq!((info.packets, info.octets), (packets, octets));
                reports += 1;
            }
        })
        .expect("a valid report");
    }
    assert!(reports > 2 && octets == packets * 1024, "{reports} reports, {packets} packets, {octets}");
}
