use super::*;
use crate::packet::{Depacketiser, ExtensionIds, parse_rtp};
use crate::{ChannelGroups, SampleFormat, StreamFormat};
use antiphon_core::Rng;
use proptest::prelude::*;
use std::time::Duration;

fn config(rate: u32, channels: u32, sample: SampleFormat, block: u32) -> PacketConfig {
    PacketConfig::new(StreamFormat::new(rate, channels).unwrap(), sample, block)
}

#[test]
fn static_types_where_rfc_3551_has_one() {
    assert_eq!(config(8_000, 1, SampleFormat::MuLaw, 160).payload_type, 0);
    assert_eq!(config(8_000, 1, SampleFormat::ALaw, 160).payload_type, 8);
    assert_eq!(config(44_100, 2, SampleFormat::L16, 256).payload_type, 10);
    assert_eq!(config(44_100, 1, SampleFormat::L16, 256).payload_type, 11);
    assert_eq!(config(48_000, 2, SampleFormat::L16, 256).payload_type, 96);
}

#[test]
fn refusals_name_the_remedy() {
    let error = |c: PacketConfig| Packetiser::new(c, 1).err().unwrap().to_string();
    let good = config(48_000, 64, SampleFormat::F32, 256);
    assert!(error(PacketConfig { max_packet: 200, ..good }).contains("fewer channels"));
    assert!(error(PacketConfig { block_frames: 8, ..good }).contains("16 to 4096"));
    assert!(error(PacketConfig { payload_type: 72, ..good }).contains("96 to 127"));
    let ids = ExtensionIds { ntp: Some(2), format: Some(2), ..ExtensionIds::NONE };
    assert!(error(PacketConfig { extensions: ids, ..good }).contains("different"));
}

#[test]
fn blocks_split_evenly_and_ptime_limits() {
    // 256 sample frames of 24-bit stereo are 1536 bytes: two packets of 128.
    assert_eq!(config(48_000, 2, SampleFormat::L24, 256).packet_frames(), Ok(128));
    assert_eq!(config(48_000, 2, SampleFormat::L16, 256).packet_frames(), Ok(256));
    let aes67 =
        PacketConfig { ptime: Some(Duration::from_millis(1)), ..config(48_000, 2, SampleFormat::L24, 480) };
    assert_eq!(aes67.packet_frames(), Ok(48));
}

#[test]
fn only_very_short_blocks_leave_together() {
    let together = |config: PacketConfig| {
        let block = config.one_packet_block(ChannelGroups::whole(config.format.channels())).unwrap();
        config.blocks_together(block)
    };
    // Blocks of 22 sample frames: 44 last less than a millisecond.
    assert_eq!(together(config(48_000, 64, SampleFormat::L16, 256)), 2);
    // Of 64 or 128 sample frames no more than 16 or 32 may leave together.
    assert_eq!(together(config(48_000, 64, SampleFormat::L16, 64)), 1);
    assert_eq!(together(config(48_000, 64, SampleFormat::L16, 128)), 1);
    assert_eq!(together(config(48_000, 2, SampleFormat::L16, 256)), 1);
    assert_eq!(together(config(48_000, 8, SampleFormat::L24, 4096)), 1);
    // Who asks for a packet's duration gets packets of it, one by one.
    let short = Some(Duration::from_micros(125));
    assert_eq!(together(PacketConfig { ptime: short, ..config(48_000, 2, SampleFormat::L24, 256) }), 1);
}

