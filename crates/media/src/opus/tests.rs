//! Sound through packetiser and playout buffer as Opus. A codec changes every sample, so a tone tells of level and gaps, and
//! its phase of the place; a tone's place is known to a thirtieth of a sample frame then.

use std::time::Duration;

use antiphon_core::{Instant, NtpTime, Rng};
use antiphon_testkit::Sine;
use proptest::prelude::*;

use super::*;
use crate::conceal::Concealment;
use crate::packet::{Depacketiser, ExtensionIds, PacketConfig, PacketError, Packetiser, parse_rtp};
use crate::playout::{AdaptiveDelay, Clocking, Inserted, Playout, PlayoutConfig};
use crate::{ChannelGroups, Coding, FormatError, StreamFormat};

/// 997 Hz.
const TURN: f64 = std::f64::consts::TAU * 997.0 / 48_000.0;
const DELAY: Duration = Duration::from_millis(40);

fn format(channels: u32) -> StreamFormat {
    StreamFormat::new(RATE, channels).unwrap()
}

/// The second channel has half the level.
fn tone(at: usize, channel: usize) -> f32 {
    (0.5 / (channel + 1) as f64 * (TURN * at as f64).sin()) as f32
}

fn clicks(at: usize, _channel: usize) -> f32 {
    if at % 9_600 == 5_000 { 0.8 } else { 0.0 }
}

fn config(channels: u32, block: u32) -> PacketConfig {
    PacketConfig::new(format(channels), Coding::Opus, block)
}

/// Packets of so many sample frames.
fn packets(config: PacketConfig, frames: usize, sound: impl Fn(usize, usize) -> f32) -> Vec<Vec<u8>> {
    let (channels, block) = (config.format.channels(), config.block_frames as usize);
    let mut packetiser = Packetiser::new(config, 1).unwrap();
    let (mut buf, mut made) = (vec![0; 1500], Vec::new());
    for start in (0..frames).step_by(block) {
        let block: Vec<f32> = (start * channels..(start + block) * channels)
            .map(|n| sound(n / channels, n % channels))
            .collect();
        packetiser.packetise(&block, NtpTime::default(), &mut buf, |info, bytes| {
            assert_eq!(bytes.len(), bytes.len().min(config.longest().unwrap()));
            assert_eq!(info.payload, parse_rtp(bytes, ExtensionIds::default()).unwrap().payload.len());
            made.push(bytes.to_vec());
        });
    }
    made
}

fn playout(channels: u32, conceal: Concealment) -> Playout {
    let config = PlayoutConfig {
        opus: true,
        conceal,
        ..PlayoutConfig::new(format(channels), DELAY, Clocking::Sender)
    };
    Playout::new(config).unwrap()
}

/// A receiver of packets that come at given times, in microseconds.
struct Receiver {
    depacketiser: Depacketiser,
    playout: Playout,
    heard: Vec<f32>,
}

impl Receiver {
    fn new(channels: u32, playout: Playout) -> Self {
        Receiver {
            depacketiser: Depacketiser::new(format(channels), Coding::Opus),
            playout,
            heard: Vec::new(),
        }
    }

    fn take(&mut self, us: u64, bytes: &[u8]) -> Option<Inserted> {
        let view = parse_rtp(bytes, ExtensionIds::default()).ok()?;
        let packet = self.depacketiser.accept(&view).ok()?;
        Some(self.playout.insert(Instant::from_micros(us), &packet))
    }

    fn play(&mut self, us: u64) {
        let channels = self.depacketiser.format().channels();
        let mut block = vec![0.0; 200 * channels];
        loop {
            let pulled = self.playout.pull(Instant::from_micros(us), &mut block);
            self.heard.extend(&block[..pulled.frames * channels]);
            if pulled.frames == 0 {
                break;
            }
        }
    }

    /// Plays until the sound has ended.
    fn finish(mut self, us: u64) -> Vec<f32> {
        self.playout.finish();
        self.play(us);
        self.heard
    }
}

