use std::net::UdpSocket;

use super::*;

/// The URIs of a caller and a listener.
fn uris(scheme: &str) -> [String; 2] {
    // Port 0 cannot be written in a URI.
    let port = antiphon_testkit::free_ports(1);
    [format!("{scheme}://127.0.0.1:{port}"), format!("{scheme}://@127.0.0.1:{port}")]
}

fn open(uri: &str) -> MessageLink {
    MessageLink::open(uri, &MessageOptions::default()).expect("it opens")
}

fn pair(scheme: &str) -> (MessageLink, MessageLink) {
    let [caller, listener] = uris(scheme);
    let listener = open(&listener);
    (open(&caller), listener)
}

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

#[test]
fn messages_go_both_ways_over_every_transport() {
    for transport in antiphon_proto::TRANSPORTS {
        let name = transport.scheme;
        let (caller, listener) = pair(name);
        caller.wait_connected(PATIENCE).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut buf = [0; 2000];
        let mut took = Vec::new();
        // Without a signal, half of the 50 ms between two polls is lost at the median; with it less than one. Twenty in time of
        // forty; or, where the machine has other things to do in between, of up to 200, of which polls would have some eight within 2 ms.
        let most = |tries: usize| Duration::from_millis(if tries <= 40 { 15 } else { 2 });
        while took.len() < 40 || (took.len() < 200 && took[20] >= most(took.len())) {
            let n = took.len() as u8;
            let offered = caller.now();
            caller.send(&[n; 700], None).unwrap();
            let arrived =
                listener.receive(&mut buf, PATIENCE).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!((arrived.len, arrived.full_len, buf[699]), (700, 700, n), "{name}");
            took.push(caller.now().since(offered));
            took.sort_unstable();
        }
        let messages = took.len() as u64;
        assert!(took[20] < most(took.len()), "{name}: {took:?}");
        assert_eq!(listener.state(), LinkState::Connected, "{name}");
        listener.send(b"back", Some(Duration::from_secs(5))).unwrap();
        let arrived = caller.receive(&mut buf[..2], PATIENCE).unwrap();
        assert_eq!((arrived.len, arrived.full_len, &buf[..2]), (2, 4, &b"ba"[..]), "{name}");
        caller.close().unwrap();
        let stats = caller.stats();
        assert_eq!(
            (stats.state, stats.messages_accepted, stats.messages_received),
            (LinkState::Closed, messages, 1)
        );
        assert_eq!(stats.messages_released + stats.messages_acked, messages, "{name}: {stats:?}");
    }
}

#[test]
fn a_wait_for_a_peer_that_is_not_there_yet_ends_when_it_comes() {
    for scheme in ["rtp", "srp", "arq", "arq?mode=as-published", "srp?mode=as-published"] {
        let (name, query) = scheme.split_once('?').unwrap_or((scheme, ""));
        let [calls, listens] = uris(name).map(|uri| format!("{uri}?{query}"));
        // Somebody holds the port, so that nothing is refused.
        let silent = UdpSocket::bind(calls[name.len() + 3..].split('?').next().unwrap()).unwrap();
        let caller = open(&calls);
        assert_eq!(
            caller.wait_connected(Some(Duration::from_millis(300))),
            Err(MessageError::TimedOut),
            "{scheme}"
        );
        drop(silent);
        let listener = open(&listens);
        caller.wait_connected(PATIENCE).unwrap_or_else(|error| panic!("{scheme}: {error}"));
        listener.wait_connected(PATIENCE).unwrap_or_else(|error| panic!("{scheme}: {error}"));
        assert_eq!(
            listener.receive(&mut [0; 10], Some(Duration::ZERO)),
            Err(MessageError::TimedOut),
            "{scheme}"
        );
    }
}

#[test]
fn time_out_and_closing_end_a_wait() {
    let [calls, listens] = uris("rtp");
    let listener = open(&listens);
    let mut buf = [0; 10];
    assert_eq!(listener.receive(&mut buf, Some(Duration::ZERO)), Err(MessageError::TimedOut));
    assert_eq!(listener.wait_connected(Some(Duration::from_millis(1))), Err(MessageError::TimedOut));
    let caller = open(&calls);
    listener.wait_connected(PATIENCE).expect("asked for a sign of life");
    assert_eq!(caller.receive(&mut buf, Some(Duration::ZERO)), Err(MessageError::TimedOut));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| listener.receive(&mut [0; 10], None));
        listener.close().unwrap();
        assert_eq!(waiting.join().unwrap(), Err(MessageError::Closed));
    });
    assert_eq!(listener.send(b"x", None), Err(MessageError::Closed));
}

#[test]
fn what_cannot_be_sent_is_refused_at_once() {
    let [calls, listens] = uris("srp");
    let caller = open(&calls);
    assert_eq!(caller.send(&[], None), Err(MessageError::Empty));
    let max = caller.max_message();
    assert_eq!(caller.send(&vec![0; max + 1], None), Err(MessageError::TooLarge { len: max + 1, max }));
    // Nobody to send to yet: the queue fills, and an error says so.
    let listener = open(&listens.replace("@127.0.0.1", "@127.0.0.2"));
    for _ in 0..QUEUED_MESSAGES {
        listener.send(b"x", None).unwrap();
    }
    assert_eq!(listener.send(b"x", None), Err(MessageError::Full));
}

#[test]
fn mistakes_in_a_uri_are_refused_with_the_remedy() {
    let refuse =
        |uri: &str| MessageLink::open(uri, &MessageOptions::default()).err().expect("refused").to_string();
    assert!(refuse("spr://127.0.0.1:7000").contains("did you mean 'srp'"));
    assert!(refuse("srp://127.0.0.1:7000?mod=improved").contains("did you mean 'mode'"));
    assert!(refuse("srp://127.0.0.1:7000?mode=x").contains("as-published"));
    assert!(refuse("nothing").contains("no scheme"));
    assert!(refuse("srp://127.0.0.1:7000?framing=medusa").contains("omit it for messages"));
    assert!(refuse("srp://127.0.0.1:7000?protect=repeat:2").contains("messages carry no number"));
}
