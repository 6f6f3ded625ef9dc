//! Congestion control by delay: Copa (V. Arun and H. Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the
//! Internet", NSDI 2018), with bytes for packets.
//!
//! The rate aims at 1/(δ·d) packets a second, d being how long packets wait in the queue. Alone, with δ = 0.5, the queue holds two
//! packets on average, and is empty once in five round trips. Where it is not, another sender may fill it that minds losses alone.
//!
//! What departs from the paper:
//!
//! * Reports come late and together, so that a queue of our own is not always empty in five round trips. Before another sender is
//!   supposed, and now and then while one is, next to nothing is sent until our part of the queue is gone.
//! * Beside another sender the window is that of CUBIC (RFC 9438), which nearly all TCPs have, and not one by 1/δ, which gets
//!   a quarter of theirs on a long path.
//! * A TCP whose window is less than the path holds leaves the queue empty, too, while next to nothing is sent beside it. So another sender that
//!   was there a moment ago is supposed again if a queue stands as soon as we go on.
//! * Losses without a queue bound the rate to 1.75 times that of a TCP with the same losses. The paper does not mind them;
//!   where the queue is short, the other senders would starve.

mod losses;

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_core::cc::{CUBIC_BETA, Controller, Cubic, Window};
use losses::Losses;

/// The window of one path.
#[derive(Clone, Debug)]
pub(super) struct Copa {
    /// What may be on its way, in bytes.
    window: f64,
    is_starting: bool,
    /// By how many times 1/δ packets the window moves in a round trip.
    velocity: f64,
    /// Whether the window grew in the last round, and for how many rounds it has moved that way.
    direction: (bool, u32),
    round: Round,
    mode: Mode,
    /// The most that packets waited in each of the last rounds, the newest first.
    longest: [Duration; ROUNDS],
    /// Bytes a second that arrived in each of the last spans of time, what arrives in the present one, and when it began.
    arrived: [f64; ARRIVALS],
    arriving: f64,
    span_began: Instant,
    /// Beside another sender: the window in packets.
    cubic: Option<Cubic>,
    /// The one of before, and until when it is of use: a TCP that has just halved its window leaves the queue empty, too.
    before: Option<(Cubic, Instant)>,
    /// When the queue was last found empty after next to nothing had been sent.
    drained: Option<Instant>,
    /// How many times more another sender may be supposed again before one is found.
    credit: u32,
    /// Alone: the window when the queue was first emptied on purpose, and when that was. Beside another sender that is not yet known, the window
    /// goes down by delay until it is.
    first_drained: Option<(f64, Instant)>,
    losses: Losses,
    /// Never changes to competing mode: the other senders of the path also control their rate by delay.
    yields: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Instant,
    window: f64,
    has_lost: bool,
    longest: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    /// The queue is ours; it was last empty then.
    Alone(Instant),
    /// Next to nothing is sent until this time. How long packets waited before, and the least since then.
    Draining(Instant, Duration, Duration),
    /// Another sender fills it, as was seen then.
    Competing(Instant),
}

/// What a report tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// Bytes that have arrived.
    pub arrived: f64,
    /// Packets that have arrived, and those that were lost.
    pub packets: (u32, u32),
    /// Bytes of a usual packet.
    pub packet: f64,
    /// How long packets wait at least, and how long they are meant to.
    pub standing: Duration,
    pub meant: Duration,
    /// How long these waited at most.
    pub longest: Duration,
    /// From sending to the report, on average.
    pub answer: Duration,
    /// Bytes that were on their way before it.
    pub in_flight: f64,
    /// Bytes a second of the sound, which is never held.
    pub sound: f64,
    /// Whether the path may be slow: no two packets have arrived close together yet.
    pub is_slow: bool,
}

impl Copa {
    /// `takes`: bytes that are known to find a place on the path.
    pub fn new(packet: f64, takes: f64) -> Self {
        Copa {
            window: takes.min(MOST_INITIAL).max(INITIAL * packet),
            is_starting: true,
            velocity: 1.0,
            direction: (true, 0),
            round: Round::default(),
            mode: Mode::Alone(Instant::ZERO),
            longest: [Duration::ZERO; ROUNDS],
            arrived: [0.0; ARRIVALS],
            arriving: 0.0,
            span_began: Instant::ZERO,
            cubic: None,
            before: None,
            drained: None,
            credit: 0,
            first_drained: None,
            losses: Losses::default(),
            yields: false,
        }
    }

