use super::*;
use crate::bystander::Bystander;

fn knowing(friends: u32) -> Bystander {
    Bystander { friends, ..Bystander::default() }
}

fn stranger(n: u32) -> SocketAddr {
    SocketAddr::from(((n >> 8).to_be_bytes(), 1024 + (n & 0xff) as u16))
}

#[test]
fn strangers_without_end_cost_no_more_memory_and_displace_no_friend() {
    let (mut table, station) = (AddressTable::default(), knowing(10));
    let mut given = std::collections::BTreeSet::new();
    for n in 0..100_000 {
        let path = table.path_of(stranger(n), &station).expect("somebody can always be forgotten");
        assert!(given.insert(path), "a number means one address");
        assert_eq!(table.address_of(path), Some(stranger(n)));
        assert_eq!(table.path_of(stranger(n), &station), Some(path), "the same on the second sight");
    }
    assert_eq!((table.addresses.len(), table.paths.len()), (MOST_ADDRESSES, MOST_ADDRESSES));
    // Who was forgotten comes back as somebody new, and what was for him goes to nobody else.
    let (old, now) = (PathId(10), table.path_of(stranger(10), &station).expect("room"));
    assert!(now.0 >= 100_000 && table.address_of(now) == Some(stranger(10)), "{now:?}");
    assert_eq!(table.address_of(old), None);
    for n in 0..10 {
        assert_eq!(table.path_of(stranger(n), &station), Some(PathId(n)), "a friend keeps its number");
    }
}

#[test]
fn where_all_are_friends_a_stranger_finds_no_room() {
    let (mut table, station) = (AddressTable::default(), knowing(u32::MAX));
    for n in 0..MOST_ADDRESSES as u32 {
        assert!(table.path_of(stranger(n), &station).is_some());
    }
    assert_eq!(table.path_of(stranger(u32::MAX), &station), None);
    assert_eq!(table.paths.len(), MOST_ADDRESSES);
}
