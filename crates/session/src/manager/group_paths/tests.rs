use antiphon_core::Rng;
use antiphon_media::rtcp::{ArrivalReportWriter, PacketArrival};

use super::*;

const ON: AssociationId = AssociationId(0);

fn packet(ssrc: u32, number: u16) -> Vec<u8> {
    let mut bytes = vec![0; 1_000];
    bytes[2..4].copy_from_slice(&number.to_be_bytes());
    bytes[8..12].copy_from_slice(&ssrc.to_be_bytes());
    bytes
}

/// A member tells that packets from the number `first` on have come.
fn tell(paths: &mut GroupPaths, now: Instant, member: u32, first: u16, count: usize) {
    let mut buf = [0; 600];
    let mut writer = ArrivalReportWriter::new(member, &mut buf).unwrap();
    let came = (0..count).map(|_| PacketArrival::Arrived(Some(Duration::ZERO)));
    writer.stream(7, first, came);
    let len = writer.finish(0);
    paths.on_report(now, ON, &ArrivalReport::parse(&buf[..len]).unwrap());
}

#[test]
fn a_thousand_members_take_the_memory_of_a_few() {
    let (mut paths, mut rng) = (GroupPaths::new(2), Rng::new(1));
    for n in 0..1_000u16 {
        let now = Instant::from_millis(20 * u64::from(n));
        paths.on_sent(now, ON, TrackId::FIRST_PICTURES, &packet(7, n));
        for _ in 0..10 {
            tell(&mut paths, now + Duration::from_millis(10), rng.next_u32() % 1_000, n, 1);
        }
        let _any = paths.budget(now, TrackId::FIRST_PICTURES);
    }
    assert_eq!(paths.members.len(), MOST);
}

/// One that tells of packets that were not sent yet holds the pictures up for three reports, and then no longer.
#[test]
fn a_member_whose_reports_are_false_counts_no_longer() {
    let (mut paths, mut reports) = (GroupPaths::new(2), 0);
    for n in 0..40u16 {
        let now = Instant::from_millis(100 * u64::from(n));
        (0..5).for_each(|k| paths.on_sent(now, ON, TrackId::FIRST_PICTURES, &packet(7, 5 * n + k)));
        let later = now + Duration::from_millis(20);
        tell(&mut paths, later, 1, 5 * n, 5);
        tell(&mut paths, later, 2, 5 * n, 5);
        if n >= 10 {
            // Of the next packet, too.
            tell(&mut paths, later, 3, 5 * n, 6);
            reports += 1;
        } else {
            tell(&mut paths, later, 3, 5 * n, 5);
        }
        if n == 0 {
            // Nobody was known when these packets were sent.
            continue;
        }
        let member = paths.members.iter().find(|member| member.ssrc == 3).unwrap();
        assert_eq!(paths.counts(later, member), reports < CONTRADICTIONS, "{n}");
        let told = paths.figures().uncounted;
        let expected = u16::from(reports >= CONTRADICTIONS);
        assert_eq!(told, Uncounted { contradicting: expected, ..Uncounted::default() }, "{n}");
    }
    let honest = paths.members.iter().filter(|member| member.ssrc != 3);
    assert!(
        honest.clone().count() == 2
            && honest.clone().all(|member| paths.counts(Instant::from_millis(3_920), member))
    );
}

#[test]
fn nobody_who_tells_nothing_bounds_anything() {
    let mut paths = GroupPaths::new(2);
    for n in 0..300 {
        let now = Instant::from_millis(20 * u64::from(n));
        paths.on_sent(now, ON, TrackId::FIRST_PICTURES, &packet(7, n));
        let budget = paths.budget(now, TrackId::FIRST_PICTURES);
        assert_eq!(budget == Budget::All, n >= 50, "{n}: {budget:?}");
    }
    // One that told something, and then no more, is gone.
    tell(&mut paths, Instant::from_millis(6_000), 1, 290, 10);
    paths.on_sent(Instant::from_millis(6_010), ON, TrackId::FIRST_PICTURES, &packet(7, 300));
    let now = Instant::from_millis(6_400);
    tell(&mut paths, now, 1, 300, 1);
    assert_ne!(paths.budget(now, TrackId::FIRST_PICTURES), Budget::All);
    assert_eq!(paths.budget(now, TrackId::SOUND), Budget::All);
    assert_eq!(paths.budget(now + SILENCE, TrackId::FIRST_PICTURES), Budget::All);
}
