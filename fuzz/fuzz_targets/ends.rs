//! The two ends of one association, and what each of them promises whatever it hears.

#![allow(dead_code, reason = "each target uses what it needs")]

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{
    ConnectionId, Endpoint, Event, Input, Instant, Message, PathId, Role, Stack, Tag, Validator, Verdict,
};
use antiphon_proto::StackArgs;

/// A stack of that scheme.
pub fn stack(scheme: &str, query: &str, seed: u64) -> Rc<dyn Stack> {
    stack_to(scheme, query, seed, false)
}

/// The same; `group`: of a multicast group's address.
pub fn stack_to(scheme: &str, query: &str, seed: u64, group: bool) -> Rc<dyn Stack> {
    let query: Query = query.parse().expect("a query");
    let playout_delay = Duration::from_millis(80);
    let args = StackArgs { group, ..StackArgs::new(&query, seed, 1452, playout_delay) };
    antiphon_proto::stack(scheme, &args).expect("opens")
}

/// One end, and what is known of it.
pub struct End {
    pub endpoint: Box<dyn Endpoint>,
    /// The latest packet that it sent.
    pub last: Vec<u8>,
    /// Tags given so far, and those of them that have not come back.
    given: u64,
    open: BTreeSet<u64>,
    /// Names by which the peer's packets name the association.
    ids: BTreeSet<ConnectionId>,
    closed: bool,
    buf: Vec<u8>,
}

impl End {
    pub fn new(stack: &dyn Stack, role: Role) -> Self {
        let endpoint = stack.open(Instant::ZERO, role);
        let buf = vec![0; endpoint.profile().max_receive];
        let (open, ids) = (BTreeSet::new(), BTreeSet::new());
        End { endpoint, last: Vec::new(), given: 0, open, ids, closed: false, buf }
    }

    /// Two ends of one association, each of a stack of its own; the second is the listener's.
    pub fn pair(stacks: &[Rc<dyn Stack>; 2]) -> [End; 2] {
        [End::new(&*stacks[0], Role::Caller), End::new(&*stacks[1], Role::Listener)]
    }

    pub fn hear(&mut self, now: Instant, path: u8, bytes: &[u8]) {
        let (path, bytes) = (PathId(u32::from(path)), &mut bytes.to_vec());
        self.endpoint.handle_input(now, Input::Datagram { path, bytes, received_at: now });
    }

    pub fn send(&mut self, now: Instant, frame: Message<'_>) {
        let message = Message { tag: Tag(self.given), ..frame };
        if self.endpoint.send(now, message).is_ok() {
            assert!(!self.closed && self.open.insert(self.given));
            self.given += 1;
        }
    }

    pub fn fetch(&mut self) {
        while self.endpoint.poll_message(&mut self.buf).is_some() {
            assert!(!self.closed);
        }
    }

    /// Lets time pass; every frame has one outcome, and nothing comes after `Closed`.
    pub fn drain(&mut self, now: Instant) {
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
            assert!(self.endpoint.poll_timeout().is_none_or(|at| at > now), "a time-out handled is spent");
        }
        while let Some(event) = self.endpoint.poll_event() {
            assert!(!self.closed, "{event:?} after Closed");
            match event {
                Event::Outcome { tag, .. } => assert!(self.open.remove(&tag.0), "a second outcome"),
                Event::IdAdded(id) => assert!(self.ids.insert(id), "{id:?} is there already"),
                Event::IdRetired(id) => assert!(self.ids.remove(&id), "{id:?} was never there"),
                _ => {}
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

/// Hands all that an end has to say to `each`.
pub fn carry_out(end: &mut End, now: Instant, mut each: impl FnMut(&mut [u8])) {
    let mut buf = [0; 1452];
    while let Some(sent) = end.endpoint.poll_transmit(now, &mut buf) {
        assert!(!end.closed && sent.len > 0);
        end.last = buf[..sent.len].to_vec();
        each(&mut buf[..sent.len]);
    }
}

/// Hands a datagram of an unknown source to the validator of a listener, which owes that source no more than `account` bytes; a reply
/// goes to `caller`, and what is accepted begins an association. `full`: there is no room for one.
pub fn knock(
    now: Instant,
    validator: &mut dyn Validator,
    listener: &dyn Stack,
    (path, datagram): (PathId, &[u8]),
    account: &mut usize,
    caller: &mut End,
    full: bool,
) {
    let mut out = [0; 2048];
    *account += datagram.len();
    match validator.validate(now, path, datagram, &mut out) {
        Verdict::Reply { len } => {
            *account = account.checked_sub(len).expect("no more than came from there");
            caller.hear(now, 0, &out[..len]);
        }
        Verdict::Accept | Verdict::AcceptWith { .. } if full => validator.release(),
        Verdict::Accept => End::new(listener, Role::Listener).hear(now, 0, datagram),
        Verdict::AcceptWith { len } => {
            let accepted = Input::Accepted { path: PathId(0), block: &out[..len] };
            End::new(listener, Role::Listener).endpoint.handle_input(now, accepted);
        }
        Verdict::Ignore => {}
    }
}
