//! Changes the transport of a running stream, and sends it over several.

mod asker;
mod beside;

use std::str::FromStr;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{Instant, WireId, units};
use antiphon_media::rtcp::Token;
use antiphon_net::Lines;
use antiphon_session::{Change, Joining, Session};

use crate::pictures::VideoOver;
use crate::run::{OpenedWire, Stacks, WIRE, WirePlan, spawn};
use crate::transport::{StackPlan, StreamUri, random_token};
use crate::{Error, SendOptions};
pub(crate) use asker::Asker;
pub use asker::TransportChanges;
use asker::{Asked, MOST_BESIDE, MOST_WAITING};
use beside::ApartNews;

/// Another transport or address that takes the place of the present one, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switch {
    /// URI of the transport.
    pub uri: String,
    /// After so much sound was sent.
    pub at: Duration,
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write URI@TIME, such as sctp://studio.example@10s";
        let (uri, at) = text.rsplit_once('@').ok_or(format!("'{text}' has no time: {example}"))?;
        let at = units::parse_duration(at).map_err(|error| format!("{error}; {example}"))?;
        Ok(Switch { uri: uri.into(), at })
    }
}

/// A change that is asked for. The *n*-th one gets wire *n*.
struct Planned {
    at: Duration,
    joining: Joining,
    uri: String,
    plan: WirePlan,
    /// `None` while it is open.
    outcome: Option<Outcome>,
    /// The user knows that it is still being tried.
    told: bool,
}

/// What became of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Happened,
    Failed,
}

/// The changes of a stream, on the thread that talks to the user.
pub(crate) struct Changes {
    /// URI of the first wire.
    first: String,
    /// Other threads ask through clones of it.
    asker: Asker,
    /// In the order in which they begin.
    planned: Vec<Planned>,
    /// How many of them were begun.
    begun: usize,
    /// The wire that is about to take the place of the present one.
    moving: Option<WireId>,
    /// The wire that the stream uses, or the first of those that it uses.
    carrying: WireId,
    /// The transports of pictures and data, where they have some of their own.
    beside: Vec<ApartNews>,
    /// What threads have opened.
    opener: mpsc::Sender<(WireId, Result<OpenedWire, Error>)>,
    opened: mpsc::Receiver<(WireId, Result<OpenedWire, Error>)>,
    to_media: rtrb::Producer<Arrival>,
    from_media: rtrb::Consumer<(WireId, Happened)>,
}

/// An opened wire.
type Arrival = (WireId, Joining, OpenedWire);

/// What became of it.
enum Happened {
    Changed(Change),
    /// It could not be added to the run.
    Refused(Error),
}

/// The changes on the media thread.
pub(crate) struct Arriving {
    opened: rtrb::Consumer<Arrival>,
    happened: rtrb::Producer<(WireId, Happened)>,
    token: Token,
}

impl Changes {
    /// Reads `--also` and `--switch`; `first`: the stream's own URI and stack.
    pub fn read(
        options: &SendOptions,
        first: &StreamUri,
        stack: &StackPlan,
    ) -> Result<(Self, Arriving), Error> {
        let asker = Asker::new(options, first, stack);
        let also = options.also.iter().map(|uri| (uri, Duration::ZERO, Joining::Beside));
        let switch = options.switch.iter().map(|switch| (&switch.uri, switch.at, Joining::Instead));
        let read = |(uri, at, joining): (&String, Duration, Joining)| {
            Ok(Planned::new(at, Asked { joining, uri: uri.clone(), plan: asker.read(uri)? }))
        };
        let mut planned = also.chain(switch).map(read).collect::<Result<Vec<_>, Error>>()?;
        if options.also.len() > MOST_BESIDE {
            return Err(asker::too_many_beside());
        }
        planned.sort_by_key(|one| one.at);
        let (opener, opened) = mpsc::channel();
        let (to_media, arriving) = rtrb::RingBuffer::new(WAITING);
        let (happened, from_media) = rtrb::RingBuffer::new(WAITING);
        let changes = Changes {
            first: options.target.clone(),
            asker,
            planned,
            begun: 0,
            moving: None,
            carrying: WIRE,
            beside: Vec::new(),
            opener,
            opened,
            to_media,
            from_media,
        };
        Ok((changes, Arriving { opened: arriving, happened, token: random_token() }))
    }

