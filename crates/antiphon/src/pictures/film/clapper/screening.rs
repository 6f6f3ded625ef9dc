//! The clip on its way over a modelled path, in virtual time: a real sender and a real receiver, which hands sound and pictures over as
//! it does to a player.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Epoch, Input, Instant, Participant, PathId, Role, Stack, Transmit, WireId};
use antiphon_media::conceal::Concealment;
use antiphon_media::packet::{EncodingName, PacketConfig, VIDEO_HEADER};
use antiphon_media::{ChannelGroups, Coding, SampleFormat, Sink, SinkError, StreamFormat, Wants};
use antiphon_proto::{StackArgs, find};
use antiphon_session::{
    KEPT_BYTES, Latency, LongGaps, PlayoutDelay, ReceiveTrack, ReceiveTrackConfig, Repetition, SendTrack,
    SendTrackConfig, Session, SessionConfig, SharedPath, StreamFraming, VideoArrived, VideoSink, VideoTrack,
    VideoTrackConfig,
};
use antiphon_sound::Deposit;
use antiphon_testkit::{Noise, World};
use antiphon_video::Clip;

use super::looped::{Looped, clip_sound};
use super::player::Player;
use crate::PicturesReceived;
use crate::pictures::film::MOST_GRACE;
use crate::pictures::film::live::{Input as ListenerInput, Listener, LiveDeposit};
use crate::pictures::film::{FilmCounters, Shared};
use crate::pictures::queue::{About, In, queue};

/// What is played over which path.
#[derive(Clone, Copy)]
pub(super) struct Screening {
    pub link: &'static str,
    /// A scheme, and perhaps a query.
    pub transport: &'static str,
    pub clip: Clip,
    pub seconds: u64,
    pub latency: Latency,
    /// The sound is Opus of 16 kbit/s in packets of 60 ms, otherwise L16 at 8 kHz.
    pub opus: bool,
    /// Sample frames of a packet in L16.
    pub block: u32,
    pub seed: u64,
    /// By how much later than the sound pictures come, by the time.
    pub late: fn(Instant) -> Duration,
    /// How long pictures are waited for.
    pub grace: Duration,
    /// What was played is kept.
    pub keeps: bool,
    /// When the receiver is started; the sender begins at 0.
    pub joins: Duration,
}

/// What came of it.
pub(super) struct Screened {
    /// What a player was given, and when.
    pub player: Player,
    /// What we measured.
    pub counted: PicturesReceived,
    /// Pictures that the sender has sent, and left out.
    pub sent: (u64, u64),
    /// The state of synchronisation each tenth of a second: when it changed.
    pub changes: Vec<(Instant, bool)>,
}

impl Default for Screening {
    fn default() -> Self {
        Screening {
            link: "ethernet",
            transport: "rtp",
            clip: Clip::H264,
            seconds: 60,
            latency: Latency::Of(Duration::from_millis(80)),
            opus: false,
            // 25 ms: longer than the bound on a good network, and no part of the time between pictures.
            block: 200,
            seed: 3,
            late: |_| Duration::ZERO,
            grace: MOST_GRACE,
            keeps: true,
            joins: Duration::ZERO,
        }
    }
}

impl Screening {
    /// Plays it to its end.
    pub fn run(self) -> Screened {
        let clock = Clock::default();
        let (far, player, counters) = self.receiver(&clock);
        let far = Timed { session: far, clock, joins: Instant::ZERO + self.joins };
        let mut world = World::linked(self.sender(), far, self.link, self.seed);
        let (mut changes, mut was_in_sync) = (Vec::new(), true);
        for tenth in 1..=10 * self.seconds + 50 {
            world.run_until(Instant::from_millis(100 * tenth));
            let is_in_sync = counters.0.sync().out_of_sync().is_none();
            if is_in_sync != was_in_sync {
                changes.push((world.now, is_in_sync));
                was_in_sync = is_in_sync;
            }
        }
        let sent = world.near.video_sent().next().expect("there are pictures");
        let player = std::mem::take(&mut *player.lock().expect("no thread panicked"));
        Screened { player, counted: counters.get(), sent: (sent.units, sent.left_out), changes }
    }

