//! Addresses that have proved nothing, and packets in the name of others.

use super::*;

#[test]
fn an_address_that_has_proved_nothing_gets_no_more_than_it_sent() {
    let mut group = Group::new("", 3, 0.3);
    group.run(4_000);
    group.stream(300, Some(Duration::from_millis(80)));
    for at in 1..=3 {
        let path = PathId(at);
        let (mut came, mut left) = (0, 0);
        let proved = group.events.contains(&Event::PathProved(path));
        assert!(proved, "even so it becomes a member");
        for (_, len, is_ours) in group.seen.iter().filter(|(seen, ..)| *seen == path) {
            match is_ours {
                true => left += len,
                false => came += len,
            }
            assert!(left <= came, "path {at}: {left} bytes for {came}");
        }
    }
}

/// A packet of `len` bytes in the name of the member on path 1, with the numbers of its last packet.
fn forged(group: &Group, change: impl Fn(&mut Header)) -> Vec<u8> {
    let member = group.sender.member_for_tests(PathId(1));
    let mut header = Header {
        key: member.0,
        returned: true,
        options: option::MULTI | option::END,
        sort: 0,
        sync: 900,
        seq: member.1,
    };
    change(&mut header);
    let mut buf = vec![0; 200];
    let mut writer = wire::Writer::new(&mut buf, &header, wire::format::CNTL);
    writer.status(&Status { rseq: 0, alloc: 0, echo: 0 });
    let len = writer.finish();
    buf.truncate(len);
    buf
}

#[test]
fn only_a_member_itself_leaves_and_what_is_forged_is_counted() {
    let mut group = Group::new("", 2, 0.0);
    group.run(500);
    let right = forged(&group, |_| {});
    let wrong = [
        (PathId(1), forged(&group, |header| header.seq ^= 1)),
        (PathId(1), forged(&group, |header| header.key.0 ^= 1 << 40)),
        (PathId(2), right.clone()),
        (PathId(9), right.clone()),
        (PathId(1), forged(&group, |header| header.options &= !option::MULTI)),
    ];
    let count = wrong.len() as u64;
    let before = group.sender.stats().counters.malformed;
    for (path, mut bytes) in wrong {
        let input = Input::Datagram { path, bytes: &mut bytes, received_at: group.now };
        group.sender.handle_input(group.now, input);
    }
    group.run(10);
    assert_eq!(group.sender.stats().counters.malformed - before, count);
    assert!(!group.events.iter().any(|event| matches!(event, Event::MemberLeft { .. })));
    let mut bytes = right;
    group.sender.handle_input(
        group.now,
        Input::Datagram { path: PathId(1), bytes: &mut bytes, received_at: group.now },
    );
    group.run(1);
    assert!(group.events.contains(&left(1, CloseReason::Peer)), "its own packet counts");
}

#[test]
fn a_short_join_is_not_answered() {
    let mut group = Group::new("", 1, 0.0);
    group.run(20);
    group.run(300);
    // The member's first join, without the traffic specifier that makes it as long as the answer.
    let mut join = group.joins[0].clone();
    join.truncate(wire::JOIN - wire::NO_TRAFFIC);
    let len = (join.len() - wire::HEADER) as u32;
    join[12..16].copy_from_slice(&len.to_be_bytes());
    join[16..18].fill(0);
    let sum = crate::internet_checksum::fold(u64::from(crate::internet_checksum::words(&join)));
    join[16..18].copy_from_slice(&(!sum).to_be_bytes());
    let sent =
        |group: &Group| group.seen.iter().filter(|(path, _, ours)| *path == PathId(7) && *ours).count();
    let input = Input::Datagram { path: PathId(7), bytes: &mut join, received_at: group.now };
    group.sender.handle_input(group.now, input);
    group.run(5);
    assert_eq!(sent(&group), 0);
}
