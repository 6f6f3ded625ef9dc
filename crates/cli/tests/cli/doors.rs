//! Who may send to a listening program, and who keeps it from listening to others.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antiphon_testkit::unless_held_up;

use crate::common::{HELD_UP_LONG, SCHEMES, free_ports, listening, run, source};

#[test]
fn only_those_on_the_list_are_heard() {
    unless_held_up(HELD_UP_LONG, || {
        let check = |scheme: &'static str, allowed: &'static str, is_heard: bool| {
            let port = free_ports(1);
            let arguments =
                ["receive", &source(scheme, port), "null:", "--allow", allowed, "--seconds", "4s"];
            let (mut receiver, said) = listening(&arguments, "listening on");
            let ran = run(&["send", "clip:demo", &format!("{scheme}://127.0.0.1:{port}"), "--seconds", "1s"]);
            // Over rtp nobody knows whether somebody hears it.
            let unheard = if scheme == "rtp" { Some(0) } else { Some(4) };
            assert_eq!(ran.code, if is_heard { Some(0) } else { unheard }, "{scheme} {allowed}: {}", ran.err);
            receiver.wait().expect("it is our child");
            let said = said.join().expect("it was read");
            assert_eq!(said.contains("outside --allow"), !is_heard, "{scheme} {allowed}: {said}");
        };
        let cases = [("127.0.0.9,192.0.2.0/24", false), ("192.0.2.0/24,127.0.0.0/8", true)];
        for (allowed, is_heard) in cases {
            let threads = SCHEMES.map(|scheme| std::thread::spawn(move || check(scheme, allowed, is_heard)));
            threads.into_iter().for_each(|thread| thread.join().expect("as it must be"));
        }
    });
}

#[test]
fn what_is_no_network_is_refused_with_the_remedy() {
    for command in [
        &["receive", "rtp://:0", "null:", "--allow", "192.0.2.0/33"][..],
        &["reflect", "--allow", "localhost"],
        &["link", "--listen", ":0", "--to", "127.0.0.1:9", "--allow", "x"],
    ] {
        let ran = run(command);
        assert_eq!(ran.code, Some(2), "{command:?}: {}", ran.err);
        assert!(ran.err.contains("--allow") && ran.err.contains("192.0.2.0/24"), "{command:?}: {}", ran.err);
    }
}

#[test]
fn idle_connections_keep_no_sender_out() {
    let port = free_ports(1);
    let (mut receiver, said) = listening(&["receive", &source("tcp", port), "null:"], "listening on");
    let idle: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("it listens")).collect();
    let one = &mut &idle[40];
    let _it_may_be_closed_already = one.write_all(&[0, 3, 1]);
    let ran = run(&["send", "clip:demo", &format!("tcp://127.0.0.1:{port}"), "--seconds", "1s"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(receiver.wait().expect("it is our child").code(), Some(0), "{}", said.join().unwrap());
}

/// A hundred openings a second from addresses that are nobody's, and idle connections.
#[test]
fn forged_openings_keep_nobody_from_comparing() {
    // As many as the reflector has for all transports.
    let first = free_ports(8);
    let address = format!("127.0.0.1:{first}");
    let (mut reflector, _said) = listening(&["reflect", "--listen", &address], "Stop with Ctrl-C");
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let flood = std::thread::spawn(move || {
        let mut packet = [0; 212];
        packet[0] = 0x80;
        let mut idle = Vec::new();
        for n in 0_u32.. {
            let from = Ipv4Addr::new(127, 1, (n >> 8) as u8, n as u8);
            let socket = UdpSocket::bind((from, 0)).expect("loopback has all of these");
            packet[1] = 10;
            // The ports of rtp, srp and arq.
            for port in first..first + 5 {
                let _it_is_a_flood = socket.send_to(&packet, ("127.0.0.1", port));
                let _it_is_a_flood = socket.send_to(b"seq:1 sound", ("127.0.0.1", port));
            }
            if n % 10 == 0 && idle.len() < 100 {
                idle.extend(TcpStream::connect(("127.0.0.1", first + 1)));
                idle.extend(TcpStream::connect(("127.0.0.1", first)));
            }
            if ended.load(Ordering::Relaxed) {
                return n;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        0
    });
    let mut places = Vec::new();
    for transport in ["rtp", "tcp", "srp", "arq", "sctp", "dccp", "xtp"] {
        let ran = run(&["compare", &address, "--transports", transport, "--seconds", "1s", "--out", "none"]);
        places.push((transport, ran.code, ran.err));
    }
    over.store(true, Ordering::Relaxed);
    let sent = flood.join().expect("it ends");
    reflector.kill().expect("it runs");
    reflector.wait().expect("it is our child");
    assert!(places.iter().all(|(_, code, _)| *code == Some(0)), "after {sent} rounds: {places:#?}");
}
