//! The whole path of the sound, from block to block, under an allocator that aborts on any allocation.

use std::time::Duration;

use antiphon_core::{Epoch, Instant, PathId, Ppm};
use antiphon_media::conceal::Concealment;
use antiphon_media::packet::{
    Depacketiser, ExtensionIds, PacketConfig, PacketKind, Packetiser, classify, parse_rtp,
};
use antiphon_media::playout::{AdaptiveDelay, ClockedPlayout, Clocking, Playout, PlayoutConfig};
use antiphon_media::rtcp::{RtcpConfig, RtcpSession};
use antiphon_media::{
    ChannelMap, Coding, CyclePlace, LiveMeter, LivePace, Liveness, Pull, Ready, Resampler, SampleFormat,
    Source, SourceTracker, Splice, StreamFormat, Verdict, Wake,
};
use assert_no_alloc::{AllocDisabler, assert_no_alloc};

#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

const BLOCK: usize = 256;

struct Sender {
    packetiser: Packetiser,
    rtcp: RtcpSession,
}

struct Receiver {
    tracker: SourceTracker,
    depacketiser: Depacketiser,
    rtcp: RtcpSession,
    file: Playout,
    recording: Playout,
    device: ClockedPlayout,
    /// The same with playout delays that adapt.
    pipe: Playout,
    card: ClockedPlayout,
}

impl Receiver {
    fn new(format: StreamFormat, coding: Coding, conceal: Concealment, now: Instant) -> Self {
        let config = |clocking| PlayoutConfig {
            conceal,
            opus: coding == Coding::Opus,
            ..PlayoutConfig::new(format, Duration::from_millis(20), clocking)
        };
        // Repairs that never come are waited for, so the sound is made longer, and shorter again.
        let max = Duration::from_millis(30);
        let adapts = Some(AdaptiveDelay { min: Duration::ZERO, max, freeze: None });
        Receiver {
            tracker: SourceTracker::new(None, Duration::from_millis(500)),
            depacketiser: Depacketiser::new(format, coding),
            rtcp: RtcpSession::new(RtcpConfig::new(2, "hears@here", format.rate(), Epoch::default()), 2, now),
            file: Playout::new(config(Clocking::Sender)).unwrap(),
            recording: Playout::new(config(Clocking::Unhurried { patience: 8 })).unwrap(),
            device: ClockedPlayout::new(config(Clocking::Sink), 44_100, 512).unwrap(),
            pipe: Playout::new(PlayoutConfig { adapts, ..config(Clocking::Sender) }).unwrap(),
            card: ClockedPlayout::new(PlayoutConfig { adapts, ..config(Clocking::Sink) }, 44_100, 512)
                .unwrap(),
        }
    }

    fn take(&mut self, now: Instant, bytes: &[u8]) {
        if classify(bytes) == Some(PacketKind::Rtcp) {
            let _ = self.rtcp.handle(now, bytes, false, |_| ());
            return;
        }
        let Ok(view) = parse_rtp(bytes, ExtensionIds::default()) else {
            return;
        };
        let verdict = self.tracker.on_packet(now, view.ssrc, PathId(0), view.sequence);
        if !matches!(verdict, Verdict::Accepted | Verdict::NewStream) {
            return;
        }
        self.rtcp.on_received(now, view.ssrc, view.sequence, view.timestamp);
        let Ok(packet) = self.depacketiser.accept(&view) else {
            return;
        };
        self.file.insert(now, &packet);
        self.recording.insert(now, &packet);
        self.device.playout_mut().insert(now, &packet);
        self.pipe.insert(now, &packet);
        self.card.playout_mut().insert(now, &packet);
    }
}

