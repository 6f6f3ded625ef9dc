use super::*;
use antiphon_core::uri::Query;
use antiphon_core::{Input, PathId, Role, Tag};
use antiphon_proto::{StackArgs, find};

fn endpoint(scheme: &str, role: Role) -> Box<dyn Endpoint> {
    endpoint_with(scheme, "", role)
}

fn endpoint_with(scheme: &str, query: &str, role: Role) -> Box<dyn Endpoint> {
    let query: Query = query.parse().unwrap();
    let playout_delay = Duration::from_millis(80);
    let args = StackArgs::new(&query, 7, 1472, playout_delay);
    (find(scheme).unwrap().stack)(&args).unwrap().open(Instant::ZERO, role)
}

fn framed(scheme: &str, role: Role, send_timeout: Option<Duration>) -> Framed {
    Framed::new(endpoint(scheme, role), Framing { send_timeout, ..Framing::default() })
}

fn frame(channel: u16, bytes: &[u8]) -> Message<'_> {
    Message { stream: StreamId(channel), ..Message::new(Tag::NONE, bytes, None) }
}

fn tagged(tag: u64, message: Message<'_>) -> Message<'_> {
    Message { tag: Tag(tag), ..message }
}

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn datagrams(from: &mut dyn Endpoint, now: Instant) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    loop {
        let mut buf = vec![0; 1472];
        let Some(transmit) = from.poll_transmit(now, &mut buf) else { return sent };
        buf.truncate(transmit.len);
        sent.push(buf);
    }
}

fn deliver(to: &mut dyn Endpoint, now: Instant, bytes: &[u8]) {
    let (path, bytes) = (PathId::default(), &mut bytes.to_vec());
    to.handle_input(now, Input::Datagram { path, bytes, received_at: now });
}

fn outcomes(of: &mut dyn Endpoint) -> Vec<(u64, Outcome)> {
    let events = std::iter::from_fn(|| of.poll_event());
    events
        .filter_map(|event| match event {
            Event::Outcome { tag, outcome } => Some((tag.0, outcome)),
            _ => None,
        })
        .collect()
}

/// Two channels of the paper, blocks returned as they came, every third lost on its way.
#[test]
fn what_is_left_of_two_channels_comes_back_whole() {
    let (mut near, mut far) = (framed("rtp", Role::Caller, None), endpoint("rtp", Role::Listener));
    let (mut came, mut buf, mut blocks) = (Vec::new(), vec![0; 65_535], 0);
    for round in 0..12u64 {
        let now = ms(round * 11);
        for channel in 0..2 {
            near.send(now, frame(channel, &[round as u8; 940])).unwrap();
        }
        let sent = datagrams(&mut near, now);
        assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [1024, 896]);
        for block in sent.iter().filter(|_| (blocks, blocks += 1).0 % 3 != 1) {
            deliver(&mut *far, now, block);
        }
        while let Some(received) = far.poll_message(&mut buf) {
            far.send(now, Message::new(Tag::NONE, &buf[..received.len], None)).unwrap();
        }
        for block in datagrams(&mut *far, now) {
            deliver(&mut near, now + Duration::from_millis(3), &block);
        }
        while let Some((header, received)) = near.poll_packet(&mut buf) {
            assert_eq!((received.len, received.stream.0), (940, u16::from(header.channel)));
            assert_eq!(header.timestamp, u64::from(header.seq - 1) * 11_000);
            assert!(buf[..940].iter().all(|byte| u32::from(*byte) == header.seq - 1));
            came.push((header.seq, header.channel));
        }
        assert_eq!(outcomes(&mut near).len(), 2);
    }
    // Of the 24 blocks are lost 1, 4, 7, 10 and so on: the ends of rounds 0, 3, 6, 9 and the beginnings of 2, 5, 8, 11.
    let expected: Vec<(u32, u8)> = (1..=12)
        .flat_map(|seq| match seq % 3 {
            1 => vec![(seq, 0)],
            2 => vec![(seq, 0), (seq, 1)],
            _ => vec![],
        })
        .collect();
    assert_eq!(came, expected);
}

/// A program whose write blocks gives up one block each 40 ms, counted from when it could have been written.
#[test]
fn a_blocked_stream_gives_up_one_block_at_a_time() {
    let wait = Duration::from_millis(40);
    let mut near = framed("tcp", Role::Caller, Some(wait));
    near.handle_input(ms(0), Input::Connected);
    let mut buf = vec![0; 1448];
    near.send(ms(0), tagged(0, frame(0, &[1; 940]))).unwrap();
    // 100 bytes go into the socket: a block once begun is completed.
    assert_eq!(near.poll_transmit(ms(0), &mut buf[..100]).unwrap().len, 100);
    for n in 1..4 {
        near.send(ms(n * 10), tagged(n, frame(0, &[1; 940]))).unwrap();
        near.flush(ms(n * 10));
        assert_eq!(outcomes(&mut near), []);
    }
    assert_eq!(
        near.poll_transmit(ms(100), &mut buf).unwrap().len,
        862,
        "the rest, RFC 4571's two bytes counted"
    );
    assert_eq!(outcomes(&mut near), [(0, Outcome::Released)]);
    near.flush(ms(100));
    // The ring holds three packets, which are blocks of 1024, 1024 and 832.
    for (n, at) in [(1, 140), (2, 180), (3, 220)] {
        let due = near.poll_timeout().unwrap();
        assert_eq!(due, Instant::from_nanos(ms(at).as_nanos() + n));
        near.handle_timeout(due);
    }
    let expired = Outcome::Expired { maybe_received: false };
    assert_eq!(outcomes(&mut near), [(1, expired), (2, expired), (3, expired)]);
    assert_eq!(near.poll_transmit(ms(221), &mut buf), None);
}

