use antiphon_core::Seq32;
use proptest::prelude::*;

use super::chunks::{DataHeader, ForwardTsn, Sack, Skipped, Unknown};
use super::init::{InitFields, Offer, parameter};
use super::writer::{Writer, push_tlv};
use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Packets that Wireshark 4.0.17 dissected without errors: description, chunk type, packet.
const VECTORS: &[(&str, u8, &str)] = &[
    ("INIT", 1, "1389138c000000007aae7fd101000018112233440001a000000a000a55667788c0000004"),
    ("DATA", 0, "1389138caabbccdd284f47260003001555667788000000000000000068656c6c6f000000"),
    ("SACK", 3, "138c13891122334407df08a403000018556677880001a000000100010002000355667787"),
    ("FORWARD TSN", 192, "1389138caabbccdd9175588dc0000010556677900000000700010003"),
    ("I-DATA", 64, "1389138caabbccdde6b07f38400700195566778800000000000000000000003368656c6c6f000000"),
    ("I-FORWARD TSN", 194, "1389138caabbccdd157c109ec2000010556677900000000100000007"),
    ("HEARTBEAT", 4, "1389138caabbccdd3356d971040000100001000c0001020304050607"),
];

const TSN: Seq32 = Seq32(0x5566_7788);

fn chunk_of(name: &str) -> (Vec<u8>, Header) {
    let packet = bytes(VECTORS.iter().find(|(n, ..)| *n == name).unwrap().2);
    let (header, _) = parse(&packet).unwrap();
    (packet, header)
}

/// Writes a packet and compares it with the vector of that name.
fn assert_written(name: &str, write: impl FnOnce(&mut Writer<'_>) -> bool) {
    let (packet, header) = chunk_of(name);
    let mut buf = [0xff; 128];
    let mut writer = Writer::new(&mut buf, header);
    assert!(write(&mut writer));
    let len = writer.finish();
    assert_eq!(buf[..len], packet, "{name}");
}

#[test]
fn vectors_are_read_and_any_changed_bit_is_noticed() {
    for (name, kind, hex) in VECTORS {
        let packet = bytes(hex);
        let (header, mut chunks) = parse(&packet).unwrap_or_else(|| panic!("{name}"));
        assert_eq!((chunks.next().unwrap().kind, chunks.next()), (*kind, None), "{name}");
        assert!([(0x1389, 0x138c), (0x138c, 0x1389)].contains(&(header.source, header.destination)));
        for bit in 0..packet.len() * 8 {
            let mut changed = packet.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&changed).is_none(), "{name}, bit {bit}");
        }
    }
}

#[test]
fn data_is_read_and_written_as_in_the_vectors() {
    let plain = DataHeader {
        interleaved: false,
        tsn: TSN,
        stream: 0,
        number: 0,
        fragment: 0,
        ppid: 0,
        unordered: false,
        begin: true,
        end: true,
        immediate: false,
    };
    let interleaved = DataHeader { interleaved: true, ppid: 51, unordered: true, ..plain };
    for (name, header) in [("DATA", plain), ("I-DATA", interleaved)] {
        let packet = chunk_of(name).0;
        let chunk = parse(&packet).unwrap().1.next().unwrap();
        assert_eq!(DataHeader::parse(&chunk), Some((header, &b"hello"[..])));
        assert_written(name, |writer| writer.data(&header, b"hello"));
    }
}

#[test]
fn acknowledgements_are_read_and_written_as_in_the_vectors() {
    let packet = chunk_of("SACK").0;
    let chunk = parse(&packet).unwrap().1.next().unwrap();
    let sack = Sack::parse(chunk.value).unwrap();
    assert_eq!((sack.cumulative, sack.window), (TSN, 0x1a000));
    assert_eq!(sack.gaps().collect::<Vec<_>>(), [(2, 3)]);
    assert_eq!(sack.duplicates().collect::<Vec<_>>(), [Seq32(0x5566_7787)]);
    assert_written("SACK", |w| w.sack(TSN, 0x1a000, [(2, 3)].into_iter(), &[Seq32(0x5566_7787)]));
    // Lists that don't fill the chunk make the SACK invalid.
    let mut short = chunk.value.to_vec();
    short[9] = 2;
    assert_eq!(Sack::parse(&short), None);
}

#[test]
fn what_is_given_up_is_read_and_written_as_in_the_vectors() {
    let point = Seq32(0x5566_7790);
    let ordered = |stream, number| Skipped { stream, unordered: false, number };
    let plain = [ordered(0, 7), ordered(1, 3)];
    let interleaved = [Skipped { stream: 0, unordered: true, number: 7 }];
    for (name, skipped) in [("FORWARD TSN", &plain[..]), ("I-FORWARD TSN", &interleaved[..])] {
        let packet = chunk_of(name).0;
        let chunk = parse(&packet).unwrap().1.next().unwrap();
        let forward = ForwardTsn::parse(&chunk).unwrap();
        assert_eq!((forward.cumulative, forward.skipped().collect::<Vec<_>>()), (point, skipped.to_vec()));
        assert_written(name, |w| w.forward_tsn(chunk.kind == chunk::I_FORWARD_TSN, point, skipped));
    }
}

