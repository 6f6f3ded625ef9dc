//! A playout delay that adapts, over links like Wi-Fi and over routes that change.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_core::uri::Query;
use antiphon_media::StreamFormat;
use antiphon_media::playout::PlayoutCounters;
use antiphon_proto::{StackArgs, find};
use antiphon_session::{
    AdaptedFigures, AdaptiveDelay, Arrived, Latency, PlayoutDelay, ReceiveTrack, ReceiveTrackConfig, Seen,
    Session, SessionConfig,
};
use antiphon_testkit::{Kept, Noise};

use crate::common::{receive_config, sending, session_config};
use crate::world::{MAX_DATAGRAM, SILENCE, WIRE, World, heard, stack, track_config};

/// What a run showed.
#[derive(Debug)]
struct Ran {
    counters: PlayoutCounters,
    figures: AdaptedFigures,
    /// Delays beyond the undelayed packet of those that came as they were first sent, in milliseconds, sorted.
    jitter: Vec<f64>,
    /// Share of packets of which the link lost the first copy.
    lost: f64,
    /// When each gap began to be heard, in seconds.
    gaps: Vec<f64>,
    minutes: f64,
}

impl Ran {
    /// The jitter that one packet in 100 exceeds.
    fn p99(&self) -> f64 {
        self.jitter[self.jitter.len() * 99 / 100]
    }

    fn mean_ms(&self) -> f64 {
        self.figures.mean.as_secs_f64() * 1e3
    }

    fn defects_a_minute(&self) -> f64 {
        self.counters.concealments as f64 / self.minutes
    }
}

/// Like music: a melody of plucked notes over a bass, with their partials, three notes a second and a rest now and then.
fn melody(frame: u64, _channel: usize) -> f32 {
    const NOTES: [f64; 11] = [196.0, 246.9, 293.7, 392.0, 0.0, 329.6, 293.7, 246.9, 220.0, 261.6, 0.0];
    const BASS: [f64; 3] = [98.0, 110.0, 73.4];
    let t = frame as f64 / 48_000.0;
    let (note, since) = ((t * 3.0) as usize, t % (1.0 / 3.0));
    let partials = |f: f64| {
        (1..=4).map(|k| (std::f64::consts::TAU * f * f64::from(k) * t).sin() / f64::from(k)).sum::<f64>()
    };
    // Attack in 3 ms, and then dying away.
    let strength = (since / 0.003).min(1.0) * (-4.0 * since).exp();
    let bass = if note % 11 < 10 { partials(BASS[note / 4 % 3]) } else { 0.0 };
    ((partials(NOTES[note % 11]) * strength + bass * 0.3) * 0.25) as f32
}

/// A receiver whose playout delay adapts, or is `fixed`.
fn receiver(name: &str, fixed: Option<Duration>, kept: &Kept) -> Session {
    let adapts = AdaptiveDelay::default();
    let (scheme, query) = name.split_once('?').unwrap_or((name, ""));
    let query: Query = query.parse().expect("a query");
    // What a transport repairs is of use as long as the delay may become.
    let most = fixed.unwrap_or(adapts.max);
    let args = StackArgs::new(&query, 1, MAX_DATAGRAM, most);
    let stack = (find(scheme).expect("a transport").stack)(&args).expect("good settings");
    let ordered = stack.open(Instant::ZERO, antiphon_core::Role::Listener).profile().ordered;
    let latency = fixed.map_or(Latency::Auto(adapts), Latency::Of);
    let track = ReceiveTrackConfig { latency: Some(latency), ..receive_config(fixed, ordered) };
    let tells = Some(PlayoutDelay::Of(most));
    let config = SessionConfig { tells, ends_with_stream: true, ..session_config("far", 99) };
    let mut session = Session::new(config, Instant::ZERO);
    session.set_receive_track(ReceiveTrack::new(track, kept.opener(), None));
    session.listen(Instant::ZERO, WIRE, stack, SILENCE);
    session
}

/// Mono sound for so long over a link, which changes at the given times.
fn run(
    name: &str,
    fixed: Option<Duration>,
    link: &str,
    changes: &[(u64, &str)],
    time: Duration,
    seed: u64,
) -> Ran {
    let mono = StreamFormat::new(48_000, 1).unwrap();
    let source = Noise::like(mono, time.as_secs() * 48_000, melody);
    let near = sending(&*stack(name), source, track_config(mono, 5), PlayoutDelay::Unbounded);
    let kept = Kept::default();
    let mut far = receiver(name, fixed, &kept);
    let came: Rc<RefCell<Vec<(u32, u64)>>> = Rc::default();
    let noted = came.clone();
    far.observe(Box::new(move |_: Instant, seen: &Seen| {
        if let Seen::Arrived(Arrived { timestamp, at, repaired: false, duplicate: false, .. }) = *seen {
            noted.borrow_mut().push((timestamp, at.as_nanos()));
        }
    }));
    let mut world = World::linked(near, far, link, seed);
    let (mut gaps, mut before) = (Vec::new(), 0);
    let mut changes = changes.iter().peekable();
    let end = Instant::ZERO + time + Duration::from_secs(5);
    let mut counters = PlayoutCounters::default();
    let mut figures = AdaptedFigures::default();
    while world.now < end {
        if let Some((_, link)) = changes.next_if(|(at, _)| world.now >= Instant::from_millis(at * 1000)) {
            world.relink(&[link], seed + world.now.as_nanos());
        }
        let next = world.now + Duration::from_millis(20);
        world.run_until(next);
        if let Some(now) = heard(&world.far).playout() {
            counters = now;
            // A fixed delay has none, and is not asked for them.
            figures = heard(&world.far).adapted().unwrap_or(figures);
            (before..now.concealments).for_each(|_| gaps.push(world.now.as_nanos() as f64 / 1e9));
            before = now.concealments;
        }
    }
    let came = came.borrow();
    let sent = world.near.send_track().expect("it sends").counters().messages;
    let first = came[0].0;
    let transit =
        |(timestamp, at): &(u32, u64)| *at as f64 / 1e6 - f64::from(timestamp.wrapping_sub(first)) / 48.0;
    let least = came.iter().map(transit).fold(f64::MAX, f64::min);
    let mut jitter: Vec<f64> = came.iter().map(|packet| transit(packet) - least).collect();
    jitter.sort_by(f64::total_cmp);
    Ran {
        counters,
        figures,
        jitter,
        lost: 1.0 - came.len() as f64 / sent as f64,
        gaps,
        minutes: time.as_secs_f64() / 60.0,
    }
}