    fn stack(&self) -> Rc<dyn Stack> {
        let (scheme, query) = self.transport.split_once('?').unwrap_or((self.transport, ""));
        let query: Query = query.parse().expect("a query");
        let args = StackArgs::new(&query, self.seed, MAX_DATAGRAM, self.latency.longest());
        (find(scheme).expect("a transport").stack)(&args).expect("good settings")
    }

    fn config(&self, cname: &str, seed: u64) -> SessionConfig {
        SessionConfig {
            cname: cname.into(),
            epoch: Epoch::default(),
            seed,
            playout_delay: PlayoutDelay::Of(Duration::from_millis(80)),
            tells: None,
            reflected: None,
            ends_with_stream: true,
            framing: StreamFraming::Rtp,
            two_way: false,
        }
    }

    fn sender(&self) -> Session {
        let (rate, coding, block) = match self.opus {
            true => (48_000, Coding::Opus, 2_880),
            false => (8_000, Coding::Pcm(SampleFormat::L16), self.block),
        };
        let mono = StreamFormat::new(rate, 1).expect("a usual format");
        let mut packet = PacketConfig::new(mono, coding, block);
        packet.max_packet = MAX_DATAGRAM;
        packet.bit_rate = self.opus.then_some(16_000);
        let track = SendTrackConfig {
            packet,
            groups: ChannelGroups::whole(1),
            protect: Repetition::default(),
            epoch: Epoch::default(),
            seed: self.seed,
            woken: false,
            keeps: KEPT_BYTES,
        };
        let clip = clip_sound(rate);
        let sample = move |frame: u64, _channel: usize| clip[(frame % clip.len() as u64) as usize];
        let sound = Noise::like(mono, self.seconds * u64::from(rate), sample);
        let mut session = Session::new(self.config("near", self.seed), Instant::ZERO);
        session.set_send_track(SendTrack::new(sound, track).expect("a track"));
        session.call(Instant::ZERO, WIRE, &[PathId(0)], &*self.stack());
        let max_packet = if self.opus { 500 } else { MAX_DATAGRAM };
        let config = VideoTrackConfig {
            encoding: EncodingName::new(self.clip.codec().encoding_name()).expect("a word"),
            payload_type: 127,
            sound: session.send_track().map_or(0, |track| track.packetiser().ssrc()),
            epoch: Epoch::default(),
            seed: self.seed,
            max_packet,
        };
        let pictures = Looped::new(self.clip, max_packet - VIDEO_HEADER, self.seconds);
        session.add_video_track(VideoTrack::new(Box::new(pictures), config));
        session.set_congestion_manager(Box::new(SharedPath::new(2)));
        session
    }

    fn receiver(&self, clock: &Clock) -> (Session, Arc<Mutex<Player>>, FilmCounters) {
        let stack = self.stack();
        let profile = stack.open(Instant::ZERO, Role::Listener).profile();
        let delay = self.latency.longest();
        let tells = Some(PlayoutDelay::Of(delay));
        let mut session = Session::new(SessionConfig { tells, ..self.config("far", 99) }, Instant::ZERO);
        let shared = Arc::new(Shared::default());
        let counters = FilmCounters(shared.clone());
        let (to, from) = queue(shared.clone());
        let late = Late { to, clock: clock.clone(), late: self.late, waiting: VecDeque::new() };
        session.set_video_sink(Box::new(late));
        let player = Arc::new(Mutex::new(Player::default()));
        let screen = Screen { player: player.clone(), clock: clock.clone(), keeps: self.keeps };
        let mut from = Some((from, shared));
        let grace = delay.min(self.grace);
        let open = move |format: StreamFormat, _sample: SampleFormat| {
            let (from, shared) = from.take().ok_or("it was opened already")?;
            let live = LiveDeposit::new(screen.clone(), format, from, shared, grace);
            Ok(Box::new(Stage { format, live }) as Box<dyn Sink>)
        };
        let track = ReceiveTrackConfig {
            latency: Some(self.latency),
            conceal: Concealment::default(),
            completed_later: false,
            description: None,
            any_payload_type: false,
            silence: SILENCE,
            ordered: profile.ordered,
            reliable: false,
            long_gaps: LongGaps::Silence,
        };
        session.set_receive_track(ReceiveTrack::new(track, Box::new(open), None));
        session.listen(Instant::ZERO, WIRE, stack, SILENCE);
        (session, player, counters)
    }
}

