//! Validates callers: answers Requests without keeping state, and accepts a caller that returns the Init Cookie
//! (RFC 4340 §8.1.4).
//!
//! An address that is not proved is never sent more bytes than came from it. A cookie makes a Response longer than most
//! Requests; our Requests are padded to [`LONGEST_RESPONSE`]. A Request that is too short for a cookie (Linux's: that
//! stack does not know Init Cookies and returns none) gets a plain Response and is remembered while that Response is in
//! flight, in a list of at most [`MOST_PENDING`]. When a flood fills the list, the oldest entries are replaced: up to
//! MOST_PENDING / R such Requests a second can be completed by a caller with a round trip of R, and a caller that uses
//! cookies is not affected. When a caller without a cookie answers, the validator inserts the cookie into the packet
//! that it passes on, so that the endpoint handles only one kind of beginning.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{
    ConnectionId, Instant, PathId, Role, Secret, StreamPlace, Validator, Verdict, first_ports,
};

use super::cookie::{Asked, COOKIE_ALONE, CookieKeys, Opened, Tcb};
use super::features::{self, Features, Location};
use super::moves;
use super::read::{Fault, Seen};
use super::rtt::Rtt;
use super::seq::Seq48;
use super::settings::Settings;
use super::wire::checksum::Checksum;
use super::wire::options::{DccpOption, OptionWriter, Options};
use super::wire::{self, ACK_HEADER, Header, Kind, Packet, ResetCode};
use crate::cookie::COOKIE_LIFE;

/// The validator of a listener; each endpoint has one, too, which opens cookies.
pub(super) struct DccpValidator {
    pub(super) settings: Settings,
    pub(super) checksum: Checksum,
    keys: CookieKeys,
    /// Whether it belongs to an endpoint, which has one peer and compares no paths: its driver or a listening wire's
    /// validator does that.
    is_inner: bool,
    /// Callers that were sent no cookie, the latest at the end.
    pending: VecDeque<Pending>,
    /// Marks of the cookies that were accepted, and until when those are valid.
    used: VecDeque<(Instant, [u8; 8])>,
    /// The state accepted last, until it is known whether there was room.
    accepted: Option<Accepted>,
    cookie: Vec<u8>,
}

/// The basis on which a caller was accepted, to be restored if there is no room.
#[derive(Clone, Copy, Debug)]
enum Accepted {
    /// A cookie: the last one of `used`.
    Cookie,
    /// A remembered caller, and its index.
    Pending(usize, Pending),
}

/// A caller whose Request was too short for a cookie, or was refused.
#[derive(Clone, Copy, Debug)]
struct Pending {
    path: PathId,
    port: u16,
    since: Instant,
    /// Bytes that came in Requests from this path and were not answered with as many; kept at the latest entry of the path.
    credit: usize,
    /// State of its future connection; `None` if it was refused.
    tcb: Option<Tcb>,
}

/// A Request and what is known of it.
struct Call {
    path: PathId,
    ports: (u16, u16),
    /// Bytes of the Request.
    asked: usize,
    tcb: Tcb,
    /// As the Request leaves them.
    features: Features,
    stamp: Option<u32>,
}

impl Call {
    /// Echoes the Request's time stamp, just come; answers whether there was room.
    fn echo(&self, options: &mut OptionWriter) -> bool {
        self.stamp.is_none_or(|stamp| options.write(DccpOption::TimestampEcho { stamp, elapsed: 0 }))
    }
}

/// Result for a packet without a connection.
type Validated = Result<Verdict, Fault>;

impl DccpValidator {
    /// A validator whose cookies every endpoint that has this `secret` can open.
    pub fn new(settings: Settings, checksum: Checksum, secret: &Secret) -> Self {
        let keys = CookieKeys::new(secret, settings.service);
        let (pending, used, accepted, cookie) = Default::default();
        DccpValidator { settings, checksum, keys, is_inner: true, pending, used, accepted, cookie }
    }

    /// The same for a listening wire, where there is no endpoint yet: it compares paths.
    pub fn outer(settings: Settings, checksum: Checksum, secret: &Secret) -> Self {
        DccpValidator { is_inner: false, ..DccpValidator::new(settings, checksum, secret) }
    }