#[test]
fn each_frame_has_one_outcome_whatever_ends_it() {
    for mode in [CloseMode::Graceful, CloseMode::Abort] {
        let mut near = framed("tcp", Role::Caller, None);
        near.handle_input(ms(0), Input::Connected);
        for n in 0..50u16 {
            let bytes = vec![0; 1 + usize::from(n) * 40];
            near.send(ms(n.into()), tagged(n.into(), frame(n % 16, &bytes))).unwrap();
        }
        near.close(ms(60), mode);
        let mut buf = vec![0; 700];
        while near.poll_transmit(ms(70), &mut buf).is_some() {}
        let events: Vec<Event> = std::iter::from_fn(|| near.poll_event()).collect();
        assert!(matches!(events.last(), Some(Event::Closed(_))), "{mode:?}");
        let frames: Vec<u64> = events
            .iter()
            .filter_map(|event| match event {
                Event::Outcome { tag, outcome } => {
                    let expected =
                        if mode == CloseMode::Abort { Outcome::Aborted } else { Outcome::Released };
                    assert_eq!(*outcome, expected);
                    Some(tag.0)
                }
                _ => None,
            })
            .collect();
        assert_eq!(frames, (0..50).collect::<Vec<_>>(), "{mode:?}");
        assert_eq!(near.send(ms(80), frame(0, &[1])), Err(SendError::Closed));
        assert_eq!(near.poll_event(), None);
    }
}

#[test]
fn a_close_that_takes_its_time_takes_no_more_frames() {
    let (mut near, mut far) = (framed("sctp", Role::Caller, None), endpoint("sctp", Role::Listener));
    for _ in 0..4 {
        datagrams(&mut near, ms(0)).iter().for_each(|sent| deliver(&mut *far, ms(0), sent));
        datagrams(&mut *far, ms(0)).iter().for_each(|sent| deliver(&mut near, ms(0), sent));
    }
    near.send(ms(1), frame(0, &[1; 100])).unwrap();
    near.close(ms(1), CloseMode::Graceful);
    assert!(std::iter::from_fn(|| near.poll_event()).all(|event| !matches!(event, Event::Closed(_))));
    assert_eq!(near.send(ms(2), frame(0, &[2; 100])), Err(SendError::Closed), "the peer has still to answer");
}

#[test]
fn a_full_ring_says_when_there_is_room() {
    let mut near = framed("tcp", Role::Caller, None);
    let refused = (0..100).find(|_| near.send(ms(0), frame(0, &[0; 4000])).is_err());
    assert_eq!(refused, Some(16), "64 KiB hold 16 packets of 4020 bytes");
    assert_eq!(near.send(ms(0), frame(0, &[0; 4097])), Err(SendError::TooLarge { len: 4097, max: 4096 }));
    assert_eq!(near.send(ms(0), frame(0, &[])), Err(SendError::Empty));
    near.handle_input(ms(1), Input::Connected);
    let mut buf = vec![0; 1448];
    while near.poll_transmit(ms(1), &mut buf).is_some() {}
    let events: Vec<Event> = std::iter::from_fn(|| near.poll_event()).collect();
    assert_eq!(events.iter().filter(|event| **event == Event::Writable).count(), 1);
    // What was refused has taken its number with it, so that the far end misses it.
    assert_eq!(near.seqs[0], 18);
}

/// What a full queue refuses waits in the ring, or is given up by a program that does not try again.
#[test]
fn a_refused_block_waits_or_is_given_up() {
    let framed = |gives_up_refused| {
        let inner = endpoint_with("dccp", "queue=5", Role::Caller);
        let mut near = Framed::new(inner, Framing { gives_up_refused, ..Framing::default() });
        for n in 0..8 {
            near.send(ms(0), tagged(n, frame(0, &[1; 940]))).unwrap();
            near.flush(ms(0));
        }
        outcomes(&mut near)
    };
    assert_eq!(framed(false), []);
    let given_up: Vec<_> = (5..8).map(|n| (n, GIVEN_UP)).collect();
    assert_eq!(framed(true).len(), 0, "frames have their outcomes in order, and the first five wait");
    let mut near = Framed::new(
        endpoint_with("dccp", "queue=5", Role::Caller),
        Framing { gives_up_refused: true, ..Framing::default() },
    );
    for n in 0..8 {
        near.send(ms(0), tagged(n, frame(0, &[1; 940]))).unwrap();
        near.flush(ms(0));
    }
    near.close(ms(0), CloseMode::Abort);
    near.handle_timeout(ms(1));
    let ended = outcomes(&mut near);
    assert_eq!(ended[5..], given_up, "{ended:?}");
}
