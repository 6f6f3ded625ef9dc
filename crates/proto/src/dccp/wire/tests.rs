//! Golden vectors (dissected clean by tshark 4.0.17: 192.0.2.1:5001 to 192.0.2.2:5004 and back, protocol 33), and
//! properties of the parser.

use std::net::{IpAddr, Ipv6Addr};

use proptest::prelude::*;

use super::checksum::crc32c;
use super::options::FeatureVerb;
use super::*;

const RTPA: u32 = u32::from_be_bytes(*b"RTPA");
const CLIENT: Seq48 = Seq48::new(0x1234_5678_9abc);
const SERVER: Seq48 = Seq48::new(0x0a0b_0c0d_0e0f);

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn checksum() -> Checksum {
    Checksum::over_ip("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()).unwrap()
}

fn header(kind: Kind, seq: Seq48) -> Header {
    let from_server = matches!(
        kind,
        Kind::Response { .. } | Kind::CloseReq { .. } | Kind::Reset { .. } | Kind::Listen { .. }
    );
    Header::new(if from_server { (5004, 5001) } else { (5001, 5004) }, kind, seq)
}

/// Emits to the golden bytes, and parses them to the same.
fn check(golden: &str, header: Header, options: impl FnOnce(&mut OptionWriter), data: &[u8]) {
    let golden = hex(golden);
    let mut writer = OptionWriter::default();
    options(&mut writer);
    let mut buf = [0; 200];
    let len = emit(&header, &writer, data, checksum(), &mut buf).unwrap();
    assert_eq!(buf[..len], golden, "{header:?}");
    let packet = Packet::parse(&golden, checksum()).unwrap();
    assert_eq!((packet.header, packet.raw_options, packet.data), (header, writer.padded(), data));
    let mut bare = golden.clone();
    bare[6..8].fill(0);
    let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
    assert!(!checksum::is_sound(&bare, one, other) || golden[6..8] == [0, 0]);
    checksum::seal(&mut bare, one, other);
    assert!(bare == golden && checksum::is_sound(&golden, one, other), "{header:?}");
    for bit in 0..golden.len() * 8 {
        let mut wrong = golden.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        let covered = header.coverage == 0 || bit / 8 < golden.len() - data.len();
        // A covered bit that flips is seen; coverage and offset bits may make another error of it.
        assert!(!covered || Packet::parse(&wrong, checksum()).is_none(), "bit {bit} of {header:?}");
    }
}

#[test]
fn the_handshake_is_the_golden_one() {
    use FeatureVerb::*;
    check(
        "1389138c0b00c1340100123456789abc52545041200401022204010220090300000000006429060000271000",
        header(Kind::Request { service: RTPA }, CLIENT),
        |options| {
            assert!(options.feature(ChangeL, 1, &[&[2]]) && options.feature(ChangeR, 1, &[&[2]]));
            assert!(options.feature(ChangeL, 3, &[&[0, 0, 0, 0, 0, 100]]));
            assert!(options.put(41, &[&10_000u32.to_be_bytes()]));
        },
        &[],
    );
    check(
        "138c13891000678b03000a0b0c0d0e0f0000123456789abc52545041210501020223050102022309030000000000642009030000000000642a06000027100000",
        header(Kind::Response { ack: CLIENT, service: RTPA }, SERVER),
        |options| {
            assert!(options.feature(ConfirmL, 1, &[&[2], &[2]]) && options.feature(ConfirmR, 1, &[&[2, 2]]));
            assert!(options.feature(ConfirmR, 3, &[&[0, 0, 0, 0, 0, 100]]));
            assert!(options.feature(ChangeL, 3, &[&[0, 0, 0, 0, 0, 100]]));
            assert!(options.write(DccpOption::TimestampEcho { stamp: 10_000, elapsed: 0 }));
        },
        &[],
    );
}

#[test]
fn data_of_every_coverage_is_the_golden_one() {
    for (golden, coverage) in [
        ("1389138c043004440500123456789abd68656c6c6f", 0),
        ("1389138c043148150500123456789abd68656c6c6f", 1),
        ("1389138c043273420500123456789abd68656c6c6f", 2),
    ] {
        let header = Header { ccval: 3, coverage, ..header(Kind::Data, CLIENT.next()) };
        check(golden, header, |_| {}, b"hello");
    }
}

#[test]
fn acknowledgements_are_the_golden_ones() {
    use DccpOption::*;
    check(
        "138c1389080015d607000000000000640000000000000064260700c003400500",
        Header::new((5004, 5001), Kind::Ack { ack: Seq48::new(100) }, Seq48::new(100)),
        |options| assert!(options.write(DccpOption::AckVector(&[0x00, 0xc0, 0x03, 0x40, 0x05]))),
        &[],
    );
    check(
        "138c1389100087fe07000a0b0c0d0e100000123456789abe2b040014c00600000064c206000055f0c11500000031000001000032000064000000000064000000",
        Header::new((5004, 5001), Kind::Ack { ack: CLIENT.plus(2) }, SERVER.next()),
        |options| {
            let intervals = [0, 0, 0, 49, 0, 0, 1, 0, 0, 50, 0, 0, 100, 0, 0, 0, 0, 0, 100];
            let all = [ElapsedTime(20), LossEventRate(100), ReceiveRate(22_000), LossIntervals(&intervals)];
            assert!(all.into_iter().all(|option| options.write(option)));
        },
        &[],
    );
}

#[test]
fn the_end_is_the_golden_one() {
    let close_req = Kind::CloseReq { ack: CLIENT.plus(2) };
    check("138c138906001c1a0b000a0b0c0d0e100000123456789abe", header(close_req, SERVER.next()), |_| {}, &[]);
    let close = Kind::Close { ack: SERVER.next() };
    check("1389138c06001a190d00123456789abf00000a0b0c0d0e10", header(close, CLIENT.plus(3)), |_| {}, &[]);
    let reset = Kind::Reset { ack: CLIENT.plus(3), code: ResetCode::CLOSED, data: [0; 3] };
    check(
        "138c1389070016140f000a0b0c0d0e110000123456789abf01000000",
        header(reset, SERVER.plus(2)),
        |_| {},
        &[],
    );
    let sync = Header::new((5004, 5001), Kind::Sync { ack: CLIENT.plus(4) }, SERVER.plus(3));
    check("138c13890600161611000a0b0c0d0e120000123456789ac0", sync, |_| {}, &[]);
    check(
        "138c13890500981b150000000000000052545041",
        header(Kind::Listen { service: RTPA }, Seq48::new(0)),
        |_| {},
        &[],
    );
}

#[test]
fn over_udp_the_checksum_is_zero_and_ignored() {
    let mut buf = [0; 64];
    let len = emit(&header(Kind::Data, CLIENT), &OptionWriter::default(), b"hello", Checksum::Udp, &mut buf);
    assert_eq!((len, buf[6], buf[7]), (Some(21), 0, 0));
    buf[6] = 77;
    assert!(Packet::parse(&buf[..21], Checksum::Udp).is_some());
    assert_eq!(Packet::parse(&buf[..21], checksum()), None, "the checksum is wrong");
}

#[test]
fn ipv6_has_a_pseudo_header_of_its_own() {
    let a: IpAddr = Ipv6Addr::LOCALHOST.into();
    let b: IpAddr = "2001:db8::2".parse().unwrap();
    assert_eq!(Checksum::over_ip(a, "192.0.2.1".parse().unwrap()), None);
    let sum = Checksum::over_ip(a, b).unwrap();
    assert_eq!(Some(sum), Checksum::over_ip(b, a), "the same both ways");
    // By hand: 1 + 2001h + db8h + 2 + 33 (protocol).
    assert_eq!(sum, Checksum::Ip { addresses: 1 + 0x2001 + 0xdb8 + 2 + 33 });
}

#[test]
fn crc32c_is_castagnolis() {
    // RFC 3720 appendix B.4: 32 bytes of zeros, of ones, and counting up.
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|i| i as u8)), 0x46dd_794e);
}