    /// The same that takes no other sender for one that minds losses alone. `sound`: bytes of the sound that are on their way; it was there before.
    pub fn yielding(packet: f64, takes: f64, sound: f64) -> Self {
        let window = sound + INITIAL * packet.max(USUAL_PACKET);
        let copa = Copa::new(packet, takes);
        Copa { yields: true, window: window.max(copa.window), ..copa }
    }

    /// Bytes that may be on their way.
    pub fn window(&self, packet: f64) -> f64 {
        match self.mode {
            Mode::Draining(..) => self.window.min(packet),
            _ => self.window,
        }
    }

    /// The same, whether or not the queue is being emptied.
    pub fn estimate(&self) -> f64 {
        self.window
    }

    /// Whether another sender fills the queue.
    pub fn competes(&self) -> bool {
        matches!(self.mode, Mode::Competing(_))
    }

    pub fn on_report(&mut self, now: Instant, told: &Told) {
        self.note_arrived(now, told);
        self.round.longest = self.round.longest.max(told.longest);
        self.look_for_others(now, told);
        if let Mode::Draining(..) = self.mode {
            return;
        }
        let is_event = told.packets.1 > 0 && !self.round.has_lost;
        self.round.has_lost |= is_event;
        self.losses.note(told.packets.0 + told.packets.1, is_event);
        // The paper's packets are as long as an Ethernet carries, and short beside a round trip. Where one takes long, less than one waits, as
        // the sound waits behind it.
        let rate = self.window / told.answer.as_secs_f64().max(1e-3);
        let packet = told.packet.max(USUAL_PACKET).min(rate * LONGEST_PACKET.as_secs_f64());
        match &mut self.cubic {
            Some(cubic) => {
                if is_event {
                    cubic.on_congestion_event();
                    let threshold = cubic.window().ssthresh;
                    cubic.window_mut().cwnd = threshold;
                } else if 2.0 * told.in_flight >= self.window {
                    cubic.on_ack(now, told.arrived / told.packet, told.answer);
                }
                self.window = cubic.window().cwnd * told.packet;
            }
            None => self.follow_delay(rate, packet, told),
        }
        self.window = self.window.min(self.losses.bound(told)).max(LEAST * packet);
        if now.since(self.round.began) >= told.answer {
            self.end_round(now);
        }
    }

    /// Copa's own rule.
    fn follow_delay(&mut self, rate: f64, packet: f64, told: &Told) {
        let aim = packet * PACKETS / told.standing.as_secs_f64().max(1e-6);
        let grows = rate <= aim;
        if self.is_starting && (!grows || told.is_slow && told.longest > LONGEST_AT_START) {
            // On a slow path a queue can be long although it is empty now and then. On any other path packets also wait for a radio.
            if !grows {
                // It was doubled in the last round trip.
                self.window /= 2.0;
            }
            self.is_starting = false;
            (self.velocity, self.direction) = (1.0, (false, 0));
        }
        if grows != self.direction.0 && self.velocity > 1.0 {
            (self.velocity, self.direction) = (1.0, (grows, 0));
        }
        let step = match self.is_starting {
            true => told.arrived,
            // Half of the window in a round trip at most.
            false => {
                let moved = self.velocity * PACKETS * packet * told.arrived / self.window;
                moved.min(told.arrived / 2.0)
            }
        };
        if !grows {
            self.window -= step;
        } else if 2.0 * told.in_flight >= self.window && self.window < self.proved(told) {
            self.window += step;
        }
    }

    /// The path takes so many bytes in the time of an answer, as something else tells.
    pub fn set_window(&mut self, window: f64, told: &Told) {
        if let Mode::Alone(_) = self.mode {
            self.window = window.min(self.losses.bound(told)).max(LEAST * told.packet);
        }
    }