/// What is heard of `packets`, each `block` sample frames long, of which `fate` says when they come: so many microseconds
/// late, or never.
fn heard(
    channels: u32,
    block: u32,
    playout: Playout,
    packets: &[Vec<u8>],
    fate: impl Fn(usize) -> Option<u64>,
) -> Receiver {
    let mut receiver = Receiver::new(channels, playout);
    let sent = |n: usize| 1_000 + n as u64 * u64::from(block) * 1_000_000 / 48_000;
    let mut coming: Vec<(u64, usize)> =
        (0..packets.len()).filter_map(|n| Some((sent(n) + fate(n)?, n))).collect();
    coming.sort();
    let mut coming = coming.into_iter().peekable();
    for us in (0..sent(packets.len())).step_by(500) {
        while let Some((_, n)) = coming.next_if(|(at, _)| *at <= us) {
            receiver.take(us, &packets[n]);
        }
        receiver.play(us);
    }
    receiver
}

fn channel(sound: &[f32], channels: usize, channel: usize) -> Vec<f32> {
    sound.iter().skip(channel).step_by(channels).copied().collect()
}

/// Level, degrees and rest of the tone in a part of what was heard, against what was sent.
fn fits(sound: &[f32], first: usize, level: f64) -> (f64, f64, f64) {
    let sine = Sine::fit(sound, first, TURN);
    (20.0 * (sine.level / level).log10(), sine.phase.to_degrees(), sine.rest_db())
}

#[test]
fn a_tone_comes_back_in_its_place_in_packets_of_any_length() {
    for channels in [1, 2] {
        for block in PACKET_FRAMES {
            let sent = packets(config(channels, block), 48_000, tone);
            let end = 3_000_000;
            let sound = heard(channels, block, playout(channels, Concealment::default()), &sent, |_| Some(0))
                .finish(end);
            // Of a first packet that is all look-ahead, one sample frame is left.
            let begins = usize::from(block as usize == LOOK_AHEAD);
            let all = 48_000usize.next_multiple_of(block as usize) - LOOK_AHEAD + begins;
            assert_eq!(sound.len(), all * channels as usize, "{block}");
            for one in 0..channels as usize {
                let sound = &channel(&sound, channels as usize, one)[begins..];
                let (db, degrees, rest) = fits(&sound[1_000..47_000], 1_000, 0.5 / (one + 1) as f64);
                // A sample frame is 7.5 degrees; packets of 2.5 ms are the coarsest.
                let most = if block == 120 { -8.0 } else { -25.0 };
                assert!(
                    db.abs() < 0.3 && degrees.abs() < 0.75 && rest < most,
                    "{channels} {block} {one}: {db} dB, {degrees} degrees, {rest} dB"
                );
            }
        }
    }
}

#[test]
fn a_click_stays_in_its_place() {
    for block in [240, 960, 2880] {
        let config = PacketConfig { bit_rate: Some(128_000), ..config(1, block) };
        let sent = packets(config, 48_000, clicks);
        let sound = heard(1, block, playout(1, Concealment::default()), &sent, |_| Some(0)).finish(3_000_000);
        for click in (5_000..47_000).step_by(9_600) {
            let near = &sound[click - 2_000..click + 2_000];
            let highest = (0..near.len()).max_by(|a, b| near[*a].abs().total_cmp(&near[*b].abs())).unwrap();
            assert!(highest.abs_diff(2_000) <= 1, "{block}: {highest} for 2000");
        }
    }
}

#[test]
fn what_comes_before_the_sound_does_not_shorten_the_playout_delay() {
    let sent = packets(config(1, 480), 48_000, tone);
    let receiver = heard(1, 480, playout(1, Concealment::default()), &sent, |_| Some(0));
    // The packet before the last came 10 ms before the end, and is played so long after it came.
    let view = parse_rtp(&sent[98], ExtensionIds::default()).unwrap();
    let came = Instant::from_micros(1_000 + 98 * 10_000);
    let plays = receiver.playout.deadline_at(view.timestamp).unwrap();
    let off = plays.signed_nanos_since(came + DELAY);
    // It is looked at every 500 us.
    assert!(off.abs() < 600_000, "{off} ns");
}

#[test]
fn packets_out_of_order_sound_as_in_order() {
    let sent = packets(config(2, 480), 96_000, tone);
    let in_order = heard(2, 480, playout(2, Concealment::default()), &sent, |_| Some(0)).finish(4_000_000);
    // Each third comes after the next two, and one in eleven twice as late; the first as well.
    let late = |n: usize| match n {
        190.. => Some(0),
        _ => Some(if n.is_multiple_of(3) { 21_000 } else { 0 } + if n % 11 == 4 { 9_000 } else { 0 }),
    };
    let receiver = heard(2, 480, playout(2, Concealment::default()), &sent, late);
    assert!(receiver.playout.counters().reordered > 50, "{:?}", receiver.playout.counters());
    let out_of_order = receiver.finish(4_000_000);
    assert_eq!(in_order.len(), out_of_order.len());
    let differs = in_order.iter().zip(&out_of_order).position(|(a, b)| a != b);
    assert_eq!(differs, None);
}

