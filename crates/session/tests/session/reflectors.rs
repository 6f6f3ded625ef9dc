//! Two reflectors that one forged packet makes peers of each other.

use std::time::Duration;

use antiphon_core::{Instant, Participant};
use antiphon_media::rtcp::{write_bye, write_report};
use antiphon_session::{PlayoutDelay, Reflector, ReflectorConfig};
use antiphon_testkit::{Noise, sent_on, stereo};

use crate::common::{sending, stack, track_config};
use crate::world::{NEAR, WIRE, World, datagram, many, ms};

/// A reflector as on an open network.
fn reflector(name: &str, marks: bool) -> Reflector {
    let config = ReflectorConfig { marks, ..ReflectorConfig::default() };
    Reflector::new(Instant::ZERO, WIRE, stack(name), many(64), config)
}

/// The first datagrams of a stream of ours, as captured on its way.
pub fn captured(name: &str) -> Vec<Vec<u8>> {
    let source = Noise::new(stereo(), 48_000);
    let mut session = sending(&*stack(name), source, track_config(stereo(), 3), PlayoutDelay::Of(ms(80)));
    let sent = |step: u64| {
        let now = Instant::ZERO + ms(5 * step);
        session.advance(now);
        sent_on(&mut session, now, WIRE).into_iter().map(|(_, bytes)| bytes)
    };
    (0..30).flat_map(sent).collect()
}

/// Gives `forged` to one of two reflectors, as if the other had sent it; returns how many messages both have returned after ten
/// seconds.
fn returned(name: &str, marks: bool, forged: &[Vec<u8>]) -> u64 {
    let mut world = World::linked(reflector(name, marks), reflector(name, marks), "delay=1ms", 1);
    for bytes in forged {
        world.far.handle_input(world.now, WIRE, datagram(&mut bytes.clone(), NEAR, world.now));
        world.far.advance(world.now);
    }
    world.run_until(Instant::ZERO + Duration::from_secs(10));
    world.near.counters().returned + world.far.counters().returned
}

#[test]
fn a_forged_packet_is_returned_once_at_most() {
    let plain = [&[0x80, 10, 0, 1][..], &[0; 208]].concat();
    assert_eq!(returned("rtp", true, std::slice::from_ref(&plain)), 0, "not of ours");
    // Without marks they never end: a packet every two milliseconds.
    assert!(returned("rtp", false, &[plain]) > 4_000);
    let mut goodbye = [0; 64];
    let report = write_report(7, None, &[], &mut goodbye).unwrap();
    let len = report + write_bye(7, &mut goodbye[report..]).unwrap();
    let goodbye = goodbye[..len].to_vec();
    assert_eq!(returned("rtp", true, std::slice::from_ref(&goodbye)), 0, "a peer begins with sound");
    assert_eq!(returned("rtp", true, &[captured("rtp")[0].clone(), goodbye]), 2);
    for name in ["rtp", "srp", "arq"] {
        let captured = captured(name);
        assert!(captured.len() >= 15, "{name}: {}", captured.len());
        let count = captured.len() as u64;
        let returned = returned(name, true, &captured);
        // Without handshakes the first reflector believes them, and the other one returns none.
        assert!(returned <= count && returned > count / 2, "{name}: {returned} of {count}");
    }
    // A caller is validated first.
    for name in ["sctp", "dccp", "xtp"] {
        assert_eq!(returned(name, true, &captured(name)), 0, "{name}");
    }
}

/// Captured packets with a forged source cost their owner no more than they cost the forger, but for short answers: nothing is
/// repeated towards an address that has acknowledged nothing.
#[test]
fn nothing_is_repeated_to_an_address_that_proved_nothing() {
    for name in ["rtp", "srp", "arq", "arq?mode=as-published"] {
        let mut reflector = reflector(name.split('?').next().unwrap(), true);
        let captured = captured(name);
        let taken: usize = captured.iter().map(Vec::len).sum();
        let (mut now, mut sent) = (Instant::ZERO, 0);
        for step in 0..3_000 {
            now = Instant::ZERO + ms(step);
            if let Some(bytes) = captured.get(step as usize) {
                reflector.handle_input(now, WIRE, datagram(&mut bytes.clone(), NEAR, now));
            }
            reflector.advance(now);
            sent += sent_on(&mut reflector, now, WIRE).iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        }
        assert!(now > Instant::ZERO && sent > taken / 2, "{name}: {sent} bytes for {taken}");
        assert!((sent as f64) < 1.1 * taken as f64, "{name}: {sent} bytes for {taken}");
    }
}
