//! A sender and those who listen to it, each with a clock of its own, in virtual time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_core::{Epoch, Input, Instant, Participant, PathId, Secret, WireId};
use antiphon_link::{Direction, Duplex, DuplexSpec};
use antiphon_media::{NullSink, Sink, SinkError, StreamFormat, pushed_through};
use antiphon_session::{
    Latency, PlayoutDelay, ReceiveTrack, ReceiveTrackConfig, SendTrack, Serve, Session, SessionConfig,
};
use antiphon_testkit::{Noise, Sent, Skew};

use crate::common::{SILENCE, WIRE, opus_config, receive_config, session_config, stack_of, track_config};
use crate::world::ms;

/// Silence after which a receiver is gone.
pub const IDLE: Duration = Duration::from_secs(4);

/// When which sample frame was handed to a sink, in the world's time: the first of each push.
pub type Played = Arc<Mutex<Vec<(u64, Instant)>>>;

pub struct Listener {
    pub session: Session,
    pub clock: Skew,
    pub link: Duplex<Vec<u8>>,
    pub played: Played,
    /// Which programme was handed to the sink, and when: 1 or 2, by the sign of its samples; 0 for silence.
    pub programmes: Arc<Mutex<Vec<(u8, Instant)>>>,
    pub joined: Instant,
    /// Its machine is off.
    pub dead: bool,
}

pub struct Hall {
    pub sender: Session,
    pub listeners: Vec<Listener>,
    pub now: Instant,
    name: &'static str,
    /// Of the next receiver that joins.
    pub link: &'static str,
    /// The programme that it wishes to hear; `Some("")`: it asks for the list alone.
    pub wish: Option<&'static str>,
    /// The playout delay of those that join where the sender wishes none.
    pub latency: Latency,
    shown: Arc<AtomicU64>,
    began: Instant,
    /// The time stamp of the first packet of sound, and when it left.
    pub first_packet: Option<(u32, Instant)>,
    /// All are members of a multicast group.
    group: bool,
}

/// Mono: each sample tells its place, to 32 768 sample frames.
pub fn format() -> StreamFormat {
    StreamFormat::new(48_000, 1).expect("an ordinary format")
}

const TURN: u64 = 32_768;

impl Hall {
    /// A sender of so many sample frames to at most `most` receivers, in step `delay` after capture if there is one.
    pub fn new(
        name: &'static str,
        link: &'static str,
        frames: u64,
        most: usize,
        delay: Option<Duration>,
    ) -> Self {
        let (mut sender, began) = sender(frames, delay);
        sender.serve(
            began,
            WIRE,
            stack_of(name, 1),
            Serve { most, idle: IDLE, secret: Secret::for_laboratory(3) },
        );
        Hall {
            sender,
            listeners: Vec::new(),
            now: began,
            name,
            link,
            wish: None,
            latency: Latency::Of(ms(80)),
            shown: Arc::default(),
            began,
            first_packet: None,
            group: false,
        }
    }

    /// The same with a second programme, `Film`, beside the first, `News`, whose sound is the same with the other sign.
    pub fn with_programmes(
        name: &'static str,
        link: &'static str,
        frames: [u64; 2],
        delay: Option<Duration>,
    ) -> Self {
        let mut hall = Hall::new(name, link, frames[0], 5, delay);
        let second =
            Noise::like(format(), frames[1], |frame, _| -((frame % TURN) as f32 + 1.0) / TURN as f32);
        let second = SendTrack::new(second, track_config(format(), 2)).expect("a track");
        hall.sender.set_programmes("News", vec![("Film".into(), second)]).expect("two names");
        hall
    }

    /// The same to a multicast group over bare RTP.
    pub fn group(link: &'static str, frames: u64, delay: Duration) -> Self {
        let (sender, began) = sender(frames, Some(delay));
        Hall::of_group(link, sender, began)
    }

