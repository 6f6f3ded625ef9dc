use std::time::Duration;

use antiphon_core::Instant;
use proptest::prelude::*;

use super::*;

fn section(transport: &str, direction: Direction, delays: Delays) -> Section {
    Section {
        transport: transport.into(),
        direction,
        delays,
        clock: "one clock".into(),
        repairs: transport == "tcp",
        header_bytes: 28,
        packet_bytes: 1_100,
        interval_ns: Some(100),
        fields: fields(),
    }
}

fn row(number: u64, sent: impl Into<Option<i64>>, arrived: impl Into<Option<i64>>) -> PacketRow {
    PacketRow { number, sent: sent.into(), arrived: arrived.into(), bytes: Some(1_100), duplicates: 0 }
}

fn passport(sections: Vec<(Section, Vec<PacketRow>)>) -> Passport {
    let sections = sections.into_iter().map(|(section, packets)| Recorded { section, packets }).collect();
    Passport { header: Header::new("antiphon test", 7), sections, complete: true, unrecorded: 0 }
}

fn written(passport: &Passport) -> Vec<u8> {
    let mut writer = PassportWriter::begin(Vec::new(), &passport.header).unwrap();
    for Recorded { section, packets } in &passport.sections {
        writer.section(section).unwrap();
        packets.iter().for_each(|row| writer.packet(row).unwrap());
    }
    writer.count_unrecorded(passport.unrecorded);
    writer.finish().unwrap()
}

#[test]
fn the_text_is_as_documented() {
    let mut one = passport(vec![(
        section("rtp", Direction::Up, Delays::OneWay),
        vec![row(0, 5, 17), row(1, 10, None), PacketRow { number: 3, ..PacketRow::default() }],
    )]);
    one.header.antiphon = "0.1.0".into();
    let text = String::from_utf8(written(&one)).unwrap();
    let expected = r#"{"passport":{"version":1,"antiphon":"0.1.0","command":"antiphon test","seed":7,"units":"times in ns since the run began, sizes in bytes"}}
{"section":{"transport":"rtp","direction":"up","delays":"one-way","clock":"one clock","repairs":false,"header_bytes":28,"packet_bytes":1100,"interval_ns":100,"fields":"number, sent_ns, arrived_ns, bytes, duplicates"}}
[0,5,17,1100,0]
[1,10,null,1100,0]
[3,null,null,null,0]
{"end":{"packets":3,"unrecorded":0}}
"#;
    assert_eq!(text, expected);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let good = String::from_utf8(written(&passport(vec![(
        section("rtp", Direction::Up, Delays::OneWay),
        vec![row(1, 5, 17), row(2, 10, None)],
    )])))
    .unwrap();
    let fails = |text: &str| Passport::read(text.as_bytes()).expect_err(text).to_string();
    for text in ["", "\n", "hello\n", "[0,1,2,3,4]\n", "{\"end\":{\"packets\":0,\"unrecorded\":0}}\n", "{"] {
        assert!(fails(text).contains("not a passport"), "{text}");
    }
    assert!(fails(&good.replace("\"version\":1", "\"version\":2")).contains("version 2, and this program"));
    for (was, becomes, line, word) in [
        ("[2,", "[1,", 4, "rising"),
        ("[2,10,null", "[2,10,nil", 4, "expected"),
        ("[2,10,", "[-2,10,", 4, "u64"),
        ("[1,5,17,1100,0]", "[1,5,17]", 3, "length"),
        ("\"up\"", "\"sideways\"", 2, "unknown variant"),
        ("{\"end\"", "{\"and\"", 5, "unknown variant"),
    ] {
        let error = fails(&good.replacen(was, becomes, 1));
        assert!(error.contains(&format!("line {line} ")) && error.contains(word), "{error}");
    }
    let header = good.lines().next().unwrap();
    assert!(fails(&format!("{header}\n[0,1,2,3,4]\n")).contains("before any section"));
    assert!(fails(&format!("{header}\n{header}\n")).contains("second header"));
    let long = " ".repeat(MAX_LINE + 1);
    assert!(fails(&format!("{header}\n{long}\n")).contains("a line longer than"));
    assert!(fails(&long).contains("not a passport"));
    let section = good.lines().nth(1).unwrap();
    let many = format!("{header}\n{}", format!("{section}\n").repeat(MAX_SECTIONS + 1));
    assert!(fails(&many).contains("sections"));
}

