//! An application's own frames from a caller to one who waits.

use antiphon_core::{Event, Frame, Instant, PathStats, Received, SendError};
use antiphon_proto::{Beneath, Role, TRANSPORTS};
use antiphon_session::{FramePeer, FramePort, FrameStation, LinkState};

use crate::world::{SILENCE, World, endpoint, ms};

/// Has so many frames to send, and counts what comes.
#[derive(Default)]
struct Counting {
    left: u32,
    came: u32,
    strangers: u64,
}

impl FramePort for Counting {
    fn next(&mut self) -> Option<Frame<'_>> {
        (self.left > 0).then(|| Frame::new(b"a frame of somebody's", None))
    }

    fn taken(&mut self, result: Result<(), SendError>) {
        result.expect("it is short");
        self.left -= 1;
    }

    fn has_room(&mut self) -> bool {
        true
    }

    fn deliver(&mut self, _bytes: &[u8], _received: Received) {
        self.came += 1;
    }

    fn on_event(&mut self, _event: &Event) {}

    fn on_round(&mut self, _stats: &PathStats, _state: LinkState, strangers: u64) {
        self.strangers = strangers;
    }
}

/// Calls that a doorkeeper answers included.
#[test]
fn nothing_of_a_call_is_a_strangers() {
    for transport in TRANSPORTS.iter().filter(|transport| transport.beneath == Beneath::Udp) {
        let station = |role, peer, left| {
            let make = Box::new(move |now| endpoint(transport.scheme, role, now));
            FrameStation::new(make, peer, Counting { left, ..Counting::default() }, Instant::ZERO)
        };
        let awaited = FramePeer::Awaited { admits: transport.admits, silence: SILENCE };
        let near = station(Role::Caller, FramePeer::Called, 20);
        let mut world = World::linked(near, station(Role::Listener, awaited, 0), "delay=5ms", 3);
        world.run_until(Instant::ZERO + ms(1_000));
        let heard = world.far.port_mut();
        assert_eq!((heard.came, heard.strangers), (20, 0), "{}", transport.scheme);
    }
}
