use super::*;
use crate::packetiser::{VideoPacketConfig, VideoPacketiser};

/// VP8 frames of so many bytes, packetised.
fn packets(sizes: &[usize], marked: bool) -> (Vec<Frame>, Vec<Vec<Vec<u8>>>) {
    let marking = marked.then_some(MARKING_ID);
    let config = VideoPacketConfig { marking, max_packet: 200, ..VideoPacketConfig::new(Codec::Vp8) };
    let mut packetiser = VideoPacketiser::new(config, 7).expect("a possible configuration");
    let mut buf = [0; 200];
    let frames: Vec<Frame> = (0u64..)
        .zip(sizes)
        .map(|(n, size)| {
            let mut data: Vec<u8> = (0..*size).map(|at| (at * 7 + n as usize) as u8).collect();
            data[0] |= 1;
            let picture = Inspector::new(Codec::Vp8).inspect(&data).expect("a frame");
            Frame { codec: Codec::Vp8, time: video_time(n * 3_600), picture, data }
        })
        .collect();
    let packets = frames.iter().map(|frame| {
        let mut made = Vec::new();
        packetiser.packetise(frame, &mut buf, |_, packet| made.push(packet.to_vec())).expect("it fits");
        made
    });
    let packets = packets.collect();
    (frames, packets)
}

fn depacketiser(marked: bool, reorder: u64) -> Depacketiser {
    let marking = marked.then_some(MARKING_ID);
    Depacketiser::new(DepacketiserConfig { marking, reorder, ..DepacketiserConfig::new(Codec::Vp8) })
}

fn all(depacketiser: &mut Depacketiser) -> Vec<ReceivedFrame> {
    std::iter::from_fn(|| depacketiser.poll_frame()).collect()
}

#[test]
fn frames_come_out_as_soon_as_they_are_whole() {
    let (frames, packets) = packets(&[1_000, 30, 700], true);
    let mut depacketiser = depacketiser(true, 64);
    for (frame, packets) in frames.iter().zip(&packets) {
        for packet in packets {
            assert_eq!(all(&mut depacketiser), []);
            depacketiser.handle_packet(packet).expect("our own");
        }
        let [received] = &all(&mut depacketiser)[..] else { panic!("one frame is whole") };
        assert_eq!(received.frame.as_ref(), Some(frame));
        assert_eq!(received.missing, 0);
    }
    assert_eq!(depacketiser.held_bytes(), 0);
}

#[test]
fn overtaken_packets_and_copies_do_no_harm() {
    let (frames, packets) = packets(&[1_000, 30, 700], true);
    let mut depacketiser = depacketiser(true, 64);
    let mut order: Vec<_> = packets.iter().flatten().collect();
    // The first packet stays: what comes before it would be the stream's begin.
    order[1..].reverse();
    let again = order.clone();
    for packet in order.into_iter().chain(again) {
        depacketiser.handle_packet(packet).expect("our own");
    }
    let received = all(&mut depacketiser);
    assert!(received.iter().map(|frame| frame.frame.clone()).eq(frames.into_iter().map(Some)));
    assert!(depacketiser.counters().duplicates > 0);
}

#[test]
fn a_lost_last_packet_breaks_one_frame_and_not_two() {
    let (frames, mut packets) = packets(&[1_000, 500, 700], true);
    packets[0].pop();
    let mut depacketiser = depacketiser(true, 2);
    for packet in packets.iter().flatten() {
        depacketiser.handle_packet(packet).expect("our own");
    }
    let received = all(&mut depacketiser);
    let whole: Vec<_> = received.iter().map(ReceivedFrame::is_whole).collect();
    assert_eq!(whole, [false, true, true]);
    assert_eq!(received[1].frame.as_ref(), Some(&frames[1]));
    assert_eq!((received[1].missing, depacketiser.counters().missing), (1, 1));
}

#[test]
fn a_lost_first_packet_is_noticed_without_marks() {
    for marked in [false, true] {
        let (_, mut packets) = packets(&[1_000, 500, 700], marked);
        packets[1].remove(0);
        let mut depacketiser = depacketiser(marked, 2);
        for packet in packets.iter().flatten() {
            depacketiser.handle_packet(packet).expect("our own");
        }
        let whole: Vec<_> = all(&mut depacketiser).iter().map(ReceivedFrame::is_whole).collect();
        assert_eq!(whole, [true, false, true]);
    }
}

#[test]
fn a_gap_waits_until_the_frame_is_to_be_shown() {
    let (_, packets) = packets(&[1_000, 500], true);
    let mut depacketiser = depacketiser(true, 1_000);
    for packet in packets.iter().flatten().enumerate().filter(|(n, _)| *n != 2).map(|(_, packet)| packet) {
        depacketiser.handle_packet(packet).expect("our own");
    }
    assert_eq!(all(&mut depacketiser), []);
    let first = depacketiser.first_timestamp.expect("packets came");
    depacketiser.give_up_through(first);
    let received = all(&mut depacketiser);
    assert_eq!(received.iter().map(ReceivedFrame::is_whole).collect::<Vec<_>>(), [false, true]);
    assert_eq!(received[0].missing, 1);
    // The packet comes after all: late.
    depacketiser.handle_packet(&packets[0][2]).expect("our own");
    assert_eq!((depacketiser.poll_frame(), depacketiser.counters().late), (None, 1));
}