#[test]
fn options_end_where_their_length_makes_no_sense() {
    let read =
        |bytes: &'static [u8]| Options::new(bytes).map(|option| (option.number, option.mandatory)).collect();
    let all: Vec<(u8, bool)> = read(&[2, 0, 1, 37, 3, 9, 41, 6, 0, 0, 0, 1]);
    assert_eq!(all, [(2, false), (37, true), (41, false)]);
    let cut: Vec<(u8, bool)> = read(&[2, 37, 1, 2]);
    assert_eq!(cut, [(2, false)], "a length below 2");
    let long: Vec<(u8, bool)> = read(&[2, 37, 9, 2]);
    assert_eq!(long, [(2, false)], "a length beyond the end");
    let mut twice = Options::new(&[1, 1]);
    assert_eq!(twice.next().map(|option| option.number), Some(1), "Mandatory before Mandatory");
    let mut at_end = Options::new(&[2, 1]);
    assert!(at_end.by_ref().count() == 1 && at_end.ends_mandatory());
}

#[test]
fn options_read_as_written_and_refuse_other_lengths() {
    let mut writer = OptionWriter::default();
    use DccpOption::*;
    let echo = TimestampEcho { stamp: 7, elapsed: 0x1_0000 };
    let expected = [
        NdpCount(0x1234),
        echo,
        ElapsedTime(0xffff),
        DataChecksum(9),
        InitCookie(b"abc"),
        DataDropped(&[0xa0]),
    ];
    assert!(expected.into_iter().all(|option| writer.write(option)));
    let read: Vec<DccpOption<'_>> = Options::new(writer.padded()).map(|option| option.read()).collect();
    assert_eq!(read, expected);
    for number in [37, 41, 42, 43, 44, 192, 193, 194] {
        let option = RawOptionAt(number, &[1, 2, 3, 4, 5, 6, 7]).read();
        assert_eq!(option, Malformed, "option {number} of seven bytes");
    }
    assert_eq!(RawOptionAt(99, &[]).read(), Unknown);
}

