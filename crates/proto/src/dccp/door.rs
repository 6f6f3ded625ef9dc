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
use super::wire::{self, Header, Kind, Packet, ResetCode};
use crate::Role;
use crate::cookie::COOKIE_LIFE;

/// A listener's door.
pub(super) struct Door {
    settings: Settings,
    checksum: Checksum,
    jar: CookieJar,
    /// Behind another door every path is 0, and that door has compared it.
    is_inner: bool,
    /// Callers who were sent no cookie, the latest at the end.
    places: VecDeque<Place>,
    /// Marks of the cookies that let somebody in, and until when those could be good.
    used: VecDeque<(Instant, [u8; 8])>,
    cookie: Vec<u8>,
}

/// A caller whose Request was too short for a cookie.
#[derive(Clone, Copy, Debug)]
struct Place {
    path: PathId,
    port: u16,
    since: Instant,
    /// Bytes that came from there and were not answered with as many.
    credit: usize,
    recipe: Recipe,
}

/// What a packet without a connection leads to.
type Met = Result<Meeting, Fault>;

impl Door {
    /// A door whose cookies every endpoint opened with `seed` can open.
    pub fn new(settings: Settings, checksum: Checksum, seed: u64) -> Self {
        let jar = CookieJar::new(seed, settings.service);
        let (places, used, cookie) = Default::default();
        Door { settings, checksum, jar, is_inner: true, places, used, cookie }
    }

    /// Another door to the same house, for who meets strangers first.
    pub fn outer(&self) -> Self {
        let (places, used, cookie) = Default::default();
        Door { jar: self.jar.clone(), is_inner: false, places, used, cookie, ..*self }
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
        met.unwrap_or_else(|fault| {
            let reset = refusal(header, fault).filter(|reset| reset.kind.header_len() <= asked);
            self.write(reset, &OptionWriter::default(), out)
        })
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
        let header = &request.header;
        let ports = (header.destination, header.source);
        let iss = self.jar.base(path, ports).plus(header.seq.value() as i64);
        let wishes = Asked::of(request).map_err(|option| (ResetCode::OPTION_ERROR, [option, 0, 0]))?;
        let mut recipe = Recipe { isr: header.seq, iss, told_all: true, asked: wishes };
        let mut features = self.at_rest(&recipe);
        let seen = Seen::read(request, &mut features, Role::Listener)?;
        let response = Header {
            source: ports.0,
            destination: ports.1,
            ccval: 0,
            coverage: 0,
            kind: Kind::Response { ack: header.seq, service: self.settings.service },
            seq: iss,
        };
        let room = |credit: usize| credit.checked_sub(response.kind.header_len());
        let fits = |options: &OptionWriter, credit| room(credit).is_some_and(|n| options.padded().len() <= n);
        self.jar.bake(now, path, ports, &recipe, &mut self.cookie);
        let mut full = OptionWriter::default();
        features.clone().write(now, iss, Rtt::default().estimate(), true, &mut full);
        let is_whole = full.init_cookie(&self.cookie) && echo(&seen, &mut full);
        if is_whole && fits(&full, asked) {
            return Ok(self.write(Some(response), &full, out));
        }
        recipe.told_all = false;
        let credit = self.give_place(now, path, header, recipe, asked);
        let [mut confirms, mut brief] = [OptionWriter::default(), OptionWriter::default()];
        features.write_confirms(false, &mut confirms);
        features.write_confirms(true, &mut brief);
        let mut with_echo = confirms.clone();
        echo(&seen, &mut with_echo);
        let best = [&with_echo, &confirms, &brief].into_iter().find(|options| fits(options, *credit));
        let Some(options) = best else { return Ok(Meeting::Ignored) };
        *credit -= response.kind.header_len() + options.padded().len();
        Ok(self.write(Some(response), options, out))
    }