#[test]
fn a_cut_recording_is_read_to_its_last_whole_line() {
    let whole = passport(vec![(
        section("rtp", Direction::Up, Delays::OneWay),
        (0..5).map(|n| row(n, n as i64, n as i64 + 3)).collect(),
    )]);
    let text = written(&whole);
    let header = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in header..text.len() {
        let read = Passport::read(&text[..cut]).unwrap();
        let lines = text[..cut].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!((read.complete, read.sections.len()), (false, usize::from(lines > 1)));
        let packets = read.sections.first().map_or(0, |section| section.packets.len());
        assert_eq!(packets, lines.saturating_sub(2), "{cut} bytes");
    }
    assert_eq!(Passport::read(&text[..]).unwrap(), whole);
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn one_clock_gives_both_ways_from_one_origin() {
    let ms = |ms: i64| ms * 1_000_000;
    let both = passport(vec![
        (section("tcp", Direction::Up, Delays::OneWay), vec![row(0, ms(3), ms(9))]),
        (
            section("rtp", Direction::Up, Delays::OneWay),
            vec![row(10, ms(100), ms(120)), row(11, ms(105), None), row(12, ms(110), ms(110) - 1)],
        ),
        (
            section("rtp", Direction::Down, Delays::OneWay),
            vec![row(10, ms(120), ms(150)), row(12, ms(110), None)],
        ),
    ]);
    let paths = both.paths(None).unwrap();
    let at = Instant::from_millis;
    assert_eq!(paths.transport, "rtp", "it shows losses, tcp does not");
    assert_eq!((paths.frame_bytes, paths.interval), (1_072, Some(Duration::from_nanos(100))));
    // Clocks never run backwards: a nanosecond below zero becomes zero.
    assert_eq!(paths.up, [(at(0), Some(millis(20))), (at(5), None), (at(10), Some(millis(0)))]);
    assert_eq!(paths.down.unwrap(), [(at(10), None), (at(20), Some(millis(30)))]);
    assert_eq!(paths.remarks, [""; 0]);
    let tcp = both.paths(Some("tcp")).unwrap();
    assert_eq!((tcp.up, tcp.down), (vec![(at(0), Some(millis(6)))], None));
    assert!(tcp.remarks[0].contains("retransmissions"));
    let error = both.paths(Some("srp")).unwrap_err().to_string();
    assert!(error.contains("'srp'; it has tcp, rtp"), "{error}");
}

#[test]
fn round_trips_are_halved_and_losses_put_on_the_way_there() {
    let trips = passport(vec![(
        section("rtp", Direction::Both, Delays::RoundTrip),
        vec![row(0, 1_000, 1_021), row(1, 1_100, None), row(2, 1_200, 1_230)],
    )]);
    let paths = trips.paths(None).unwrap();
    let (at, delay) = (Instant::from_nanos, |nanos| Some(Duration::from_nanos(nanos)));
    assert_eq!(paths.up, [(at(0), delay(10)), (at(100), None), (at(200), delay(15))]);
    // Up and down together are the round trip again, to the nanosecond.
    assert_eq!(paths.down.unwrap(), [(at(10), delay(11)), (at(215), delay(15))]);
    assert!(paths.remarks[0].contains("half is used"), "{:?}", paths.remarks);
}

#[test]
fn clock_offsets_are_removed_and_unknown_times_filled_in() {
    let rows = vec![
        row(4, None, None),
        row(5, 1_000, 1_000),
        row(6, None, None),
        row(7, None, 1_250),
        row(8, 1_300, 1_250),
        row(10, None, None),
    ];
    let heard = passport(vec![(section("rtp", Direction::Up, Delays::Relative), rows)]);
    let paths = heard.paths(None).unwrap();
    let (at, delay) = (Instant::from_nanos, |nanos| Some(Duration::from_nanos(nanos)));
    // Number 4 was sent an interval of 100 ns before 5; 6 and 7 are on the line from 5 to 8; 8 is the fastest, by 50.
    let expected = [
        (at(0), None),
        (at(100), delay(50)),
        (at(200), None),
        (at(300), delay(100)),
        (at(400), delay(0)),
        (at(600), None),
    ];
    assert_eq!(paths.up, expected);
    assert_eq!(paths.down, None);
    assert!(paths.remarks[0].contains("fastest"));
}

#[test]
fn what_holds_nothing_is_refused_with_a_remedy() {
    let sent = passport(vec![(section("rtp", Direction::Up, Delays::Unknown), vec![row(0, 5, None)])]);
    assert!(sent.paths(None).unwrap_err().to_string().contains("'antiphon receive --passport"));
    let none = passport(vec![(section("rtp", Direction::Up, Delays::OneWay), vec![])]);
    assert!(none.paths(None).unwrap_err().to_string().contains("record longer"));
    assert!(matches!(passport(vec![]).paths(None), Err(PassportError::Empty)));
    let nowhere = Passport::open("/nowhere/x.passport").unwrap_err().to_string();
    assert!(nowhere.contains("'/nowhere/x.passport'"), "{nowhere}");
}

#[test]
fn a_window_puts_numbers_in_order_and_fills_holes() {
    let mut out = Vec::new();
    let mut window = Window::new(Hole::Lost);
    let mut put = |number: u64| {
        let mut left = Vec::new();
        window
            .put(row(number, number as i64, 1), |row| -> Result<(), ()> {
                left.push(row);
                Ok(())
            })
            .unwrap();
        left
    };
    for number in [5, 7, 6, 9, 7] {
        assert_eq!(put(number), []);
    }
    out.extend(put(5 + Window::LEN as u64));
    assert_eq!(out, [row(5, 5, 1)]);
    assert_eq!(put(5), [], "its number has left");
    // Far ahead: everything is output, and the numbers between were never sent.
    out.extend(put(1_000_000));
    assert_eq!(window.too_late(), 1);
    let numbers: Vec<u64> = out.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (5..=5 + Window::LEN as u64).collect::<Vec<_>>());
    let known: Vec<_> =
        out.iter().filter(|row| row.arrived.is_some()).map(|r| (r.number, r.duplicates)).collect();
    assert_eq!(known, [(5, 0), (6, 0), (7, 1), (9, 0), (5 + Window::LEN as u64, 0)]);
}

