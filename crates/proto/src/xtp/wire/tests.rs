//! Packets as analysers read them, damaged ones, and any bytes at all.

use proptest::prelude::*;

use super::writer::checksum;
use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

fn header_of(key: u64, returned: bool, options: u32, sync: u32, seq: u64) -> Header {
    Header { key: Key(key), returned, options, sort: 0, sync, seq }
}

/// Packets that tshark 4.0.17 dissects without complaint.
const DATA: &str = "00000001000000010024002000000005bbe0000000000002000000000000000068656c6c6f";
const UNCHECKED: &str = "00000001000000014024002000000005bfb2000000000002000000000000000068656c6c6f";
const TAGGED: &str =
    "0000000100000001020500200000000da8ce0007000000020000000000000000000000000000112268656c6c6f";
const CNTL: &str = "800000010000000100000021000000147fb400000000000700000000000000000000000000000005000000000001000500000002";
const ECNTL: &str = "800000010000000100000023000000287f830000000000080000000000000000000000000000000500000000000100050000000200000001000000000000000a000000000000000f";
const TCNTL: &str = "80000001000000010000002500000038ff890000000000030000000000000000000000000000000000000000000100000000000100000000000000020000000900180401000005780002b11000000a280002b11000000a28";
const FIRST_HELLO: &str = "0000000100000001004400220000002d9066000000000001000000000000000000100001c0000202c0000201138c138900180401000005780002b11000000a280002b11000000a2868656c6c6f";
const DIAG_1: &str =
    "8000000100000001000200280000001332a4000000000000000000000000000000000001000000016e6f206c697374656e6572";
const JCNTL: &str = "00000001000000010800002700000038d9620000000000010000000000000000000000000000000000000000000100000000000000000000000000020000000900100001ef01020300000000138813890008060000000000";
/// Of our own format, which tshark calls unknown: a member of a group has 5, lacks 100 bytes of which one packet is seen, and has 900.
const REPORT: &str = "80000001000000010800002a0000001a8f9800000000000700000000000000030000000000000005000000000001000500000002000164018407";

#[test]
fn vectors_are_read_as_analysers_read_them() {
    let options = option::DREQ | option::EOM;
    let hello = Segment::Data { tag: None, bytes: b"hello" };
    let key = 0x1_0000_0001;
    assert_eq!(parse(&bytes(DATA)), Some((header_of(key, false, options, 2, 0), hello)));
    let unchecked = header_of(key, false, options | option::NOCHECK, 2, 0);
    assert_eq!(parse(&bytes(UNCHECKED)), Some((unchecked, hello)));
    let packet = bytes(TAGGED);
    let (header, segment) = parse(&packet).expect("sound");
    assert_eq!((header.sort, header.has(option::SORT | option::EOM | option::BTAG)), (7, true));
    assert_eq!(segment, Segment::Data { tag: Some(0x1122), bytes: b"hello" });
    let status = Status { rseq: 5, alloc: 0x1_0005, echo: 2 };
    let packet = bytes(CNTL);
    assert_eq!(
        parse(&packet),
        Some((header_of(key, true, 0, 7, 0), Segment::Status(status, Spans::default())))
    );
    let packet = bytes(ECNTL);
    let Some((_, Segment::Status(told, spans))) = parse(&packet) else { panic!("no status") };
    assert_eq!((told, spans.iter().collect::<Vec<_>>()), (status, vec![(10, 15)]));
    let traffic =
        Traffic { max_data: 1400, in_rate: 176_400, in_burst: 2600, out_rate: 176_400, out_burst: 2600 };
    let packet = bytes(TCNTL);
    let Some((_, Segment::Traffic { key: own, traffic: told, .. })) = parse(&packet) else {
        panic!("no traffic")
    };
    assert_eq!((own, told), (Key(0x2_0000_0009), traffic));
    let packet = bytes(FIRST_HELLO);
    let first = Segment::First { service: 4, traffic, bytes: b"hello" };
    assert_eq!(parse(&packet).map(|(_, segment)| segment), Some(first));
    let packet = bytes(JCNTL);
    let join = Segment::Join {
        status: Status { rseq: 0, alloc: 0x1_0000, echo: 0 },
        key: Key(0x2_0000_0009),
        group: [239, 1, 2, 3],
    };
    assert_eq!(parse(&packet), Some((header_of(key, false, option::MULTI, 1, 0), join)));
    assert_eq!(ports(&packet), Some((9, 0)), "the member's is in its own key");
    let packet = bytes(REPORT);
    let report = Segment::Report(status, &[0, 1, 100, 1, 0x84, 0x07]);
    assert_eq!(parse(&packet), Some((header_of(key, true, option::MULTI, 7, 3), report)));
    let packet = bytes(DIAG_1);
    assert_eq!(parse(&packet).map(|(_, segment)| segment), Some(Segment::Diag { code: 1, value: 1 }));
}

