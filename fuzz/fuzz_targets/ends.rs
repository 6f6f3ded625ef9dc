//! The two ends of one association, and what each of them promises whatever it hears.

use std::collections::BTreeSet;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Ecn, Endpoint, Event, Frame, Input, Instant, PathId};
use antiphon_proto::{OpenArgs, Role, open};

/// One end, and what is known of it.
pub struct End {
    pub endpoint: Box<dyn Endpoint>,
    /// The latest packet that it sent.
    pub last: Vec<u8>,
    open: BTreeSet<u64>,
    closed: bool,
    buf: Vec<u8>,
}

impl End {
    pub fn new(scheme: &str, query: &str, role: Role) -> Self {
        let query: Query = query.parse().expect("a query");
        let (now, latency) = (Instant::ZERO, Duration::from_millis(80));
        let args = OpenArgs { role, query: &query, seed: role as u64, now, max_datagram: 1452, latency };
        let endpoint = open(scheme, &args).expect("opens");
        let buf = vec![0; endpoint.profile().max_receive];
        End { endpoint, last: Vec::new(), open: BTreeSet::new(), closed: false, buf }
    }

    pub fn hear(&mut self, now: Instant, path: u8, bytes: &[u8]) {
        let (path, ecn) = (PathId(u32::from(path)), Ecn::NotCapable);
        self.endpoint.handle_input(now, Input::Datagram { path, bytes, ecn, received_at: now });
    }

    pub fn send(&mut self, now: Instant, frame: Frame<'_>) {
        if let Ok(id) = self.endpoint.send(now, frame) {
            assert!(!self.closed && self.open.insert(id.0));
        }
    }

    pub fn fetch(&mut self) {
        while self.endpoint.poll_frame(&mut self.buf).is_some() {
            assert!(!self.closed);
        }
    }

    /// Lets time pass; every frame has one outcome, and nothing comes after `Closed`.
    pub fn drain(&mut self, now: Instant) {
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        while let Some(event) = self.endpoint.poll_event() {
            assert!(!self.closed, "{event:?} after Closed");
            if let Event::Frame { id, .. } = event {
                assert!(self.open.remove(&id.0), "a second outcome");
            }
            self.closed |= matches!(event, Event::Closed(_));
            assert!(!self.closed || self.open.is_empty());
        }
    }
}

/// All that one end has to say, after `damage`, arrives at the other by this path, or nowhere.
pub fn carry(ends: &mut [End; 2], from: usize, now: Instant, path: Option<u8>, damage: impl Fn(&mut [u8])) {
    let mut buf = [0; 1452];
    while let Some(sent) = ends[from].endpoint.poll_transmit(now, &mut buf) {
        assert!(!ends[from].closed && sent.len > 0);
        let packet = &mut buf[..sent.len];
        ends[from].last = packet.to_vec();
        damage(packet);
        if let Some(path) = path {
            ends[1 - from].hear(now, path, packet);
        }
    }
}
