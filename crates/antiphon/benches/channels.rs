//! What a channel costs both ways: from the buffers of JACK's ports to packets, and from packets to such buffers, as the media thread of a call does it.
//!
//! One thread, in virtual time, without a server and without sockets: what is measured is this program's own work, on the processor's time of
//! this thread. The sound is 48 kHz in periods of 256, 16 bit on the wire; the receiver's sink has a clock of its own, so all of it is
//! resampled. The baseline is the least that any program does: the same sound is taken out of the ports, made 16 bit, copied, made
//! floating point again and put into ports. Prints one JSON object a line:
//! `{"bench":"channels","channels":64,"send_us_per_channel_s":…,"receive_us_per_channel_s":…,"baseline_us_per_channel_s":…,"core_percent":…}`;
//! `core_percent` is sending and receiving all channels at once.

use std::time::Duration;

use antiphon::core::uri::Query;
use antiphon::core::{Epoch, Input, Instant, Participant, PathId, Role, WireId, Wires, pump};
use antiphon::media::conceal::Concealment;
use antiphon::media::packet::PacketConfig;
use antiphon::media::{
    ChannelGroups, Pull, Ready, SampleFormat, Sink, SinkError, Source, StreamFormat, Wake, Wants,
};
use antiphon::net::thread_cpu_time;
use antiphon::proto::{StackArgs, find};
use antiphon::session::{
    Latency, OpenSink, PlayoutDelay, ReceiveTrack, ReceiveTrackConfig, Repetition, SendTrack,
    SendTrackConfig, Session, SessionConfig, StreamFraming,
};

const RATE: u32 = 48_000;
const PERIOD: usize = 256;
const WIRE: WireId = WireId(0);
const MAX_DATAGRAM: usize = 1452;
/// One way, so that both ends are never busy at one instant.
const DELAY: Duration = Duration::from_millis(1);
const SILENCE: Duration = Duration::from_secs(2);

fn main() {
    // `cargo test --benches` only checks that it runs.
    let seconds = if std::env::args().any(|arg| arg == "--bench") { 20 } else { 1 };
    // Caches and the processor's clock.
    measure(2, 1);
    for channels in [1, 2, 8, 64] {
        let Cost { send, receive } = measure(channels, seconds);
        let each = |time: Duration| time.as_secs_f64() * 1e6 / (f64::from(channels) * seconds as f64);
        let core = (send + receive).as_secs_f64() / seconds as f64 * 100.0;
        println!(
            "{{\"bench\":\"channels\",\"channels\":{channels},\"send_us_per_channel_s\":{:.0},\"receive_us_per_channel_s\":{:.0},\
             \"baseline_us_per_channel_s\":{:.0},\"core_percent\":{core:.2}}}",
            each(send),
            each(receive),
            each(baseline(channels, seconds)),
        );
    }
}

/// The processor's time of each end.
struct Cost {
    send: Duration,
    receive: Duration,
}

fn measure(channels: u32, seconds: u64) -> Cost {
    let format = StreamFormat::new(RATE, channels).expect("within bounds");
    let mut ends = [sender(format, seconds), receiver()];
    let mut spent = [Duration::ZERO; 2];
    let mut flights = [Flight::default(), Flight::default()];
    let end = Instant::ZERO + Duration::from_secs(seconds + 1);
    let mut now = Instant::ZERO;
    while now < end {
        for at in 0..2 {
            let before = thread_cpu_time();
            let [up, down] = &mut flights;
            let (out, arrives) = if at == 0 { (up, down) } else { (down, up) };
            while let Some(mut bytes) = arrives.next(now) {
                let input = Input::Datagram { path: PathId(0), bytes: &mut bytes, received_at: now };
                ends[at].handle_input(now, WIRE, input);
                arrives.free.push(bytes);
            }
            pump(&mut ends[at], now, &mut Out { flight: out });
            spent[at] += thread_cpu_time() - before;
        }
        let due = ends.iter().filter_map(Participant::poll_timeout);
        let next = due.chain(flights.iter().filter_map(Flight::due)).min().unwrap_or(end);
        // A participant whose time-out has come is asked again, as a driver does.
        now = next.max(now);
    }
    let played = ends[1].receive_track().and_then(ReceiveTrack::playout).expect("there was a stream");
    assert_eq!((played.lost, played.late), (0, 0), "all of it was played");
    assert!(played.played_frames >= (seconds - 1) * u64::from(RATE) + u64::from(RATE) / 2, "{played:?}");
    Cost { send: spent[0], receive: spent[1] }
}