struct RawOptionAt(u8, &'static [u8]);

impl RawOptionAt {
    fn read(&self) -> DccpOption<'static> {
        options::RawOption { number: self.0, mandatory: false, value: self.1 }.read()
    }
}

fn any_kind() -> impl Strategy<Value = Kind> {
    (0u8..11, any::<u64>(), any::<u32>(), any::<[u8; 4]>()).prop_map(|(number, ack, service, reset)| {
        let ack = Seq48::new(ack);
        match number {
            0 => Kind::Request { service },
            1 => Kind::Response { ack, service },
            2 => Kind::Data,
            3 => Kind::Ack { ack },
            4 => Kind::DataAck { ack },
            5 => Kind::CloseReq { ack },
            6 => Kind::Close { ack },
            7 => Kind::Reset { ack, code: ResetCode(reset[0]), data: [reset[1], reset[2], reset[3]] },
            8 => Kind::Sync { ack },
            9 => Kind::SyncAck { ack },
            _ => Kind::Listen { service },
        }
    })
}

proptest! {
    #[test]
    fn what_is_emitted_parses_to_the_same(
        kind in any_kind(), ports in any::<[u16; 2]>(), ccval in 0u8..16, coverage in 0u8..16, seq in any::<u64>(),
        options in prop::collection::vec((32u8..=255, prop::collection::vec(any::<u8>(), 0..40)), 0..6),
        data in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut writer = OptionWriter::default();
        for (number, value) in &options {
            prop_assert!(writer.put(*number, &[value]));
        }
        let coverage = if (usize::from(coverage).max(1) - 1) * 4 <= data.len() { coverage } else { 0 };
        let [source, destination] = ports;
        let header = Header { source, destination, ccval, coverage, kind, seq: Seq48::new(seq) };
        let mut buf = [0; 800];
        let len = emit(&header, &writer, &data, checksum(), &mut buf).unwrap();
        let packet = Packet::parse(&buf[..len], checksum()).unwrap();
        prop_assert_eq!(packet.header, header);
        prop_assert_eq!(packet.data, &data[..]);
        let read: Vec<(u8, Vec<u8>)> = packet.options().map(|o| (o.number, o.value.to_vec())).collect();
        prop_assert_eq!(read, options);
    }

    #[test]
    fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0u8..11, offset in 0u8..32) {
        // Two out of three look like a packet.
        if let [_, _, _, _, at, _, _, _, kinds, ..] = &mut bytes[..] && kind % 3 > 0 {
            (*at, *kinds) = (offset, (kind << 1) | 1);
        }
        if let Some(packet) = Packet::parse(&bytes, Checksum::Udp) {
            for option in packet.options() {
                let _read = (option.read(), option.is_barred_from_data());
            }
        }
    }
}