/// Eight seconds with one packet in nine lost, one in seven reordered, garbage between them and reports both ways.
#[test]
fn nothing_is_allocated_between_source_and_sink() {
    for (coding, frames, conceal) in [
        (SampleFormat::L16.into(), BLOCK, Concealment::Repetition),
        (SampleFormat::L24.into(), BLOCK, Concealment::Silence),
        (SampleFormat::F32.into(), BLOCK, Concealment::Prediction),
        (Coding::Opus, 240, Concealment::Prediction),
        (Coding::Opus, 240, Concealment::Silence),
    ] {
        let format = StreamFormat::new(48_000, 2).unwrap();
        let start = Instant::from_millis(1);
        let packetiser = Packetiser::new(PacketConfig::new(format, coding, frames as u32), 1).unwrap();
        let config = RtcpConfig::new(packetiser.ssrc(), "plays@there", 48_000, Epoch::default());
        let mut sender = Sender { packetiser, rtcp: RtcpSession::new(config, 1, start) };
        let mut receiver = Receiver::new(format, coding, conceal, start);
        let map = ChannelMap::standard(2, 1).unwrap();
        let mut slower = Resampler::pushing(48_000, 8_000, 1, BLOCK).unwrap();
        let block: Vec<f32> = (0..frames * 2).map(|n| (n as f32 * 0.01).sin()).collect();
        let (mut out, mut mono, mut small) = (vec![0.0; 4096], vec![0.0; BLOCK], vec![0.0; 1024]);
        let (mut buf, mut held) = ([0u8; 1500], (0, [0u8; 1500]));
        let mut packets = 0u64;
        assert_no_alloc(|| {
            for n in 0..1500u64 {
                let now = start + Duration::from_micros(n * frames as u64 * 1_000_000 / 48_000);
                let Sender { packetiser, rtcp } = &mut sender;
                packetiser.packetise(&block, Epoch::default().ntp(now), &mut buf, |info, bytes| {
                    packets += 1;
                    rtcp.on_sent(now, rtcp.ssrc(), info.timestamp, bytes.len() - 12);
                    if packets % 7 == 3 {
                        held.0 = bytes.len();
                        held.1[..bytes.len()].copy_from_slice(bytes);
                    } else if !packets.is_multiple_of(9) {
                        receiver.take(now, bytes);
                        receiver.take(now, &held.1[..std::mem::take(&mut held.0)]);
                    }
                });
                receiver.take(now, &[0x80, 200, 0, 77, 1, 2, 3]);
                if let Some(len) = sender.rtcp.poll_report(now, &mut buf) {
                    receiver.take(now, &buf[..len]);
                }
                if let Some(len) = receiver.rtcp.poll_report(now, &mut buf) {
                    let _ = sender.rtcp.handle(now, &buf[..len], false, |_| ());
                }
                while receiver.file.pull(now, &mut out).frames > 0 {}
                while receiver.recording.pull(now, &mut out).frames > 0 {}
                for adaptive in [&mut receiver.pipe, receiver.card.playout_mut()] {
                    adaptive.set_repair(Some(Duration::ZERO));
                }
                while receiver.pipe.pull(now, &mut out).frames > 0 {}
                receiver.card.pull(now, &mut out[..470]);
                let speed = receiver.device.pull(now, &mut out[..470]).speed;
                assert!(speed <= Ppm(700.0));
                map.apply(&block, &mut mono);
                let given = slower.given(frames);
                slower.process(&mono[..frames], &mut small[..given]);
            }
        });
        // The impairments happened, and all the sound arrived.
        let counters =
            [receiver.file.counters(), receiver.recording.counters(), receiver.device.playout().counters()];
        for c in counters {
            assert!(c.played > 600 && c.lost > 60 && c.reordered > 50 && c.concealments > 50, "{c:?}");
        }
        for adapted in [receiver.pipe.adapted(), receiver.card.playout().adapted()] {
            let adapted = adapted.unwrap();
            assert!(adapted.stretched_frames > 0 && adapted.shortened_frames > 0, "{adapted:?}");
        }
        assert!(sender.rtcp.counters().received >= 3 && receiver.rtcp.counters().malformed == 1500);
        assert!(receiver.rtcp.sender_clock().is_some());
    }
}

/// A microphone that has supplied this many sample frames.
struct Microphone {
    format: StreamFormat,
    there: usize,
    splice: Splice,
}

impl Source for Microphone {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        self.splice.join(block);
        self.there -= BLOCK;
        Pull::Frames(BLOCK)
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_live(&self) -> bool {
        true
    }

    fn ready(&self) -> Ready {
        Ready { frames: self.there, ended: false, piece: 0 }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        let skipped = self.there.saturating_sub(frames);
        self.there -= skipped;
        self.splice.leave_out((&[0.5; 100], &[0.5; 500]));
        skipped as u64
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

/// A live source whose thread stalls now and then, and a device that skips the delay of its first packets.
#[test]
fn live_sound_and_what_is_left_out_allocate_nothing() {
    let format = StreamFormat::new(48_000, 2).unwrap();
    let mut microphone = Microphone { format, there: 0, splice: Splice::new(format) };
    let mut pace = LivePace::new(BLOCK, 48_000);
    let mut meter = LiveMeter::new(48_000, Duration::from_secs(3));
    let config = PlayoutConfig::new(format, Duration::from_millis(20), Clocking::Sink);
    let mut device = ClockedPlayout::new(config, 48_000, BLOCK).unwrap();
    // One that hears later of the sender's clock.
    let mut cycles = ClockedPlayout::new(config, 48_000, BLOCK).unwrap().in_cycles();
    let mut packetiser =
        Packetiser::new(PacketConfig::new(format, SampleFormat::L16, BLOCK as u32), 1).unwrap();
    let mut depacketiser = Depacketiser::new(format, SampleFormat::L16);
    let (mut block, mut buf, mut pulled) = (vec![0.1f32; 2 * BLOCK], [0u8; 1500], 0u64);
    assert_no_alloc(|| {
        for n in 0..1_500u64 {
            let now = Instant::from_micros(n * 5_333);
            microphone.there += BLOCK;
            meter.on_frames(now, BLOCK);
            // Every second a stall of 0.3 s.
            let is_still = n % 188 > 130;
            while !is_still && pace.poll(now, &mut microphone) {
                microphone.pull(&mut block);
                pulled += 1;
            }
            packetiser.packetise(&block, Epoch::default().ntp(now), &mut buf, |_, bytes| {
                let view = parse_rtp(bytes, ExtensionIds::default()).unwrap();
                let packet = depacketiser.accept(&view).unwrap();
                // In the first second the path is longer by 100 ms.
                let early = if n < 188 { 0 } else { 100 };
                device.playout_mut().insert(now + Duration::from_millis(100 - early), &packet);
                cycles.playout_mut().insert(now, &packet);
            });
            device.pull(now, &mut block);
            cycles.pull_in_cycle(now, Some(CyclePlace { rest: BLOCK, margin: 0 }), &mut block);
            assert!(n > 180 || cycles.is_direct());
            if n == 1_200 {
                assert!(cycles.playout_mut().keep_in_step(0, 0, Duration::from_millis(20)));
            }
        }
    });
    assert!(pulled > 900 && pace.skipped_frames() > 10_000, "{pulled} {}", pace.skipped_frames());
    assert_eq!(meter.liveness(), Liveness::Live);
    assert!(device.playout().counters().skipped_frames > 4_000);
    assert!(!cycles.is_direct());
}