#[test]
fn init_and_heartbeat_read_and_write_as_in_the_vectors() {
    let packet = chunk_of("INIT").0;
    let chunk = parse(&packet).unwrap().1.next().unwrap();
    let (fields, parameters) = InitFields::parse(chunk.value).unwrap();
    let expected =
        InitFields { tag: 0x1122_3344, window: 0x1a000, out_streams: 10, in_streams: 10, tsn: TSN };
    assert_eq!((fields, fields.is_valid()), (expected, true));
    let offer = Offer::read(parameters, |_| panic!("all known"));
    assert_eq!(offer, Offer { forward_tsn: true, ..Offer::default() });
    let mut value = fields.emit().to_vec();
    push_tlv(&mut value, parameter::FORWARD_TSN, &[]);
    assert_written("INIT", |writer| writer.chunk(chunk::INIT, 0, &[&value]));
    let mut info = Vec::new();
    push_tlv(&mut info, parameter::HEARTBEAT_INFO, &[&[0, 1, 2, 3, 4, 5, 6, 7]]);
    assert_written("HEARTBEAT", |writer| writer.chunk(chunk::HEARTBEAT, 0, &[&info]));
    for bad in [
        InitFields { tag: 0, ..expected },
        InitFields { out_streams: 0, ..expected },
        InitFields { in_streams: 0, ..expected },
        InitFields { window: 1499, ..expected },
    ] {
        assert!(!bad.is_valid());
    }
}

#[test]
fn high_bits_of_unknown_parameters_decide_skip_stop_report() {
    for (kind, reported, goes_on) in
        [(0x3f00, false, false), (0x7f00, true, false), (0xbf00, false, true), (0xff00, true, true)]
    {
        let mut parameters = Vec::new();
        push_tlv(&mut parameters, kind, &[&[1, 2, 3]]);
        push_tlv(&mut parameters, parameter::EXTENSIONS, &[&[130, chunk::I_DATA, chunk::I_FORWARD_TSN]]);
        push_tlv(&mut parameters, parameter::STATE_COOKIE, &[b"cookie"]);
        let mut seen = 0;
        let offer = Offer::read(Tlvs::new(&parameters), |whole| {
            assert_eq!(whole.len(), 7);
            seen += 1;
        });
        assert_eq!(
            (seen == 1, offer.interleaving, offer.stopped),
            (reported, goes_on, !goes_on),
            "{kind:#x}"
        );
        assert_eq!(offer.cookie, goes_on.then_some(&b"cookie"[..]));
        let rule = Unknown::parameter(kind);
        assert_eq!((rule.report, rule.skip), (reported, goes_on));
    }
}

#[test]
fn a_packet_takes_no_more_than_there_is_room_for() {
    let header = Header { source: 1, destination: 2, tag: 3 };
    for room in HEADER + 8..80 {
        let mut buf = vec![0; room];
        let mut writer = Writer::new(&mut buf, header);
        let gaps = (0..100).map(|n| (4 * n + 2, 4 * n + 3));
        assert_eq!(writer.sack(TSN, 1, gaps, &[TSN; 10]), room >= HEADER + 16);
        while writer.chunk(chunk::PAD, 0, &[&[0; 1]]) {}
        assert!(writer.room() < 8);
        let len = writer.finish();
        let (_, chunks) = parse(&buf[..len]).expect("sealed");
        assert!(chunks.clone().all(|c| c.kind != chunk::SACK || Sack::parse(c.value).is_some()));
        assert!(!chunks.is_broken() && len <= room);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(mut packet in proptest::collection::vec(any::<u8>(), 0..200), good in any::<bool>()) {
        if good && packet.len() >= HEADER {
            seal(&mut packet);
        }
        let Some((_, mut chunks)) = parse(&packet) else { return Ok(()) };
        let mut walked = HEADER;
        for chunk in &mut chunks {
            walked += chunk.whole.len();
            read_all(&chunk);
        }
        prop_assert!(walked <= packet.len());
        prop_assert!(chunks.rest().is_empty() || chunks.is_broken());
    }

    /// What is written reads back the same.
    #[test]
    fn written_data_reads_back(flags in any::<[bool; 5]>(), words in any::<[u32; 4]>(), stream in any::<u16>(),
                               payload in proptest::collection::vec(any::<u8>(), 0..100)) {
        let [interleaved, unordered, begin, end, immediate] = flags;
        let header = DataHeader {
            interleaved,
            tsn: Seq32(words[0]),
            stream,
            number: if interleaved { words[1] } else { words[1] & 0xffff },
            fragment: if interleaved && !begin { words[2] } else { 0 },
            ppid: if interleaved && !begin { 0 } else { words[3] },
            unordered,
            begin,
            end,
            immediate,
        };
        let mut buf = [0; 160];
        let mut writer = Writer::new(&mut buf, Header { source: 1, destination: 2, tag: 3 });
        prop_assert!(writer.data(&header, &payload));
        let len = writer.finish();
        let chunk = parse(&buf[..len]).unwrap().1.next().unwrap();
        prop_assert_eq!(DataHeader::parse(&chunk), Some((header, &payload[..])));
    }
}

/// Runs every reader on a chunk, whatever its type.
fn read_all(chunk: &Chunk<'_>) {
    for kind in [chunk.kind, chunk::DATA, chunk::I_DATA, chunk::FORWARD_TSN, chunk::I_FORWARD_TSN] {
        let chunk = Chunk { kind, ..*chunk };
        DataHeader::parse(&chunk);
        if let Some(forward) = ForwardTsn::parse(&chunk) {
            forward.skipped().for_each(drop);
        }
    }
    if let Some(sack) = Sack::parse(chunk.value) {
        assert!(sack.gaps().count() + sack.duplicates().count() <= chunk.value.len() / 4);
    }
    if let Some((_, parameters)) = InitFields::parse(chunk.value) {
        Offer::read(parameters, drop);
    }
}
