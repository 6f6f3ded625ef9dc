//! Heartbeats of the peer, each answered to where it came from.

use antiphon_core::PathId;

use crate::common::ends::{hear_on, packets};
use crate::hostile::{NOW, connected, packet_with, repaired};

/// HEARTBEAT and HEARTBEAT ACK (RFC 9260 §3.2).
const HEARTBEAT: u8 = 4;
const HEARTBEAT_ACK: u8 = 5;

#[test]
fn heartbeats_of_one_batch_are_all_answered_where_they_came_from() {
    let (mut caller, mut listener) = connected();
    let header = packet_with(&mut *caller, b"x")[..12].to_vec();
    let heartbeat = |info: u8| {
        let chunk = [HEARTBEAT, 0, 0, 12, 0, 1, 0, 8, info, info, info, info];
        repaired([&header[..], &chunk[..]].concat())
    };
    packets(&mut *listener, NOW);
    // More addresses than an association keeps.
    let paths = [0, 1, 2, 3, 9, 9, 9];
    for (info, path) in paths.into_iter().enumerate() {
        hear_on(&mut *listener, NOW, PathId(path), &heartbeat(info as u8));
        if info % 2 == 1 || info == paths.len() - 1 {
            let mut buf = [0; 2048];
            let mut sent = Vec::new();
            while let Some(transmit) = listener.poll_transmit(NOW, &mut buf) {
                if buf[12] == HEARTBEAT_ACK {
                    sent.push((transmit.path.0, buf[20]));
                }
            }
            let due = (info - info % 2..=info).map(|n| (paths[n], n as u8)).collect::<Vec<_>>();
            assert_eq!(sent, due);
        }
    }
}