    /// The same, not in step, of sound in Opus of 16 kbit/s in packets of 60 ms, as for a slow path.
    pub fn thin_group(link: &'static str, frames: u64) -> Self {
        let (mut sender, began) = sender(frames, None);
        let mut track = opus_config(format(), 2_880, 1);
        track.packet.bit_rate = Some(16_000);
        sender.set_send_track(SendTrack::new(Noise::new(format(), frames), track).expect("a track"));
        Hall::of_group(link, sender, began)
    }

    fn of_group(link: &'static str, mut sender: Session, began: Instant) -> Self {
        sender.set_group();
        sender.call(began, WIRE, &[PathId(0)], &*stack_of("rtp", 1));
        let shown = Arc::default();
        Hall {
            sender,
            listeners: Vec::new(),
            now: began,
            name: "rtp",
            link,
            wish: None,
            latency: Latency::Of(ms(80)),
            shown,
            began,
            first_packet: None,
            group: true,
        }
    }

    /// A receiver calls; returns its number.
    pub fn join(&mut self, ppm: f64, ahead: Duration) -> usize {
        let (clock, number) = (Skew { ppm, ahead }, self.listeners.len());
        let local = clock.local(self.now);
        let played = Played::default();
        let stack = stack_of(self.name, 100 + number as u64);
        let profile = stack.open(local, antiphon_core::Role::Caller).profile();
        let config = SessionConfig {
            tells: Some(PlayoutDelay::Of(ms(80))),
            epoch: Epoch::default(),
            ..session_config(&format!("receiver {number}"), 1000 + number as u64)
        };
        let mut session = Session::new(config, local);
        // The stream begins with the first receiver; to a group at once.
        let first = self.listeners.first().map_or(self.now, |one| one.joined);
        let first = if self.group { self.began } else { first };
        let programmes = Arc::<Mutex<Vec<(u8, Instant)>>>::default();
        let (kept, which, shown) = (played.clone(), programmes.clone(), self.shown.clone());
        let open = Box::new(move |format: StreamFormat, _| {
            let (kept, which, shown) = (kept.clone(), which.clone(), shown.clone());
            let note = move |sink: &mut dyn Sink, block: &[f32]| -> Result<(), SinkError> {
                let place = (block[0] * TURN as f32).round() as u64;
                let now = Instant::from_nanos(shown.load(Ordering::Relaxed));
                let near = now.since(first).as_secs_f64() * 48_000.0;
                let turns = ((near - place as f64) / TURN as f64).round().max(0.0);
                let programme = if block[0] < 0.0 { 2 } else { u8::from(block[0] > 0.0) };
                which.lock().unwrap().push((programme, now));
                kept.lock().unwrap().push((place + TURN * turns as u64, now));
                sink.push(block)
            };
            Ok(pushed_through(Box::new(NullSink::new(format)) as Box<dyn Sink>, note))
        });
        session.set_receive_track(ReceiveTrack::new(
            ReceiveTrackConfig {
                latency: Some(self.latency),
                ..receive_config(Some(ms(80)), profile.ordered)
            },
            open,
            None,
        ));
        session.follow_step();
        match self.wish {
            Some("") => session.ask_for_programmes(local),
            Some(wish) => session.choose_programme(local, wish),
            None => {}
        }
        match self.group {
            true => session.listen(local, WIRE, stack, SILENCE),
            false => {
                session.call(local, WIRE, &[PathId(0)], &*stack);
            }
        }
        let spec: DuplexSpec = self.link.parse().expect("a link");
        let link = Duplex::new(&spec, 50 + number as u64).expect("a link");
        let joined = self.now;
        self.listeners.push(Listener { session, clock, link, played, programmes, joined, dead: false });
        number
    }

    /// Runs until `end`.
    pub fn run_until(&mut self, end: Instant) {
        let (mut still, mut rounds) = (self.now, 0);
        loop {
            self.pump();
            rounds = if std::mem::replace(&mut still, self.now) == self.now { rounds + 1 } else { 0 };
            assert!(rounds < 1_000, "time stands still at {:?}: {:?}", self.now, self.dues());
            let due = self.next().unwrap_or(end).max(self.now);
            if due >= end {
                self.now = end;
                return self.pump();
            }
            self.now = due;
        }
    }

