//! Sleeping in the receiving call itself until shortly before something is due, by the socket's receive time-out.
//!
//! A wait in `ppoll` costs a system call and a high-resolution timer for every arrival: 2.5 µs of a loopback round trip
//! of 15 µs. A receive time-out costs neither, but the kernel counts it in ticks. So it is set to end well before the
//! due time, and the rest is waited for precisely. Due times change with every packet (retransmission timers above
//! all), so the time-out is changed only where it would end too late, or did end with nothing received: an occasional
//! early wake-up is cheap, a system call for every packet is not.

use std::time::Duration;

use socket2::Socket;

use crate::line::{IDLE, Wait};
use crate::system;

/// How a line waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sleep {
    /// Not at all.
    No,
    /// In the receiving call.
    InCall,
    /// In `ppoll`, at most this long.
    Poll(Duration),
}

impl Sleep {
    /// The wait of a line that may not sleep in the receiving call.
    pub fn polling(wait: Wait) -> Self {
        match wait {
            Wait::No | Wait::For(Duration::ZERO) => Sleep::No,
            Wait::For(time) => Sleep::Poll(time),
            Wait::Idle => Sleep::Poll(IDLE),
        }
    }
}

/// The receive time-out of one socket.
#[derive(Debug)]
pub(crate) struct ReceiveTimeout {
    /// What the socket is set to.
    set: Duration,
    tick: Duration,
    /// The last wait ended with nothing received.
    ended_empty: bool,
}

impl ReceiveTimeout {
    /// For a socket configured by [`crate::options::apply`].
    pub fn new() -> Self {
        let tick = system::tick().unwrap_or(LONGEST_TICK);
        Self::of_tick(tick)
    }

    fn of_tick(tick: Duration) -> Self {
        ReceiveTimeout { set: IDLE, tick: tick.clamp(SHORTEST_TICK, LONGEST_TICK), ended_empty: false }
    }

    /// Whether the thread may sleep in a receiving call on `socket` and is awake again before `time` is over: only if
    /// it is long enough. Sets the socket's time-out if needed.
    fn ends_within(&mut self, socket: &Socket, time: Duration) -> bool {
        let Some(next) = self.choose(time) else { return false };
        if next != self.set {
            if socket.set_read_timeout(Some(next)).is_err() {
                return false;
            }
            self.set = next;
        }
        self.ended_empty = false;
        true
    }

    /// How to do a wait on `socket`.
    pub fn plan(&mut self, socket: &Socket, wait: Wait) -> Sleep {
        let longest = match wait {
            Wait::No => return Sleep::No,
            Wait::For(time) => time,
            Wait::Idle => Duration::MAX,
        };
        if self.ends_within(socket, longest) { Sleep::InCall } else { Sleep::polling(wait) }
    }

    /// The wait ended with nothing received.
    pub fn on_empty(&mut self) {
        self.ended_empty = true;
    }

    /// The time-out for a wait of at most `time`: the present one if it is suitable; `None` if `time` is too short for
    /// any.
    fn choose(&self, time: Duration) -> Option<Duration> {
        if !system::SLEEPS_IN_CALL {
            return None;
        }
        let fits = |timeout: Duration| self.longest_sleep(timeout) <= time;
        if fits(self.set) && !self.ended_empty {
            return Some(self.set);
        }
        if fits(IDLE) {
            return Some(IDLE);
        }
        // Doubling steps: an approaching due time changes the time-out only a few times.
        let steps = std::iter::successors(Some(self.tick), |step| Some(*step * 2));
        steps.take_while(|step| *step < IDLE && fits(*step)).last()
    }

    /// How long a receiving call may take with that time-out: the kernel rounds it up to ticks, ends it with a tick,
    /// and may be late.
    fn longest_sleep(&self, timeout: Duration) -> Duration {
        let ticks = timeout.as_nanos().div_ceil(self.tick.as_nanos()) as u32;
        self.tick * (ticks + 1) + LATE
    }
}

/// The kernel's tick is between a thousandth and a hundredth of a second (HZ of 1000 and 100).
const SHORTEST_TICK: Duration = Duration::from_millis(1);
/// See [`SHORTEST_TICK`].
const LONGEST_TICK: Duration = Duration::from_millis(10);
/// How late the timers of a tick may be without missing a due time: they run in a soft interrupt, behind others.
const LATE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use socket2::{Domain, Type};

    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_time_out_ends_before_what_is_due_with_every_tick() {
        for tick in [1, 4, 10] {
            let mut timeout = ReceiveTimeout::of_tick(ms(tick));
            for (turn, time) in (0..4_000u64).map(|n| (n, ms(n * 7_919 % 120))) {
                timeout.ended_empty = turn % 3 == 0;
                let Some(chosen) = timeout.choose(time) else {
                    assert!(time < ms(2 * tick) + LATE, "{time:?} is long enough for a tick of {tick} ms");
                    continue;
                };
                assert!(timeout.longest_sleep(chosen) <= time, "{chosen:?} of {time:?}");
                assert!(chosen >= ms(tick).min(IDLE) && chosen <= IDLE);
                timeout.set = chosen;
            }
        }
    }

    #[test]
    fn a_due_time_that_moves_on_with_every_packet_sets_it_once() {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        let mut timeout = ReceiveTimeout::of_tick(ms(4));
        assert!(timeout.ends_within(&socket, ms(30)));
        let set = socket.read_timeout().expect("a socket").expect("it was set");
        assert!(set >= ms(16) && set <= ms(20), "16 ms, in ticks of this kernel: {set:?}");
        // If it is set again, this other value changes.
        socket.set_read_timeout(Some(ms(100))).expect("a socket");
        for time in [30, 29, 25, 60, 200] {
            assert!(timeout.ends_within(&socket, ms(time)));
        }
        assert_eq!(socket.read_timeout().expect("a socket"), Some(ms(100)));
        timeout.on_empty();
        assert!(timeout.ends_within(&socket, ms(200)));
        assert_eq!(socket.read_timeout().expect("a socket").map(|set| set.as_millis() / 10), Some(5));
        assert!(!timeout.ends_within(&socket, ms(9)), "a tick of 4 ms may last 10");
    }
}
