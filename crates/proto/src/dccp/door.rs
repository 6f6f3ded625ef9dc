//! The door of a listener: answers Requests without keeping anything of who sent them, and lets in who brings the Init
//! Cookie back (RFC 4340 §8.1.4).
//!
//! An address that has proved nothing is never sent more than came from there. A cookie makes a Response longer than most
//! Requests; ours are padded to [`GREETING`] for it. A Request that is too short for one (Linux's: that stack does not
//! know Init Cookies and returns none) gets a plain Response, and one of [`PLACES`] remembers it for as long as it has
//! the Response under way. When a flood fills the places, the oldest make room: who has a round trip of R is let in
//! through up to PLACES / R such Requests a second, and whoever can do with a cookie notices nothing. Once a caller without
//! one answers, the door puts the cookie into the packet that it hands on, so that behind it there is only one kind.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Doorkeeper, Instant, Meeting, PathId};

use super::cookie::{Asked, COOKIE_ALONE, CookieJar, Opened, Recipe};
use super::features::{self, Features, Location};
use super::read::{Fault, Seen};
use super::rtt::Rtt;
use super::seq::Seq48;
use super::settings::Settings;
use super::wire::checksum::Checksum;
use super::wire::options::{DccpOption, OptionWriter, Options};
use super::wire::{self, ACK_HEADER, Header, Kind, Packet, ResetCode};
use crate::Role;
use crate::cookie::COOKIE_LIFE;

/// A listener's door.
pub(super) struct Door {
    settings: Settings,
    checksum: Checksum,
    jar: CookieJar,
    /// An endpoint's own, which knows of one peer and of no paths: who is at which is its driver's to tell, or an outer
    /// door's.
    is_inner: bool,
    /// Callers who were sent no cookie, the latest at the end.
    places: VecDeque<Place>,
    /// Marks of the cookies that let somebody in, and until when those could be good.
    used: VecDeque<(Instant, [u8; 8])>,
    /// Who was let in last, for as long as there may be no room.
    entered: Option<Entered>,
    cookie: Vec<u8>,
}

/// By what somebody was let in, and what is to be put back if there is no room.
#[derive(Clone, Copy, Debug)]
enum Entered {
    /// A cookie, the last of those used.
    Cookie,
    /// A place, and where it stood.
    Place(usize, Place),
}

/// A caller whose Request was too short for a cookie, or was refused.
#[derive(Clone, Copy, Debug)]
struct Place {
    path: PathId,
    port: u16,
    since: Instant,
    /// Bytes that came in Requests from this path and were not answered with as many: at the latest place of the path.
    credit: usize,
    /// What its connection will be made of; `None` where there is to be none.
    recipe: Option<Recipe>,
}

/// A Request and what is to be made of it.
struct Call {
    path: PathId,
    ports: (u16, u16),
    /// Bytes of the Request.
    asked: usize,
    recipe: Recipe,
    /// As the Request leaves them.
    features: Features,
    stamp: Option<u32>,
}

impl Call {
    /// Echoes the Request's time stamp, just come; answers whether there was room.
    fn echo(&self, options: &mut OptionWriter) -> bool {
        self.stamp.is_none_or(|stamp| options.timestamp_echo(stamp, 0))
    }
}

/// What a packet without a connection leads to.
type Met = Result<Meeting, Fault>;

impl Door {
    /// A door whose cookies every endpoint opened with `seed` can open.
    pub fn new(settings: Settings, checksum: Checksum, seed: u64) -> Self {
        let jar = CookieJar::new(seed, settings.service);
        let (places, used, entered, cookie) = Default::default();
        Door { settings, checksum, jar, is_inner: true, places, used, entered, cookie }
    }

    /// Another door to the same house, for who meets strangers first.
    pub fn outer(&self) -> Self {
        let (places, used, entered, cookie) = Default::default();
        Door { jar: self.jar.clone(), is_inner: false, places, used, entered, cookie, ..*self }
    }

