//! Other transports for the pictures and the data than for the sound: where they lead, and how their wires come to a run.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{Instant, WireId};
use antiphon_media::rtcp::Token;
use antiphon_net::{Lines, SocketOptions, Target};
use antiphon_session::{Apart, Session, StreamFraming};

use crate::Error;
use crate::run::{OpenedWire, Stacks, WirePlan, spawn};
use crate::transport::{StreamUri, random_token};

/// The transport of what goes beside the sound.
#[derive(Clone)]
pub(crate) struct VideoOver {
    uri: StreamUri,
    what: Beside,
}

/// What has a transport of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beside {
    Pictures,
    Data,
    Both,
}

impl Beside {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Beside::Pictures => "pictures",
            Beside::Data => "data",
            Beside::Both => "pictures and data",
        }
    }

    /// The option that says where it goes.
    pub fn option(self) -> &'static str {
        match self {
            Beside::Pictures | Beside::Both => "--video-over",
            Beside::Data => "--data-over",
        }
    }

    /// The association that it has in a session.
    fn apart(self) -> Apart {
        match self {
            Beside::Pictures | Beside::Both => Apart::Pictures,
            Beside::Data => Apart::Data,
        }
    }

    /// What has which of the transports of the two options: where both name the same one, it carries both.
    fn of<'a>(video: Option<&'a str>, data: Option<&'a str>) -> Vec<(Self, &'a str)> {
        match (video, data) {
            (Some(text), Some(other)) if text == other => vec![(Beside::Both, text)],
            (video, data) => {
                let video = video.map(|text| (Beside::Pictures, text));
                video.into_iter().chain(data.map(|text| (Beside::Data, text))).collect()
            }
        }
    }
}

/// The transports of what goes beside the sound: that of the pictures, that of the data, or one of both.
#[derive(Clone, Default)]
pub(crate) struct Overs(Vec<VideoOver>);

impl Overs {
    /// Reads both options, if they are given, as [`VideoOver::read`]. `described`: pictures go to other programs, as SDP tells them, and may do so to a
    /// group.
    pub fn read(
        (video, data): (Option<&str>, Option<&str>),
        sound: &StreamUri,
        (socket, described): (&SocketOptions, bool),
        read: impl Fn(&str) -> Result<StreamUri, Error>,
    ) -> Result<Self, Error> {
        let mut overs: Vec<VideoOver> = Vec::new();
        for (at, what) in (1..).zip(Beside::of(video, data)) {
            let to_group = described && what.0 == Beside::Pictures;
            let over = VideoOver::read(what, at * PORT_ABOVE, sound, (socket, to_group), &read)?;
            if overs.first().is_some_and(|first| over.uri.port_is_taken_by(&first.uri)) {
                return Err(Error::usage(format!(
                    "--data-over {}: the pictures have port {}: choose another one, or write the same as in --video-over to have both go together",
                    what.1,
                    over.address().port()
                )));
            }
            overs.push(over);
        }
        Ok(Overs(overs))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &VideoOver> {
        self.0.iter()
    }

    /// That of the pictures.
    pub fn of_pictures(&self) -> Option<&VideoOver> {
        self.iter().find(|over| over.what != Beside::Data)
    }

    /// That of the data.
    pub fn of_data(&self) -> Option<&VideoOver> {
        self.iter().find(|over| over.what != Beside::Pictures)
    }
}

impl VideoOver {
    /// Reads `SCHEME`, `SCHEME?KEYS` or a URI beside `sound`, which `read` reads. `above`: of the port, where none is named, above the sound's. `to_group`:
    /// it may lead to a group, where the sound goes to one.
    fn read(
        (what, text): (Beside, &str),
        above: u16,
        sound: &StreamUri,
        (socket, to_group): (&SocketOptions, bool),
        read: impl FnOnce(&str) -> Result<StreamUri, Error>,
    ) -> Result<Self, Error> {
        let option = what.option();
        let refuse = |why: String| Err(Error::usage(format!("{option} {text}: {why}")));
        let address = sound.address();
        let has_group = address.ip().is_multicast();
        if has_group && !to_group {
            return refuse(format!("{} go to a group with its sound: omit it", what.name()));
        }
        let uri = if text.contains("://") {
            read(text)?
        } else {
            let Some(port) = address.port().checked_add(above).filter(|_| address.port() > 0) else {
                return refuse(format!(
                    "there is no port {above} above that of the sound: write a URI, such as tcp://HOST:PORT"
                ));
            };
            let named =
                |error: Error| Error { message: format!("{option} {text}: {}", error.message), ..error };
            sound.beside(text, port, socket).map_err(named)?
        };
        if let Some(key) = uri.keys.of_sound() {
            return refuse(format!(
                "{key}= belongs to the sound, or to all of the stream: write it in the first URI"
            ));
        }
        if uri.address().ip().is_multicast() && !(to_group && has_group) {
            return refuse(format!(
                "a group gets {} with its sound: name the host of the sound",
                what.name()
            ));
        }
        if has_group && !uri.address().ip().is_multicast() {
            return refuse("the sound goes to a group: name a group, or omit it".into());
        }
        let listens = |uri: &StreamUri| matches!(uri.target, Target::Listen(_));
        if listens(&uri) != listens(sound) {
            let scheme = uri.transport.scheme;
            let of = if listens(sound) { ":PORT" } else { "HOST:PORT" };
            return refuse(format!("the sender calls the receiver for both: write {scheme}://{of}"));
        }
        if uri.port_is_taken_by(sound) {
            return refuse(format!("the sound has port {}: choose another one", address.port()));
        }
        Ok(VideoOver { uri, what })
    }