/// Wi-Fi: delays of which one in 100 is over 15 ms, and 1 % lost in bursts. The longer these last, the later repairs are.
const WIFI: &str = "delay=2ms,jitter=3.1ms/exponential,loss=1%/5ms";
const LONGER_BURSTS: &str = "delay=2ms,jitter=3.1ms/exponential,loss=1%/10ms";

fn is_like_wifi(ran: &Ran) {
    assert!((14.0..16.5).contains(&ran.p99()), "p99 {}", ran.p99());
    assert!((0.008..0.012).contains(&ran.lost), "lost {}", ran.lost);
}

/// The criterion of `--latency auto`: at most one gap a minute, with 30 ms of playout delay on the average, start included.
#[test]
fn over_srp_on_wifi_a_gap_a_minute_at_most_with_30_ms() {
    let time = Duration::from_secs(300);
    for seed in 1..=3 {
        let ran = run("srp", None, WIFI, &[], time, seed);
        is_like_wifi(&ran);
        println!(
            "{seed}: {:.2} gaps a minute, mean {:.1} ms, {:?}",
            ran.defects_a_minute(),
            ran.mean_ms(),
            ran.figures
        );
        let (gaps, mean) = (ran.defects_a_minute(), ran.mean_ms());
        assert!(gaps <= 1.0 && mean <= 30.0, "{seed}: {gaps} gaps a minute, {mean} ms");
        // Nearly all changes are at places where the sound is alike.
        assert!(ran.figures.rough * 5 <= ran.figures.waits, "{:?}", ran.figures);
    }
    // What a fixed delay needs: with 30 ms it has gaps all the time.
    let fixed = run("srp", Some(Duration::from_millis(30)), WIFI, &[], time, 1);
    println!("fixed 30 ms: {:.2} gaps a minute", fixed.defects_a_minute());
    assert!(fixed.defects_a_minute() > 3.0, "{}", fixed.defects_a_minute());
}

/// Bursts of 10 ms in the mean, most of whose packets are requested before the burst is over: over hours it is 30 ms, and 0.8 gaps a minute (`docs/playout-delay.md`).
#[test]
fn longer_bursts_are_requested_before_they_are_over() {
    for seed in 1..=2 {
        let ran = run("srp", None, LONGER_BURSTS, &[], Duration::from_secs(1800), seed);
        is_like_wifi(&ran);
        let (gaps, mean) = (ran.defects_a_minute(), ran.mean_ms());
        println!("{seed}: {gaps:.2} gaps a minute, mean {mean:.1} ms, {:?}", ran.figures);
        assert!(gaps <= 1.0 && mean <= 30.5, "{seed}: {gaps} gaps a minute, {mean} ms");
    }
}

/// Twenty minutes over routes that are longer, shorter and worse for a while: every gap has a reason, which is what changed at that
/// time.
#[test]
fn new_routes_and_spikes_explain_every_gap() {
    const GOOD: &str = "delay=8ms,jitter=1ms/exponential";
    let changes = [
        (120, "delay=45ms,jitter=1ms/exponential"),
        (300, GOOD),
        (420, "delay=8ms,jitter=12ms/exponential"),
        (540, GOOD),
        (660, "delay=8ms,jitter=1ms/exponential,stall=60ms/4s"),
        (780, GOOD),
        (900, "delay=20ms,jitter=4ms/exponential"),
        (1020, GOOD),
    ];
    for transport in ["rtp", "srp"] {
        let ran = run(transport, None, GOOD, &changes, Duration::from_secs(1200), 7);
        println!(
            "{transport}: {:?} mean {:.1} ms {:?} {:?}",
            ran.gaps,
            ran.mean_ms(),
            ran.figures,
            ran.counters
        );
        // A change of link loses what is on its way.
        let at_change = |gap: &&f64| changes.iter().any(|(at, _)| (0.0..2.0).contains(&(**gap - *at as f64)));
        // One packet in 600 is 40 ms later than the delay that one in 200 exceeds: more than sound is stretched for.
        let spikes = ran.gaps.iter().filter(|gap| (422.0..540.0).contains(*gap) && !at_change(gap)).count();
        // Stalls of 60 ms, one in four seconds: until the delay has risen, and where the last one was long ago.
        let stalls = ran.gaps.iter().filter(|gap| (662.0..780.0).contains(*gap) && !at_change(gap)).count();
        let all = ran.gaps.iter().filter(|gap| !at_change(gap)).count();
        assert_eq!(all, spikes + stalls, "{transport}: gaps without a reason in {:?}", ran.gaps);
        assert!(spikes <= 6 && stalls <= 12, "{transport}: {spikes} {stalls}");
        assert!(
            ran.gaps.len() < 60 && ran.mean_ms() < 45.0,
            "{transport}: {} gaps, {}",
            ran.gaps.len(),
            ran.mean_ms()
        );
    }
}
