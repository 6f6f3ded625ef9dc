//! Players that send RTCP on the port after RTP's, as ffmpeg and GStreamer do without `a=rtcp-mux`.

mod common;

use std::net::UdpSocket;
use std::time::Duration;

use antiphon::ReceiveOptions;
use antiphon::core::Instant;
use antiphon::media::rtcp::{RtcpItem, SenderInfo, visit_compound, write_bye, write_cname, write_report};
use antiphon::net::OsClock;

const SSRC: u32 = 0x1234_5678;
/// Longer than the test takes, shorter than one waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A packet of 20 ms of PCMU, whose payload type is static.
fn rtp(number: u16) -> Vec<u8> {
    let mut packet = vec![0x80, 0];
    packet.extend(number.to_be_bytes());
    packet.extend((u32::from(number) * 160).to_be_bytes());
    packet.extend(SSRC.to_be_bytes());
    packet.extend([0x7f; 160]);
    packet
}

fn report(bye: bool) -> Vec<u8> {
    let mut buf = [0; 200];
    let mut len = write_report(SSRC, Some(&SenderInfo::default()), &[], &mut buf).expect("room");
    len += write_cname(SSRC, "player", &mut buf[len..]).expect("room");
    if bye {
        len += write_bye(SSRC, &mut buf[len..]).expect("room");
    }
    buf[..len].to_vec()
}

#[test]
fn rtcp_on_the_next_port_is_answered_there_and_its_goodbye_ends_a_recording() {
    // An even one.
    let port = antiphon_testkit::free_ports(2);
    let receiver = common::listen(ReceiveOptions {
        source: format!("rtp://127.0.0.1:{port}"),
        sink: "null:".into(),
        length: Some(PATIENCE),
        ..ReceiveOptions::default()
    });
    let (clock, elapsed) = (OsClock::new(), |clock: &OsClock| clock.now().since(Instant::ZERO));
    let [media, control] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback"));
    media.connect(("127.0.0.1", port)).expect("loopback");
    control.connect(("127.0.0.1", port + 1)).expect("loopback");
    control.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    let mut told = [0; 1500];
    // The first report of the player may overtake its sound.
    let mut number = 0;
    let len = loop {
        media.send(&rtp(number)).expect("loopback");
        control.send(&report(false)).expect("loopback");
        number += 1;
        control.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket option");
        match control.recv(&mut told) {
            Ok(len) => break len,
            Err(error) => {
                assert!(elapsed(&clock) < PATIENCE, "no report comes to the port for RTCP: {error}")
            }
        }
    };
    let mut reported = false;
    visit_compound(&told[..len], |item| {
        if let RtcpItem::Receiver { mut blocks, .. } = item {
            reported |= blocks.any(|block| block.ssrc == SSRC);
        }
    })
    .expect("a report");
    assert!(reported, "on the player's stream");
    control.send(&report(true)).expect("loopback");
    let summary = receiver.join().expect("no panic").expect("receiving ends with the stream");
    assert!(elapsed(&clock) < PATIENCE && !summary.interrupted, "{:?}", elapsed(&clock));
    assert_eq!(summary.status.packets_received, u64::from(number));
    media.set_nonblocking(true).expect("a socket option");
    assert!(media.recv(&mut told).is_err(), "nothing comes to the player's port for RTP");
}
