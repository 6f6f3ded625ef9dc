//! Two ends and a path of 10 ms between them.

mod beginning_and_end;
mod hostile;
mod limits;
mod listening;
mod policies;
mod repairs;

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{
    CloseMode, CloseReason, Endpoint, Event, Input, Instant, Message, Outcome, PathId, Role, Secret,
    SendError, Tag, Validator, Verdict,
};

use super::endpoint::Xtp;
use super::settings;
use super::validator::XtpValidator;
use super::wire::{self, Header, Segment, Status, Writer, format, option};
use crate::seeds::Seeds;

const ONE_WAY: Duration = Duration::from_millis(10);
const STEP: Duration = Duration::from_millis(1);
const PACKET: usize = 1400;

fn end(query: &str, role: Role, seed: u64) -> Xtp {
    let settings = settings::read(&query.parse().expect("a query"), PACKET - 40, false).expect("settings");
    Xtp::new(settings, PACKET, role, &Seeds::new(Secret::for_laboratory(seed)), Instant::ZERO)
}

/// What crosses the path: whether it may, by direction (0: from the caller) and packet.
type Filter<'a> = dyn FnMut(usize, &[u8]) -> bool + 'a;

struct Pair {
    ends: [Xtp; 2],
    now: Instant,
    flight: VecDeque<(Instant, usize, PathId, Vec<u8>)>,
    /// Path on which the caller's packets arrive.
    path: PathId,
    messages: [Vec<Vec<u8>>; 2],
    events: [Vec<Event>; 2],
    /// Whether the listener's program fetches what came.
    fetches: bool,
}

impl Pair {
    fn new(queries: [&str; 2]) -> Self {
        let ends = [end(queries[0], Role::Caller, 1), end(queries[1], Role::Listener, 2)];
        Pair {
            ends,
            now: Instant::from_millis(1000),
            flight: VecDeque::new(),
            path: PathId(0),
            messages: Default::default(),
            events: Default::default(),
            fetches: true,
        }
    }

    /// Two ends that know each other.
    fn open(query: &str) -> Self {
        let mut pair = Pair::new([query; 2]);
        pair.run(60, &mut |_, _| true);
        assert!(pair.events.iter().all(|events| events.contains(&Event::Connected)), "{:?}", pair.events);
        pair
    }

    fn run(&mut self, steps: u32, filter: &mut Filter<'_>) {
        for _ in 0..steps {
            self.now += STEP;
            while let Some((_, to, path, mut bytes)) = self.flight.pop_front_if(|(at, ..)| *at <= self.now) {
                let input = Input::Datagram { path, bytes: &mut bytes, received_at: self.now };
                self.ends[to].handle_input(self.now, input);
            }
            for at in 0..2 {
                let end = &mut self.ends[at];
                antiphon_core::handle_due(end, self.now);
                let mut buf = [0; PACKET];
                while let Some(sent) = end.poll_transmit(self.now, &mut buf) {
                    if filter(at, &buf[..sent.len]) {
                        let path = if at == 0 { self.path } else { PathId(0) };
                        // The far end of another path than the listener's current one is not there.
                        if at == 0 || sent.path == self.path {
                            self.flight.push_back((
                                self.now + ONE_WAY,
                                1 - at,
                                path,
                                buf[..sent.len].to_vec(),
                            ));
                        }
                    }
                }
                let mut buf = vec![0; super::MAX_MESSAGE];
                while (at == 0 || self.fetches)
                    && let Some(came) = end.poll_message(&mut buf)
                {
                    self.messages[at].push(buf[..came.len].to_vec());
                }
                while let Some(event) = end.poll_event() {
                    self.events[at].push(event);
                }
            }
        }
    }

    /// The caller sends a message with a number, in its first byte, every 5 ms.
    fn stream(&mut self, count: u8, budget: Option<Duration>, filter: &mut Filter<'_>) {
        for n in 0..count {
            let deadline = budget.map(|budget| self.now + budget);
            let bytes = [n; 400];
            let message = Message::new(Tag(u64::from(n)), &bytes, deadline);
            self.ends[0].send(self.now, message).expect("room");
            self.run(5, filter);
        }
        self.run(300, filter);
    }

    fn numbers(&self, at: usize) -> Vec<u8> {
        self.messages[at].iter().map(|message| message[0]).collect()
    }

    fn outcomes(&self, at: usize) -> Vec<Outcome> {
        let outcome =
            |event: &Event| if let Event::Outcome { outcome, .. } = event { Some(*outcome) } else { None };
        self.events[at].iter().filter_map(outcome).collect()
    }
}

fn data_of(packet: &[u8]) -> Option<(Header, u8)> {
    match wire::parse(packet)? {
        (header, Segment::Data { bytes, .. }) => Some((header, bytes[0])),
        _ => None,
    }
}

fn is_status(packet: &[u8]) -> bool {
    matches!(wire::parse(packet), Some((_, Segment::Status(..))))
}

/// Loses these numbers when they leave first.
fn losing(mut lost: Vec<u8>) -> impl FnMut(usize, &[u8]) -> bool {
    move |at, packet| {
        let number = data_of(packet).filter(|_| at == 0).map(|(_, number)| number);
        let found = number.and_then(|number| lost.iter().position(|lost| *lost == number));
        found.map(|found| lost.remove(found)).is_none()
    }
}

fn validator() -> XtpValidator {
    XtpValidator::new(&Secret::for_laboratory(2), 5004, false)
}