    /// Meets a packet of `asked` bytes that belongs to no connection. What goes out, or in, is written into `out`.
    pub fn meet_packet(
        &mut self,
        now: Instant,
        path: PathId,
        packet: &Packet<'_>,
        asked: usize,
        out: &mut [u8],
    ) -> Meeting {
        let header = &packet.header;
        self.entered = None;
        let met = match header.kind {
            // A Listen opens middleboxes (RFC 5596) and wants no answer.
            Kind::Listen { .. } => Ok(Meeting::Ignored),
            _ if header.destination != self.settings.port => Err(fault(ResetCode::NO_CONNECTION)),
            Kind::Request { service } if service != self.settings.service => {
                Err(fault(ResetCode::BAD_SERVICE))
            }
            Kind::Request { .. } => self.meet_request(now, path, packet, asked, out),
            Kind::Ack { .. } | Kind::DataAck { .. } => self.meet_answer(now, path, packet, out),
            _ => Err(fault(ResetCode::NO_CONNECTION)),
        };
        met.unwrap_or_else(|fault| self.refuse(now, path, header, asked, fault, out))
    }

    /// Answers with a Reset, if that is not longer than the packet.
    fn refuse(
        &mut self,
        now: Instant,
        path: PathId,
        header: &Header,
        asked: usize,
        fault: Fault,
        out: &mut [u8],
    ) -> Meeting {
        let reset = refusal(header, fault).filter(|reset| reset.kind.header_len() <= asked);
        if let Kind::Request { .. } = header.kind {
            // Who calls for something else next may be answered with what is left.
            let paid = reset.map_or(0, |reset| reset.kind.header_len());
            *self.give_place(now, path, header.source, None, asked) -= paid;
        }
        self.write(reset, &OptionWriter::default(), out)
    }

    /// RFC 4340 §8.5, step 3: LISTEN.
    fn meet_request(
        &mut self,
        now: Instant,
        path: PathId,
        request: &Packet<'_>,
        asked: usize,
        out: &mut [u8],
    ) -> Met {
        let isr = request.header.seq;
        let ports = (request.header.destination, request.header.source);
        let iss = self.jar.base(path, ports).plus(isr.value() as i64);
        let wishes = Asked::of(request).map_err(|option| (ResetCode::OPTION_ERROR, [option, 0, 0]))?;
        let recipe = Recipe { isr, iss, told_all: true, asked: wishes };
        let mut features = self.at_rest(&recipe);
        let seen = Seen::read(request, &mut features, Role::Listener)?;
        let call = Call { path, ports, asked, recipe, features, stamp: seen.stamp };
        let response = Header {
            source: ports.0,
            destination: ports.1,
            ccval: 0,
            coverage: 0,
            kind: Kind::Response { ack: isr, service: self.settings.service },
            seq: iss,
        };
        let options = self.with_cookie(now, &call).or_else(|| self.without_cookie(now, &call));
        Ok(options.map_or(Meeting::Ignored, |options| self.write(Some(response), &options, out)))
    }

    /// All that a Response has to say, and the cookie, if the Request pays for it: nothing is kept then.
    fn with_cookie(&mut self, now: Instant, call: &Call) -> Option<OptionWriter> {
        self.jar.bake(now, call.path, call.ports, &call.recipe, &mut self.cookie);
        let (mut features, mut options) = (call.features.clone(), OptionWriter::default());
        features.write(now, call.recipe.iss, Rtt::default().estimate(), true, &mut options);
        let is_whole = options.init_cookie(&self.cookie) && call.echo(&mut options);
        (is_whole && response_len(&options) <= call.asked).then_some(options)
    }

    /// As much of a Response as this caller's Requests pay for, who gets a place. Linux's CCID 3 has its first round trip
    /// from its time stamp, and begins with a packet a second where it has none: the echo is worth more than preferences.
    fn without_cookie(&mut self, now: Instant, call: &Call) -> Option<OptionWriter> {
        let [mut confirms, mut brief] = [OptionWriter::default(), OptionWriter::default()];
        call.features.write_confirms(false, &mut confirms);
        call.features.write_confirms(true, &mut brief);
        let [mut with_echo, mut brief_with_echo] = [confirms.clone(), brief.clone()];
        call.echo(&mut with_echo);
        call.echo(&mut brief_with_echo);
        let recipe = Recipe { told_all: false, ..call.recipe };
        let credit = self.give_place(now, call.path, call.ports.1, Some(recipe), call.asked);
        let choices = [with_echo, brief_with_echo, confirms, brief];
        let best = choices.into_iter().find(|options| response_len(options) <= *credit)?;
        *credit -= response_len(&best);
        Some(best)
    }

