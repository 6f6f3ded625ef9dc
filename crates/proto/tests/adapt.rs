//! Listeners take their caller's mode where their URI names none.

mod common;

use antiphon_core::{Endpoint, Event, Instant, Message, Profile, Role, SendError, Tag};
use common::hear;

const NOW: Instant = Instant::from_millis(1);

fn endpoint(uri: &str, role: Role) -> Box<dyn Endpoint> {
    common::stack(uri, 1).open(NOW, role)
}

/// Hands everything over; how many messages came out.
fn carry(from: &mut dyn Endpoint, to: &mut dyn Endpoint) -> usize {
    let (mut buf, mut messages) = (vec![0; 65_536], 0);
    while let Some(sent) = from.poll_transmit(NOW, &mut buf) {
        hear(to, NOW, &buf[..sent.len]);
    }
    while to.poll_message(&mut buf).is_some() {
        messages += 1;
    }
    messages
}

#[test]
fn a_listener_takes_the_mode_of_the_first_that_can_be_read() {
    for scheme in ["srp", "arq"] {
        for query in ["", "?mode=as-published", "?mode=improved"] {
            let mut caller = endpoint(&format!("{scheme}{query}"), Role::Caller);
            let mut listener = endpoint(scheme, Role::Listener);
            assert_eq!(listener.poll_event(), Some(Event::Connected));
            hear(&mut *listener, NOW, b"neither mode's");
            for n in 0..3 {
                caller.send(NOW, Message::new(Tag::NONE, &[n; 100], None)).expect("accepted");
                assert_eq!(carry(&mut *caller, &mut *listener), 1, "{scheme}{query}");
                listener.send(NOW, Message::new(Tag::NONE, &[n; 100], None)).expect("accepted");
                assert_eq!(carry(&mut *listener, &mut *caller), 1, "{scheme}{query}, back");
            }
            let connected =
                std::iter::from_fn(|| listener.poll_event()).any(|event| event == Event::Connected);
            assert!(!connected, "told once");
        }
    }
}

#[test]
fn a_listeners_profile_is_the_same_in_either_mode() {
    for scheme in ["srp", "arq"] {
        let modes = ["mode=improved", "mode=as-published"]
            .map(|mode| endpoint(&format!("{scheme}?{mode}"), Role::Listener).profile());
        let before = endpoint(scheme, Role::Listener).profile();
        assert!(modes.iter().all(|mode| before.max_receive >= mode.max_receive), "{scheme}: {before:?}");
        assert!(modes.iter().all(|mode| before.max_message <= mode.max_message), "{scheme}: {before:?}");
        assert!(modes.iter().all(|mode| before.ordered <= mode.ordered), "{scheme}: {before:?}");
        for (mode, own) in ["mode=improved", "mode=as-published"].into_iter().zip(modes) {
            let mut caller = endpoint(&format!("{scheme}?{mode}"), Role::Caller);
            let mut listener = endpoint(scheme, Role::Listener);
            caller.send(NOW, Message::new(Tag::NONE, &[1; 100], None)).expect("accepted");
            assert_eq!(carry(&mut *caller, &mut *listener), 1, "{scheme}?{mode}");
            let after = Profile { max_message: own.max_message, ..before };
            assert_eq!(listener.profile(), after, "{scheme}?{mode}: all but max_message");
        }
    }
}

#[test]
fn what_was_named_or_begun_stays() {
    for scheme in ["srp", "arq"] {
        // The other mode was named; one of the improved mode's keys was; a message went out already.
        for (own, callers, sends) in [
            ("?mode=improved", "?mode=as-published", false),
            ("?mode=as-published", "", false),
            (if scheme == "srp" { "?streams=0" } else { "?ack-delay=1ms" }, "?mode=as-published", false),
            ("", "?mode=as-published", true),
        ] {
            let mut caller = endpoint(&format!("{scheme}{callers}"), Role::Caller);
            let mut listener = endpoint(&format!("{scheme}{own}"), Role::Listener);
            if sends {
                listener.send(NOW, Message::new(Tag::NONE, b"first", None)).expect("accepted");
            }
            caller.send(NOW, Message::new(Tag::NONE, &[1; 100], None)).expect("accepted");
            assert_eq!(carry(&mut *caller, &mut *listener), 0, "{scheme}{own}");
            assert_eq!(listener.stats().counters.malformed, 1);
        }
    }
}

#[test]
fn a_refused_message_gets_the_limit_and_decides_no_mode() {
    for scheme in ["srp", "arq"] {
        let mut listener = endpoint(scheme, Role::Listener);
        let max = listener.profile().max_message;
        for len in [max + 1, 65_535] {
            let refused = listener.send(NOW, Message::new(Tag::NONE, &vec![1; len], None));
            assert_eq!(refused, Err(SendError::TooLarge { len, max }), "{scheme}");
        }
        assert_eq!(listener.send(NOW, Message::new(Tag::NONE, &[], None)), Err(SendError::Empty));
        let mut caller = endpoint(&format!("{scheme}?mode=as-published"), Role::Caller);
        caller.send(NOW, Message::new(Tag::NONE, &[1; 100], None)).expect("accepted");
        assert_eq!(carry(&mut *caller, &mut *listener), 1, "{scheme}: the caller's mode is taken");
    }
}
