//! A stream to a station while two others disturb it through the access point.

use std::time::Duration;

use antiphon_core::{Instant, Rng};
use antiphon_link::Packet;
use antiphon_link::wlan::{
    Access, AccessMode, Category, Cell, CellSpec, Destination, Phy, StationCounters, StationId, StationSpec,
};

/// An IP packet: its sender, when it was sent, and its UDP payload.
#[derive(Clone, Copy)]
pub struct Udp {
    pub audio: bool,
    pub sent: Instant,
    pub payload: usize,
}

impl Packet for Udp {
    fn wire_len(&self) -> usize {
        self.payload + 28
    }

    fn priority(&self) -> Option<u16> {
        None
    }

    fn duplicate(&self) -> Self {
        *self
    }

    fn flip_bit(&mut self, _: u64) {}
}

pub const ACCESS_POINT: StationId = StationId(0);
pub const LISTENER: StationId = StationId(3);

/// The cell of `tv-audio-wlan` chapter 6, or its ad-hoc one of chapter 5.
pub struct Setting {
    pub slot: Duration,
    pub ad_hoc: bool,
    pub retry_limit: u8,
    /// CWmin of the stations, not of the access point.
    pub cw_min: u32,
    /// 1: one laptop sends to the other; 2: both do, half of the load each.
    pub senders: u16,
    /// Packets in the access point's queue.
    pub queue: u32,
    pub disturbance_mbit_s: f64,
    /// Gaps of the disturbance are exponential, not constant.
    pub poisson: bool,
    pub seconds: u64,
    pub seed: u64,
}

impl Default for Setting {
    fn default() -> Self {
        Setting {
            slot: Duration::from_micros(20),
            ad_hoc: false,
            retry_limit: 7,
            cw_min: 15,
            senders: 1,
            queue: 100,
            disturbance_mbit_s: 0.0,
            poisson: false,
            seconds: 60,
            seed: 1,
        }
    }
}

pub struct Outcome {
    pub sent: u64,
    pub heard: u64,
    /// Of the audio, in seconds.
    pub mean_delay: f64,
    pub access_point: StationCounters,
    pub totals: StationCounters,
}

impl Outcome {
    /// Of the audio.
    pub fn loss_percent(&self) -> f64 {
        100.0 * (1.0 - self.heard as f64 / self.sent as f64)
    }
}

/// A regular source of packets.
struct Source {
    from: StationId,
    to: StationId,
    packet: Udp,
    gap: f64,
    count: u64,
    next: Instant,
    phase: f64,
    rng: Option<Rng>,
}

impl Source {
    fn due(&self) -> Instant {
        self.next
    }

    fn advance(&mut self) {
        self.count += 1;
        if let Some(rng) = &mut self.rng {
            self.next += Duration::from_nanos((self.gap * rng.exponential()) as u64);
            return;
        }
        self.next = Instant::from_nanos((self.gap * (self.count as f64 + self.phase)) as u64);
    }
}

fn sources(setting: &Setting) -> Vec<Source> {
    let mut rng = Rng::fork(setting.seed, "phases");
    let mut source = |from, to, payload: usize, per_second: f64| {
        let audio = payload == 1300;
        let packet = Udp { audio, sent: Instant::ZERO, payload };
        let (gap, phase) = (1e9 / per_second, rng.unit());
        let next = Instant::from_nanos((gap * phase) as u64);
        let random = setting.poisson && !audio;
        let rng = random.then(|| Rng::fork(setting.seed, &format!("arrivals {from:?}")));
        Source { from, to, packet, gap, count: 0, next, phase, rng }
    };
    let streamer = if setting.ad_hoc { StationId(4) } else { ACCESS_POINT };
    let mut all = vec![source(streamer, LISTENER, 1300, 135.69)];
    if setting.disturbance_mbit_s > 0.0 {
        let per_second = setting.disturbance_mbit_s * 1e6 / 8.0 / 1470.0 / f64::from(setting.senders);
        all.extend((1..=setting.senders).map(|n| source(StationId(n), StationId(3 - n), 1470, per_second)));
    }
    all
}

pub fn run(setting: &Setting) -> Outcome {
    let access = AccessMode::Dcf(Access { cw_min: setting.cw_min, ..Access::DCF });
    let station = StationSpec { access, retry_limit: setting.retry_limit, ..StationSpec::default() };
    let mut stations = vec![station; 5];
    stations[0].access = AccessMode::Dcf(Access::DCF);
    stations[0].queue = setting.queue;
    let access_point = (!setting.ad_hoc).then_some(ACCESS_POINT);
    let phy = Phy { slot: setting.slot, ..Phy::COMPATIBLE };
    let mut cell: Cell<Udp> =
        Cell::new(&CellSpec { phy, stations, access_point }, setting.seed).expect("a cell");
    let mut sources = sources(setting);
    let end = Instant::ZERO + Duration::from_secs(setting.seconds);
    let (mut sent, mut heard, mut delay) = (0u64, 0u64, 0.0);
    loop {
        let source = sources.iter_mut().min_by_key(|source| source.due()).expect("the stream");
        let due = source.due();
        // The cell catches up by itself: it need not be polled at each of its events.
        while let Some((at, _, packet)) = cell.poll_at(due) {
            if packet.audio {
                heard += 1;
                delay += at.since(packet.sent).as_secs_f64();
            }
        }
        if due >= end {
            break;
        }
        if source.packet.audio {
            sent += 1;
        }
        cell.offer(
            due,
            source.from,
            Destination::Station(source.to),
            Category::BestEffort,
            Udp { sent: due, ..source.packet },
        );
        source.advance();
    }
    assert!(cell.balances());
    Outcome {
        sent,
        heard,
        mean_delay: delay / heard as f64,
        access_point: cell.counters(ACCESS_POINT),
        totals: cell.totals(),
    }
}