    /// Judges a packet of `asked` bytes that belongs to no connection. The reply, or the packet for the endpoint, is
    /// written into `out`.
    pub fn validate_packet(
        &mut self,
        now: Instant,
        path: PathId,
        packet: &Packet<'_>,
        asked: usize,
        out: &mut [u8],
    ) -> Verdict {
        let header = &packet.header;
        self.accepted = None;
        let met = match header.kind {
            // A Listen opens middleboxes (RFC 5596) and wants no answer.
            Kind::Listen { .. } => Ok(Verdict::Ignore),
            _ if header.destination != self.settings.port => Err(fault(ResetCode::NO_CONNECTION)),
            Kind::Request { service } if service != self.settings.service => {
                Err(fault(ResetCode::BAD_SERVICE))
            }
            Kind::Request { .. } => self.on_request(now, path, packet, asked, out),
            Kind::Ack { .. } | Kind::DataAck { .. } => self.on_answer(now, path, packet, out),
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
    ) -> Verdict {
        let reset = refusal(header, fault).filter(|reset| reset.kind.header_len() <= asked);
        if let Kind::Request { .. } = header.kind {
            // A further Request from this address may be answered with what is left.
            let paid = reset.map_or(0, |reset| reset.kind.header_len());
            *self.remember(now, path, header.source, None, asked) -= paid;
        }
        self.write(reset, &OptionWriter::default(), out)
    }

    /// RFC 4340 §8.5, step 3: LISTEN.
    fn on_request(
        &mut self,
        now: Instant,
        path: PathId,
        request: &Packet<'_>,
        asked: usize,
        out: &mut [u8],
    ) -> Validated {
        let isr = request.header.seq;
        let ports = (request.header.destination, request.header.source);
        let iss = self.keys.base(path, ports).plus(isr.value() as i64);
        let wishes = Asked::of(request).map_err(|option| (ResetCode::OPTION_ERROR, [option, 0, 0]))?;
        let tcb = Tcb { isr, iss, told_all: true, asked: wishes };
        let mut features = self.at_rest(&tcb);
        let seen = Seen::read(request, &mut features, Role::Listener)?;
        let call = Call { path, ports, asked, tcb, features, stamp: seen.stamp };
        let kind = Kind::Response { ack: isr, service: self.settings.service };
        let response = request.header.answer(kind, iss);
        let options = self.with_cookie(now, &call).or_else(|| self.without_cookie(now, &call));
        Ok(options.map_or(Verdict::Ignore, |options| self.write(Some(response), &options, out)))
    }

    /// The options of a whole Response with the cookie, if the Request is long enough for it: nothing is kept then.
    fn with_cookie(&mut self, now: Instant, call: &Call) -> Option<OptionWriter> {
        self.keys.seal(now, call.path, call.ports, &call.tcb, &mut self.cookie);
        let (mut features, mut options) = (call.features.clone(), OptionWriter::default());
        features.write(now, call.tcb.iss, Rtt::default().estimate(), true, &mut options);
        let is_whole = options.write(DccpOption::InitCookie(&self.cookie)) && call.echo(&mut options);
        (is_whole && response_len(&options) <= call.asked).then_some(options)
    }

    /// As much of a Response as this caller's Requests permit; the caller is remembered. Linux's CCID 3 gets its first
    /// round trip from its time stamp, and begins with a packet a second without one: the echo is more important than
    /// preferences.
    fn without_cookie(&mut self, now: Instant, call: &Call) -> Option<OptionWriter> {
        let [mut confirms, mut brief] = [OptionWriter::default(), OptionWriter::default()];
        call.features.write_confirms(false, &mut confirms);
        call.features.write_confirms(true, &mut brief);
        let [mut with_echo, mut brief_with_echo] = [confirms.clone(), brief.clone()];
        call.echo(&mut with_echo);
        call.echo(&mut brief_with_echo);
        let tcb = Tcb { told_all: false, ..call.tcb };
        let credit = self.remember(now, call.path, call.ports.1, Some(tcb), call.asked);
        let choices = [with_echo, brief_with_echo, confirms, brief];
        let best = choices.into_iter().find(|options| response_len(options) <= *credit)?;
        *credit -= response_len(&best);
        Some(best)
    }

    /// Remembers a caller whose Request of `asked` bytes is too short for a cookie, or was refused; answers how many bytes may
    /// be sent to its address.
    fn remember(
        &mut self,
        now: Instant,
        path: PathId,
        port: u16,
        mut tcb: Option<Tcb>,
        asked: usize,
    ) -> &mut usize {
        while self.pending.front().is_some_and(|pending| now.since(pending.since) > RESPOND) {
            self.pending.pop_front();
        }
        let here = self.pending.iter_mut().filter(|pending| pending.path == path);
        let credit = here.map(|pending| std::mem::take(&mut pending.credit)).sum::<usize>() + asked;
        let known = self.pending.iter().position(|pending| (pending.path, pending.port) == (path, port));
        if let Some(before) = known.and_then(|at| self.pending.remove(at)?.tcb) {
            let new = tcb.filter(|new| !(1..=MOST_REPEATS).contains(&new.isr.distance(before.isr)));
            // The same call repeated keeps its first numbers: the answer may be to any of them.
            tcb = Some(new.unwrap_or(before));
        }
        if self.pending.len() >= MOST_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(Pending { path, port, since: now, credit, tcb });
        let at = self.pending.len() - 1;
        &mut self.pending[at].credit
    }

    /// The end of a handshake: with a cookie of ours, or by a remembered caller.
    fn on_answer(&mut self, now: Instant, path: PathId, packet: &Packet<'_>, out: &mut [u8]) -> Validated {
        let header = &packet.header;
        if let Some(cookie) = cookie_of(packet) {
            let (opened, _) =
                self.open(now, path, header, cookie).ok_or(fault(ResetCode::BAD_INIT_COOKIE))?;
            // The cookie was used before, and that connection has ended: a copy of the packet begins nothing.
            let is_new = self.note_use(now, cookie, opened.age);
            self.accepted = is_new.then_some(Accepted::Cookie);
            return if is_new { Ok(Verdict::Accept) } else { Err(fault(ResetCode::NO_CONNECTION)) };
        }
        let is_here = |pending: &Pending| (pending.path, pending.port) == (path, header.source);
        let at = self.pending.iter().position(is_here).ok_or(fault(ResetCode::NO_CONNECTION))?;
        let Pending { since, tcb, .. } = self.pending[at];
        let in_time = |_: &Tcb| now.since(since) <= RESPOND;
        let tcb = tcb.filter(in_time).filter(|tcb| self.completes(tcb, header).is_some());
        let tcb = tcb.ok_or(fault(ResetCode::NO_CONNECTION))?;
        self.keys.seal(since, path, (header.destination, header.source), &tcb, &mut self.cookie);
        let mut options = OptionWriter::default();
        if !(options.write(DccpOption::InitCookie(&self.cookie)) && options.copy(packet.raw_options)) {
            return Ok(Verdict::Ignore);
        }
        let Some(len) = wire::emit(header, &options, packet.data, self.checksum, out) else {
            // Too long with a cookie: the caller's next acknowledgement will do.
            return Ok(Verdict::Ignore);
        };
        self.accepted = self.pending.remove(at).map(|pending| Accepted::Pending(at, pending));
        Ok(Verdict::AcceptWith { len })
    }

    /// Opens the cookie of a packet from `path` that completes its handshake, so many numbers after the Request.
    pub fn open(&self, now: Instant, path: PathId, header: &Header, cookie: &[u8]) -> Option<(Opened, u64)> {
        let opened = self.keys.open(now, header, cookie)?;
        let is_theirs = opened.path == path || self.is_inner;
        let ahead = self.completes(&opened.tcb, header)?;
        is_theirs.then_some((opened, ahead))
    }

    fn completes(&self, tcb: &Tcb, header: &Header) -> Option<u64> {
        let window = self.agreed(Instant::ZERO, tcb).value(Location::Remote, features::SEQUENCE_WINDOW);
        tcb.completed_by(header, window)
    }

    /// What both ends have agreed on once the caller has the Response.
    pub fn agreed(&self, now: Instant, tcb: &Tcb) -> Features {
        let mut features = self.at_rest(tcb);
        for option in Options::new(tcb.asked.bytes()) {
            if let DccpOption::Feature { verb, feature, value } = option.read() {
                let arrival =
                    features::Arrival { seq: tcb.isr, ack: None, mandatory: false, is_server: true };
                // Without Mandatory nothing that a Request asks for is a fault.
                let _no_fault = features.on_option(verb, feature, value, arrival);
            }
        }
        features.on_packet_read(tcb.isr);
        if tcb.told_all {
            features.write(now, tcb.iss, Rtt::default().estimate(), true, &mut OptionWriter::default());
        }
        features
    }

    fn at_rest(&self, tcb: &Tcb) -> Features {
        let mut features = Features::wanted(&self.settings, Role::Listener);
        features.start(tcb.iss, Some(tcb.isr));
        features
    }

    /// Notes that a valid cookie is used; answers whether it is the first time.
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
    fn write(&self, header: Option<Header>, options: &OptionWriter, out: &mut [u8]) -> Verdict {
        let len = header.and_then(|header| wire::emit(&header, options, &[], self.checksum, out));
        len.map_or(Verdict::Ignore, |len| Verdict::Reply { len })
    }
}

impl Validator for DccpValidator {
    fn validate(&mut self, now: Instant, path: PathId, datagram: &[u8], answer: &mut [u8]) -> Verdict {
        match Packet::parse(datagram, self.checksum) {
            Some(packet) => self.validate_packet(now, path, &packet, datagram.len(), answer),
            None => Verdict::Ignore,
        }
    }

