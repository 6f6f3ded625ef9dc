//! A capture of real lines: the file contains what both ends handed to their sockets.

mod exchange;
mod killed;
#[path = "../common/party.rs"]
mod party;
mod tshark;

use std::net::SocketAddr;

use antiphon_net::{Capture, OsClock};
use exchange::{Exchange, messages, read};

/// Runs an exchange with a capture at either end and returns the contents of both files.
fn both_ends(scheme: &str, listen: &str) -> (Exchange, [Vec<exchange::Packet>; 2]) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let paths = [dir.path().join("near.pcapng"), dir.path().join("far.pcapng")];
    let clock = OsClock::new();
    let captures = paths.clone().map(|path| Capture::create(path, clock).expect("a file"));
    let taps = captures.each_ref().map(|capture| capture.tap(scheme));
    let done = exchange::run(scheme, listen, messages(40), taps, clock);
    for capture in captures {
        assert_eq!(capture.finish().expect("room on the disk").dropped, 0);
    }
    (done, paths.map(|path| read(&path)))
}

#[test]
fn both_ends_of_a_udp_exchange_show_the_same_datagrams() {
    for (listen, ip) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("0.0.0.0:0", "127.0.0.1")] {
        let (done, [near, far]) = both_ends("rtp", listen);
        let sent: Vec<&[u8]> = near.iter().filter(|p| p.outgoing).map(|p| &p.payload[..]).collect();
        assert_eq!(sent, done.messages, "{listen}");
        assert_eq!(near.len(), 2 * done.messages.len());
        // The reflector's socket, bound to the wildcard in the last case, shows the address that the sender called.
        let server = SocketAddr::new(ip.parse().expect("an address"), done.port);
        for (near, far) in near.iter().zip(&far) {
            let to = if near.outgoing { near.to } else { near.from };
            assert_eq!((to, near.outgoing), (server, !far.outgoing));
            assert_eq!((near.from, near.to, &near.payload), (far.from, far.to, &far.payload));
            // EF, and what Linux begins with (`net.ipv4.ip_default_ttl`); the receiving end has it from the packet.
            assert_eq!((near.marks, far.marks), ((46 << 2, 64), (46 << 2, 64)), "{listen}");
        }
        // The far end uses the same clock: a datagram arrives after it was sent, and within a second.
        for (near, far) in near.iter().zip(&far).filter(|(near, _)| near.outgoing) {
            let nanos = far.nanos as i64 - near.nanos as i64;
            assert!((0..1_000_000_000).contains(&nanos), "{nanos}");
        }
    }
}

#[test]
fn both_ends_of_a_tcp_exchange_show_the_same_stream() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let (done, files) = both_ends("tcp", listen);
        let framed: Vec<u8> = done
            .messages
            .iter()
            .flat_map(|message| {
                (message.len() as u16).to_be_bytes().into_iter().chain(message.iter().copied())
            })
            .collect();
        let mut opened = Vec::new();
        for (packets, caller) in files.iter().zip([true, false]) {
            for outgoing in [true, false] {
                let stream: Vec<u8> = packets
                    .iter()
                    .filter(|packet| packet.outgoing == outgoing)
                    .flat_map(|packet| packet.payload.iter().copied())
                    .collect();
                assert!(stream == framed, "{listen}: {} of {} bytes", stream.len(), framed.len());
            }
            // SYN, SYN with ACK, ACK; the caller begins.
            let flags: Vec<_> = packets.iter().map(|p| (p.outgoing, p.flags.expect("TCP"))).collect();
            assert_eq!(flags[..3], [(caller, 0x02), (!caller, 0x12), (caller, 0x10)]);
            // The line at the near end was closed first; the far end noticed, or was closed before it read.
            assert_eq!(flags.iter().filter(|(_, flags)| flags & 0x01 != 0).count(), 2, "{listen}");
            opened.push((packets[0].from, packets[0].to));
        }
        assert_eq!(opened[0], opened[1]);
    }
}
