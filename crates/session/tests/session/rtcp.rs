//! What the reports of a session say (RFC 3550 §6).

use std::time::Duration;

use antiphon_core::{Instant, Participant, PathId, Rng};
use antiphon_media::rtcp::{RtcpItem, visit_compound, write_cname, write_report};
use antiphon_session::{PlayoutDelay, Session};
use antiphon_testkit::{Kept, Noise, Sent, stereo};

use crate::world::{WIRE, datagram, is_rtcp, ms, receive_session, sending, stack, track_config};

fn sender() -> Session {
    let noise = Noise::new(stereo(), 48_000 * 30);
    sending(&*stack("rtp"), noise, track_config(stereo(), 5), PlayoutDelay::Of(ms(80)))
}

/// Drives `session` alone from `now` until `until`; returns what it sent.
fn run(session: &mut Session, mut now: Instant, until: Instant) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    loop {
        sent.extend(Sent::of(session, now).bytes());
        match session.poll_timeout() {
            Some(next) if next <= until => now = now.max(next),
            _ => return sent,
        }
    }
}

fn hand_in(session: &mut Session, now: Instant, bytes: &[u8]) {
    session.handle_input(now, WIRE, datagram(&mut bytes.to_vec(), PathId(0), now));
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

/// A receiver's report under that SSRC and name.
fn report_of(ssrc: u32, name: &str) -> Vec<u8> {
    let mut buf = [0; 200];
    let mut len = write_report(ssrc, None, &[], &mut buf).expect("room");
    len += write_cname(ssrc, name, &mut buf[len..]).expect("room");
    buf[..len].to_vec()
}

/// The SSRCs of the RTP packets in `sent`, in the order in which they first come, and those that said goodbye.
fn sources(sent: &[Vec<u8>]) -> (Vec<u32>, Vec<u32>) {
    let (mut media, mut left) = (Vec::new(), Vec::new());
    for bytes in sent {
        if is_rtcp(bytes) {
            visit_compound(bytes, |item| {
                if let RtcpItem::Bye { ssrc } = item {
                    left.push(ssrc);
                }
            })
            .expect("a valid report");
        } else if !media.contains(&ssrc_of(bytes)) {
            media.push(ssrc_of(bytes));
        }
    }
    (media, left)
}

#[test]
fn a_sender_whose_ssrc_another_party_has_takes_a_new_one_once() {
    let (mut sender, second) = (sender(), |n| Instant::ZERO + Duration::from_secs(n));
    let mut sent = run(&mut sender, Instant::ZERO, second(2));
    let first = sources(&sent).0[0];
    // A report of our own that comes back is a loop, and changes nothing.
    hand_in(&mut sender, second(2), &report_of(first, "near"));
    sent.extend(run(&mut sender, second(2), second(3)));
    assert_eq!(sources(&sent), (vec![first], vec![]));

    hand_in(&mut sender, second(3), &report_of(first, "another"));
    let after = run(&mut sender, second(3), second(6));
    let (media, left) = sources(&after);
    assert_eq!((media.len(), left), (1, vec![first]));
    assert_ne!(media[0], first);
    // The counts are those of the new source.
    let packets = after.iter().filter(|bytes| !is_rtcp(bytes)).count() as u32;
    let mut counted = 0;
    for bytes in after.iter().filter(|bytes| is_rtcp(bytes)) {
        visit_compound(bytes, |item| {
            if let RtcpItem::Sender { ssrc, info, .. } = item
                && ssrc == media[0]
            {
                counted = info.packets;
            }
        })
        .expect("a valid report");
    }
    assert!(counted > 100 && counted <= packets, "{counted} of {packets}");

    // One that has the new one as well follows us.
    hand_in(&mut sender, second(6), &report_of(media[0], "another"));
    assert_eq!(sources(&run(&mut sender, second(6), second(8))), (vec![media[0]], vec![]));
}

#[test]
fn a_receiver_whose_ssrc_the_sender_has_takes_another() {
    let mut receiver = receive_session("rtp", Some(ms(80)), &Kept::default());
    let own = Rng::fork(99, "receiver").next_u32();
    let (mut now, mut sent) = (Instant::ZERO, Vec::new());
    for bytes in run(&mut sender(), Instant::ZERO, Instant::ZERO + Duration::from_secs(3)) {
        if is_rtcp(&bytes) {
            continue;
        }
        let mut bytes = bytes;
        bytes[8..12].copy_from_slice(&own.to_be_bytes());
        hand_in(&mut receiver, now, &bytes);
        let next = now + Duration::from_micros(5_333);
        sent.extend(run(&mut receiver, now, next));
        now = next;
    }
    let (mut reporters, mut on) = (Vec::new(), Vec::new());
    for bytes in &sent {
        visit_compound(bytes, |item| {
            if let RtcpItem::Receiver { ssrc, blocks } = item {
                reporters.push(ssrc);
                on.extend(blocks.map(|block| block.ssrc));
            }
        })
        .expect("a valid report");
    }
    assert!(reporters.len() > 2 && reporters.iter().all(|ssrc| *ssrc != own), "{reporters:?} {own}");
    assert!(!on.is_empty() && on.iter().all(|ssrc| *ssrc == own), "{on:?}");
}
