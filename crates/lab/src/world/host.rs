//! Processors of nodes, and the time that packets take there.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Instant, Rng, sooner};
use antiphon_link::{Packet, rank};

use super::error::WorldError;
use super::packet::Parcel;
use crate::setup::{HostCost, NodeSpec};

/// A node's processor, or two of them: one for what it sends, one for what it receives.
pub struct Host {
    /// What may wait, and in which order.
    queue: usize,
    priorities: bool,
    cost: HostCost,
    /// Of packets that carry data, or all if there is no other for control.
    send: Price,
    receive: Price,
    /// Mean time beside the processor, in seconds.
    wake_s: f64,
    /// Nothing costs anything.
    pub is_free: bool,
    rng: Rng,
    sending: Processor,
    /// Used where the node has two.
    receiving: Processor,
}

/// What packets cost by their length.
struct Price {
    packet: Duration,
    /// Seconds for each byte.
    byte_s: f64,
    /// The last packet's length and cost: most are as long as the one before, and the conversion takes longer than the sum.
    last: (u32, Duration),
}

/// Processes one packet after the other.
#[derive(Default)]
struct Processor {
    /// When it has processed all that waits.
    done: Instant,
    /// When the last packet leaves it.
    out: Instant,
    tasks: VecDeque<Task>,
}

/// A packet that is processed, waits for that, or has been processed and not fetched yet.
struct Task {
    job: Job,
    parcel: Parcel,
    /// Processor time.
    cost: Duration,
    /// What it waits for beside the processor.
    wake: Duration,
    begins: Instant,
    done: Instant,
    /// When it leaves.
    out: Instant,
}

/// What a packet waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Job {
    /// To go out.
    Send,
    /// To come in.
    Receive,
}

impl Host {
    /// The processor of a node; what is random comes from `seed`.
    pub fn new(node: &NodeSpec, seed: u64) -> Self {
        Host {
            queue: node.queue as usize,
            priorities: node.priorities,
            cost: node.cost,
            send: Price::new(node.cost.send_packet, node.cost.send_byte_s),
            receive: Price::new(node.cost.receive_packet, node.cost.receive_byte_s),
            is_free: node.cost == HostCost::default(),
            wake_s: node.cost.wake.as_secs_f64(),
            rng: Rng::fork(seed, &format!("host {}", node.name)),
            sending: Processor::default(),
            receiving: Processor::default(),
        }
    }

    /// Time for a packet sent.
    pub fn sending(&mut self, parcel: &Parcel) -> Duration {
        let control = self.cost.send_control.filter(|_| parcel.is_control());
        control.unwrap_or_else(|| self.send.of(parcel.len))
    }

    /// Time for a packet received.
    pub fn receiving(&mut self, parcel: &Parcel) -> Duration {
        let control = self.cost.receive_control.filter(|_| parcel.is_control());
        control.unwrap_or_else(|| self.receive.of(parcel.len))
    }

    /// Takes a packet that costs so much; if too many wait, returns it, or a less urgent one in its place.
    pub fn take(&mut self, now: Instant, job: Job, cost: Duration, parcel: Parcel) -> Option<Parcel> {
        // An acknowledgement is work of the side whose data it acknowledges.
        let receives = (job == Job::Receive) != parcel.is_control();
        let processor = if self.cost.apart && receives { &mut self.receiving } else { &mut self.sending };
        let mine = rank(parcel.priority());
        let waits_before =
            |task: &Task| !self.priorities || task.begins <= now || rank(task.parcel.priority()) <= mine;
        let mut displaced = None;
        if processor.tasks.len() >= self.queue {
            if processor.tasks.back().is_none_or(waits_before) {
                return Some(parcel);
            }
            displaced = processor.tasks.pop_back().map(|task| task.parcel);
        }
        let wake = match self.cost.wake {
            Duration::ZERO => Duration::ZERO,
            _ => Duration::from_secs_f64(self.wake_s * self.rng.exponential()),
        };
        let task = Task { job, parcel, cost, wake, begins: now, done: now, out: now };
        if processor.tasks.back().is_none_or(waits_before) {
            processor.append(now, task);
        } else {
            let place = processor.tasks.iter().rposition(waits_before).map_or(0, |before| before + 1);
            processor.insert(now, place, task);
        }
        displaced
    }

    /// A packet that has been processed by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<(Job, Parcel)> {
        let first = [&mut self.sending, &mut self.receiving].into_iter().min_by_key(|one| one.due_or_never());
        let task = first?.tasks.pop_front_if(|task| task.out <= now)?;
        Some((task.job, task.parcel))
    }

    /// When the next packet has been processed.
    pub fn poll_timeout(&self) -> Option<Instant> {
        sooner(self.sending.due(), self.receiving.due())
    }

    /// Whether no packet waits.
    pub fn is_idle(&self) -> bool {
        self.sending.tasks.is_empty() && self.receiving.tasks.is_empty()
    }

    /// When the packets that wait to go out have been processed.
    pub fn sends_until(&self) -> Instant {
        self.sending.done
    }
}

impl Processor {
    fn due(&self) -> Option<Instant> {
        self.tasks.front().map(|task| task.out)
    }

    /// Adds a task that comes now behind all others.
    fn append(&mut self, now: Instant, mut task: Task) {
        task.process(now, self.done, self.out);
        (self.done, self.out) = (task.done, task.out);
        self.tasks.push_back(task);
    }

    /// Inserts a task that comes now; those behind it are processed later.
    fn insert(&mut self, now: Instant, place: usize, task: Task) {
        let before = place.checked_sub(1).map(|before| &self.tasks[before]);
        // What the first one waits for has left already.
        let (mut done, mut out) = before.map_or((self.done, self.out), |task| (task.done, task.out));
        self.tasks.insert(place, task);
        for task in self.tasks.range_mut(place..) {
            task.process(now, done, out);
            (done, out) = (task.done, task.out);
        }
        (self.done, self.out) = (done, out);
    }

    /// For comparing processors: one with nothing to do comes after all others.
    fn due_or_never(&self) -> (bool, Instant) {
        self.due().map_or((true, Instant::ZERO), |due| (false, due))
    }
}

impl Task {
    /// Its times, if it comes now: the processor is done with those before it, and the last of them leaves.
    fn process(&mut self, now: Instant, done: Instant, out: Instant) {
        self.begins = done.max(now);
        self.done = self.begins + self.cost;
        self.out = out.max(self.done + self.wake);
    }
}

impl Price {
    fn new(packet: Duration, byte_s: f64) -> Self {
        Price { packet, byte_s, last: (0, packet) }
    }

    fn of(&mut self, len: u32) -> Duration {
        if self.last.0 != len {
            self.last = (len, self.packet + Duration::from_secs_f64(self.byte_s * f64::from(len)));
        }
        self.last.1
    }
}

/// Refuses times that no processor takes.
pub fn check_cost(node: &str, cost: &HostCost) -> Result<(), WorldError> {
    // A millisecond a byte is a machine of 8 kbit/s.
    let is_byte_cost = |seconds: f64| (0.0..=1e-3).contains(&seconds);
    if !is_byte_cost(cost.send_byte_s) || !is_byte_cost(cost.receive_byte_s) {
        return Err(WorldError::quantity(node, "processor time per byte is 0 to 1 ms"));
    }
    let always = [cost.send_packet, cost.receive_packet, cost.wake];
    let mut times = always.into_iter().chain(cost.send_control).chain(cost.receive_control);
    if times.any(|time| time > Duration::from_secs(1)) {
        return Err(WorldError::quantity(node, "processor time per packet is at most 1 s"));
    }
    Ok(())
}