#[test]
fn a_block_becomes_one_packet_of_every_group() {
    let whole = |config: PacketConfig| {
        config.one_packet_block(ChannelGroups::whole(config.format.channels())).unwrap()
    };
    let ptime = |rate, micros, block| PacketConfig {
        ptime: Some(Duration::from_micros(micros)),
        ..config(rate, 2, SampleFormat::L24, block)
    };
    // AES67's usual packet of 1 ms: 48 sample frames of 48 kHz. A fraction of a sample frame is dropped.
    assert_eq!(whole(ptime(48_000, 1_000, 256)), 48);
    assert_eq!(whole(ptime(44_100, 1_000, 256)), 44);
    assert_eq!(whole(ptime(44_100, 5_000, 256)), 220);
    assert_eq!(whole(ptime(96_000, 333, 256)), 31);
    assert_eq!(whole(ptime(11_025, 1_000, 256)), 22, "two packets, as the shortest block is longer than one");
    // AES67's short packet is 6 sample frames each time, not 6, 6 and 4.
    let short = PacketConfig { block_frames: whole(ptime(48_000, 125, 256)), ..ptime(48_000, 125, 256) };
    assert_eq!((short.block_frames, short.packet_frames()), (18, Ok(6)));
    assert_eq!(whole(ptime(48_000, 125, 16)), 16, "no longer than asked");
    assert_eq!(whole(ptime(48_000, 20_000, 64)), 64, "no longer than asked");
    // 1452 bytes less a header of 32 are 236 sample frames of 24-bit stereo, not two packets of 128.
    assert_eq!(whole(config(48_000, 2, SampleFormat::L24, 256)), 236);
    assert_eq!(whole(config(48_000, 64, SampleFormat::L16, 256)), 22, "11 fit");
    // The widest group decides, with the longer header of a divided stream: 1404 bytes for five channels of 24 bits.
    let divided = config(48_000, 8, SampleFormat::L24, 256);
    let groups = |text| ChannelGroups::parse(8, text).unwrap();
    assert_eq!(divided.one_packet_block(groups("2,5,1")), Ok(93));
    assert_eq!(divided.one_packet_block(groups("1")), Ok(256));
    let narrow = PacketConfig { max_packet: 60, ..config(48_000, 64, SampleFormat::F32, 256) };
    assert!(matches!(narrow.one_packet_block(ChannelGroups::whole(64)), Err(PacketError::Narrow { .. })));
}

proptest! {
    /// One packet of each group, and one sample frame more would be a longer block or a second packet; or as few full packets as have sixteen.
    #[test]
    fn blocks_are_as_long_as_one_packet_takes(
        channels in 1usize..=64, starts in any::<u64>(), block in 16u32..=4096, max_packet in 400usize..3000,
        ptime in prop::option::of(200u64..20_000), coding in 0usize..3,
    ) {
        let groups = ChannelGroups::from_starts(channels, starts).unwrap_or(ChannelGroups::whole(channels));
        let ptime = ptime.map(Duration::from_micros);
        let asked = PacketConfig { max_packet, ptime, ..config(48_000, channels as u32, SampleFormat::ALL[coding], block) };
        let packets = |frames: u32| {
            let mut made = Packetiser::for_groups(PacketConfig { block_frames: frames, ..asked }, groups, 1).unwrap();
            let (mut buf, mut most) = (vec![0; max_packet], 0);
            for (packetiser, range) in made.iter_mut().zip(groups.ranges()) {
                let mut packets = 0;
                packetiser.packetise(&vec![0.0; frames as usize * range.len()], NtpTime::default(), &mut buf, |_, _| packets += 1);
                most = most.max(packets);
            }
            most
        };
        let one = asked.one_packet_block(groups).unwrap();
        prop_assert!(one <= block);
        // The shortest block is sixteen sample frames: no more packets than those take, and none that could be longer.
        prop_assert_eq!(packets(one), packets(16));
        prop_assert!(one == block || packets(one + 1) > packets(one));
    }
}

#[test]
fn marker_numbers_and_announcements() {
    let mut packetiser = Packetiser::new(config(48_000, 1, SampleFormat::L16, 64), 7).unwrap();
    let (mut buf, mut seen) = ([0; 1500], Vec::new());
    for n in 0..100u64 {
        if n == 50 {
            packetiser.skip(64);
        }
        packetiser.packetise(&[0.0; 64], NtpTime::from_bits(n << 32), &mut buf, |info, bytes| {
            let view = parse_rtp(bytes, ExtensionIds::default()).unwrap();
            assert_eq!(view.ntp, Some(NtpTime::from_bits(n << 32)));
            assert_eq!(view.format.is_some(), n < 32 || n % 16 == 0, "packet {n}");
            seen.push((info, view.marker));
        });
    }
    let steps: Vec<u32> = seen.windows(2).map(|w| w[1].0.timestamp.wrapping_sub(w[0].0.timestamp)).collect();
    assert!(steps.iter().enumerate().all(|(i, s)| *s == if i == 49 { 128 } else { 64 }));
    let marked: Vec<usize> = seen.iter().enumerate().filter(|(_, s)| s.1).map(|(i, _)| i).collect();
    assert_eq!(marked, [0, 50]);
    assert_eq!(packetiser.sent(), (100, 100 * 128));
}