    /// What goes over it.
    pub fn what(&self) -> Beside {
        self.what
    }

    /// The association that it has in a session.
    pub fn apart(&self) -> Apart {
        self.what.apart()
    }

    /// Its wire's name.
    pub fn wire_id(&self) -> WireId {
        wire_of(self.what)
    }

    /// The transport's scheme.
    pub fn scheme(&self) -> &'static str {
        self.uri.transport.scheme
    }

    /// Where it leads.
    pub fn address(&self) -> SocketAddr {
        self.uri.address()
    }

    /// Whether its datagrams are RTP packets as they are, which other programs can receive.
    pub fn is_plain(&self) -> bool {
        self.uri.transport.profile_of("").message_overhead == 0
    }

    /// As the user is told.
    pub fn text(&self) -> String {
        format!("{}://{}", self.scheme(), self.uri.address())
    }

    /// Its wire, where the sound's receiver has this playout delay.
    pub fn wire(&self, seed: u64, playout_delay: Duration) -> WirePlan {
        self.uri.wire(self.uri.stack(seed, playout_delay, StreamFraming::Rtp))
    }
}

/// A wire for pictures or data on its way to the media thread.
pub(crate) struct VideoCall {
    opened: rtrb::Consumer<OpenedWire>,
    token: Token,
    what: Beside,
    tell: mpsc::Sender<String>,
    /// The largest packet that is not fragmented.
    pub max_packet: usize,
}

impl VideoCall {
    /// Opens it, on a thread of its own where that waits for the peer: again and again until somebody answers. `tell` gets a sentence if
    /// nobody does.
    pub fn begin(plan: WirePlan, over: &VideoOver, tell: mpsc::Sender<String>) -> Result<Self, Error> {
        let (text, what) = (over.text(), over.what);
        let (mut to_media, opened) = rtrb::RingBuffer::new(1);
        let token = random_token();
        if !plan.waits() {
            let wire = plan.open()?;
            let max_packet = wire.max_packet()?;
            let _there_is_room = to_media.push(wire);
            return Ok(VideoCall { opened, token, what, tell, max_packet });
        }
        let max_packet = plan.max_packet_of_stream()?;
        let told_by = tell.clone();
        spawn("video-call", move || {
            let mut told = false;
            while !to_media.is_abandoned() {
                match plan.clone().open() {
                    Ok(wire) => {
                        let _the_stream_has_ended = to_media.push(wire);
                        return;
                    }
                    Err(error) if !std::mem::replace(&mut told, true) => {
                        let _the_stream_has_ended = told_by.send(format!(
                            "{text}: {error}; the sound goes on without {}, and they are tried again",
                            what.name()
                        ));
                    }
                    // The first one was told; the others are the same in most cases.
                    Err(_) => {}
                }
                std::thread::park_timeout(CALL_AGAIN);
            }
        })?;
        Ok(VideoCall { opened, token, what, tell, max_packet })
    }

    /// Whether it is for pictures.
    pub fn carries_pictures(&self) -> bool {
        self.what != Beside::Data
    }

    /// Has `session` use the wire once it is open; on the media thread, after each round.
    pub fn poll(&mut self, now: Instant, session: &mut Session, lines: &mut Lines<'static>, stacks: &Stacks) {
        let Ok(wire) = self.opened.pop() else { return };
        let name = wire.scheme();
        let (id, apart) = (wire_of(self.what), self.what.apart());
        match wire.add(id, name, lines, stacks) {
            Ok(added) => session.call_apart(now, apart, (id, &added.paths), &added.stack, self.token),
            Err(error) => {
                let _the_main_thread_is_gone = self
                    .tell
                    .send(format!("{name}: {error}; the sound goes on without {}", self.what.name()));
            }
        }
    }
}

/// The wire of what goes beside the sound: behind those of `--also` and `--switch`.
fn wire_of(what: Beside) -> WireId {
    match what {
        Beside::Pictures | Beside::Both => WireId(60_000),
        Beside::Data => WireId(60_001),
    }
}

/// The port of the first of them above that of the sound, and of the second one above that, where none is named: RTP's next pairs of ports
/// (RFC 3550 §11).
const PORT_ABOVE: u16 = 2;
/// How often a peer that does not accept a connection is called.
const CALL_AGAIN: Duration = Duration::from_millis(500);
