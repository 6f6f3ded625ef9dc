//! Real sockets on loopback: recordings over reliable transports through paths that break.

#[path = "common/mod.rs"]
mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antiphon::net::OsClock;
use antiphon::{
    CompleteOver, ConfirmedBy, ReceiveOptions, ReceiveSummary, SendOptions, SendSummary, Stop, send,
};
use common::{NOISE, free_port, listen, recorded, samples, scratch};

/// Whether the path is there.
type Presence = Arc<AtomicBool>;

/// A relay of datagrams between one caller and `to`.
fn relay_datagrams(to: SocketAddr, there: &Presence) -> SocketAddr {
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    let inside = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = outside.local_addr().unwrap();
    inside.connect(to).unwrap();
    let (back_out, back_in, back_there) =
        (outside.try_clone().unwrap(), inside.try_clone().unwrap(), there.clone());
    let caller = Arc::new(std::sync::Mutex::new(None));
    let back_caller = caller.clone();
    let up = there.clone();
    std::thread::spawn(move || {
        let mut buf = [0; 65_536];
        while let Ok((len, from)) = outside.recv_from(&mut buf) {
            *caller.lock().unwrap() = Some(from);
            if up.load(Ordering::Relaxed) {
                let _lost_as_on_any_path = inside.send(&buf[..len]);
            }
        }
    });
    std::thread::spawn(move || {
        let mut buf = [0; 65_536];
        loop {
            let Ok(len) = back_in.recv(&mut buf) else { continue };
            let caller = *back_caller.lock().unwrap();
            if let Some(caller) = caller.filter(|_| back_there.load(Ordering::Relaxed)) {
                let _lost_as_on_any_path = back_out.send_to(&buf[..len], caller);
            }
        }
    });
    at
}