#[test]
fn seeds_decide_the_start() {
    let start = |seed| {
        let p = Packetiser::new(config(48_000, 1, SampleFormat::L16, 64), seed).unwrap();
        (p.ssrc(), p.sequence, p.timestamp_at(0))
    };
    assert_eq!(start(1), start(1));
    assert!(start(1).0 != start(2).0 && start(1).2 != start(2).2);
}

proptest! {
    #[test]
    fn what_is_packetised_comes_back_and_no_packet_is_too_long(
        seed in any::<u64>(),
        channels in 1u32..=64,
        block in 16u32..=4096,
        max_packet in 300usize..3000,
        coding in 0usize..3,
        with_extensions in any::<bool>(),
    ) {
        let sample = SampleFormat::ALL[coding];
        let mut config = PacketConfig { max_packet, ..config(48_000, channels, sample, block) };
        if !with_extensions {
            config.extensions = ExtensionIds::NONE;
        }
        let mut packetiser = Packetiser::new(config, seed).unwrap();
        let mut rng = Rng::new(seed);
        let sound: Vec<f32> = (0..block * channels).map(|_| f32::from(rng.next_u32() as i16) / 32_768.0).collect();
        let (mut buf, mut back) = (vec![0; max_packet], Vec::new());
        let mut depacketiser = Depacketiser::new(config.format, sample);
        let mut expected_sequence = None;
        packetiser.packetise(&sound, NtpTime::default(), &mut buf, |info, bytes| {
            assert!(bytes.len() <= max_packet);
            let view = parse_rtp(bytes, config.extensions).unwrap();
            let packet = depacketiser.accept(&view).unwrap();
            assert_eq!(packet.frames, info.frames);
            assert_eq!(packet.timestamp & 0xffff_ffff, u64::from(info.timestamp));
            assert!(expected_sequence.is_none_or(|s| s == packet.sequence));
            expected_sequence = Some(packet.sequence + 1);
            let mut part = vec![0.0; packet.frames * channels as usize];
            packet.decode(0, &mut part);
            back.extend(part);
        });
        prop_assert_eq!(back, sound);
    }
}

#[test]
fn groups_share_the_clock_and_nothing_else() {
    let format = StreamFormat::new(44_100, 7).unwrap();
    let groups = ChannelGroups::parse(7, "2,1,2,2").unwrap();
    let config = PacketConfig::new(format, SampleFormat::L16, 256);
    let mut made = Packetiser::for_groups(config, groups, 5).unwrap();
    let ssrcs: Vec<u32> = made.iter().map(Packetiser::ssrc).collect();
    assert!((1..4).all(|n| !ssrcs[..n].contains(&ssrcs[n])));
    assert!((1..4).all(|n| made[n].next_sequence() != made[0].next_sequence()));
    // One payload type for each number of channels, though RFC 3551 has a static one for both.
    let types: Vec<u8> = made.iter().map(|packetiser| packetiser.config().payload_type).collect();
    assert_eq!(types, [96, 97, 96, 96]);
    let mut buf = vec![0; 1500];
    for block in 0..40u64 {
        let mut stamps = Vec::new();
        for (index, (packetiser, range)) in made.iter_mut().zip(groups.ranges()).enumerate() {
            let sound = vec![0.25; 256 * range.len()];
            packetiser.packetise(&sound, NtpTime::default(), &mut buf, |info, bytes| {
                let view = parse_rtp(bytes, ExtensionIds::default()).unwrap();
                stamps.push((view.timestamp, info.frames));
                assert_eq!(view.ssrc, ssrcs[index]);
                let told = InBandGroup { sender: ssrcs[0], index: index as u8, groups };
                let announced = block < 32 || block % 16 == 0;
                assert_eq!(view.group, announced.then_some(told), "{block}");
                assert_eq!(view.format.map(|f| f.format.channels()), announced.then_some(range.len()));
            });
        }
        assert_eq!(stamps, vec![stamps[0]; 4]);
    }
}