    fn dues(&self) -> Vec<Option<Instant>> {
        let listeners = self.listeners.iter().flat_map(|one| {
            [one.session.poll_timeout().map(|local| one.clock.world(local)), one.link.poll_timeout()]
        });
        listeners.chain([self.sender.poll_timeout()]).collect()
    }

    fn next(&self) -> Option<Instant> {
        let listeners = self.listeners.iter().filter(|one| !one.dead).flat_map(|one| {
            let due = one.session.poll_timeout().map(|local| one.clock.world(local));
            [due, one.link.poll_timeout()]
        });
        listeners.chain([self.sender.poll_timeout()]).flatten().min()
    }

    /// Does everything that is due now.
    pub fn pump(&mut self) {
        let now = self.now;
        self.shown.store(now.as_nanos(), Ordering::Relaxed);
        loop {
            let mut moved = false;
            for (number, one) in self.listeners.iter_mut().enumerate().filter(|(_, one)| !one.dead) {
                let local = one.clock.local(now);
                while let Some((direction, mut bytes)) = one.link.poll(now) {
                    moved = true;
                    let input = |path, received_at, bytes| Input::Datagram { path, bytes, received_at };
                    match direction {
                        Direction::Up => {
                            // The group's own path is 0.
                            let path = PathId(number as u32 + u32::from(self.group));
                            self.sender.handle_input(now, WIRE, input(path, now, &mut bytes));
                        }
                        Direction::Down => {
                            one.session.handle_input(local, WIRE, input(PathId(0), local, &mut bytes))
                        }
                    }
                }
                for (_, _, bytes) in Sent::of(&mut one.session, local).datagrams {
                    moved = true;
                    let _full = one.link.offer(now, Direction::Up, bytes);
                }
            }
            for (wire, path, bytes) in Sent::of(&mut self.sender, now).datagrams {
                moved = true;
                assert_eq!(wire, WireId(0));
                if let [0x80..=0xbf, kind, _, _, a, b, c, d, ..] = bytes[..]
                    && !(192..=223).contains(&kind)
                {
                    self.first_packet.get_or_insert((u32::from_be_bytes([a, b, c, d]), now));
                }
                if self.group {
                    assert_eq!(path, PathId(0));
                    for one in &mut self.listeners {
                        let _full = one.link.offer(now, Direction::Down, bytes.clone());
                    }
                } else if let Some(one) = self.listeners.get_mut(path.0 as usize).filter(|one| !one.dead) {
                    let _full = one.link.offer(now, Direction::Down, bytes);
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// From the sender's beginning to `now`.
    pub fn at(&self, millis: u64) -> Instant {
        self.began + ms(millis)
    }
}

/// A sender before anybody is there.
fn sender(frames: u64, delay: Option<Duration>) -> (Session, Instant) {
    let began = Instant::from_millis(100);
    let config = SessionConfig { playout_delay: PlayoutDelay::Of(ms(80)), ..session_config("sender", 1) };
    let mut sender = Session::new(config, began);
    let source = Noise::like(format(), frames, |frame, _| (frame % TURN) as f32 / TURN as f32);
    sender.set_send_track(SendTrack::new(source, track_config(format(), 1)).expect("a track"));
    if let Some(delay) = delay {
        sender.set_in_step(began, delay);
    }
    (sender, began)
}

impl Listener {
    /// When it played a sample frame, in seconds, from the push that held it.
    pub fn played_at(&self, frame: u64) -> Option<f64> {
        let played = self.played.lock().unwrap();
        let at = played.partition_point(|(first, _)| *first <= frame).checked_sub(1)?;
        let (first, when) = played[at];
        (frame - first < 4096).then(|| when.as_nanos() as f64 / 1e9 + (frame - first) as f64 / 48_000.0)
    }
}
