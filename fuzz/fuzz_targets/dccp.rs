//! Packets of DCCP: what parses is written back the same; two ends that hear damaged and forged packets keep their promises.
#![no_main]

use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Ecn, Endpoint, Event, Frame, Input, Instant, PathId};
use antiphon_proto::dccp::Checksum;
use antiphon_proto::dccp::wire::{OptionWriter, Packet, emit};
use antiphon_proto::{OpenArgs, Role, open};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    /// All that one end has to say arrives; one byte of each packet may be another.
    Carry { by_client: bool, damage: Option<(u8, u8)> },
    /// The last packet of one end, with options and data of the forger's.
    Forge { to_client: bool, tail: Vec<u8>, kind: u8, ahead: i8 },
    Noise { to_client: bool, bytes: Vec<u8> },
    Send { by_client: bool, len: u8 },
    Advance { ms: u16 },
}

struct End {
    endpoint: Box<dyn Endpoint>,
    open: u64,
    closed: bool,
    last: Vec<u8>,
}

impl End {
    fn new(role: Role, ccid: bool) -> Self {
        let query: Query = if ccid { "ccid=2" } else { "ccid=3" }.parse().expect("a query");
        let (now, latency) = (Instant::ZERO, Duration::from_millis(80));
        let args = OpenArgs { role, query: &query, seed: role as u64, now, max_datagram: 1452, latency };
        End { endpoint: open("dccp", &args).expect("opens"), open: 0, closed: false, last: Vec::new() }
    }

    fn hear(&mut self, now: Instant, bytes: &[u8]) {
        let (path, ecn) = (PathId::default(), Ecn::NotCapable);
        self.endpoint.handle_input(now, Input::Datagram { path, bytes, ecn, received_at: now });
    }

    fn drain(&mut self, now: Instant) {
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        while self.endpoint.poll_frame(&mut [0; 65_536]).is_some() {}
        while let Some(event) = self.endpoint.poll_event() {
            assert!(!self.closed, "{event:?} after Closed");
            self.open -= u64::from(matches!(event, Event::Frame { .. }));
            self.closed |= matches!(event, Event::Closed(_));
            assert!(!self.closed || self.open == 0);
        }
    }
}

/// A packet that can be read can be written again, to the same bytes but for reserved bits and the checksum.
fn round_trip(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes, Checksum::Udp) else { return };
    let mut options = OptionWriter::default();
    for option in packet.options() {
        let _read = (option.read(), option.is_barred_from_data());
        if option.number >= 32 && !options.put(option.number, &[option.value]) {
            return;
        }
    }
    let mut buf = vec![0; 70_000];
    let len = emit(&packet.header, &options, packet.data, Checksum::Udp, &mut buf).expect("room");
    let again = Packet::parse(&buf[..len], Checksum::Udp).expect("written to be read");
    assert_eq!((again.header, again.data), (packet.header, packet.data));
}

fuzz_target!(|input: (bool, Vec<Step>)| {
    let mut ends = [End::new(Role::Caller, input.0), End::new(Role::Listener, input.0)];
    let mut now = Instant::from_millis(1);
    for step in input.1 {
        match step {
            Step::Carry { by_client, damage } => {
                let (from, to) = (usize::from(!by_client), usize::from(by_client));
                let mut buf = [0; 1452];
                while let Some(sent) = ends[from].endpoint.poll_transmit(now, &mut buf) {
                    assert!(!ends[from].closed && sent.len > 0);
                    ends[from].last = buf[..sent.len].to_vec();
                    if let Some((at, byte)) = damage {
                        buf[usize::from(at) % sent.len] = byte;
                    }
                    ends[to].hear(now, &buf[..sent.len]);
                }
            }
            Step::Forge { to_client, tail, kind, ahead } => {
                let mut packet = ends[usize::from(to_client)].last.clone();
                if packet.len() >= 28 {
                    packet.truncate(28);
                    packet[8] = kind << 1 | 1;
                    packet[15] = packet[15].wrapping_add_signed(ahead);
                    packet.extend_from_slice(&tail[..tail.len().min(900) / 4 * 4]);
                    packet[4] = (packet.len() / 4) as u8;
                    round_trip(&packet);
                    ends[usize::from(!to_client)].hear(now, &packet);
                }
            }
            Step::Noise { to_client, bytes } => {
                round_trip(&bytes);
                ends[usize::from(!to_client)].hear(now, &bytes);
            }
            Step::Send { by_client, len } => {
                let frame = Frame::new(&[1; 300][..usize::from(len) + 1], Some(now + Duration::from_millis(50)));
                let end = &mut ends[usize::from(!by_client)];
                end.open += u64::from(end.endpoint.send(now, frame).is_ok());
            }
            Step::Advance { ms } => now += Duration::from_millis(ms.into()),
        }
        ends.iter_mut().for_each(|end| end.drain(now));
    }
});
