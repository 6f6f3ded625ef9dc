//! A sender to a group tells its members apart.

use std::time::Duration;

use antiphon_core::{Instant, Participant, PathId, sooner};
use antiphon_link::{Direction, Duplex};
use antiphon_session::{PlayoutDelay, ReceiveTrack, Session, SessionConfig};
use antiphon_testkit::{Kept, Noise, Sent, stereo};

use crate::common::{receive_config, session_config};
use crate::world::{SILENCE, WIRE, datagram, ms, sending, stack, track_config};

const MEMBERS: u64 = 100;

/// A receiver with a playout delay and a seed of its own.
fn member(n: u64) -> Session {
    let delay = ms(20 + n);
    let tells = Some(PlayoutDelay::Of(delay));
    let config = SessionConfig { tells, ..session_config(&format!("member {n}"), 1_000 + n) };
    let mut session = Session::new(config, Instant::ZERO);
    session.set_receive_track(ReceiveTrack::new(
        receive_config(Some(delay), false),
        Kept::default().opener(),
        None,
    ));
    session.listen(Instant::ZERO, WIRE, stack("rtp"), SILENCE);
    session
}

fn hand_in(session: &mut Session, now: Instant, bytes: &mut [u8]) {
    session.handle_input(now, WIRE, datagram(bytes, PathId(0), now));
}

#[test]
fn a_hundred_members_of_a_group_have_figures_of_their_own() {
    let mut near = sending(
        &*stack("rtp"),
        Noise::new(stereo(), 48_000 * 30),
        track_config(stereo(), 5),
        PlayoutDelay::Of(ms(80)),
    );
    let mut members: Vec<Session> = (0..MEMBERS).map(member).collect();
    // Every tenth member loses a tenth of all packets.
    let link = |n: u64| {
        let text = if n.is_multiple_of(10) { "delay=5ms,up.loss=10%" } else { "delay=5ms" };
        Duplex::<Vec<u8>>::new(&text.parse().expect("a link"), n).expect("possible")
    };
    let mut links: Vec<_> = (0..MEMBERS).map(link).collect();
    let (mut now, end) = (Instant::ZERO, Instant::ZERO + Duration::from_secs(25));
    loop {
        for bytes in Sent::of(&mut near, now).bytes() {
            links.iter_mut().for_each(|link| drop(link.offer(now, Direction::Up, bytes.clone())));
        }
        for (member, link) in members.iter_mut().zip(&mut links) {
            Sent::of(member, now).bytes().for_each(|bytes| drop(link.offer(now, Direction::Down, bytes)));
        }
        let arrive = links.iter().filter_map(Duplex::poll_timeout).min();
        let due = members.iter().filter_map(Participant::poll_timeout).min();
        let Some(next) = sooner(near.poll_timeout(), sooner(arrive, due)).filter(|next| *next <= end) else {
            break;
        };
        now = now.max(next);
        for (member, link) in members.iter_mut().zip(&mut links) {
            while let Some((direction, mut bytes)) = link.poll(now) {
                match direction {
                    Direction::Up => hand_in(member, now, &mut bytes),
                    Direction::Down => hand_in(&mut near, now, &mut bytes),
                }
            }
        }
    }
    let peer = near.peers().next().expect("the group");
    assert_eq!(peer.members().len() as u64, MEMBERS);
    assert_eq!(peer.playout_delay(), Some(PlayoutDelay::Of(ms(20 + MEMBERS - 1))), "the longest");
    let lost = |member: &&antiphon_session::Member| {
        member.report.is_some_and(|report| f64::from(report.block.cumulative_lost) > 100.0)
    };
    assert_eq!(peer.members().iter().filter(lost).count(), 10);
    assert!(
        peer.members()
            .iter()
            .filter(|member| member.report.is_some_and(|report| report.round_trip.is_some()))
            .count()
            > 90
    );
}