#[test]
fn lost_packets_are_made_up_by_the_decoder() {
    let sent = packets(config(1, 960), 96_000, tone);
    let lost = |n: usize| n < 90 && n % 10 == 7;
    let gaps = |conceal| {
        let receiver = heard(1, 960, playout(1, conceal), &sent, |n| (!lost(n)).then_some(0));
        let counters = receiver.playout.counters();
        assert_eq!((counters.lost, counters.concealed_frames), (9, 9 * 960));
        let sound = receiver.finish(4_000_000);
        // Packet n begins so much before its block.
        let made_up: Vec<(f64, f64, f64)> = (0..sent.len())
            .filter(|n| lost(*n))
            .map(|n| fits(&sound[n * 960 - LOOK_AHEAD..][..960], n * 960 - LOOK_AHEAD, 0.5))
            .collect();
        // A tone goes on through a gap of a packet, and comes back after it.
        let after = fits(&sound[88_000..94_000], 88_000, 0.5);
        assert!(after.0.abs() < 0.3 && after.1.abs() < 0.75 && after.2 < -25.0, "{after:?}");
        made_up
    };
    for (db, degrees, rest) in gaps(Concealment::Prediction) {
        assert!(
            db.abs() < 3.0 && degrees.abs() < 30.0 && rest < -8.0,
            "{db} dB, {degrees} degrees, {rest} dB"
        );
    }
    // Asked for silence, it is silent.
    assert!(gaps(Concealment::Silence).iter().all(|(db, ..)| *db < -12.0));
}

#[test]
fn a_packet_that_comes_while_it_is_made_up_is_played_from_there() {
    let sent = packets(config(1, 960), 48_000, tone);
    // 7 ms after its time.
    let receiver =
        heard(1, 960, playout(1, Concealment::default()), &sent, |n| Some(if n == 20 { 47_000 } else { 0 }));
    let counters = receiver.playout.counters();
    assert_eq!((counters.late, counters.lost), (1, 0));
    let sound = receiver.finish(3_000_000);
    let (db, degrees, rest) = fits(&sound[18_000..22_000], 18_000, 0.5);
    assert!(db.abs() < 0.5 && degrees.abs() < 2.0 && rest < -15.0, "{db} dB, {degrees} degrees, {rest} dB");
    // Nowhere a step: a sample differs from the next by less than twice the tone's slope.
    let step = sound[1_000..].windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(0.0, f32::max);
    assert!(step < 2.0 * 0.5 * TURN as f32, "{step}");
}

#[test]
fn a_first_packet_that_begins_before_its_time_stamp_makes_way() {
    // As GStreamer sends: what the encoder gives before the sound is in the first packet, and not in its time stamp.
    let mut sent = packets(config(1, 960), 96_000, tone);
    let stamp = |bytes: &[u8]| u32::from_be_bytes(bytes[4..8].try_into().unwrap());
    let first = stamp(&sent[0]) + LOOK_AHEAD as u32;
    sent[0][1] &= 0x7f;
    sent[0][4..8].copy_from_slice(&first.to_be_bytes());
    let receiver = heard(1, 960, playout(1, Concealment::default()), &sent, |_| Some(0));
    let counters = receiver.playout.counters();
    assert_eq!((counters.discarded, counters.concealed_frames), (0, 0));
    let sound = receiver.finish(4_000_000);
    assert_eq!(sound.len(), 96_000 - LOOK_AHEAD);
    let (db, degrees, rest) = fits(&sound[200..40_000], 200, 0.5);
    assert!(db.abs() < 0.3 && degrees.abs() < 0.75 && rest < -25.0, "{db} dB, {degrees} degrees, {rest} dB");
}