/// Virtual time, as the hand-over sees it.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A session that tells the time to its sink.
struct Timed {
    session: Session,
    clock: Clock,
    /// What comes earlier finds nobody there.
    joins: Instant,
}

impl Participant for Timed {
    fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>) {
        self.clock.0.store(now.as_nanos(), Ordering::Relaxed);
        if now >= self.joins {
            self.session.handle_input(now, wire, input);
        }
    }

    fn accept(&mut self, now: Instant, listener: WireId) -> Option<WireId> {
        self.session.accept(now, listener)
    }

    fn advance(&mut self, now: Instant) {
        self.clock.0.store(now.as_nanos(), Ordering::Relaxed);
        self.session.advance(now);
    }

    fn poll_ready(&mut self) -> Option<WireId> {
        self.session.poll_ready()
    }

    fn poll_transmit(&mut self, now: Instant, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        self.session.poll_transmit(now, wire, buf)
    }

    fn poll_close(&mut self) -> Option<WireId> {
        self.session.poll_close()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.session.poll_timeout()
    }

    fn knows(&self, wire: WireId, path: PathId) -> bool {
        self.session.knows(wire, path)
    }

    fn takes(&self, wire: WireId) -> bool {
        self.session.takes(wire)
    }

    fn stop(&mut self, now: Instant) {
        self.session.stop(now);
    }

    fn is_finished(&self) -> bool {
        self.session.is_finished()
    }
}

/// Gives packets of pictures later than they come, when another one comes.
struct Late {
    to: In,
    clock: Clock,
    late: fn(Instant) -> Duration,
    waiting: VecDeque<(Instant, About, Vec<u8>)>,
}

impl VideoSink for Late {
    fn on_packet(&mut self, packet: &VideoArrived<'_>) {
        let now = self.clock.now();
        let late = (self.late)(now);
        if late.is_zero() && self.waiting.is_empty() {
            return self.to.on_packet(packet);
        }
        let VideoArrived { ssrc, timestamp, encoding, place, .. } = *packet;
        let about = About { ssrc, timestamp, encoding, written: place, again: false };
        self.waiting.push_back((now + late, about, packet.packet.to_vec()));
        while let Some((_, about, bytes)) = self.waiting.pop_front_if(|(at, ..)| *at <= now) {
            let About { ssrc, timestamp, encoding, written, .. } = about;
            let (marker, payload, packet) = (false, &[][..], &bytes[..]);
            self.to.on_packet(&VideoArrived {
                at: now,
                ssrc,
                encoding,
                timestamp,
                marker,
                place: written,
                payload,
                packet,
            });
        }
    }

    fn wants_key_frame(&self) -> bool {
        self.to.wants_key_frame()
    }
}

/// Hands over at once what the session plays, as the thread that writes does.
struct Stage {
    format: StreamFormat,
    live: LiveDeposit<Screen>,
}

impl Sink for Stage {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        self.live.store(block).map_err(|_| SinkError::Failed)
    }

    fn clocked(&self) -> bool {
        false
    }

    fn wants(&self) -> Option<Wants> {
        None
    }

    fn period(&self) -> Option<usize> {
        None
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        self.push(&vec![0.0; frames as usize * self.format.channels()])
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.live.close().map_err(|_| SinkError::Failed)
    }
}

/// Gives what is handed over to the player, with the time.
#[derive(Clone)]
struct Screen {
    player: Arc<Mutex<Player>>,
    clock: Clock,
    keeps: bool,
}

impl Listener for Screen {
    type Input = Screen;

    fn open(&self) -> io::Result<Screen> {
        Ok(self.clone())
    }

    fn begins_again(&self) -> bool {
        false
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = self.clock.now();
        if self.keeps {
            self.player.lock().expect("no thread panicked").take(now, bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ListenerInput for Screen {
    fn check(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) {}
}

const MAX_DATAGRAM: usize = 1452;
const WIRE: WireId = WireId(0);
const SILENCE: Duration = Duration::from_secs(2);
