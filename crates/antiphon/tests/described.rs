//! What `send` tells of its stream: the SDP file, and the reports on the wire.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::Duration;

use antiphon::media::rtcp::{RtcpItem, visit_compound};
use antiphon::{SendOptions, Stop, send};

/// What a plain socket got of a stream, and its description.
struct Stream {
    datagrams: Vec<Vec<u8>>,
    sdp: String,
}

impl Stream {
    /// Sends a tenth of a second to a socket of this test.
    fn of(name: &str, options: SendOptions) -> Stream {
        let directory =
            std::env::temp_dir().join(format!("antiphon-described-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a temporary directory");
        let file: PathBuf = directory.join("stream.sdp");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let port = socket.local_addr().expect("bound").port();
        let length = Some(Duration::from_millis(100));
        let target = format!("rtp://127.0.0.1:{port}");
        let source = "tone:440Hz?channels=2".into();
        let options = SendOptions { source, target, length, sdp: Some(file.clone()), ..options };
        send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("sending to loopback");
        // To its goodbye: the kernel may deliver later what it has taken.
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket option");
        let (mut datagrams, mut buf) = (Vec::<Vec<u8>>::new(), [0; 2048]);
        while !datagrams.last().is_some_and(|last| Self::is_goodbye(last)) {
            let len = socket.recv(&mut buf).expect("the stream ends with a goodbye");
            datagrams.push(buf[..len].to_vec());
        }
        let sdp = std::fs::read_to_string(&file).expect("the description");
        std::fs::remove_dir_all(directory).expect("the test's own directory");
        Stream { datagrams, sdp }
    }

    fn is_rtcp(datagram: &[u8]) -> bool {
        (192..=223).contains(&datagram[1])
    }

    fn is_goodbye(datagram: &[u8]) -> bool {
        let mut is_there = false;
        if Self::is_rtcp(datagram) {
            visit_compound(datagram, |item| is_there |= matches!(item, RtcpItem::Bye { .. }))
                .expect("valid reports");
        }
        is_there
    }

    /// The names in its reports.
    fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for datagram in self.datagrams.iter().filter(|datagram| Self::is_rtcp(datagram)) {
            visit_compound(datagram, |item| {
                if let RtcpItem::Cname { name, .. } = item {
                    names.insert(String::from_utf8_lossy(name).into_owned());
                }
            })
            .expect("valid reports");
        }
        names
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.sdp.lines().find_map(|line| line.strip_prefix(&format!("a={name}:")))
    }
}

#[test]
fn each_run_has_a_name_of_its_own_in_reports_and_sdp() {
    let runs = ["first", "second"].map(|name| Stream::of(name, SendOptions::default()));
    let names = runs.each_ref().map(Stream::names);
    assert_eq!(names.each_ref().map(BTreeSet::len), [1, 1], "{names:?}");
    assert_ne!(names[0], names[1]);
    for (run, names) in runs.iter().zip(&names) {
        let name = names.first().expect("one");
        // RFC 7022 §4.2: 96 bits in base64.
        assert_eq!(name.len(), 16, "{name}");
        let told = run.attribute("ssrc").expect("a line for the source");
        assert!(told.ends_with(&format!(" cname:{name}")), "{told} {name}");
    }
}

#[test]
fn a_millisecond_of_packet_time_is_48_sample_frames() {
    let options = SendOptions { ptime: Some(Duration::from_millis(1)), ..SendOptions::default() };
    let stream = Stream::of("ptime", options);
    assert_eq!(stream.attribute("ptime"), Some("1"));
    let stamps: Vec<u32> = stream
        .datagrams
        .iter()
        .filter(|datagram| !Stream::is_rtcp(datagram))
        .map(|rtp| u32::from_be_bytes(rtp[4..8].try_into().expect("four bytes")))
        .collect();
    assert_eq!(stamps.len(), 100);
    assert!(stamps.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == 48));
}

#[test]
fn the_description_names_the_clocks_and_the_address_that_is_used() {
    let stream = Stream::of("clocks", SendOptions::default());
    assert_eq!(
        (stream.attribute("ts-refclk"), stream.attribute("mediaclk")),
        (Some("local"), Some("sender"))
    );
    assert!(stream.sdp.contains(" IN IP4 127.0.0.1\r\n"), "{}", stream.sdp);
}
