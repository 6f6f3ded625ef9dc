//! Two endpoints with a wire between them: datagrams with the impairments of a test, or the laboratory's TCP.

use std::time::Duration;

use antiphon_core::{
    Endpoint, Event, Input, Instant, Message, PathId, Rng, Role, SendError, StreamId, Tag, Wire as WireKind,
    handle_due,
};
use antiphon_lab::tcp::Profile;
use antiphon_proto::{StackArgs, find, stack};

use super::pair::Pair;

/// The datagram size of an Ethernet path over IPv4 and UDP.
pub const MAX_DATAGRAM: usize = 1472;
const ONE_WAY: Duration = Duration::from_millis(10);
/// Bits a second of a narrow wire.
pub const NARROW: u64 = 200_000;
/// Packets that wait before it.
const QUEUE: u64 = 20;

/// Impairments between the two.
#[derive(Clone, Copy, Default)]
pub struct Weather {
    /// Share of datagrams that are lost, each way.
    pub loss: f64,
    /// Only the first datagram that carries this many bytes of a frame to the listener is lost.
    pub lose_first_of: Option<usize>,
    /// Datagrams are delayed by up to 30 ms, each at random.
    pub reorders: bool,
    /// Share of datagrams with an inverted bit.
    pub corruption: f64,
    /// At the rate of [`NARROW`], towards the listener.
    pub narrow: bool,
    /// Nothing comes back.
    pub one_way: bool,
    /// Longer datagrams are dropped.
    pub longest: Option<usize>,
    /// The listener's application reads nothing before this.
    pub asleep_until: Option<Instant>,
}

/// One end, and the messages that its application got.
pub struct Side {
    pub endpoint: Box<dyn Endpoint>,
    pub frames: Vec<Vec<u8>>,
    pub connected: Option<Instant>,
}

pub struct Trial {
    pub now: Instant,
    pub near: Side,
    pub far: Vec<Side>,
    /// The near end has a path to each listener, from 1, beside that to all.
    has_members: bool,
    weather: Weather,
    rng: Rng,
    /// Arrival, receiver (`None`: the near end), the near end's path, bytes; in no order.
    air: Vec<(Instant, Option<usize>, PathId, Vec<u8>)>,
    tcp: Option<Pair>,
    free_at: Instant,
    lost_first: bool,
    /// Nothing crosses, either way.
    dark: bool,
    pub bytes_sent: u64,
}

impl Side {
    fn new(uri: &str, role: Role, seed: u64, group: bool) -> Side {
        let (scheme, query) = uri.split_once('?').unwrap_or((uri, ""));
        let query = query.parse().expect("a query");
        let playout_delay = Duration::from_millis(80);
        let args = StackArgs { group, ..StackArgs::new(&query, seed, MAX_DATAGRAM, playout_delay) };
        let endpoint = stack(scheme, &args).expect("the transport opens").open(Instant::ZERO, role);
        Side { endpoint, frames: Vec::new(), connected: None }
    }

    fn drain(&mut self, now: Instant, asleep: bool) {
        let mut buf = vec![0; self.endpoint.profile().max_receive];
        while !asleep && let Some(received) = self.endpoint.poll_message(&mut buf) {
            self.frames.push(buf[..received.len].to_vec());
        }
        while let Some(event) = self.endpoint.poll_event() {
            if event == Event::Connected {
                self.connected.get_or_insert(now);
            }
        }
    }

    pub fn send(&mut self, now: Instant, bytes: &[u8]) -> Result<(), SendError> {
        self.endpoint
            .send(now, Message { stream: StreamId(0), ..Message::new(Tag::NONE, bytes, None) })
            .map(|_| ())
    }
}

impl Trial {
    /// A caller of `uri` and so many listeners.
    pub fn new(uri: &str, listeners: usize, weather: Weather) -> Trial {
        let group = listeners > 1;
        let near = Side::new(uri, Role::Caller, 1, group);
        let far = (0..listeners).map(|n| Side::new(uri, Role::Listener, 2 + n as u64, group)).collect();
        let scheme = uri.split('?').next().unwrap_or(uri);
        let has_members = group && find(scheme).is_ok_and(|transport| transport.members);
        let stream = near.endpoint.profile().wire == WireKind::ByteStream;
        let tcp = stream.then(|| {
            let mut link = format!("delay=10ms,loss={}%", weather.loss * 100.0);
            if weather.narrow {
                link += &format!(",rate={NARROW}bit/s,queue={QUEUE}packets");
            }
            if weather.reorders {
                link += ",reorder=20%/20ms";
            }
            if weather.lose_first_of.is_some() {
                link += ",up.loss=10%";
            }
            if weather.one_way {
                link += ",down.loss=100%";
            }
            Pair::new(Profile::linux(), Profile::linux(), &link.parse().expect(&link), 3).expect("a link")
        });
        Trial {
            now: Instant::ZERO,
            near,
            far,
            has_members,
            weather,
            rng: Rng::fork(5, "weather"),
            air: Vec::new(),
            tcp,
            free_at: Instant::ZERO,
            lost_first: false,
            dark: false,
            bytes_sent: 0,
        }
    }

    /// Begins or ends an outage: what is sent meanwhile is lost.
    pub fn set_dark(&mut self, dark: bool) {
        self.dark = dark;
        if let Some(pair) = &mut self.tcp {
            pair.dark = dark;
        }
    }

