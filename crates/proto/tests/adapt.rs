//! Listeners take their caller's mode where their URI names none.

use antiphon_core::{Ecn, Endpoint, Event, Frame, Input, Instant, PathId};
use antiphon_proto::{OpenArgs, Role, open};

const NOW: Instant = Instant::from_millis(1);

fn endpoint(uri: &str, role: Role) -> Box<dyn Endpoint> {
    let (scheme, query) = uri.split_once('?').unwrap_or((uri, ""));
    let query = query.parse().expect("a query");
    let latency = std::time::Duration::from_millis(80);
    let args = OpenArgs { role, query: &query, seed: 1, now: NOW, max_datagram: 1452, latency };
    open(scheme, &args).expect("opens")
}

/// Hands everything over; how many frames came out.
fn carry(from: &mut dyn Endpoint, to: &mut dyn Endpoint) -> usize {
    let (mut buf, mut frames) = (vec![0; 65_536], 0);
    while let Some(sent) = from.poll_transmit(NOW, &mut buf) {
        hear(to, &buf[..sent.len]);
    }
    while to.poll_frame(&mut buf).is_some() {
        frames += 1;
    }
    frames
}

fn hear(endpoint: &mut dyn Endpoint, bytes: &[u8]) {
    let (path, ecn) = (PathId::default(), Ecn::NotCapable);
    endpoint.handle_input(NOW, Input::Datagram { path, bytes, ecn, received_at: NOW });
}

#[test]
fn a_listener_takes_the_mode_of_the_first_that_can_be_read() {
    for scheme in ["srp", "arq"] {
        for query in ["", "?mode=as-published", "?mode=improved"] {
            let mut caller = endpoint(&format!("{scheme}{query}"), Role::Caller);
            let mut listener = endpoint(scheme, Role::Listener);
            assert_eq!(listener.poll_event(), Some(Event::Connected));
            hear(&mut *listener, b"neither mode's");
            for n in 0..3 {
                caller.send(NOW, Frame::new(&[n; 100], None)).expect("accepted");
                assert_eq!(carry(&mut *caller, &mut *listener), 1, "{scheme}{query}");
                listener.send(NOW, Frame::new(&[n; 100], None)).expect("accepted");
                assert_eq!(carry(&mut *listener, &mut *caller), 1, "{scheme}{query}, back");
            }
            let connected =
                std::iter::from_fn(|| listener.poll_event()).any(|event| event == Event::Connected);
            assert!(!connected, "told once");
        }
    }
}

#[test]
fn what_was_named_or_begun_stays() {
    for scheme in ["srp", "arq"] {
        // The other mode was named; one of the improved mode's keys was; a frame went out already.
        for (own, callers, sends) in [
            ("?mode=improved", "?mode=as-published", false),
            ("?mode=as-published", "", false),
            (if scheme == "srp" { "?streams=0" } else { "?ack-delay=1ms" }, "?mode=as-published", false),
            ("", "?mode=as-published", true),
        ] {
            let mut caller = endpoint(&format!("{scheme}{callers}"), Role::Caller);
            let mut listener = endpoint(&format!("{scheme}{own}"), Role::Listener);
            if sends {
                listener.send(NOW, Frame::new(b"first", None)).expect("accepted");
            }
            caller.send(NOW, Frame::new(&[1; 100], None)).expect("accepted");
            assert_eq!(carry(&mut *caller, &mut *listener), 0, "{scheme}{own}");
            assert_eq!(listener.path_stats().counters.malformed, 1);
        }
    }
}