    /// The place of a caller whose Request of `asked` bytes is too short for a cookie, or was refused; answers what its
    /// address has to its credit.
    fn give_place(
        &mut self,
        now: Instant,
        path: PathId,
        port: u16,
        mut recipe: Option<Recipe>,
        asked: usize,
    ) -> &mut usize {
        while self.places.front().is_some_and(|place| now.since(place.since) > RESPOND) {
            self.places.pop_front();
        }
        let here = self.places.iter_mut().filter(|place| place.path == path);
        let credit = here.map(|place| std::mem::take(&mut place.credit)).sum::<usize>() + asked;
        let known = self.places.iter().position(|place| (place.path, place.port) == (path, port));
        if let Some(before) = known.and_then(|at| self.places.remove(at)?.recipe) {
            let new = recipe.filter(|new| !(1..=MOST_REPEATS).contains(&new.isr.distance(before.isr)));
            // The same call repeated keeps its first numbers: the answer may be to any of them.
            recipe = Some(new.unwrap_or(before));
        }
        if self.places.len() >= PLACES {
            self.places.pop_front();
        }
        self.places.push_back(Place { path, port, since: now, credit, recipe });
        let at = self.places.len() - 1;
        &mut self.places[at].credit
    }

    /// The end of a handshake: with a cookie of ours, or from a place.
    fn meet_answer(&mut self, now: Instant, path: PathId, packet: &Packet<'_>, out: &mut [u8]) -> Met {
        let header = &packet.header;
        if let Some(cookie) = cookie_of(packet) {
            let (opened, _) =
                self.open(now, path, header, cookie).ok_or(fault(ResetCode::BAD_INIT_COOKIE))?;
            // Whoever it let in has come and gone: a copy of the packet begins nothing.
            let is_new = self.note_use(now, cookie, opened.age);
            self.entered = is_new.then_some(Entered::Cookie);
            return if is_new { Ok(Meeting::Admitted) } else { Err(fault(ResetCode::NO_CONNECTION)) };
        }
        let is_here = |place: &Place| (place.path, place.port) == (path, header.source);
        let at = self.places.iter().position(is_here).ok_or(fault(ResetCode::NO_CONNECTION))?;
        let Place { since, recipe, .. } = self.places[at];
        let in_time = |_: &Recipe| now.since(since) <= RESPOND;
        let recipe = recipe.filter(in_time).filter(|recipe| self.completes(recipe, header).is_some());
        let recipe = recipe.ok_or(fault(ResetCode::NO_CONNECTION))?;
        self.jar.bake(since, path, (header.destination, header.source), &recipe, &mut self.cookie);
        let mut options = OptionWriter::default();
        if !(options.init_cookie(&self.cookie) && options.copy(packet.raw_options)) {
            return Ok(Meeting::Ignored);
        }
        let Some(len) = wire::emit(header, &options, packet.data, self.checksum, out) else {
            // Too long with a cookie: the caller's next acknowledgement will do.
            return Ok(Meeting::Ignored);
        };
        self.entered = self.places.remove(at).map(|place| Entered::Place(at, place));
        Ok(Meeting::Vouched { len })
    }

    /// Opens the cookie of a packet from `path` that completes its handshake, so many numbers after the Request.
    pub fn open(&self, now: Instant, path: PathId, header: &Header, cookie: &[u8]) -> Option<(Opened, u64)> {
        let opened = self.jar.open(now, header, cookie)?;
        let is_theirs = opened.path == path || self.is_inner;
        let ahead = self.completes(&opened.recipe, header)?;
        is_theirs.then_some((opened, ahead))
    }

    fn completes(&self, recipe: &Recipe, header: &Header) -> Option<u64> {
        let window = self.agreed(Instant::ZERO, recipe).value(Location::Remote, features::SEQUENCE_WINDOW);
        recipe.completed_by(header, window)
    }

    /// What both ends have agreed on once the caller has the Response.
    pub fn agreed(&self, now: Instant, recipe: &Recipe) -> Features {
        let mut features = self.at_rest(recipe);
        for option in Options::new(recipe.asked.bytes()) {
            if let DccpOption::Feature { verb, feature, value } = option.read() {
                let arrival =
                    features::Arrival { seq: recipe.isr, ack: None, mandatory: false, is_server: true };
                // Without Mandatory nothing that a Request asks for is a fault.
                let _no_fault = features.on_option(verb, feature, value, arrival);
            }
        }
        features.on_packet_read(recipe.isr);
        if recipe.told_all {
            features.write(now, recipe.iss, Rtt::default().estimate(), true, &mut OptionWriter::default());
        }
        features
    }