    /// Whether the queue is ours, and is not being emptied.
    pub fn is_alone(&self) -> bool {
        matches!(self.mode, Mode::Alone(_))
    }

    /// Whether the queue is being emptied: the window tells nothing of the path meanwhile.
    pub fn is_draining(&self) -> bool {
        matches!(self.mode, Mode::Draining(..))
    }

    /// Nothing was heard for long: the path begins anew.
    pub fn on_silence(&mut self, packet: f64) {
        *self = Copa { window: LEAST * packet, yields: self.yields, ..Copa::new(packet, 0.0) };
    }

    /// Reports come in steps: a short span would count one report more or less.
    fn note_arrived(&mut self, now: Instant, told: &Told) {
        self.arriving += told.arrived;
        let time = now.since(self.span_began);
        if time >= told.answer.max(ARRIVAL) {
            self.arrived.copy_within(..ARRIVALS - 1, 1);
            self.arrived[0] = std::mem::take(&mut self.arriving) / time.as_secs_f64();
            self.span_began = now;
        }
    }

    /// What the path has lately shown to take, and some more.
    fn proved(&self, told: &Told) -> f64 {
        match self.is_starting {
            true => f64::INFINITY,
            false => BEYOND * self.most_arrived() * told.answer.as_secs_f64(),
        }
    }

    /// Bytes a second in the best of the last spans.
    fn most_arrived(&self) -> f64 {
        self.arrived.iter().fold(0.0, |most, rate| most.max(*rate))
    }

    /// Whether the queue empties when we let it.
    fn look_for_others(&mut self, now: Instant, told: &Told) {
        if self.yields {
            return;
        }
        let longest = self.longest.iter().fold(self.round.longest, |most, one| most.max(*one));
        let is_empty = told.standing <= STEP.max(longest / 10).max(told.meant);
        let drains = Mode::Draining(now + told.answer + self.drains_in(told), told.standing, told.standing);
        self.mode = match self.mode {
            Mode::Alone(_) if is_empty => Mode::Alone(now),
            Mode::Alone(emptied) if now.since(emptied) > ROUNDS as u32 * told.answer => {
                match self.is_soon_back(now, emptied, told) {
                    true => {
                        self.credit -= 1;
                        Mode::Competing(now)
                    }
                    false => {
                        self.first_drained = self.window_at_first(now).or(Some((self.window, now)));
                        drains
                    }
                }
            }
            Mode::Competing(since) if now.since(since) > LOOK_AGAIN => drains,
            Mode::Draining(until, before, least) => {
                let least = least.min(told.standing);
                match now >= until {
                    false => Mode::Draining(until, before, least),
                    true if least <= STEP.max(before / 4) => {
                        self.drained = Some(now);
                        Mode::Alone(now)
                    }
                    true => {
                        self.credit = SUPPOSED;
                        Mode::Competing(now)
                    }
                }
            }
            mode => mode,
        };
        match self.mode {
            Mode::Competing(_) if self.cubic.is_none() => self.begin_cubic(now, told),
            Mode::Alone(_) if self.cubic.is_some() => {
                self.before = self.cubic.take().map(|cubic| (cubic, now + REMEMBERS));
                // What the path takes without a queue.
                let undelayed = told.answer.saturating_sub(told.standing);
                self.window = self.window.min(self.most_arrived() * undelayed.as_secs_f64());
            }
            _ => {}
        }
    }

    /// Whether a queue that was last empty at `emptied` is that of a sender that was there lately: it has stood since we went on after emptying it,
    /// with a window that needs none. [`SUPPOSED`] times after one was found: where a packet takes long our own queue stands as
    /// soon, and only emptying it tells.
    fn is_soon_back(&self, now: Instant, emptied: Instant, told: &Told) -> bool {
        let was_there = self.before.as_ref().is_some_and(|(_, until)| *until > now);
        was_there
            && self.credit > 0
            && self.drained.is_some_and(|drained| emptied.since(drained) <= SOON * told.answer)
    }

    fn window_at_first(&self, now: Instant) -> Option<(f64, Instant)> {
        self.first_drained.filter(|(_, at)| now.since(*at) < REMEMBERS)
    }

