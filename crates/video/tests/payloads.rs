//! Frames of every codec through packets: any split, any order, any loss.

use antiphon_video::{
    Codec, Depacketiser, DepacketiserConfig, Frame, Inspector, MARKING_ID, Picture, VideoPacketConfig,
    VideoPacketiser, h264, jpeg, video_time,
};
use proptest::prelude::*;

/// Bytes without the patterns that mean something inside a picture of H.264 or JPEG.
fn body(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| 1 + ((at * 31 + usize::from(seed)) % 250) as u8).collect()
}

/// A picture in the form of [`Frame`], of about `len` bytes.
fn picture(codec: Codec, seed: u8, len: usize, key: bool) -> Vec<u8> {
    let mut data = body(seed, len);
    match codec {
        Codec::H264 => {
            let mut stream = Vec::new();
            if key {
                h264::push_unit(&mut stream, &[0x67, 66, 0xc0, 13, seed | 1]);
                h264::push_unit(&mut stream, &[0x68, 0xce, 0x38, 0x80]);
            }
            // Two slices: the first of its picture, and another.
            for first in [true, false] {
                data[0] = if first { 0x80 } else { 0x40 };
                let mut unit = vec![if key { 0x65 } else { 0x41 }];
                unit.extend(&data);
                h264::push_unit(&mut stream, &unit);
            }
            stream
        }
        Codec::Vp8 => {
            data[0] = data[0] & !1 | u8::from(!key);
            [&data[..3], &[0x9d, 1, 0x2a, 64, 1, 240, 0], &data[3..]].concat()
        }
        Codec::Vp9 => [&[if key { 0x82 } else { 0x86 }, 0x49, 0x83, 0x42], &data[..]].concat(),
        Codec::Av1 => {
            let mut out = Vec::new();
            if key {
                out.extend([0x0a, 11, 0, 0, 0, 0x24, 0xcf, 0x7f, 0x0d, 0xbf, 0xff, 0x30, 0x08]);
            }
            for len in [data.len() / 2, 3, 127.min(data.len())] {
                out.push(0x32);
                out.extend(leb128(len));
                out.push(if key { 0x10 } else { 0x30 });
                out.extend(&data[1..len]);
            }
            out
        }
        Codec::Mjpeg => jpeg::Jpeg {
            kind: seed & 1,
            size: antiphon_video::PictureSize { width: 320, height: 240 },
            restart_interval: u16::from(seed & 2),
            tables: jpeg::tables_of_quality(1 + seed % 99),
            scan: &data,
        }
        .write(),
    }
}