/// A relay of connections to `to`; those that exist are cut when the path goes, and refused while it is not there.
fn relay_connections(to: SocketAddr, there: &Presence) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let there = there.clone();
    std::thread::spawn(move || {
        for caller in listener.incoming().map_while(Result::ok) {
            if !there.load(Ordering::Relaxed) {
                continue;
            }
            let Ok(callee) = TcpStream::connect(to) else { continue };
            for (from, into) in [(&caller, &callee), (&callee, &caller)] {
                let (mut from, mut into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
                from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                let there = there.clone();
                std::thread::spawn(move || {
                    let mut buf = [0; 4096];
                    while there.load(Ordering::Relaxed) {
                        match from.read(&mut buf) {
                            Ok(0) => break,
                            Ok(len) => {
                                if into.write_all(&buf[..len]).is_err() {
                                    break;
                                }
                            }
                            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                            Err(_) => break,
                        }
                    }
                    // What was under way is lost, as with a router that is switched off.
                    let _gone_already = from.shutdown(std::net::Shutdown::Both);
                    let _gone_already = into.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    at
}

/// When the path was gone, as measured: in seconds of sound that had been sent, and for how long.
#[derive(Clone, Copy, Default, Debug)]
struct Gone {
    at_s: f64,
    duration_s: f64,
}

/// Six seconds of noise over `scheme`, whose path is gone for `outage` after two seconds of sound.
fn record(
    scheme: &str,
    query: &str,
    outage: Duration,
    complete: bool,
) -> (SendSummary, ReceiveSummary, bool, Gone) {
    let directory = scratch(&format!("{scheme}-{}-{complete}", outage.as_millis()));
    let over = complete.then(free_port);
    let (file, port, there) = (directory.join("take.wav"), free_port(), Presence::default());
    there.store(true, Ordering::Relaxed);
    let receiver = listen(ReceiveOptions {
        source: match scheme {
            "tcp" => format!("tcp://@127.0.0.1:{port}"),
            _ => format!("{scheme}://127.0.0.1:{port}{query}"),
        },
        sink: file.display().to_string(),
        length: Some(Duration::from_secs(60)),
        complete: over.map(|port| CompleteOver::Uri(format!("tcp://@127.0.0.1:{port}"))),
        ..ReceiveOptions::default()
    });
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    let relay = if scheme == "tcp" { relay_connections(to, &there) } else { relay_datagrams(to, &there) };
    let options = SendOptions {
        source: NOISE.into(),
        target: format!("{scheme}://{relay}{query}"),
        length: Some(Duration::from_secs(6)),
        complete: over.map(|port| CompleteOver::Uri(format!("tcp://127.0.0.1:{port}"))),
        ..SendOptions::default()
    };
    let (clock, mut began, mut gone) = (OsClock::new(), None, Gone::default());
    let sent = send(&options, &Stop::new(), &mut |_| {}, &mut |status| {
        if status.sent_s >= 2.0 {
            let now = clock.now();
            let began = *began.get_or_insert_with(|| {
                gone.at_s = status.sent_s;
                now
            });
            let is_over = now.since(began) >= outage;
            if !there.swap(is_over, Ordering::Relaxed) && is_over {
                gone.duration_s = now.since(began).as_secs_f64();
            }
        }
    });
    let sent = sent.expect("sending to loopback");
    let received = receiver.join().unwrap().expect("receiving ends with the stream");
    let whole = samples(NOISE, 6 * 48_000) == recorded(&file);
    assert!(!Path::new(&format!("{}.json", file.display())).exists() || received.shortfall.is_some());
    std::fs::remove_dir_all(directory).unwrap();
    (sent, received, whole, gone)
}

#[test]
fn a_path_that_breaks_costs_a_recording_nothing() {
    let full = "?reliability=full";
    for (scheme, query) in [("tcp", ""), ("sctp", full), ("arq", full), ("srp", full), ("xtp", full)] {
        let (sent, received, whole, _) = record(scheme, query, Duration::from_secs(3), false);
        assert_eq!((&sent.shortfall, sent.confirmed_by), (&None, ConfirmedBy::Receiver), "{scheme}");
        assert_eq!(
            (sent.status.refused, sent.status.dropped, sent.status.unconfirmed),
            (0, 0, 0),
            "{scheme}"
        );
        assert!(whole && received.shortfall.is_none(), "{scheme}: {:?}", received.status);
        assert!(!received.interrupted && received.status.lost == 0, "{scheme}: {:?}", received.status);
    }
}

#[test]
fn a_recording_of_an_unreliable_stream_is_as_long_and_lists_what_it_misses() {
    let (sent, received, whole, gone) = record("rtp", "", Duration::from_secs(3), false);
    assert!(!whole && sent.shortfall.is_none(), "{:?}", sent.shortfall);
    let recording = received.recording.expect("a file was written");
    assert_eq!(recording.sample_frames, 6 * 48_000);
    let [missing] = &recording.missing[..] else { panic!("{:?}", recording.missing) };
    let is_near = |missed: f64, gone: f64| (missed - gone).abs() < 0.5;
    assert!(
        is_near(missing.duration_s, gone.duration_s) && is_near(missing.at_s, gone.at_s),
        "{missing:?} while the path was {gone:?}"
    );
    assert_eq!(received.status.lost * 256, missing.sample_frames);
    assert!(received.shortfall.is_some_and(|text| text.contains("take.wav.json")));
}

#[test]
fn a_recording_of_an_unreliable_stream_is_completed_afterwards() {
    for outage in [1, 3] {
        let (sent, received, whole, _) = record("rtp", "", Duration::from_secs(outage), true);
        assert!(whole && received.shortfall.is_none(), "{outage} s: {:?}", received.shortfall);
        assert!(received.status.lost > 100, "{outage} s: {:?}", received.status);
        assert_eq!((sent.shortfall, sent.confirmed_by), (None, ConfirmedBy::Receiver), "{outage} s");
        let recording = received.recording.expect("a file was written");
        assert_eq!((recording.sample_frames, recording.missing.len()), (6 * 48_000, 0), "{outage} s");
    }
}
