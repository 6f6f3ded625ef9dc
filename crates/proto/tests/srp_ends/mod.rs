//! A server, a client and the link between them, in virtual time that goes from event to event.

use antiphon_core::{Ecn, Endpoint, Input, Instant, PathId};
use antiphon_link::{Direction, Duplex};
use antiphon_proto::srp::SrpEndpoint;

pub struct Ends {
    pub now: Instant,
    pub server: SrpEndpoint,
    pub client: SrpEndpoint,
    pub link: Duplex<Vec<u8>>,
    /// The link's direction from the server to the client.
    pub down: Direction,
}

impl Ends {
    /// Goes on to the next event, if there is one by `until`: hands over what arrives, and runs time-outs.
    pub fn step(&mut self, until: Instant) -> bool {
        let timeouts = [self.server.poll_timeout(), self.client.poll_timeout(), self.link.poll_timeout()];
        let Some(next) = timeouts.into_iter().flatten().min().filter(|at| *at <= until) else { return false };
        self.now = self.now.max(next);
        while let Some((direction, bytes)) = self.link.poll(self.now) {
            let to = if direction == self.down { &mut self.client } else { &mut self.server };
            hear(to, self.now, &bytes);
        }
        for side in [&mut self.server, &mut self.client] {
            if side.poll_timeout().is_some_and(|at| at <= self.now) {
                side.handle_timeout(self.now);
            }
        }
        true
    }
}

pub fn hear(side: &mut SrpEndpoint, now: Instant, bytes: &[u8]) {
    let (path, ecn) = (PathId::default(), Ecn::NotCapable);
    side.handle_input(now, Input::Datagram { path, bytes, ecn, received_at: now });
}