#[test]
fn fragments_that_never_end_are_dropped_after_a_bound() {
    let mut config = DepacketiserConfig { max_bytes: 50_000, ..DepacketiserConfig::new(Codec::H264) };
    config.marking = None;
    let mut depacketiser = Depacketiser::new(config);
    let mut told = 0;
    for sequence in 0u16..20_000 {
        // A fragment (FU-A) that neither begins nor ends.
        let mut packet = vec![0x80, 96, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0x7c, 0x05];
        packet[2..4].copy_from_slice(&sequence.to_be_bytes());
        packet.resize(1_200, 7);
        depacketiser.handle_packet(&packet).expect("RTP");
        told += all(&mut depacketiser).len();
        assert!(depacketiser.held_bytes() <= 50_000 + 1_200 + OVERHEAD);
    }
    assert_eq!((told, depacketiser.counters().broken), (1, 1));
}

#[test]
fn a_sender_that_begins_anew_is_followed() {
    let (_, packets) = packets(&[1_000; 3], true);
    let mut depacketiser = depacketiser(true, 4);
    let send = |depacketiser: &mut Depacketiser, from: u16| {
        for (n, packet) in (0u16..).zip(packets.iter().flatten()) {
            let mut packet = packet.clone();
            packet[2..4].copy_from_slice(&from.wrapping_add(n).to_be_bytes());
            depacketiser.handle_packet(&packet).expect("our own");
        }
        all(depacketiser).iter().filter(|frame| frame.is_whole()).count()
    };
    assert_eq!(send(&mut depacketiser, 40_000), 3);
    // The first packet is taken for a late one, so its frame is lost.
    assert_eq!(send(&mut depacketiser, 20_000), 2);
    assert_eq!(send(&mut depacketiser, 50_000), 3);
    assert_eq!(depacketiser.counters().restarts, 1);
}

#[test]
fn a_stream_that_is_joined_in_a_frame_begins_with_the_next() {
    let (_, packets) = packets(&[1_000, 500], true);
    let mut depacketiser = depacketiser(true, 4);
    for packet in packets.iter().flatten().skip(2) {
        depacketiser.handle_packet(packet).expect("our own");
    }
    let whole: Vec<_> = all(&mut depacketiser).iter().map(ReceivedFrame::is_whole).collect();
    assert_eq!(whole, [false, true]);
}

#[test]
fn a_lost_picture_of_the_base_layer_is_told_and_another_is_not() {
    let config = VideoPacketConfig::new(Codec::Vp8);
    let mut packetiser = VideoPacketiser::new(config, 7).expect("a possible configuration");
    let mut depacketiser = depacketiser(true, 0);
    let mut buf = vec![0; config.max_packet];
    let mut told = Vec::new();
    for (n, layer) in [0, 1, 0, 1, 0, 1, 0].into_iter().enumerate() {
        let picture = Picture { droppable: layer == 1, temporal_layer: layer, ..Picture::default() };
        let frame =
            Frame { codec: Codec::Vp8, time: video_time(n as u64 * 3_600), picture, data: vec![1; 50] };
        let is_lost = [1, 4].contains(&n);
        let made = packetiser.packetise(&frame, &mut buf, |_, packet| {
            if !is_lost {
                depacketiser.handle_packet(packet).expect("our own");
            }
        });
        assert_eq!(made, Ok(1));
        told.extend(all(&mut depacketiser).iter().map(|frame| (frame.missing, frame.base_lost)));
    }
    assert_eq!(told, [(0, None), (1, Some(0)), (0, Some(0)), (1, Some(1)), (0, Some(0))]);
}

#[test]
fn packets_of_padding_between_frames_are_no_frames() {
    let (frames, packets) = packets(&[300, 300], true);
    let mut depacketiser = depacketiser(true, 64);
    let mut sequence = u16::from_be_bytes([packets[0][0][2], packets[0][0][3]]);
    let mut whole = Vec::new();
    for packets in &packets {
        let timestamp = &packets[0][4..8];
        let padding = [&[0xa0, 96, 0, 0], timestamp, &[0, 0, 0, 1, 0, 0, 0, 4]].concat();
        for packet in packets.iter().chain([&padding]) {
            let mut packet = packet.clone();
            packet[2..4].copy_from_slice(&sequence.to_be_bytes());
            sequence = sequence.wrapping_add(1);
            depacketiser.handle_packet(&packet).expect("RTP");
            whole.extend(all(&mut depacketiser).into_iter().map(|frame| frame.frame));
        }
    }
    whole.extend(std::iter::from_fn(|| depacketiser.finish()).map(|frame| frame.frame));
    assert!(whole.into_iter().eq(frames.into_iter().map(Some)));
}
