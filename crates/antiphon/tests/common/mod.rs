//! Receivers in the test's own process.

#![allow(dead_code, reason = "each test uses what it needs")]

use std::sync::mpsc;
use std::thread::JoinHandle;

use antiphon::net::{Line, SocketOptions, UdpLine};
use antiphon::{Error, ReceiveOptions, ReceiveSummary, Stop, receive};

/// Noise of 16 bits: no two packets are alike, so that one in the wrong place is noticed.
pub const NOISE: &str = "tone:noise?seed=5&channels=2&format=l16";

/// A port that was free a moment ago. The kernel does not assign it again soon.
pub fn free_port() -> u16 {
    let line = UdpLine::listen(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).expect("loopback");
    line.local_address().port()
}

/// A receiver that listens already, in the namespace of the calling thread.
pub fn listen(options: ReceiveOptions) -> JoinHandle<Result<ReceiveSummary, Error>> {
    let (listening, is_listening) = mpsc::channel();
    let receiver = std::thread::spawn(move || {
        receive(&options, &Stop::new(), &mut |sentence| drop(listening.send(sentence)), &mut |_| {})
    });
    is_listening.recv().expect("the receiver says that it listens");
    receiver
}