#[test]
fn written_packets_are_the_vectors() {
    let mut buf = [0; 200];
    let mut writer = Writer::new(
        &mut buf,
        &header_of(0x1_0000_0001, false, option::DREQ | option::EOM, 2, 0),
        format::DATA,
    );
    writer.bytes(b"hello");
    let len = writer.finish();
    assert_eq!(buf[..len], bytes(DATA));
    let mut writer = Writer::new(&mut buf, &header_of(0x1_0000_0001, true, 0, 3, 0), format::TCNTL);
    writer.keyed_status(&Status { rseq: 0, alloc: 0x1_0000, echo: 1 }, Key(0x2_0000_0009));
    let traffic =
        Traffic { max_data: 1400, in_rate: 176_400, in_burst: 2600, out_rate: 176_400, out_burst: 2600 };
    writer.traffic(4, Some(&traffic));
    let len = writer.finish();
    assert_eq!(buf[..len], bytes(TCNTL));
}

#[test]
fn truncated_and_damaged_packets_are_refused() {
    for vector in [DATA, TAGGED, CNTL, ECNTL, TCNTL, FIRST_HELLO, JCNTL, REPORT, DIAG_1] {
        let whole = bytes(vector);
        for len in 0..whole.len() {
            assert_eq!(parse(&whole[..len]), None, "{vector}: {len} bytes");
        }
        for at in 0..whole.len() {
            let mut wrong = whole.clone();
            wrong[at] ^= 0x10;
            // NOCHECK takes the check away, as a damaged header shows.
            assert_eq!(parse(&wrong), None, "{vector}: byte {at}");
        }
    }
    let mut unchecked = bytes(UNCHECKED);
    unchecked[33] ^= 1;
    assert!(parse(&unchecked).is_some(), "only the header is covered");
}

fn ecntl(rseq: u64, spans: &[(u64, u64)], told: u32) -> Vec<u8> {
    let mut buf = vec![0; 2000];
    let mut writer = Writer::new(&mut buf, &header_of(1, true, 0, 1, 0), format::ECNTL);
    writer.status(&Status { rseq, alloc: rseq, echo: 1 });
    writer.u32(told);
    for (left, right) in spans {
        writer.u64(*left);
        writer.u64(*right);
    }
    let len = writer.finish();
    buf.truncate(len);
    buf
}

#[test]
fn spans_ascend_above_the_next_byte_also_where_numbers_wrap() {
    let near_end = u64::MAX - 4;
    for good in [
        ecntl(5, &[(10, 15), (16, 17)], 2),
        ecntl(near_end, &[(near_end + 1, 3), (4, 9)], 2),
        ecntl(0, &[], 0),
    ] {
        assert!(parse(&good).is_some());
    }
    for bad in [
        ecntl(5, &[(5, 8)], 1),
        ecntl(5, &[(10, 10)], 1),
        ecntl(5, &[(12, 10)], 1),
        ecntl(5, &[(10, 15), (12, 20)], 2),
        ecntl(5, &[(10, 15), (15, 20)], 2),
        ecntl(5, &[(20, 25), (10, 15)], 2),
        ecntl(5, &[(1, 3)], 1),
        ecntl(5, &[(10, 15)], 2),
        ecntl(5, &[(10, 15)], u32::MAX),
        ecntl(5, &[(10, 15)], 0),
    ] {
        assert_eq!(parse(&bad), None);
    }
}

#[test]
fn every_packet_tells_both_ports() {
    let key = Key::new(u32::MAX, 5004, 50_000);
    assert_eq!((key.owner(), key.other(), key.rest()), (50_000, 5004, u32::MAX >> 1));
    let header = |returned| Header { key, ..header_of(0, returned, 0, 0, 0) };
    assert_eq!(header(false).ports(), (50_000, 5004), "from the owner");
    assert_eq!(header(true).ports(), (5004, 50_000), "to the owner");
}

proptest! {
    #[test]
    fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), format in 0u8..12, sound: bool) {
        if sound && bytes.len() >= HEADER {
            let dlen = (bytes.len() - HEADER) as u32;
            bytes[12..16].copy_from_slice(&dlen.to_be_bytes());
            bytes[11] = VERSION << 5 | format;
            bytes[CHECK..CHECK + 2].fill(0);
            let covered = if bytes[8] & 0x40 == 0 { bytes.len() } else { HEADER };
            let check = checksum(&bytes[..covered]);
            bytes[CHECK..CHECK + 2].copy_from_slice(&check.to_be_bytes());
        }
        if let Some((header, Segment::Status(status, spans))) = parse(&bytes) {
            prop_assert!(header.options < 1 << 24);
            prop_assert!(spans.iter().all(|(left, right)| right.wrapping_sub(left) > 0
                && left.wrapping_sub(status.rseq) > 0));
        }
    }

    #[test]
    fn what_is_written_is_read(key in 0u64..1 << 63, returned: bool, sort: u16, sync: u32, seq: u64, tag: u64,
        data in prop::collection::vec(any::<u8>(), 0..100), nocheck: bool) {
        let mut options = option::BTAG | option::SORT;
        if nocheck {
            options |= option::NOCHECK;
        }
        let header = Header { key: Key(key), returned, options, sort, sync, seq };
        let mut buf = [0; 200];
        let mut writer = Writer::new(&mut buf, &header, format::DATA);
        writer.u64(tag);
        writer.bytes(&data);
        let len = writer.finish();
        prop_assert_eq!(parse(&buf[..len]), Some((header, Segment::Data { tag: Some(tag), bytes: &data })));
    }
}