    /// Goes on for `time`.
    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            if self.tcp.is_some() {
                self.pump_stream()
            } else {
                self.pump()
            }
            // A millisecond is short compared with every delay here.
            let next = self.now + Duration::from_millis(1);
            self.now = self.next_event().unwrap_or(until).max(next).min(until);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let sides = std::iter::once(&self.near).chain(&self.far);
        let timeouts = sides.filter_map(|side| side.endpoint.poll_timeout());
        let tcp = self.tcp.as_ref().and_then(Pair::poll_timeout);
        timeouts.chain(self.air.iter().map(|(at, ..)| *at)).chain(tcp).chain(self.weather.asleep_until).min()
    }

    fn is_asleep(&mut self) -> bool {
        self.weather.asleep_until = self.weather.asleep_until.filter(|until| self.now < *until);
        self.weather.asleep_until.is_some()
    }

    fn pump(&mut self) {
        let now = self.now;
        self.air.sort_by_key(|(at, ..)| *at);
        while self.air.first().is_some_and(|(at, ..)| *at <= now) {
            let (_, to, path, mut bytes) = self.air.remove(0);
            let side = match to {
                None => &mut self.near,
                Some(receiver) => &mut self.far[receiver],
            };
            let path = if to.is_none() { path } else { PathId::default() };
            side.endpoint.handle_input(now, Input::Datagram { path, bytes: &mut bytes, received_at: now });
        }
        let asleep = self.is_asleep();
        for n in 0..=self.far.len() {
            let from = n.checked_sub(1);
            let side = match from {
                None => &mut self.near,
                Some(receiver) => &mut self.far[receiver],
            };
            handle_due(&mut *side.endpoint, now);
            side.drain(now, asleep && from.is_some());
            let mut buf = vec![0; MAX_DATAGRAM];
            let mut sent = Vec::new();
            while let Some(transmit) = side.endpoint.poll_transmit(now, &mut buf) {
                sent.push((transmit.path, buf[..transmit.len].to_vec()));
                side.drain(now, asleep && from.is_some());
            }
            sent.into_iter().for_each(|(path, bytes)| self.launch(from, path, bytes));
        }
    }

    /// A datagram is sent; those of the near end reach all listeners.
    fn launch(&mut self, from: Option<usize>, path: PathId, bytes: Vec<u8>) {
        let Weather { loss, lose_first_of, reorders, corruption, narrow, one_way, longest, .. } =
            self.weather;
        let out = from.is_none();
        self.bytes_sent += if out { bytes.len() as u64 } else { 0 };
        // A probe of the path's MTU carries no frame.
        let carries = self.near.endpoint.stats().counters.messages_accepted > 0;
        let first =
            out && carries && !self.lost_first && lose_first_of.is_some_and(|least| bytes.len() >= least);
        self.lost_first |= first;
        if first
            || self.dark
            || self.rng.unit() < loss
            || (one_way && !out)
            || longest.is_some_and(|longest| bytes.len() > longest)
        {
            return;
        }
        let mut leaves = self.now;
        if narrow && out {
            let time = |bytes: u64| Duration::from_nanos(bytes * 8 * 1_000_000_000 / NARROW);
            if self.free_at > self.now + time(QUEUE * bytes.len() as u64) {
                return;
            }
            self.free_at = self.free_at.max(self.now) + time(bytes.len() as u64);
            leaves = self.free_at;
        }
        let more = if reorders { self.rng.below(30_000) } else { 0 };
        let at = leaves + ONE_WAY + Duration::from_micros(more.into());
        let member = path.0.checked_sub(1).filter(|_| self.has_members);
        let receivers = match (out, member) {
            (false, _) => vec![None],
            (true, Some(member)) => vec![Some(member as usize)],
            (true, None) => (0..self.far.len()).map(Some).collect(),
        };
        let path =
            from.filter(|_| self.has_members).map_or(PathId::default(), |from| PathId(from as u32 + 1));
        for to in receivers {
            let mut bytes = bytes.clone();
            if self.rng.unit() < corruption {
                let bit = self.rng.below(8 * bytes.len() as u32) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            self.air.push((at, to, path, bytes));
        }
    }

    fn pump_stream(&mut self) {
        let (now, asleep) = (self.now, self.is_asleep());
        let Some(pair) = &mut self.tcp else { return };
        pair.run_until(now);
        for (side, tcp, asleep) in
            [(&mut self.near, &mut pair.near, false), (&mut self.far[0], &mut pair.far, asleep)]
        {
            if tcp.is_established() && side.connected.is_none() {
                side.endpoint.handle_input(now, Input::Connected);
            }
            let mut buf = [0; 4096];
            while tcp.readable() > 0 {
                let n = tcp.read(now, &mut buf);
                side.endpoint.handle_input(now, Input::Stream { bytes: &mut buf[..n], received_at: now });
            }
            side.drain(now, asleep);
            while tcp.writable() > 0
                && let Some(transmit) = {
                    let room = tcp.writable().min(1448);
                    side.endpoint.poll_transmit(now, &mut buf[..room])
                }
            {
                tcp.write(now, &buf[..transmit.len]);
                side.drain(now, asleep);
            }
        }
        pair.transmit();
        let stats = pair.near.stats();
        self.bytes_sent = stats.acknowledged_bytes + stats.retransmitted_bytes;
    }
}