/// Packets of a sender with forward error correction, which ours is not: speech-like sound at a low bit rate.
fn with_copies(copies: bool) -> (Vec<Vec<u8>>, Vec<f32>) {
    let mut encoder = opus_rs::OpusEncoder::new(16_000, 1, opus_rs::Application::Voip).unwrap();
    (encoder.bitrate_bps, encoder.use_inband_fec, encoder.packet_loss_perc) = (24_000, copies, 30);
    let mut decoder = Decoder::new(1);
    let (mut sound, mut sent, mut whole) = (vec![0.0; MOST_FRAMES], Vec::new(), Vec::new());
    // A voice whose pitch moves, so that nothing but a copy tells how it goes on.
    let mut phase = 0.0f64;
    let mut rng = Rng::fork(1, "voice");
    for packet in 0..60u16 {
        let block: Vec<f32> = (0..320)
            .map(|n| {
                let time = f64::from(packet) * 320.0 + f64::from(n);
                phase += (140.0 + 60.0 * (time / 1_100.0).sin()) / 16_000.0;
                let voice: f64 = (1..12)
                    .map(|k| (std::f64::consts::TAU * f64::from(k) * phase).sin() / f64::from(k))
                    .sum();
                (0.2 * voice + 0.01 * (rng.unit() - 0.5)) as f32
            })
            .collect();
        let mut bytes = vec![0x80, 96, (packet >> 8) as u8, packet as u8];
        bytes.extend((u32::from(packet) * 960).to_be_bytes());
        bytes.extend([0, 0, 0, 7]);
        let mut payload = [0; 1000];
        let len = encoder.encode(&block, 320, &mut payload).unwrap();
        bytes.extend(&payload[..len]);
        let frames = decoder.decode(&payload[..len], &mut sound);
        whole.extend(&sound[..frames]);
        sent.push(bytes);
    }
    (sent, whole)
}

#[test]
fn what_is_lost_is_taken_from_the_copy_in_the_next_packet() {
    let lost = |n: usize| n > 10 && n % 6 == 2;
    let error = |copies: bool| {
        let (sent, whole) = with_copies(copies);
        let receiver = heard(1, 960, playout(1, Concealment::default()), &sent, |n| (!lost(n)).then_some(0));
        let sound = receiver.finish(3_000_000);
        let (mut wrong, mut power) = (0.0, 0.0);
        for n in (0..sent.len()).filter(|n| lost(*n)) {
            for at in n * 960 + 120..(n + 1) * 960 {
                wrong += f64::from(sound[at] - whole[at]).powi(2);
                power += f64::from(whole[at]).powi(2);
            }
        }
        10.0 * (wrong / power).log10()
    };
    let (with, without) = (error(true), error(false));
    // A copy has few bits, so it is far from exact; what is guessed is not related to the sound at all (0 dB).
    assert!(with < -3.0 && without > -1.0, "{with} dB with a copy, {without} dB without");
}

#[test]
fn a_delay_that_adapts_takes_opus() {
    let sent = packets(config(1, 480), 240_000, tone);
    let adapts = AdaptiveDelay { min: Duration::ZERO, max: Duration::from_millis(60), freeze: None };
    let config = PlayoutConfig {
        opus: true,
        adapts: Some(adapts),
        ..PlayoutConfig::new(format(1), DELAY, Clocking::Sender)
    };
    let mut rng = Rng::fork(1, "jitter");
    let late: Vec<u64> =
        (0..sent.len()).map(|n| u64::from(rng.below(if n > 200 { 30_000 } else { 2_000 }))).collect();
    let receiver = heard(1, 480, Playout::new(config).unwrap(), &sent, |n| Some(late[n]));
    let adapted = receiver.playout.adapted().unwrap();
    assert!(adapted.stretched_frames > 200, "{adapted:?}");
    let sound = receiver.finish(6_000_000);
    // Pieces of whole periods leave the tone a tone.
    let loud = sound[4_800..sound.len() - 4_800].chunks_exact(480).filter(|part| {
        let power: f32 = part.iter().map(|x| x * x).sum::<f32>() / 480.0;
        (10.0 * (power / 0.125).log10()).abs() < 1.0
    });
    assert!(loud.count() * 100 > (sound.len() / 480 - 20) * 95);
}