    /// Pictures and data go over these transports.
    pub fn expect_beside<'a>(&mut self, overs: impl Iterator<Item = &'a VideoOver>) {
        self.beside = overs.map(ApartNews::of).collect();
    }

    /// The URI that the stream uses, or the first of those that it uses.
    pub fn carrying(&self) -> &str {
        self.uri(self.carrying)
    }

    /// Goes over to another transport.
    pub fn switch_to(&self, uri: &str) -> Result<(), Error> {
        self.asker.switch_to(uri)
    }

    /// Asks for changes from other threads.
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Begins what is due after so much sound, and tells of what happened. Connecting waits on a thread of its own.
    pub fn poll(&mut self, sent: Duration, notice: &mut dyn FnMut(String)) {
        self.hear(notice);
        self.take_asked(sent);
        self.beside.iter_mut().for_each(|one| one.look(sent, notice));
        let late = |one: &&mut Planned| {
            one.joining == Joining::Beside
                && one.outcome.is_none()
                && !one.told
                && sent >= one.at + TOLD_AFTER
        };
        for waiting in self.planned[..self.begun].iter_mut().filter(late) {
            waiting.told = true;
            notice(format!("{}: not accepted by the receiver yet; still trying", waiting.uri));
        }
        while let Some(next) = self.planned.get(self.begun).filter(|next| next.at <= sent) {
            let moves = next.joining == Joining::Instead;
            if moves && self.moving.is_some() {
                return;
            }
            self.begun += 1;
            let (wire, plan, opener) = (WireId(self.begun as u32), next.plan.clone(), self.opener.clone());
            if moves {
                self.moving = Some(wire);
            }
            let open = move || {
                let _the_stream_has_ended = opener.send((wire, plan.open()));
            };
            if let Err(error) = spawn("open", open) {
                self.fail(wire, &error.to_string(), notice);
            }
        }
    }

    /// Plans what other threads have asked for. Only what has begun has its wire, so that others may still be put off.
    fn take_asked(&mut self, sent: Duration) {
        let waiting = self.planned.len() - self.begun;
        for asked in self.asker.take(MOST_WAITING.saturating_sub(waiting)) {
            let due = self.planned[self.begun..].partition_point(|one| one.at <= sent);
            let place = match asked.joining {
                // It waits for no change that is under way.
                Joining::Beside => self.begun,
                Joining::Instead => self.begun + due,
            };
            self.planned.insert(place, Planned::new(sent, asked));
        }
    }

    /// Hands opened wires on, and tells of what happened.
    fn hear(&mut self, notice: &mut dyn FnMut(String)) {
        while let Ok((wire, opened)) = self.opened.try_recv() {
            let joining = self.planned[wire.0 as usize - 1].joining;
            match opened {
                Ok(opened) => {
                    if self.to_media.push((wire, joining, opened)).is_err() {
                        self.fail(wire, "too many changes happen at once", notice);
                    }
                }
                Err(error) => self.fail(wire, &error.to_string(), notice),
            }
        }
        while let Ok((wire, happened)) = self.from_media.pop() {
            match happened {
                Happened::Changed(change) => match self.beside.iter_mut().find(|one| one.is_of(wire)) {
                    Some(one) => one.tell(change, notice),
                    None => self.tell(wire, change, notice),
                },
                Happened::Refused(error) => self.fail(wire, &error.to_string(), notice),
            }
        }
    }

    fn tell(&mut self, wire: WireId, change: Change, notice: &mut dyn FnMut(String)) {
        match change {
            Change::Joined(_) => {
                if let Some(planned) = self.planned_mut(wire).filter(|one| one.joining == Joining::Beside) {
                    planned.outcome = Some(Outcome::Happened);
                    notice(format!("the receiver accepts the stream over {} as well", planned.uri));
                    self.asker.on_happened();
                }
            }
            Change::Moved(_) => {
                self.carrying = wire;
                self.settle(wire, Outcome::Happened);
                notice(format!("the stream continues over {}", self.uri(wire)));
                self.asker.on_happened();
                self.asker.on_carrying(self.uri(wire));
            }
            Change::Failed(_, why) => self.fail(wire, &why.to_string(), notice),
        }
    }

    fn fail(&mut self, wire: WireId, why: &str, notice: &mut dyn FnMut(String)) {
        self.settle(wire, Outcome::Failed);
        let sentence = format!("{}: {why}; the stream continues without it", self.uri(wire));
        notice(sentence.clone());
        let mut was_beside = self.planned_mut(wire).is_some_and(|one| one.joining == Joining::Beside);
        if wire == self.carrying {
            // The first of those beside it takes its place (`session::further`).
            let is_used =
                |one: &Planned| one.joining == Joining::Beside && one.outcome == Some(Outcome::Happened);
            let next = self.planned.iter().position(is_used);
            was_beside = next.is_some();
            self.carrying = next.map_or(self.carrying, |at| WireId(at as u32 + 1));
            self.asker.on_carrying(self.carrying());
        }
        self.asker.on_failed(sentence, was_beside);
    }

    fn settle(&mut self, wire: WireId, outcome: Outcome) {
        self.moving = self.moving.filter(|moving| *moving != wire);
        if let Some(planned) = self.planned_mut(wire) {
            planned.outcome = Some(outcome);
        }
    }

    /// `None` for the first wire of the stream, which nobody planned.
    fn planned_mut(&mut self, wire: WireId) -> Option<&mut Planned> {
        self.planned.get_mut((wire.0 as usize).checked_sub(1)?)
    }

    fn uri(&self, wire: WireId) -> &str {
        match (wire.0 as usize).checked_sub(1) {
            Some(at) => &self.planned[at].uri,
            None => &self.first,
        }
    }

    /// What did not happen as it was asked for, once the stream has ended.
    pub fn finish(mut self, notice: &mut dyn FnMut(String)) -> Vec<String> {
        self.hear(notice);
        for asked in self.asker.end() {
            self.planned.push(Planned::new(Duration::ZERO, asked));
        }
        for (at, missed) in self.planned.iter().enumerate().filter(|(_, one)| one.outcome.is_none()) {
            let why = if at < self.begun { "before the receiver accepted it" } else { "before this change" };
            let sentence = format!("{}: the stream ended {why}", missed.uri);
            self.asker.on_failed(sentence, missed.joining == Joining::Beside);
        }
        let missed = self.beside.iter().filter_map(ApartNews::missed);
        missed.for_each(|sentence| self.asker.on_failed(sentence, false));
        self.asker.so_far().failures
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        // A stream that failed has reported that already.
        let _unanswered = self.asker.end();
    }
}

