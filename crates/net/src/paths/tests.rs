use super::*;
use antiphon_core::OneWire as _;

use crate::inert::Inert;

fn with_known(known: u32) -> Inert {
    Inert { known, ..Inert::default() }
}

fn unknown_source(n: u32) -> SocketAddr {
    SocketAddr::from(((n >> 8).to_be_bytes(), 1024 + (n & 0xff) as u16))
}

#[test]
fn unknown_sources_are_bounded_and_displace_no_known_one() {
    let (mut table, participant) = (AddressTable::<SocketAddr>::default(), with_known(10));
    let mut given = std::collections::BTreeSet::new();
    for n in 0..100_000 {
        let path = table
            .path_of(unknown_source(n), |path| participant.knows(path))
            .expect("an unknown source can always be forgotten");
        assert!(given.insert(path), "a number means one address");
        assert_eq!(table.address_of(path), Some(unknown_source(n)));
        assert_eq!(
            table.path_of(unknown_source(n), |path| participant.knows(path)),
            Some(path),
            "the same the second time"
        );
    }
    assert_eq!((table.addresses.len(), table.paths.len()), (MOST_ADDRESSES, MOST_ADDRESSES));
    // A forgotten address gets a new number, and replies to the old number go to no other address.
    let (old, now) =
        (PathId(10), table.path_of(unknown_source(10), |path| participant.knows(path)).expect("room"));
    assert!(now.0 >= 100_000 && table.address_of(now) == Some(unknown_source(10)), "{now:?}");
    assert_eq!(table.address_of(old), None);
    for n in 0..10 {
        assert_eq!(
            table.path_of(unknown_source(n), |path| participant.knows(path)),
            Some(PathId(n)),
            "a known address keeps its number"
        );
    }
}

#[test]
fn where_all_are_known_an_unknown_source_finds_no_room() {
    let (mut table, participant) = (AddressTable::default(), with_known(u32::MAX));
    for n in 0..MOST_ADDRESSES as u32 {
        assert!(table.path_of(unknown_source(n), |path| participant.knows(path)).is_some());
    }
    assert_eq!(table.path_of(unknown_source(u32::MAX), |path| participant.knows(path)), None);
    assert_eq!(table.paths.len(), MOST_ADDRESSES);
}