/// Datagrams under way, in order, and buffers to be used again.
#[derive(Default)]
struct Flight {
    queue: std::collections::VecDeque<(Instant, Vec<u8>)>,
    free: Vec<Vec<u8>>,
}

impl Flight {
    fn due(&self) -> Option<Instant> {
        self.queue.front().map(|(at, _)| *at)
    }

    fn next(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.due().filter(|at| *at <= now).and_then(|_| self.queue.pop_front()).map(|(_, bytes)| bytes)
    }
}

struct Out<'a> {
    flight: &'a mut Flight,
}

impl Wires for Out<'_> {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        loop {
            // Until as many buffers exist as are under way, a new one: only before the measured time.
            let mut bytes = self.flight.free.pop().unwrap_or_else(|| Vec::with_capacity(MAX_DATAGRAM));
            bytes.resize(MAX_DATAGRAM, 0);
            let Some(transmit) = participant.poll_transmit(now, wire, &mut bytes) else {
                return self.flight.free.push(bytes);
            };
            bytes.truncate(transmit.len);
            self.flight.queue.push_back((now + DELAY, bytes));
        }
    }

    fn close(&mut self, _: Instant, _: WireId) {}
}

fn stack() -> std::rc::Rc<dyn antiphon::core::Stack> {
    let query = Query::default();
    let args = StackArgs::new(&query, 1, MAX_DATAGRAM, Duration::from_millis(80));
    (find("rtp").expect("a transport").stack)(&args).expect("good settings")
}

fn session(name: &str, seed: u64) -> Session {
    let config = SessionConfig {
        cname: name.into(),
        epoch: Epoch::default(),
        seed,
        playout_delay: PlayoutDelay::Unbounded,
        tells: None,
        reflected: None,
        ends_with_stream: false,
        framing: StreamFraming::Rtp,
        two_way: false,
    };
    Session::new(config, Instant::ZERO)
}

fn sender(format: StreamFormat, seconds: u64) -> Session {
    let mut packet = PacketConfig::new(format, SampleFormat::L16, PERIOD as u32);
    packet.max_packet = MAX_DATAGRAM;
    let config = SendTrackConfig {
        packet,
        groups: ChannelGroups::whole(format.channels()),
        protect: Repetition::default(),
        epoch: Epoch::default(),
        seed: 1,
        woken: false,
        keeps: 0,
    };
    let source = Box::new(Ports::new(format, seconds * u64::from(RATE)));
    let mut session = session("sender", 1);
    session.set_send_track(SendTrack::new(source, config).expect("a plain stream"));
    session.call(Instant::ZERO, WIRE, &[PathId(0)], &*stack());
    session
}

fn receiver() -> Session {
    let config = ReceiveTrackConfig {
        latency: Some(Latency::Of(Duration::from_millis(20))),
        conceal: Concealment::default(),
        completed_later: false,
        description: None,
        any_payload_type: false,
        silence: SILENCE,
        ordered: stack().open(Instant::ZERO, Role::Listener).profile().ordered,
        reliable: false,
        long_gaps: antiphon::session::LongGaps::default(),
    };
    let open_sink: OpenSink = Box::new(|format, _| Ok(Box::new(Ports::new(format, 0))));
    let mut session = session("receiver", 2);
    session.set_receive_track(ReceiveTrack::new(config, open_sink, None));
    session.listen(Instant::ZERO, WIRE, stack(), SILENCE);
    session
}