    /// The place of a caller whose Request of `len` bytes is too short for a cookie; answers what it has to its credit.
    fn give_place(
        &mut self,
        now: Instant,
        path: PathId,
        header: &Header,
        recipe: Recipe,
        len: usize,
    ) -> &mut usize {
        while self.places.front().is_some_and(|place| now.since(place.since) > RESPOND) {
            self.places.pop_front();
        }
        let known = self.places.iter().position(|place| (place.path, place.port) == (path, header.source));
        let known = known.and_then(|at| self.places.remove(at));
        let mut place = Place { path, port: header.source, since: now, credit: len, recipe };
        if let Some(before) = known {
            place.credit += before.credit;
            // The same call repeated keeps its first numbers: the answer may be to any of them.
            if (1..=MOST_REPEATS).contains(&header.seq.distance(before.recipe.isr)) {
                place.recipe = before.recipe;
            }
        }
        if self.places.len() >= PLACES {
            self.places.pop_front();
        }
        self.places.push_back(place);
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
            return if is_new { Ok(Meeting::Admitted) } else { Err(fault(ResetCode::NO_CONNECTION)) };
        }
        let is_here = |place: &Place| (place.path, place.port) == (path, header.source);
        let at = self.places.iter().position(is_here).ok_or(fault(ResetCode::NO_CONNECTION))?;
        let Place { since, recipe, .. } = self.places[at];
        if now.since(since) > RESPOND || self.completes(&recipe, header).is_none() {
            return Err(fault(ResetCode::NO_CONNECTION));
        }
        self.jar.bake(since, path, (header.destination, header.source), &recipe, &mut self.cookie);
        let mut options = OptionWriter::default();
        if !(options.init_cookie(&self.cookie) && options.copy(packet.raw_options)) {
            return Ok(Meeting::Ignored);
        }
        let Some(len) = wire::emit(header, &options, packet.data, self.checksum, out) else {
            // Too long with a cookie: the caller's next acknowledgement will do.
            return Ok(Meeting::Ignored);
        };
        self.places.remove(at);
        Ok(Meeting::Vouched { len })
    }

    /// Opens the cookie of a packet from `path` that completes its handshake, so many numbers after the Request.
    pub fn open(&self, now: Instant, path: PathId, header: &Header, cookie: &[u8]) -> Option<(Opened, u64)> {
        let opened = self.jar.open(now, header, cookie)?;
        let is_theirs = opened.path == path || self.is_inner && path == PathId::default();
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

/// Echoes the Request's time stamp, just come; answers whether there was room.
fn echo(seen: &Seen<'_>, options: &mut OptionWriter) -> bool {
    seen.stamp.is_none_or(|stamp| options.timestamp_echo(stamp, 0))
}

/// Bytes of the longest Response to a Request of ours, and so what our Requests are padded to: the header; a cookie with
/// two Changes of CCID, one of Sequence Window and one of Minimum Checksum Coverage; their Confirms; the server's Changes
/// of the latter two.
pub(super) const GREETING: usize =
    (28 + 2 + COOKIE_ALONE + 2 * 5 + 9 + 5 + 2 * 6 + 9 + 6 + 9 + 5_usize).next_multiple_of(4);
/// Callers without cookies under way at once: a quarter of a kilobyte each.
const PLACES: usize = 256;
/// How long such a caller is remembered. Shorter than RFC 4340 §8.1.3's four maximum segment lifetimes: a Request sent
/// again begins anew.
const RESPOND: Duration = Duration::from_secs(10);
/// Requests of one call: at 1, 2, 4 … 64 s and so on for three minutes they are eight (RFC 4340 §8.1.1).
const MOST_REPEATS: i64 = 16;
/// Cookies remembered after they let somebody in; each cost a true address a round trip.
const MOST_USED: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_millis(1);

    fn door() -> Door {
        Door::new(Settings::default(), Checksum::Udp, 1)
    }

    fn request(source: u16, seq: u64) -> Packet<'static> {
        let kind = Kind::Request { service: Settings::default().service };
        let destination = Settings::default().port;
        let header = Header { source, destination, ccval: 0, coverage: 0, kind, seq: Seq48::new(seq) };
        Packet { header, raw_options: &[], data: &[] }
    }

    /// The packet that answers a Response.
    fn ack(response: &[u8], ahead: i64) -> Header {
        let header = Packet::parse(response, Checksum::Udp).expect("a Response").header;
        let Kind::Response { ack, .. } = header.kind else { panic!("{header:?}") };
        let (source, destination) = (header.destination, header.source);
        Header { source, destination, kind: Kind::Ack { ack: header.seq }, seq: ack.plus(ahead), ..header }
    }

    #[test]
    fn what_is_kept_of_strangers_is_bounded() {
        let (mut door, mut out) = (door(), [0; 200]);
        for n in 0..100_000 {
            let now = NOW + Duration::from_micros(10) * n;
            door.meet_packet(now, PathId(n), &request(5, n.into()), 40, &mut out);
        }
        assert_eq!((door.places.len(), door.places[0].path), (PLACES, PathId(100_000 - PLACES as u32)));
        assert!(size_of::<Place>() <= 256 && door.places.capacity() <= 2 * PLACES);
        // Who asks again keeps one place; whose time is up leaves it.
        for n in 0..1000 {
            door.meet_packet(NOW + Duration::from_secs(20), PathId(7), &request(5, n), 40, &mut out);
        }
        assert_eq!((door.places.len(), door.places[0].credit), (1, 1000 * (40 - 28)));
        // Cookies that let somebody in, too, are remembered to a bound and for their time.
        for n in 0..2000 {
            let mut response = [0; 200];
            let path = PathId(n);
            door.meet_packet(NOW, path, &request(5, n.into()), 200, &mut response);
            let answered = Packet::parse(&response[..], Checksum::Udp).expect("a Response");
            let (header, cookie) = (ack(&response, 1), cookie_of(&answered).expect("a cookie"));
            let mut options = OptionWriter::default();
            options.init_cookie(cookie);
            let packet = Packet { header, raw_options: options.padded(), data: &[] };
            assert_eq!(door.meet_packet(NOW, path, &packet, 200, &mut out), Meeting::Admitted);
        }
        assert!(door.used.len() == MOST_USED && door.used.capacity() <= 2 * MOST_USED);
        assert!(door.note_use(NOW + COOKIE_LIFE + Duration::from_nanos(1), &[0; 16], Duration::ZERO));
        assert_eq!(door.used.len(), 1);
    }

    #[test]
    fn a_call_without_cookies_gets_through_a_flood_that_its_place_outlives() {
        let (mut door, mut out, mut response) = (door(), [0; 200], [0; 200]);
        for (flood, let_in) in [(PLACES - 1, true), (PLACES, false)] {
            door.meet_packet(NOW, PathId(1), &request(5, 9), 40, &mut response);
            for n in 0..flood as u32 {
                door.meet_packet(NOW, PathId(100 + n), &request(5, 9), 40, &mut out);
            }
            let packet = Packet { header: ack(&response, 1), raw_options: &[], data: &[] };
            let meeting = door.meet_packet(NOW, PathId(1), &packet, 28, &mut out);
            assert_eq!(matches!(meeting, Meeting::Vouched { .. }), let_in, "{flood}: {meeting:?}");
        }
    }

    #[test]
    fn a_call_repeated_is_completed_by_the_answer_to_any_of_its_requests() {
        for answered in 0..3 {
            let (mut door, mut out, mut responses) = (door(), [0; 200], [[0; 200]; 3]);
            for (n, response) in responses.iter_mut().enumerate() {
                let asks = request(5, (1 << 48) - 2 + n as u64);
                door.meet_packet(NOW, PathId(1), &asks, 40, response);
            }
            let header = ack(&responses[answered], 3 - answered as i64);
            let packet = Packet { header, raw_options: &[], data: &[] };
            let Meeting::Vouched { len } = door.meet_packet(NOW, PathId(1), &packet, 28, &mut out) else {
                panic!("answer {answered}")
            };
            let vouched = Packet::parse(&out[..len], Checksum::Udp).expect("a packet");
            let cookie = cookie_of(&vouched).expect("with a cookie");
            let (opened, ahead) = door.open(NOW, PathId(1), &vouched.header, cookie).expect("a good one");
            assert_eq!((ahead, opened.recipe.told_all), (3, false));
        }
    }

    #[test]
    fn what_is_told_in_a_response_is_settled_and_what_is_not_is_still_to_be_said() {
        let door = door();
        let asked = Packet { raw_options: &[32, 5, 1, 2, 3, 34, 5, 1, 2, 3], ..request(5, 9) };
        let asked = Asked::of(&asked).expect("not too much");
        for told_all in [true, false] {
            let recipe = Recipe { isr: Seq48::new(9), iss: Seq48::new(70), told_all, asked };
            let features = door.agreed(NOW, &recipe);
            // The server's order counts: CCID 3 first.
            let ccids = [Location::Local, Location::Remote].map(|at| features.value(at, features::CCID));
            assert_eq!((ccids, features.is_news()), ([3, 3], !told_all));
        }
    }
}
