use super::*;
use proptest::prelude::*;
use rtcp_types::{Compound, Packet};

fn block() -> impl Strategy<Value = ReportBlock> {
    (any::<[u32; 5]>(), any::<u8>(), -0x80_0000i32..0x80_0000).prop_map(
        |(n, fraction_lost, cumulative_lost)| ReportBlock {
            ssrc: n[0],
            fraction_lost,
            cumulative_lost,
            highest_sequence: n[1],
            jitter: n[2],
            last_sr: n[3],
            delay_since_last_sr: n[4],
        },
    )
}

fn info() -> impl Strategy<Value = SenderInfo> {
    (any::<u64>(), any::<[u32; 3]>()).prop_map(|(ntp, n)| SenderInfo {
        ntp: NtpTime::from_bits(ntp),
        rtp_timestamp: n[0],
        packets: n[1],
        octets: n[2],
    })
}

fn compound(ssrc: u32, info: Option<&SenderInfo>, blocks: &[ReportBlock], name: &str, bye: bool) -> Vec<u8> {
    let mut buf = vec![0xaa; 2000];
    let mut len = write_report(ssrc, info, blocks, &mut buf).unwrap();
    len += write_cname(ssrc, name, &mut buf[len..]).unwrap();
    if bye {
        len += write_bye(ssrc, &mut buf[len..]).unwrap();
    }
    buf.truncate(len);
    buf
}

proptest! {
    /// An independent parser reads what we write as meant.
    #[test]
    fn another_parser_agrees(ssrc in any::<u32>(), info in prop::option::of(info()), blocks in prop::collection::vec(block(), 0..31), name in "[a-z@.é]{0,140}") {
        let bytes = compound(ssrc, info.as_ref(), &blocks, &name, true);
        let packets: Vec<Packet> = Compound::parse(&bytes).unwrap().map(|p| p.unwrap()).collect();
        prop_assert_eq!(packets.len(), 3);
        let theirs: Vec<ReportBlock> = match (&packets[0], &info) {
            (Packet::Sr(sr), Some(info)) => {
                prop_assert_eq!((sr.ssrc(), sr.ntp_timestamp()), (ssrc, info.ntp.to_bits()));
                prop_assert_eq!((sr.rtp_timestamp(), sr.packet_count(), sr.octet_count()), (info.rtp_timestamp, info.packets, info.octets));
                sr.report_blocks().map(|b| from_theirs(&b)).collect()
            }
            (Packet::Rr(rr), None) => {
                prop_assert_eq!(rr.ssrc(), ssrc);
                rr.report_blocks().map(|b| from_theirs(&b)).collect()
            }
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(theirs, blocks);
        let Packet::Sdes(sdes) = &packets[1] else { panic!() };
        let chunk = sdes.chunks().next().unwrap();
        let cut = &name[..name.floor_char_boundary(255)];
        prop_assert_eq!((chunk.ssrc(), chunk.items().next().unwrap().value()), (ssrc, cut.as_bytes()));
        let Packet::Bye(bye) = &packets[2] else { panic!() };
        prop_assert_eq!(bye.ssrcs().collect::<Vec<_>>(), [ssrc]);
    }

    #[test]
    fn what_is_written_is_read(ssrc in any::<u32>(), sent in prop::option::of(info()), received in prop::collection::vec(block(), 0..31), name in "[a-z@.]{0,255}") {
        let bytes = compound(ssrc, sent.as_ref(), &received, &name, true);
        let (mut reports, mut names, mut byes) = (Vec::new(), Vec::new(), 0);
        visit_compound(&bytes, |item| match item {
            RtcpItem::Sender { ssrc: from, info, blocks } => reports.push((from, Some(info), blocks.collect::<Vec<_>>())),
            RtcpItem::Receiver { ssrc: from, blocks } => reports.push((from, None, blocks.collect())),
            RtcpItem::Cname { ssrc: from, name } => names.push((from, name.to_vec())),
            RtcpItem::Bye { ssrc: from } => byes += u32::from(from == ssrc),
            RtcpItem::Buffered { .. } | RtcpItem::Group { .. } | RtcpItem::Other { .. } => panic!(),
        }).unwrap();
        prop_assert_eq!(reports, [(ssrc, sent, received)]);
        prop_assert_eq!(names, [(ssrc, name.into_bytes())]);
        prop_assert_eq!(byes, 1);
    }

    #[test]
    fn no_bytes_panic_and_nothing_is_lent_from_a_broken_compound(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200), flips in prop::collection::vec((0usize..200, any::<u8>()), 0..4), real in any::<bool>(),
    ) {
        if real {
            bytes = compound(7, Some(&SenderInfo::default()), &[ReportBlock::default(); 2], "a@b", true);
            for (at, bits) in flips {
                let at = at % bytes.len();
                bytes[at] ^= bits;
            }
        }
        let mut items = 0;
        let result = visit_compound(&bytes, |item| {
            items += 1;
            if let RtcpItem::Sender { blocks, .. } | RtcpItem::Receiver { blocks, .. } = item {
                items += blocks.count();
            }
        });
        prop_assert!(result.is_ok() || items == 0);
    }
}

fn from_theirs(block: &rtcp_types::ReportBlock) -> ReportBlock {
    ReportBlock {
        ssrc: block.ssrc(),
        fraction_lost: block.fraction_lost(),
        cumulative_lost: ((block.cumulative_lost() << 8) as i32) >> 8,
        highest_sequence: block.extended_sequence_number(),
        jitter: block.interarrival_jitter(),
        last_sr: block.last_sender_report_timestamp(),
        delay_since_last_sr: block.delay_since_last_sender_report_timestamp(),
    }
}

#[test]
fn small_buffers_are_refused() {
    let mut buf = [0; 11];
    assert_eq!(write_report(1, None, &[ReportBlock::default()], &mut buf), None);
    assert_eq!(write_cname(1, "antiphon", &mut buf), None);
    assert_eq!(write_bye(1, &mut buf), Some(8));
}

#[test]
fn padding_and_truncation_are_checked() {
    let good = compound(1, None, &[], "a", false);
    for len in 0..good.len() {
        // A cut between two packets leaves a whole first packet.
        assert!(visit_compound(&good[..len], |_| ()).is_err() || len == 8, "cut to {len}");
    }
    let mut padded = vec![0xa0, 201, 0, 2, 0, 0, 0, 1, 0, 0, 0, 4];
    assert_eq!(visit_compound(&padded, |_| ()), Ok(()));
    padded[11] = 12;
    assert_eq!(visit_compound(&padded, |_| ()), Err(RtcpError::Padding));
}
