//! Packets follow the path when it becomes narrower in the middle of a stream.

use antiphon_core::{Input, Instant, Participant};
use antiphon_media::StreamFormat;
use antiphon_session::PlayoutDelay;
use antiphon_testkit::Noise;

use crate::common::{WIRE, ms, sending, stack, track_config};

#[test]
fn packets_fit_a_path_that_has_become_narrower() {
    for name in ["rtp", "arq"] {
        let format = StreamFormat::new(48_000, 4).expect("a format");
        let source = Noise::new(format, 10 * 48_000);
        let mut session = sending(&*stack(name), source, track_config(format, 3), PlayoutDelay::Of(ms(80)));
        let (mut buf, mut now) = (vec![0; 2048], Instant::ZERO);
        // Of each packet: when it left, and its length.
        let mut sent = Vec::new();
        let narrowed = Instant::from_millis(1000);
        for _ in 0..2000 {
            now += ms(1);
            if now == narrowed {
                session.handle_input(now, WIRE, Input::MaxDatagram(1000));
            }
            session.advance(now);
            while session.poll_ready().is_some() {}
            while let Some(transmit) = session.poll_transmit(now, WIRE, &mut buf) {
                sent.push((now, transmit.len));
            }
        }
        let longest = |from: Instant, until: Instant| {
            let times = sent.iter().filter(|(at, _)| (from..until).contains(at));
            times.map(|(_, len)| *len).max().expect("packets")
        };
        let before = longest(Instant::ZERO, narrowed);
        assert!(before > 1300, "{name}: {before}");
        // One block was made before it was known; what is not acknowledged is repeated for the playout delay.
        let after = longest(narrowed + ms(120), now);
        assert!((800..=1000).contains(&after), "{name}: {after}");
    }
}