fn leb128(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 127 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn stream(
    codec: Codec,
    sizes: &[usize],
    max_packet: usize,
    marked: bool,
) -> (Vec<Frame>, Vec<(usize, Vec<u8>)>) {
    let marking = marked.then_some(MARKING_ID);
    let config = VideoPacketConfig { max_packet, marking, ..VideoPacketConfig::new(codec) };
    let mut packetiser = VideoPacketiser::new(config, 3).expect("a possible configuration");
    let mut inspector = Inspector::new(codec);
    let mut buf = vec![0; max_packet];
    let (mut frames, mut packets) = (Vec::new(), Vec::new());
    for (n, size) in sizes.iter().enumerate() {
        let data = picture(codec, n as u8, *size, n % 5 == 0);
        let picture = inspector.inspect(&data).unwrap_or_else(|| panic!("{codec}: picture {n}"));
        let frame = Frame { codec, time: video_time(n as u64 * 3_600), picture, data };
        let made = packetiser.packetise(&frame, &mut buf, |info, packet| {
            assert!(packet.len() <= max_packet);
            assert_eq!(info.marker, packet[1] & 0x80 != 0);
            packets.push((n, packet.to_vec()));
        });
        assert!(made.expect("it fits") > 0);
        frames.push(frame);
    }
    (frames, packets)
}

fn codec() -> impl Strategy<Value = Codec> {
    prop::sample::select(&Codec::ALL[..])
}

fn config(codec: Codec, marked: bool) -> DepacketiserConfig {
    let marking = marked.then_some(MARKING_ID);
    DepacketiserConfig { marking, reorder: 16, ..DepacketiserConfig::new(codec) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn frames_survive_any_split(
        codec in codec(),
        sizes in prop::collection::vec(1usize..6_000, 1..12),
        max_packet in 190usize..2_000,
        marked in any::<bool>(),
    ) {
        let sizes: Vec<_> = sizes.into_iter().map(|size| size + 8).collect();
        let (frames, packets) = stream(codec, &sizes, max_packet, marked);
        let mut depacketiser = Depacketiser::new(config(codec, marked));
        let mut received = Vec::new();
        for (_, packet) in &packets {
            depacketiser.handle_packet(packet).expect("our own");
            received.extend(std::iter::from_fn(|| depacketiser.poll_frame()));
        }
        let received: Vec<_> = received.into_iter().map(|frame| frame.frame.expect("nothing was lost")).collect();
        prop_assert_eq!(received, frames);
    }

    #[test]
    fn whole_frames_are_the_same_after_any_loss(
        codec in codec(),
        sizes in prop::collection::vec(200usize..4_000, 2..20),
        marked in any::<bool>(),
        swaps in prop::collection::vec(any::<bool>(), 200),
        seed in any::<u64>(),
        per_mille in 0u32..300,
    ) {
        let (frames, packets) = stream(codec, &sizes, 400, marked);
        let mut rng = antiphon_core::Rng::fork(seed, "loss");
        let mut lost = vec![0; frames.len()];
        let mut arriving = Vec::new();
        for (n, packet) in packets {
            // The first packet stays, so that all know where the stream begins.
            if !arriving.is_empty() && rng.below(1_000) < per_mille {
                lost[n] += 1;
            } else {
                arriving.push(packet);
            }
        }
        for at in 1..arriving.len().saturating_sub(1) {
            if swaps.get(at) == Some(&true) {
                arriving.swap(at, at + 1);
            }
        }
        let mut depacketiser = Depacketiser::new(config(codec, marked));
        let mut received = Vec::new();
        for packet in &arriving {
            depacketiser.handle_packet(packet).expect("our own");
            received.extend(std::iter::from_fn(|| depacketiser.poll_frame()));
        }
        received.extend(std::iter::from_fn(|| depacketiser.finish()));
        for frame in received.iter().filter_map(|received| received.frame.as_ref()) {
            let sent = frames.iter().find(|sent| sent.time == frame.time);
            prop_assert_eq!(Some(frame), sent);
        }
        for (n, (frame, lost)) in frames.iter().zip(&lost).enumerate() {
            let told = received.iter().filter(|told| told.timestamp - received[0].timestamp == frame.time.frames);
            let told: Vec<_> = told.collect();
            prop_assert!(told.len() <= 1, "frame {} was told {} times", n, told.len());
            let whole = told.iter().any(|told| told.is_whole());
            if *lost > 0 {
                prop_assert!(!whole, "frame {} lacks packets", n);
            } else if marked {
                prop_assert!(whole, "frame {} came whole", n);
                prop_assert_eq!(told[0].picture, Picture { size: told[0].picture.size, ..frame.picture });
            }
        }
        prop_assert_eq!(depacketiser.held_bytes(), 0);
    }

    #[test]
    fn hostile_packets_neither_panic_nor_fill_memory(
        codec in codec(),
        payloads in prop::collection::vec((any::<u8>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 1..60),
    ) {
        let mut depacketiser = Depacketiser::new(DepacketiserConfig { max_bytes: 2_000, ..config(codec, false) });
        for (step, marker, payload) in payloads {
            let mut packet = vec![0x80, 96 | u8::from(marker) << 7, 0, step, 0, 0, 0, step / 8, 0, 0, 0, 1];
            packet.extend(payload);
            depacketiser.handle_packet(&packet).expect("RTP");
            while depacketiser.poll_frame().is_some() {}
            prop_assert!(depacketiser.held_bytes() <= 2_000 + 200);
        }
        while depacketiser.finish().is_some() {}
    }
}