    fn release(&mut self) {
        match self.accepted.take() {
            Some(Accepted::Cookie) => drop(self.used.pop_back()),
            Some(Accepted::Pending(at, pending)) => self.pending.insert(at, pending),
            None => {}
        }
    }

    /// The caller's DCCP port: a caller that was started again behind the same UDP port has another one.
    fn flow_label(&self, datagram: &[u8]) -> u16 {
        first_ports(datagram).map_or(0, |(source, _)| source)
    }

    fn place_of(&self, _datagram: &[u8]) -> Option<StreamPlace> {
        None
    }

    fn id_of(&self, datagram: &[u8]) -> Option<ConnectionId> {
        let packet = Packet::parse(datagram, self.checksum)?;
        // It may be the answer of a caller without a cookie.
        let is_awaited = self.pending.iter().any(|pending| pending.port == packet.header.source);
        moves::id_of(&packet).filter(|_| !is_awaited)
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
    let kind = Kind::Reset { ack: header.seq, code, data };
    let reset = header.answer(kind, header.kind.ack().map_or(Seq48::default(), Seq48::next));
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
pub(super) const LONGEST_RESPONSE: usize =
    (RESPONSE_HEADER + 2 + COOKIE_ALONE + 2 * 5 + 9 + 5 + 2 * 6 + 9 + 6 + 9 + 5_usize).next_multiple_of(4);
/// Header of a Response without options, in bytes (RFC 4340 §5.3).
const RESPONSE_HEADER: usize = ACK_HEADER + 4;
/// Callers without cookies remembered at once: a quarter of a kilobyte each.
const MOST_PENDING: usize = 256;
/// How long such a caller is remembered. Shorter than RFC 4340 §8.1.3's four maximum segment lifetimes: a repeated
/// Request creates a new entry.
const RESPOND: Duration = Duration::from_secs(10);
/// Requests of one call within [`RESPOND`], one every [`LONGEST_PAUSE`](crate::patience::LONGEST_PAUSE), and a few more.
const MOST_REPEATS: i64 = 32;
/// Used cookies remembered; each cost a true address a round trip. With more than so many within a cookie's life the
/// first are forgotten, and a copy of such a packet can begin an association again: from an address that is proved, and
/// only until that peer's Reset. Refusing all cookies as old instead would refuse callers whose round trip is longer.
const MOST_USED: usize = 1024;

#[cfg(test)]
mod tests;
