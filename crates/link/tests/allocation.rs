//! Once its queues have grown, a link with any elements allocates nothing; nor does a cell.

use std::time::Duration;

use antiphon_core::{Instant, Ratio};
use antiphon_link::wlan::{
    self, AccessMode, Category, CellSpec, Destination, PowerSave, RateControl, Scan, StationId,
};
use antiphon_link::{
    ETHERNET_10, Link, LinkSpec, Packet, QueueLimit, Ring, RingClass, RingSpec, StationSpec, Switch,
};
use antiphon_testkit::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Bare;

impl Packet for Bare {
    fn wire_len(&self) -> usize {
        1064
    }

    fn priority(&self) -> Option<u16> {
        None
    }

    fn duplicate(&self) -> Self {
        Bare
    }

    fn flip_bit(&mut self, _: u64) {}
}

#[test]
fn a_running_link_allocates_nothing() {
    for sender in [
        "rate=20Mbit/s",
        "rate=20Mbit/s/15kB",
        "rate=8Mbit/s,queue=red/5/15/10%/gentle",
        "rate=4Mbit/s,queue=drd/5/50",
    ] {
        runs_without_allocating(sender);
    }
}

fn runs_without_allocating(sender: &str) {
    let text = "delay=20ms,jitter=1ms/exponential,stall=3ms/100ms,loss=5%/3,reorder=5%/5ms,\
                duplicate=5%,corrupt=5%";
    let spec: LinkSpec = format!("{sender},{text}").parse().expect("a possible link");
    let mut link = None;
    let made = Counting::calls(|| link = Link::new(&spec, 1).ok());
    assert!(made > 0, "the counter counts: a link has memory from the beginning");
    let mut link = link.expect("a possible link");
    let mut send = |from: u64, to: u64| {
        Counting::calls(|| {
            for n in from..to {
                let now = Instant::from_micros(n * 1000);
                link.offer(now, Bare);
                while link.poll(now).is_some() {}
            }
        })
    };
    send(0, 200_000);
    assert_eq!(send(200_000, 260_000), 0, "{sender}");
    let counters = link.counters();
    assert!(counters.lost > 1000 && counters.duplicated > 1000 && counters.held_back > 1000, "{counters:?}");
}

#[test]
fn a_running_switch_and_ring_allocate_nothing() {
    let mut switch = Switch::new(&[ETHERNET_10; 2], QueueLimit::Packets(50), Duration::from_micros(10), 1);
    let spec = RingSpec { ttrt: Duration::from_millis(8), stations: vec![StationSpec::default(); 3] };
    let mut ring = Ring::new(&spec).expect("a possible ring");
    let mut send = |from: u64, to: u64| {
        Counting::calls(|| {
            for n in from..to {
                // Bursts that overflow the queues, and pauses in which they become empty.
                let now = Instant::from_micros(n / 300 * 300_000 + n % 300 * 10);
                switch.offer(now, (n % 2) as usize, Bare);
                ring.offer(now, (n % 3) as usize, RingClass::Asynchronous, Bare);
                while switch.poll_at(now).is_some() || ring.poll(now).is_some() {}
            }
        })
    };
    assert!(send(0, 3_000) > 0, "the counter counts: the queues had to grow");
    assert_eq!(send(3_000, 30_000), 0);
    let ring = ring.counters(0).expect("a station");
    assert!(switch.counters(0).expect("a port").overflowed > 1000 && ring.delivered > 8000, "{ring:?}");
}

#[test]
fn a_running_cell_allocates_nothing() {
    let mut spec = CellSpec::infrastructure(vec![wlan::StationSpec::default(); 4]);
    spec.stations[3].access = AccessMode::Edca(wlan::Access::EDCA);
    for (station, control) in spec.stations.iter_mut().zip([RateControl::Minstrel, RateControl::Arf]) {
        (station.rate_control, station.frame_error) = (control, Ratio(0.02));
    }
    let (length, every) = (Duration::from_millis(50), Duration::from_millis(200));
    spec.stations[1].scan = Some(Scan { length, every });
    spec.stations[2].power_save = Some(PowerSave { listen: every, hold: Duration::ZERO, again: None });
    let (held, mut cell) = Counting::held(|| wlan::Cell::new(&spec, 1).expect("a possible cell"));
    assert!(held > 0, "the counter counts: a cell has queues");
    // Too much for the cell: queues fill, frames collide, packets are dropped.
    let mut send = |from: u64, to: u64| {
        Counting::calls(|| {
            for n in from..to {
                let now = Instant::from_micros(n * 200);
                let from = StationId((n % 4) as u16);
                let to = if n % 50 == 7 {
                    Destination::Multicast
                } else {
                    Destination::Station(StationId((n / 4 % 4) as u16))
                };
                cell.offer(now, from, to, Category::ALL[n as usize / 16 % 4], Bare);
                while cell.poll(now).is_some() {}
            }
        })
    };
    send(0, 50_000);
    assert_eq!(send(50_000, 150_000), 0);
    let total = cell.totals();
    assert!(total.collisions > 1000 && total.overflowed > 1000 && total.multicast > 100, "{total:?}");
}
