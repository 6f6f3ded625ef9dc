//! A listening wire of every datagram transport: callers, and unknown sources on any path. What arrives names
//! associations, begins some, or belongs to none; there are never more than may be, and each ends once.
#![no_main]

mod ends;

use std::collections::BTreeSet;
use std::time::Duration;

use antiphon_core::{CloseMode, Event, Input, Instant, Message, PathId, Role, Tag, WireId};
use antiphon_proto::{Substrate, TRANSPORTS};
use antiphon_session::{AssociationId, Associations, Policy};
use arbitrary::Arbitrary;
use ends::{End, carry_out, stack};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    /// All that a caller has to say arrives by this path; one byte of each datagram may be another.
    Call {
        caller: u8,
        path: u8,
        damage: Option<(u16, u8)>,
    },
    /// The last datagram of a caller, from elsewhere, perhaps cut.
    Replay {
        caller: u8,
        path: u8,
        len: u16,
    },
    Noise {
        path: u8,
        bytes: Vec<u8>,
    },
    /// What the listener has to say arrives.
    Answer,
    Send {
        caller: u8,
        len: u8,
    },
    SendBack {
        len: u8,
    },
    Close {
        abort: bool,
    },
    Advance {
        ms: u16,
    },
}

const WIRE: WireId = WireId(0);
const CALLERS: usize = 3;
const MOST: usize = 2;

/// The listener, and what is known of it.
struct Listener {
    associations: Associations,
    live: BTreeSet<AssociationId>,
    buf: Vec<u8>,
}

impl Listener {
    fn hear(&mut self, now: Instant, path: u8, bytes: &[u8]) {
        let bytes = &mut bytes.to_vec();
        // Validators look at the same bytes.
        let datagram = Input::Datagram { path: PathId(u32::from(path % 8)), bytes, received_at: now };
        self.associations.handle_input(now, WIRE, datagram);
    }

    fn settle(&mut self, now: Instant) {
        self.associations.advance(now);
        while let Some(id) = self.associations.poll_opened() {
            self.live.insert(id);
        }
        while let Some((id, received)) = self.associations.poll_message(&mut self.buf) {
            assert!(self.live.contains(&id) && received.len <= self.buf.len());
        }
        while let Some((id, event)) = self.associations.poll_event() {
            assert!(self.live.contains(&id), "{event:?} of {id:?}, which is not there");
            if let Event::Closed(_) = event {
                self.live.remove(&id);
            }
        }
        // One that was ended to make room is told of at once.
        assert!(self.live.len() <= MOST, "{} associations", self.live.len());
        assert_eq!(self.live.len(), self.associations.iter().count());
    }
}

fuzz_target!(|input: (u8, bool, Vec<Step>)| {
    let (choice, many, steps) = input;
    let datagram: Vec<_> = TRANSPORTS.iter().filter(|one| one.substrate == Substrate::Udp).collect();
    let scheme = datagram[usize::from(choice) % datagram.len()].scheme;
    let mut now = Instant::from_millis(1);
    let mut callers: Vec<End> =
        (0..CALLERS as u64).map(|n| End::new(&*stack(scheme, "", 10 + n), Role::Caller)).collect();
    let mut listener =
        Listener { associations: Associations::new(), live: BTreeSet::new(), buf: vec![0; 1 << 18] };
    let policy = match many {
        true => Policy::Many { most: MOST, idle: Duration::from_secs(10) },
        false => Policy::Single { silence: Duration::from_secs(2), streams: true },
    };
    listener.associations.listen(now, WIRE, stack(scheme, "", 1), policy);
    for step in steps {
        match step {
            Step::Call { caller, path, damage } => {
                let end = &mut callers[usize::from(caller) % CALLERS];
                carry_out(end, now, |packet| {
                    if let Some((at, byte)) = damage {
                        let at = usize::from(at) % packet.len();
                        packet[at] = byte;
                    }
                    listener.hear(now, path, packet);
                });
            }
            Step::Replay { caller, path, len } => {
                let last = &callers[usize::from(caller) % CALLERS].last;
                listener.hear(now, path, &last[..last.len().min(usize::from(len))]);
            }
            Step::Noise { path, bytes } => listener.hear(now, path, &bytes),
            Step::Answer => {
                let mut buf = [0; 2048];
                while listener.associations.poll_ready().is_some() {}
                while let Some(sent) = listener.associations.poll_transmit(now, WIRE, &mut buf) {
                    // A path is whichever caller's last used it: all hear it.
                    callers.iter_mut().for_each(|end| end.hear(now, 0, &buf[..sent.len]));
                }
            }
            Step::Send { caller, len } => {
                let bytes = vec![0x80; 12 + usize::from(len)];
                let message = Message::new(Tag::NONE, &bytes, Some(now + Duration::from_millis(50)));
                callers[usize::from(caller) % CALLERS].send(now, message);
            }
            Step::SendBack { len } => {
                for id in listener.live.clone() {
                    let bytes = vec![0x80; 12 + usize::from(len)];
                    let _full = listener.associations.send(now, id, Message::new(Tag::NONE, &bytes, None));
                }
            }
            Step::Close { abort } => {
                let mode = if abort { CloseMode::Abort } else { CloseMode::Graceful };
                listener.live.clone().into_iter().for_each(|id| listener.associations.close(now, id, mode));
            }
            Step::Advance { ms } => now += Duration::from_millis(ms.into()),
        }
        callers.iter_mut().for_each(|end| {
            end.fetch();
            end.drain(now);
        });
        listener.settle(now);
    }
});
