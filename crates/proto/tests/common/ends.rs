//! Endpoints driven by hand: what they have to say, and to whom it is handed.

use antiphon_core::{Endpoint, Event, Instant, Message, PathId, Tag, Validator, Verdict, handle_due};

use super::{MAX_DATAGRAM, hear};

/// Hands in a datagram that came by this path.
pub fn hear_on(endpoint: &mut dyn Endpoint, now: Instant, path: PathId, bytes: &[u8]) {
    endpoint.handle_input(now, antiphon_testkit::datagram(&mut bytes.to_vec(), path, now));
}

/// Has an endpoint accept a message.
pub fn say(endpoint: &mut dyn Endpoint, now: Instant, bytes: &[u8]) {
    endpoint.send(now, Message::new(Tag::NONE, bytes, None)).expect("room");
}

/// Everything that an endpoint has to send, without time-outs.
pub fn packets(endpoint: &mut dyn Endpoint, now: Instant) -> Vec<Vec<u8>> {
    let mut buf = [0; MAX_DATAGRAM];
    std::iter::from_fn(|| endpoint.poll_transmit(now, &mut buf).map(|sent| buf[..sent.len].to_vec()))
        .collect()
}

/// The same after the time-outs that are due.
pub fn flush(endpoint: &mut dyn Endpoint, now: Instant) -> Vec<Vec<u8>> {
    handle_due(endpoint, now);
    packets(endpoint, now)
}

/// Hands all that one endpoint has to send, without time-outs, to another.
pub fn pass(from: &mut dyn Endpoint, to: &mut dyn Endpoint, now: Instant) {
    packets(from, now).iter().for_each(|packet| hear(to, now, packet));
}

/// Everything that one endpoint has to send goes to the other, then the answers come back.
pub fn exchange(one: &mut dyn Endpoint, other: &mut dyn Endpoint, now: Instant) {
    pass(one, other, now);
    pass(other, one, now);
}

/// The messages that wait to be fetched.
pub fn fetched(endpoint: &mut dyn Endpoint) -> Vec<Vec<u8>> {
    let mut buf = vec![0; endpoint.profile().max_receive];
    std::iter::from_fn(|| endpoint.poll_message(&mut buf).map(|received| buf[..received.len].to_vec()))
        .collect()
}

/// The events that wait to be fetched.
pub fn events(endpoint: &mut dyn Endpoint) -> Vec<Event> {
    std::iter::from_fn(|| endpoint.poll_event()).collect()
}

/// Whether the end is among the events that wait.
pub fn has_ended(endpoint: &mut dyn Endpoint) -> bool {
    events(endpoint).iter().any(|event| matches!(event, Event::Closed(_)))
}

/// The validator's verdict on a datagram, with the answer or what is handed on.
pub fn validate(
    validator: &mut dyn Validator,
    now: Instant,
    path: PathId,
    bytes: &[u8],
) -> (Verdict, Vec<u8>) {
    let mut answer = vec![0; 2048];
    let verdict = validator.validate(now, path, bytes, &mut answer);
    let len = match verdict {
        Verdict::Reply { len } | Verdict::AcceptWith { len } => len,
        Verdict::Ignore | Verdict::Accept => 0,
    };
    answer.truncate(len);
    (verdict, answer)
}

/// The answer that a validator must give.
pub fn reply(validator: &mut dyn Validator, now: Instant, path: PathId, bytes: &[u8]) -> Vec<u8> {
    let (verdict, answer) = validate(validator, now, path, bytes);
    assert!(matches!(verdict, Verdict::Reply { .. }), "{verdict:?}");
    answer
}