#[test]
fn channel_groups_have_a_codec_each() {
    let groups = ChannelGroups::parse(5, "2,1,2").unwrap();
    let whole = PacketConfig { bit_rate: Some(320_000), ..config(5, 960) };
    assert_eq!(whole.one_packet_block(groups), Ok(960));
    let mut packetisers = Packetiser::for_groups(whole, groups, 1).unwrap();
    let rates: Vec<u32> = packetisers.iter().map(|one| one.config().bandwidth()).collect();
    assert_eq!(rates, [128_000, 64_000, 128_000]);
    let playout =
        PlayoutConfig { groups, opus: true, ..PlayoutConfig::new(format(5), DELAY, Clocking::Sender) };
    let mut playout = Playout::new(playout).unwrap();
    let mut depacketiser = Depacketiser::grouped(format(5), Coding::Opus, groups);
    let level = |channel: usize| 0.1 * (channel + 1) as f64;
    let (mut buf, mut block, mut sound) = (vec![0; 1500], vec![0.0; 200 * 5], Vec::new());
    for n in 0..100usize {
        let now = Instant::from_millis(1 + n as u64 * 20);
        for (group, (packetiser, range)) in packetisers.iter_mut().zip(groups.ranges()).enumerate() {
            let part: Vec<f32> = (n * 960..(n + 1) * 960)
                .flat_map(|at| {
                    range.clone().map(move |channel| (level(channel) * (TURN * at as f64).sin()) as f32)
                })
                .collect();
            packetiser.packetise(&part, NtpTime::default(), &mut buf, |_, bytes| {
                let view = parse_rtp(bytes, ExtensionIds::default()).unwrap();
                let packet = depacketiser.accept_in(group, &view).unwrap();
                assert_eq!(playout.insert_in(group, now, &packet), Inserted::Buffered);
            });
        }
        loop {
            let pulled = playout.pull(now, &mut block);
            sound.extend(&block[..pulled.frames * 5]);
            if pulled.frames == 0 {
                break;
            }
        }
    }
    for one in 0..5 {
        let (db, degrees, rest) = fits(&channel(&sound, 5, one)[1_000..80_000], 1_000, level(one));
        assert!(
            db.abs() < 0.3 && degrees.abs() < 0.75 && rest < -25.0,
            "{one}: {db} dB, {degrees} degrees, {rest} dB"
        );
    }
}

#[test]
fn settings_that_opus_does_not_have_are_refused_with_what_to_do() {
    let error = |config: PacketConfig| Packetiser::new(config, 1).err().unwrap();
    assert_eq!(error(config(2, 256)), PacketError::OpusFrames { frames: 256 });
    assert!(error(config(2, 256)).to_string().contains("120, 240, 480, 960, 1920 or 2880"));
    assert_eq!(error(config(3, 960)), PacketError::Format(FormatError::OpusChannels { channels: 3 }));
    let at = |bit_rate, block| PacketConfig { bit_rate: Some(bit_rate), ..config(2, block) };
    assert!(error(at(15_000, 960)).to_string().contains("16 to 510 kbit/s"));
    assert!(matches!(error(at(510_000, 2880)), PacketError::OpusTooLong { .. }));
    assert!(Packetiser::new(at(510_000, 960), 1).is_ok() && Packetiser::new(at(16_000, 2880), 1).is_ok());
    let whole = ChannelGroups::whole(6);
    assert!(config(6, 960).one_packet_block(whole).is_err());
}

#[test]
fn no_packet_is_longer_than_the_path_takes() {
    let mut rng = Rng::fork(1, "noise");
    for (block, bit_rate) in [(120, 510_000), (960, 510_000), (960, 96_000), (2880, 150_000), (1920, 16_000)]
    {
        let config = PacketConfig { bit_rate: Some(bit_rate), ..config(2, block) };
        let mut packetiser = Packetiser::new(config, 1).unwrap();
        let mut buf = vec![0; 1500];
        // The path becomes narrower on the way.
        for most in [1452, 1452, 1280, 700, 500, 200] {
            for loud in [0.0, 1.0, 0.0, f32::NAN, 1e30] {
                let sound: Vec<f32> =
                    (0..block * 2).map(|_| loud * (2.0 * rng.unit() as f32 - 1.0)).collect();
                let mut made = 0;
                packetiser.packetise(&sound, NtpTime::default(), &mut buf[..most], |_, bytes| {
                    assert!(bytes.len() <= most.min(config.longest().unwrap()));
                    let view = parse_rtp(bytes, ExtensionIds::default()).unwrap();
                    assert_eq!(packet_frames(view.payload), Some(block as usize));
                    made += 1;
                });
                assert_eq!(made, 1, "{block} {bit_rate} {most} {loud}");
            }
        }
    }
}