#[test]
fn over_a_transport_that_loses_nothing_holes_were_not_sent() {
    let (mut out, mut window) = (Vec::new(), Window::new(Hole::NotSent));
    for number in [1, 2, 4] {
        window.put(row(number, 0, 1), |_| Err(())).unwrap();
    }
    // Expired before it was sent: the sender removes it.
    *window.slot(2).unwrap() = None;
    window
        .flush(|row| -> Result<(), ()> {
            out.push(row.number);
            Ok(())
        })
        .unwrap();
    assert_eq!(out, [1, 4]);
}

fn any_row() -> impl Strategy<Value = PacketRow> {
    (any::<Option<i64>>(), any::<Option<i64>>(), any::<Option<u32>>(), any::<u32>()).prop_map(
        |(sent, arrived, bytes, duplicates)| PacketRow { number: 0, sent, arrived, bytes, duplicates },
    )
}

fn any_section() -> impl Strategy<Value = (Section, Vec<PacketRow>)> {
    let direction = prop_oneof![Just(Direction::Up), Just(Direction::Down), Just(Direction::Both)];
    let delays = prop_oneof![
        Just(Delays::OneWay),
        Just(Delays::RoundTrip),
        Just(Delays::Relative),
        Just(Delays::Unknown)
    ];
    let rows = proptest::collection::vec((1..u64::MAX / 64, any_row()), 0..20);
    (".{0,6}", direction, delays, any::<Option<u64>>(), rows).prop_map(
        |(transport, direction, delays, interval_ns, rows)| {
            let mut number = 0;
            let numbered = |(step, row): (u64, PacketRow)| {
                number += step;
                PacketRow { number, ..row }
            };
            let section = Section { interval_ns, ..section(&transport, direction, delays) };
            (section, rows.into_iter().map(numbered).collect())
        },
    )
}

proptest! {
    /// Whatever is written can be read, and computing its paths never panics and obeys its rules.
    #[test]
    fn what_is_written_is_read(sections in proptest::collection::vec(any_section(), 0..4)) {
        let whole = passport(sections);
        prop_assert_eq!(Passport::read(&written(&whole)[..]).unwrap(), whole.clone());
        if let Ok(paths) = whole.paths(None) {
            for way in [Some(paths.up), paths.down].into_iter().flatten() {
                prop_assert!(way.is_sorted_by_key(|(at, _)| *at));
            }
        }
    }

    /// Arbitrary bytes, and passports with any of their bytes changed, are read or refused.
    #[test]
    fn nothing_panics(
        sections in proptest::collection::vec(any_section(), 1..3),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..8),
        noise in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut text = written(&passport(sections));
        for (place, byte) in changes {
            let place = place.index(text.len());
            text[place] = byte;
        }
        if let Ok(read) = Passport::read(&text[..]) {
            let _refused_or_not = read.paths(None);
        }
        prop_assert!(Passport::read(&noise[..]).is_err());
    }

    /// In whatever order numbers come, rows are output in rising order, and each number once.
    #[test]
    fn a_window_keeps_order(numbers in proptest::collection::vec(0..40_000u64, 0..60), hole in any::<bool>()) {
        let mut window = Window::new(if hole { Hole::Lost } else { Hole::NotSent });
        let mut out = Vec::new();
        for number in &numbers {
            window.put(row(*number, 0, 1), |row| -> Result<(), ()> { out.push(row); Ok(()) }).unwrap();
        }
        let held = window.rows().count();
        prop_assert!(held <= Window::LEN);
        window.flush(|row| -> Result<(), ()> { out.push(row); Ok(()) }).unwrap();
        prop_assert!(out.is_sorted_by(|a, b| a.number < b.number));
        let came: u64 = out.iter().filter(|row| row.arrived.is_some()).map(|r| 1 + u64::from(r.duplicates)).sum();
        prop_assert_eq!(came + window.too_late(), numbers.len() as u64);
    }
}
