//! How often the members of a group report (RFC 3550 §6.3), in virtual time.

use antiphon_core::{BitRate, Epoch, NtpTime};

use super::*;
use crate::rtcp::write_bye;

/// Bytes of sound in a packet of [`PACKET`], in bits per second 768 000.
const PAYLOAD: usize = 1920;
const PACKET: Duration = Duration::from_millis(20);
const RATE: BitRate = BitRate(768_000);
const WINDOW: Duration = Duration::from_secs(60);

fn member(ssrc: u32, bandwidth: BitRate) -> RtcpSession {
    let config = RtcpConfig {
        group: true,
        bandwidth,
        ..RtcpConfig::new(ssrc, "abcdefghijklmnop", 48_000, Epoch::default())
    };
    RtcpSession::new(config, u64::from(ssrc), Instant::ZERO)
}

/// A sender and its receivers, which hear only the sender.
struct Group {
    sender: RtcpSession,
    receivers: Vec<RtcpSession>,
    now: Instant,
    packets: u32,
    /// Bytes of the receivers' and the sender's reports, with UDP's and IP's headers, in each window.
    windows: Vec<[usize; 2]>,
}

impl Group {
    fn new(receivers: u32) -> Self {
        // Receivers are not told the bandwidth.
        let default = RtcpConfig::new(0, "", 1, Epoch::default()).bandwidth;
        Group {
            sender: member(1, RATE),
            receivers: (0..receivers).map(|n| member(1_000 + n, default)).collect(),
            now: Instant::ZERO,
            packets: 0,
            windows: Vec::new(),
        }
    }

    fn count(&mut self, who: usize, len: usize) {
        let window = (self.now.as_nanos() / WINDOW.as_nanos() as u64) as usize;
        self.windows.resize(self.windows.len().max(window + 1), [0; 2]);
        self.windows[window][who] += len + UDP_IPV4_HEADERS;
    }

    fn run(&mut self, time: Duration) {
        let (end, mut buf) = (self.now + time, [0; 1500]);
        while self.now < end {
            self.now += PACKET;
            let now = self.now;
            self.sender.on_sent(now, 1, self.packets.wrapping_mul(960), PAYLOAD);
            for receiver in &mut self.receivers {
                receiver.on_received(now, 1, self.packets as u16, self.packets.wrapping_mul(960));
            }
            self.packets += 1;
            for at in 0..self.receivers.len() {
                if let Some(len) = self.receivers[at].poll_report(now, &mut buf) {
                    self.sender.handle(now, &buf[..len], false, |_| ()).expect("a report");
                    self.count(0, len);
                }
            }
            if let Some(len) = self.sender.poll_report(now, &mut buf) {
                for receiver in &mut self.receivers {
                    receiver.handle(now, &buf[..len], false, |_| ()).expect("a report");
                }
                self.count(1, len);
            }
        }
    }
}

#[test]
fn a_thousand_receivers_stay_within_five_percent() {
    let mut group = Group::new(1_000);
    group.run(WINDOW * 5);
    let most = RATE.0 as f64 / 8.0 * 0.05 * WINDOW.as_secs_f64();
    for (n, [receivers, sender]) in group.windows[..5].iter().enumerate() {
        let share = (receivers + sender) as f64 / most;
        assert!(share <= 1.0, "{n}: {share}");
        // Nor do they fall silent.
        assert!(n == 0 || *receivers as f64 / most > 0.4, "{n}: {receivers} of {most}");
    }
    assert_eq!(group.sender.receivers(), 1_000, "all are known");
}

#[test]
fn a_member_of_a_small_group_reports_every_five_seconds() {
    let mut group = Group::new(10);
    group.run(WINDOW * 4);
    let sent: Vec<u64> = group.receivers.iter().map(|receiver| receiver.counters().sent).collect();
    let mean = sent.iter().sum::<u64>() as f64 / sent.len() as f64;
    // 240 s in intervals of 5 s; each deviates by half, so that of ten times 48 the mean does by 1 %.
    assert!((43.0..54.0).contains(&mean), "{mean}");
}