impl Planned {
    fn new(at: Duration, Asked { joining, uri, plan }: Asked) -> Self {
        Planned { at, joining, uri, plan, outcome: None, told: false }
    }
}

impl Arriving {
    /// Adds wires that were opened, and passes on what the session did with them; on the media thread, after each round.
    pub fn poll(&mut self, now: Instant, session: &mut Session, lines: &mut Lines<'static>, stacks: &Stacks) {
        while let Ok(arrival) = self.opened.pop() {
            let wire = arrival.0;
            if let Err(error) = self.add(now, arrival, session, lines, stacks) {
                self.pass_on(wire, Happened::Refused(error));
            }
        }
        while let Some(change) = session.poll_change() {
            let (Change::Joined(wire) | Change::Moved(wire) | Change::Failed(wire, _)) = change;
            self.pass_on(wire, Happened::Changed(change));
        }
    }

    fn add(
        &self,
        now: Instant,
        (wire, joining, opened): Arrival,
        session: &mut Session,
        lines: &mut Lines<'static>,
        stacks: &Stacks,
    ) -> Result<(), Error> {
        let name = opened.scheme();
        let added = opened.add(wire, name, lines, stacks)?;
        session.call_further(now, wire, &added.paths, &added.stack, joining, self.token);
        Ok(())
    }

    fn pass_on(&mut self, wire: WireId, happened: Happened) {
        // The other thread reads twenty times a second, and each change makes three of these at most.
        let _there_is_room = self.happened.push((wire, happened));
    }
}

/// An address beside the first that isn't accepted after so much sound is reported; it is tried on, since the receiver may
/// come later.
const TOLD_AFTER: Duration = Duration::from_secs(5);
/// What may wait between the two threads.
const WAITING: usize = 64;

#[cfg(test)]
mod tests;
