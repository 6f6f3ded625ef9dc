//! A path on loopback that loses some of what goes one way.

use std::net::UdpSocket;
use std::sync::mpsc;
use std::thread;

/// Forwards datagrams between one caller and `to`, but those to `to` of this RTP payload type that `loses` says, by their number from 1. Returns the
/// port to call.
pub fn losing(to: u16, payload_type: u8, loses: impl Fn(u32) -> bool + Send + 'static) -> u16 {
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("a port on loopback");
    let (outside, inside) = (bind(), bind());
    inside.connect(("127.0.0.1", to)).expect("loopback");
    let at = outside.local_addr().expect("it is bound").port();
    let clone = |socket: &UdpSocket| socket.try_clone().expect("a descriptor");
    let (back_out, back_in) = (clone(&outside), clone(&inside));
    let (learnt, caller) = mpsc::channel();
    thread::spawn(move || {
        let (mut buf, mut number) = ([0; 2_000], 0);
        while let Ok((len, from)) = outside.recv_from(&mut buf) {
            let _back_is_gone = learnt.send(from);
            let is_meant = buf[1] & 0x7f == payload_type;
            number += u32::from(is_meant);
            if !is_meant || !loses(number) {
                let _lost_as_on_any_path = inside.send(&buf[..len]);
            }
        }
    });
    thread::spawn(move || {
        let Ok(caller) = caller.recv() else { return };
        let mut buf = [0; 2_000];
        while let Ok(len) = back_in.recv(&mut buf) {
            let _lost_as_on_any_path = back_out.send_to(&buf[..len], caller);
        }
    });
    at
}
