use proptest::prelude::*;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Packets that Wireshark 4.0.17 dissected without complaint: what it is, chunk type, the packet.
const VECTORS: &[(&str, u8, &str)] = &[
    ("INIT", 1, "1389138c000000007aae7fd101000018112233440001a000000a000a55667788c0000004"),
    ("DATA", 0, "1389138caabbccdd284f47260003001555667788000000000000000068656c6c6f000000"),
    ("SACK", 3, "138c13891122334407df08a403000018556677880001a000000100010002000355667787"),
    ("FORWARD TSN", 192, "1389138caabbccdd9175588dc0000010556677900000000700010003"),
    ("I-DATA", 64, "1389138caabbccdde6b07f38400700195566778800000000000000000000003368656c6c6f000000"),
    ("I-FORWARD TSN", 194, "1389138caabbccdd157c109ec2000010556677900000000100000007"),
    ("HEARTBEAT", 4, "1389138caabbccdd3356d971040000100001000c0001020304050607"),
];

#[test]
fn crc_32c_has_its_published_values() {
    let ascending: Vec<u8> = (0..32).collect();
    let descending: Vec<u8> = (0..32).rev().collect();
    for (bytes, crc) in [
        (&b"123456789"[..], 0xe306_9283),
        (&[0; 32][..], 0x8a91_36aa),
        (&[0xff; 32][..], 0x62a8_ab43),
        (&ascending[..], 0x46dd_794e),
        (&descending[..], 0x113f_db5c),
    ] {
        assert_eq!(!update(u32::MAX, bytes), crc);
    }
}

#[test]
fn vectors_are_read_and_any_changed_bit_is_noticed() {
    for (name, kind, hex) in VECTORS {
        let packet = bytes(hex);
        let first = first_chunk(&packet).unwrap_or_else(|| panic!("{name}"));
        assert_eq!((first.kind, first.rest.len()), (*kind, 0), "{name}");
        assert!(
            [(0x1389, 0x138c), (0x138c, 0x1389)].contains(&(first.header.source, first.header.destination))
        );
        for bit in 0..packet.len() * 8 {
            let mut changed = packet.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(first_chunk(&changed), None, "{name}, bit {bit}");
        }
    }
}

#[test]
fn a_padded_init_is_the_same_init_and_long_enough() {
    let mut packet = bytes(VECTORS[0].2);
    pad_init(&mut packet, GREETING);
    assert_eq!(packet.len(), GREETING);
    let first = first_chunk(&packet).unwrap();
    let padding = &first.value[INIT_FIXED + 4..];
    assert_eq!(&padding[..4], &[0x80, 0x05, 0, (GREETING - 36) as u8]);
    let mut data = bytes(VECTORS[1].2);
    pad_init(&mut data, GREETING);
    assert_eq!(data, bytes(VECTORS[1].2), "others stay as they are");
}

#[test]
fn a_cookie_is_replaced_between_other_parameters() {
    // INIT ACK with partial reliability, a cookie of 5 bytes, and extensions.
    let fixed = [0x11; INIT_FIXED];
    let value =
        [&fixed[..], &bytes("c0000004"), &bytes("000700090102030405000000"), &bytes("80080005c0000000")];
    let mut packet = Vec::new();
    put_header(&mut packet, Header { source: 1, destination: 2, tag: 3 });
    put_chunk(&mut packet, chunk::INIT_ACK, 0, &value.concat());
    write_checksum(&mut packet);
    assert!(replace_cookie_of_init_ack(&mut packet, |old| {
        assert_eq!(old, [1, 2, 3, 4, 5]);
        Some([7; SEALED])
    }));
    let first = first_chunk(&packet).unwrap();
    let after = &first.value[INIT_FIXED + 4..];
    assert_eq!(&after[..4], &[0, 7, 0, 68]);
    assert_eq!(&after[4..68], &[7; SEALED]);
    assert_eq!(&after[68..], bytes("80080005c0000000"));
    assert!(!replace_cookie_of_init_ack(&mut bytes(VECTORS[1].2), |_| None));
}

#[test]
fn out_of_the_blue_answers_follow_the_rules() {
    let mut out = Vec::new();
    let data = bytes(VECTORS[1].2);
    assert!(answer_out_of_the_blue(&first_chunk(&data).unwrap(), &mut out));
    let answer = first_chunk(&out).unwrap();
    assert_eq!((answer.kind, out[HEADER + 1]), (chunk::ABORT, REFLECTED));
    assert_eq!(answer.header, Header { source: 0x138c, destination: 0x1389, tag: 0xaabb_ccdd });
    let header = answer.header;
    assert!(out.len() <= data.len(), "never more than came");
    for silent in [chunk::ABORT, chunk::SHUTDOWN_COMPLETE, chunk::COOKIE_ACK, chunk::ERROR] {
        let mut packet = Vec::new();
        put_header(&mut packet, header);
        put_chunk(&mut packet, silent, 0, &[]);
        write_checksum(&mut packet);
        assert!(!answer_out_of_the_blue(&first_chunk(&packet).unwrap(), &mut out), "{silent}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(mut packet in proptest::collection::vec(any::<u8>(), 0..200), good in any::<bool>()) {
        if good && packet.len() >= HEADER {
            write_checksum(&mut packet);
        }
        let mut out = Vec::new();
        if let Some(first) = first_chunk(&packet) {
            prop_assert!(first.value.len() + first.rest.len() + HEADER + TLV <= packet.len());
            echo_with_cookie(&first, &[1; 48], &mut out);
            let echoed = first_chunk(&out).unwrap();
            prop_assert_eq!((echoed.kind, echoed.value), (chunk::COOKIE_ECHO, &[1; 48][..]));
            prop_assert_eq!(echoed.rest, first.rest);
            if answer_out_of_the_blue(&first, &mut out) {
                prop_assert!(out.len() <= packet.len());
            }
        }
        replace_cookie_of_init_ack(&mut packet.clone(), |_| Some([0; SEALED]));
        pad_init(&mut packet, GREETING);
    }
}