    fn at_rest(&self, recipe: &Recipe) -> Features {
        let mut features = Features::wanted(&self.settings, Role::Listener);
        features.start(recipe.iss, Some(recipe.isr));
        features
    }

    /// Notes that a good cookie lets somebody in; answers whether it is the first time.
    fn note_use(&mut self, now: Instant, cookie: &[u8], age: Duration) -> bool {
        while self.used.front().is_some_and(|(until, _)| *until < now) {
            self.used.pop_front();
        }
        let mark = *cookie.last_chunk().expect("a good cookie ends with its mark");
        if self.used.iter().any(|(_, used)| *used == mark) {
            return false;
        }
        if self.used.len() >= MOST_USED {
            self.used.pop_front();
        }
        self.used.push_back((now + (COOKIE_LIFE - age), mark));
        true
    }

    /// Writes an answer, if there is one.
    fn write(&self, header: Option<Header>, options: &OptionWriter, out: &mut [u8]) -> Meeting {
        let len = header.and_then(|header| wire::emit(&header, options, &[], self.checksum, out));
        len.map_or(Meeting::Ignored, |len| Meeting::Answered { len })
    }
}

impl Doorkeeper for Door {
    fn meet(&mut self, now: Instant, path: PathId, datagram: &[u8], answer: &mut [u8]) -> Meeting {
        match Packet::parse(datagram, self.checksum) {
            Ok(packet) => self.meet_packet(now, path, &packet, datagram.len(), answer),
            Err(_) => Meeting::Ignored,
        }
    }

    fn turn_away(&mut self) {
        match self.entered.take() {
            Some(Entered::Cookie) => drop(self.used.pop_back()),
            Some(Entered::Place(at, place)) => self.places.insert(at, place),
            None => {}
        }
    }
}

/// The Init Cookie in a packet. We never send more than one.
pub(super) fn cookie_of<'a>(packet: &Packet<'a>) -> Option<&'a [u8]> {
    packet.options().find_map(|option| match option.read() {
        DccpOption::InitCookie(cookie) => Some(cookie),
        _ => None,
    })
}

/// The Reset that answers a packet of no connection (RFC 4340 §8.3.1); a Reset is never answered.
pub(super) fn refusal(header: &Header, (code, data): Fault) -> Option<Header> {
    let reset = Header {
        source: header.destination,
        destination: header.source,
        ccval: 0,
        coverage: 0,
        kind: Kind::Reset { ack: header.seq, code, data },
        seq: header.kind.ack().map_or(Seq48::default(), Seq48::next),
    };
    (!matches!(header.kind, Kind::Reset { .. })).then_some(reset)
}

fn fault(code: ResetCode) -> Fault {
    (code, [0; 3])
}

fn response_len(options: &OptionWriter) -> usize {
    RESPONSE_HEADER + options.padded().len()
}

/// Bytes of the longest Response to a Request of ours, and so what our Requests are padded to: the header; a cookie with
/// two Changes of CCID, one of Sequence Window and one of Minimum Checksum Coverage; their Confirms; the server's Changes
/// of the latter two.
pub(super) const GREETING: usize =
    (RESPONSE_HEADER + 2 + COOKIE_ALONE + 2 * 5 + 9 + 5 + 2 * 6 + 9 + 6 + 9 + 5_usize).next_multiple_of(4);
/// Header of a Response without options, in bytes (RFC 4340 §5.3).
const RESPONSE_HEADER: usize = ACK_HEADER + 4;
/// Callers without cookies under way at once: a quarter of a kilobyte each.
const PLACES: usize = 256;
/// How long such a caller is remembered. Shorter than RFC 4340 §8.1.3's four maximum segment lifetimes: a Request sent
/// again begins anew.
const RESPOND: Duration = Duration::from_secs(10);
/// Requests of one call: at 1, 2, 4 … 64 s and so on for three minutes they are eight (RFC 4340 §8.1.1).
const MOST_REPEATS: i64 = 16;
/// Cookies remembered after they let somebody in; each cost a true address a round trip. Who lets so many in within a
/// cookie's life has the first forgotten, and may have in again whom it has seen answer: no stranger, and one place of the
/// hub's until that one's Reset. To refuse all cookies as old instead would refuse callers whose round trip is longer.
const MOST_USED: usize = 1024;

#[cfg(test)]
mod tests;