#[test]
fn a_group_that_shrinks_reports_sooner() {
    let mut group = Group::new(1_000);
    group.run(WINDOW * 2);
    let (before, now) = (group.sender.receiver_interval(group.now), group.now);
    let left = group.receivers.len() as u32 - 10;
    let mut buf = [0; 100];
    for n in 0..left {
        let len = write_bye(1_000 + n, &mut buf).expect("room");
        group.sender.handle(now, &buf[..len], false, |_| ()).expect("a goodbye");
    }
    assert!(before > Duration::from_secs(20), "{before:?}");
    assert_eq!(group.sender.receiver_interval(now), Duration::from_secs(5));
    // Those who stay wait for a report that may be half a minute away, until the sender tells them.
    group.receivers.drain(..left as usize);
    let waiting = group.receivers.iter().filter_map(RtcpSession::poll_timeout).max().expect("ten wait");
    assert!(waiting > now + Duration::from_secs(15), "{waiting:?}");
    group.run(Duration::from_secs(8));
    let waiting = group.receivers.iter().filter_map(RtcpSession::poll_timeout).max().expect("ten wait");
    assert!(waiting < group.now + Duration::from_secs(8), "{waiting:?} at {:?}", group.now);
}

#[test]
fn a_large_group_does_not_say_goodbye_at_once() {
    let mut group = Group::new(200);
    group.run(WINDOW);
    let (mut buf, mut at) = ([0; 1500], Vec::new());
    for receiver in &mut group.receivers {
        assert_eq!(receiver.close(group.now, &mut buf), None);
        assert!(receiver.is_leaving());
    }
    let mut silent = member(9, RATE);
    silent.on_group_size(group.now, GroupSize { receivers: 200, average_size: 100 });
    assert_eq!((silent.close(group.now, &mut buf), silent.is_leaving()), (None, false), "it never spoke");
    for receiver in &mut group.receivers {
        while let Some(due) = receiver.poll_timeout() {
            if let Some(len) = receiver.poll_report(due, &mut buf) {
                let mut byes = 0;
                visit_compound(&buf[..len], |item| byes += usize::from(matches!(item, RtcpItem::Bye { .. })))
                    .expect("a report");
                assert_eq!(byes, 1);
                at.push(due.since(group.now));
            }
        }
    }
    at.sort_unstable();
    assert_eq!(at.len(), 200);
    // The minimum before a first packet, half of 5 s, times 0.5 to 1.5, over e - 3/2.
    assert!(at[0] > Duration::from_secs(1) && at[199] - at[0] > Duration::from_secs(1), "{at:?}");
}

#[test]
fn a_group_of_fifty_says_goodbye_at_once() {
    let mut group = Group::new(48);
    group.run(Duration::from_secs(10));
    let mut buf = [0; 1500];
    assert!(group.receivers[0].close(group.now, &mut buf).is_some());
    assert_eq!(group.receivers[0].poll_timeout(), None);
}

#[test]
fn only_the_sender_that_is_received_tells_the_size_of_the_group() {
    let mut group = Group::new(2);
    group.run(Duration::from_secs(10));
    let forged = GroupSize { receivers: u32::MAX, average_size: u16::MAX };
    let mut buf = [0; 100];
    let receiver = &mut group.receivers[0];
    let before = receiver.told;
    let len = crate::rtcp::write_group_size(77, NtpTime::default(), forged, &mut buf).expect("room");
    receiver.handle(group.now, &buf[..len], false, |_| ()).expect("a summary");
    assert_eq!(receiver.told, before);
    let len = crate::rtcp::write_group_size(1, NtpTime::default(), forged, &mut buf).expect("room");
    receiver.handle(group.now, &buf[..len], false, |_| ()).expect("a summary");
    assert_eq!(receiver.told, forged);
    assert!(receiver.interval(group.now) <= Duration::from_secs(3600));
}