    /// Another sender is there: the window of before, or that of the first doubt, less what CUBIC takes off after a loss.
    fn begin_cubic(&mut self, now: Instant, told: &Told) {
        let at_first = self.window_at_first(now).map_or(0.0, |(window, _)| CUBIC_BETA * window);
        self.first_drained = None;
        let before = self.before.take().filter(|(_, until)| *until > now);
        let begun = || beside(self.window.max(at_first) / told.packet);
        self.cubic = Some(before.map_or_else(begun, |(cubic, _)| cubic));
    }

    /// How long our part of the queue takes to empty while the sound alone goes on. Where it has most of the path, that is long.
    fn drains_in(&self, told: &Told) -> Duration {
        let share = told.sound / self.most_arrived().max(1.0);
        if share > MOST_SOUND {
            return 2 * told.standing;
        }
        (2 * told.standing).max(told.longest.mul_f64(DRAINS / (1.0 - share)))
    }

    fn end_round(&mut self, now: Instant) {
        let Round { window, longest, .. } = self.round;
        self.longest.copy_within(..ROUNDS - 1, 1);
        self.longest[0] = longest;
        let grew = self.window > window;
        let rounds = if grew == self.direction.0 { self.direction.1 + 1 } else { 0 };
        self.direction = (grew, rounds);
        self.velocity = if rounds >= SURE { (2.0 * self.velocity).min(MOST_VELOCITY) } else { 1.0 };
        self.round = Round { began: now, window: self.window, has_lost: false, longest: Duration::ZERO };
    }
}

/// A window of so many packets, in congestion avoidance.
fn beside(packets: f64) -> Cubic {
    let packets = packets.ceil().max(LEAST);
    let mut cubic = Cubic::new(Window::new(1.0, packets as u32));
    cubic.window_mut().ssthresh = packets;
    cubic
}

/// The window at the beginning and the least one, in packets (RFC 5681 §3.1 begins with two to four; RFC 8085 §3.1.1 permits one in a round
/// trip at any time).
const INITIAL: f64 = 2.0;
/// The most that a path gets at the beginning, in bytes (RFC 6928 §2: ten packets).
pub(super) const MOST_INITIAL: f64 = 14_600.0;
const LEAST: f64 = 2.0;
/// Pictures that are cut into short packets have the window of usual ones: payload of an Ethernet's packet, in bytes.
pub(super) const USUAL_PACKET: f64 = 1_200.0;
/// How long a packet may take that counts whole.
const LONGEST_PACKET: Duration = Duration::from_millis(10);
/// At the beginning the window is doubled until a packet has waited for longer than this, whether or not the queue is empty then: what was sent comes to
/// light a round trip and a report later, and with two packets of 50 ms more than that the sound behind them is late.
const LONGEST_AT_START: Duration = Duration::from_millis(50);
/// 1/δ of the default mode (Copa, §2.1).
const PACKETS: f64 = 2.0;
/// Rounds after which a queue that was never empty may be another's (§2.2), and those after which a direction is sure (§2.1).
const ROUNDS: usize = 5;
const SURE: u32 = 3;
/// The window grows beyond what arrived in the best of the last spans of this length by this factor.
const ARRIVAL: Duration = Duration::from_millis(250);
const ARRIVALS: usize = 8;
const BEYOND: f64 = 1.25;
/// How much longer than it takes a queue is given to empty. Where the sound has more of a path than this, pictures would wait too long for it.
const DRAINS: f64 = 1.25;
const MOST_SOUND: f64 = 0.75;
/// How often to look whether the other sender is still there.
const LOOK_AGAIN: Duration = Duration::from_secs(20);
/// For how long it may come back, and the window beside it is remembered.
const REMEMBERS: Duration = Duration::from_secs(30);
/// How many times another sender that was found is supposed again without being found: each time costs a queue for [`LOOK_AGAIN`] if it has gone.
const SUPPOSED: u32 = 1;
/// A queue that stands again within so many round trips was not made by our growth.
const SOON: u32 = 2;
/// A doubling in each of ten rounds.
const MOST_VELOCITY: f64 = 1024.0;
/// Two units of the reports.
const STEP: Duration = Duration::from_millis(2);