proptest! {
    #[test]
    fn hostile_packets_are_played_or_refused(
        packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..60), any::<u8>(), 0u32..60), 1..30),
        valid in any::<u64>(),
    ) {
        let sent = packets_of_noise();
        let mut receiver = Receiver::new(2, playout(2, Concealment::default()));
        let mut us = 1_000;
        for (n, (payload, sequence, stamp)) in packets.into_iter().enumerate() {
            let mut bytes = vec![0x80, 96, 0, sequence % 40];
            bytes.extend((stamp * 240).to_be_bytes());
            bytes.extend([0, 0, 0, 7]);
            if valid >> (n % 64) & 1 == 1 {
                let mut from = sent[n % sent.len()].clone();
                if let (Some(at), Some(to)) = (from.get_mut(usize::from(sequence) % 20), payload.first()) {
                    *at = *to;
                }
                bytes.extend(from);
            } else {
                bytes.extend(payload);
            }
            receiver.take(us, &bytes);
            us += 2_500;
            receiver.play(us);
        }
        let sound = receiver.finish(us + 1_000_000);
        prop_assert!(sound.iter().all(|x| x.abs() <= 1.0));
    }
}

/// Payloads of all modes of Opus.
fn packets_of_noise() -> Vec<Vec<u8>> {
    let mut rng = Rng::fork(1, "noise");
    let mut made = Vec::new();
    for (application, rate) in [(opus_rs::Application::Voip, 12_000), (opus_rs::Application::Audio, 24_000)] {
        for frames in [480, 960, 2880] {
            let mut encoder = opus_rs::OpusEncoder::new(48_000, 2, application).unwrap();
            (encoder.bitrate_bps, encoder.use_inband_fec, encoder.packet_loss_perc) = (rate, true, 30);
            let sound: Vec<f32> = (0..frames * 2).map(|_| 0.3 * rng.unit() as f32).collect();
            let mut payload = [0; 1500];
            for _ in 0..3 {
                let len = encoder.encode(&sound, frames, &mut payload).unwrap();
                made.push(payload[..len].to_vec());
            }
        }
    }
    made
}

fn payload(packet: &[u8]) -> &[u8] {
    parse_rtp(packet, ExtensionIds::default()).unwrap().payload
}

/// Silence of `SILENT` packets between sounds: the codec stands still meanwhile, and nobody hears that it did.
#[test]
fn silence_is_not_encoded_again_and_again_and_sound_after_it_is_as_good() {
    const SOUND: usize = 20;
    const SILENT: usize = 200;
    for block in [480, 2880] {
        for channels in [1, 2] {
            let frames = block as usize;
            let bursts = |at: usize, channel: usize| match (at / frames) % (SOUND + SILENT) {
                n if n < SOUND => tone(at, channel),
                _ => 0.0,
            };
            let made = packets(config(channels, block), 2 * (SOUND + SILENT) * frames, bursts);
            let still = &made[SOUND + 8..SOUND + SILENT];
            assert!(still.iter().all(|packet| payload(packet) == payload(&still[0])), "{block}");

            let mut decoder = Decoder::new(channels as usize);
            let mut out = vec![0.0; MOST_FRAMES * channels as usize];
            let mut loudest = Vec::new();
            for packet in &made {
                let frames = decoder.decode(payload(packet), &mut out);
                assert_eq!(frames, block as usize);
                let sound = &out[..frames * channels as usize];
                loudest.push(sound.iter().fold(0.0_f32, |most, sample| most.max(sample.abs())));
            }
            let quiet = &loudest[SOUND + 8..SOUND + SILENT];
            assert!(quiet.iter().all(|level| *level == 0.0), "{block}: {quiet:?}");
            let again = &loudest[SOUND + SILENT + 1..2 * SOUND + SILENT - 1];
            assert!(again.iter().all(|level| (0.4..0.6).contains(level)), "{block}: {again:?}");
        }
    }
}

/// A packet of silence after sound is decoded, though the same bytes were silence before: the sound's end is in it.
#[test]
fn the_end_of_sound_is_heard_in_the_packet_of_silence_behind_it() {
    let silence = packets(config(1, 2880), 2880 * 20, |_, _| 0.0);
    let sound = packets(config(1, 2880), 2880 * 2, tone);
    let mut decoder = Decoder::new(1);
    let mut out = vec![0.0; MOST_FRAMES];
    let mut loudest = |packet: &[u8]| {
        let frames = decoder.decode(payload(packet), &mut out);
        out[..frames].iter().fold(0.0_f32, |most, sample| most.max(sample.abs()))
    };
    assert!(silence.iter().all(|packet| loudest(packet) < 1e-6));
    assert!(sound.iter().all(|packet| loudest(packet) > 0.4));
    let end = loudest(&silence[19]);
    assert!(end > 0.01, "{end}");
}