/// The buffers of a period, one for each port, as JACK has them.
struct Ports {
    format: StreamFormat,
    buffers: Vec<[f32; PERIOD]>,
    /// Where in the period the next sample frame is.
    at: usize,
    left: u64,
}

impl Ports {
    fn new(format: StreamFormat, frames: u64) -> Self {
        // Not silence: some processors take longer for numbers near 0, and nothing is to be skipped.
        let buffer =
            |channel: usize| std::array::from_fn(|n| ((n * 37 + channel * 101) % 997) as f32 / 997.0 - 0.5);
        Ports { format, buffers: (0..format.channels()).map(buffer).collect(), at: 0, left: frames }
    }

    /// Takes a period out of the ports, channel beside channel.
    fn take(&mut self, block: &mut [f32]) {
        let channels = self.buffers.len();
        for (n, frame) in block.chunks_exact_mut(channels).enumerate() {
            let place = (self.at + n) % PERIOD;
            for (sample, buffer) in frame.iter_mut().zip(&self.buffers) {
                *sample = buffer[place];
            }
        }
        self.at = (self.at + block.len() / channels) % PERIOD;
    }

    fn put(&mut self, block: &[f32]) {
        let channels = self.buffers.len();
        for (n, frame) in block.chunks_exact(channels).enumerate() {
            let place = (self.at + n) % PERIOD;
            for (sample, buffer) in frame.iter().zip(&mut self.buffers) {
                buffer[place] = *sample;
            }
        }
        self.at = (self.at + block.len() / channels) % PERIOD;
    }
}

impl Source for Ports {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::F32
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        if self.left == 0 {
            return Pull::End;
        }
        let frames = (block.len() / self.buffers.len()).min(self.left as usize);
        self.take(&mut block[..frames * self.format.channels()]);
        self.left -= frames as u64;
        Pull::Frames(frames)
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_live(&self) -> bool {
        false
    }

    fn ready(&self) -> Ready {
        Ready::ALWAYS
    }

    fn keep_newest(&mut self, _: usize) -> u64 {
        0
    }

    fn set_waker(&mut self, _: Wake) {}
}

impl Sink for Ports {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        self.put(block);
        Ok(())
    }

    fn clocked(&self) -> bool {
        true
    }

    fn wants(&self) -> Option<Wants> {
        None
    }

    fn period(&self) -> Option<usize> {
        Some(PERIOD)
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn silence(&mut self, _: u64) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Out of the ports, to 16 bit in network order, copied, back, and into the ports.
fn baseline(channels: u32, seconds: u64) -> Duration {
    let format = StreamFormat::new(RATE, channels).expect("within bounds");
    let (mut from, mut to) = (Ports::new(format, 0), Ports::new(format, 0));
    let samples = PERIOD * format.channels();
    let (mut block, mut bytes, mut copied) = (vec![0.0; samples], vec![0; 2 * samples], vec![0; 2 * samples]);
    let before = thread_cpu_time();
    for _ in 0..seconds * u64::from(RATE) / PERIOD as u64 {
        from.take(&mut block);
        for (sample, place) in block.iter().zip(bytes.chunks_exact_mut(2)) {
            let rounded = (sample * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i16;
            place.copy_from_slice(&rounded.to_be_bytes());
        }
        copied.copy_from_slice(std::hint::black_box(&bytes));
        for (sample, place) in block.iter_mut().zip(copied.chunks_exact(2)) {
            *sample = f32::from(i16::from_be_bytes([place[0], place[1]])) / 32_768.0;
        }
        to.put(std::hint::black_box(&block));
    }
    std::hint::black_box(&to.buffers);
    thread_cpu_time() - before
}
