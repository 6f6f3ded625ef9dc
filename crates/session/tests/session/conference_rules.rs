//! What a group's parties may do to each other: floods, forgeries, one SSRC for two, and the reports that they share.

use std::cell::RefCell;
use std::rc::Rc;

use antiphon_core::{Epoch, Instant, Participant, PathId};
use antiphon_media::packet::{PacketConfig, Packetiser};
use antiphon_media::rtcp::{write_bye, write_cname, write_report};
use antiphon_media::{SampleFormat, StreamFormat};
use antiphon_session::{Latency, PartyNotice, Session, WhyGone};
use antiphon_testkit::{GroupWorld, Kept, ms, stereo};

use crate::common::{PartyEnd, conferring};
use crate::conference::{DELAY, group, heard_by, notices, only_others, party, seconds, tone, tone_of};
use crate::world::is_rtcp;

/// Where forged datagrams come from.
const ELSEWHERE: PathId = PathId(99);

fn ssrc_of(world: &mut GroupWorld<Session>, member: usize) -> u32 {
    world.member(member).send_track().expect("it sends").packetiser().ssrc()
}

/// The packets of a stream in L16, of constant sound.
fn stream(format: StreamFormat, seed: u64, packets: usize) -> Vec<Vec<u8>> {
    let config = PacketConfig::new(format, SampleFormat::L16, 256);
    let mut packetiser = Packetiser::new(config, seed).expect("good settings");
    let (block, mut buf, mut all) = (vec![0.5; 256 * format.channels()], [0; 1_500], Vec::new());
    for _ in 0..packets {
        let ntp = Epoch::default().ntp(Instant::ZERO);
        packetiser.packetise(&block, ntp, &mut buf, |_, bytes| all.push(bytes.to_vec()));
    }
    all
}

#[test]
fn a_flood_of_sources_displaces_nobody_who_talks() {
    let (mut world, kept) = group(3);
    world.run_until(seconds(2));
    let mut packet = stream(stereo(), 5, 1).remove(0);
    for n in 0..60_000_u32 {
        // A thousand sources each 50 ms, each with two packets in a row that tell a format.
        if n % 1_000 == 0 {
            world.run_until(world.now + ms(50));
        }
        packet[8..12].copy_from_slice(&(0x4000_0000 + n / 2).to_be_bytes());
        packet[2..4].copy_from_slice(&(n as u16 & 1).to_be_bytes());
        world.inject(ELSEWHERE, &packet);
    }
    for member in 0..3 {
        let parties = world.member(member).parties().expect("a call over a group");
        assert_eq!(parties.len(), 16, "bounded");
        assert!(parties.counters().refused > 20_000, "{:?}", parties.counters());
        let told = notices(world.member(member));
        let full = |one: &&PartyNotice| matches!(one, PartyNotice::Full { most: 16 });
        assert_eq!(told.iter().filter(full).count(), 1, "{told:?}");
    }
    world.run_until(seconds(9));
    for member in 0..3 {
        let heard = heard_by(&mut world, member);
        assert_eq!(heard.len(), 2, "those of the flood are silent");
        assert!(heard.iter().all(|one| one.playout.concealed_frames == 0), "{heard:?}");
    }
    only_others(&kept[0], &[tone_of(1), tone_of(2)], 8.0, 8.9, 0.01);
    // There is room again.
    world.join(party(3, &Kept::default(), seconds(9)), 0);
    world.run_until(seconds(10));
    assert_eq!(heard_by(&mut world, 0).len(), 3);
}

#[test]
fn a_party_too_many_is_refused_and_told() {
    let mut world = GroupWorld::new(ms(5), 1);
    for number in 0..4 {
        let end = PartyEnd {
            source: tone(stereo(), number, u64::MAX),
            sink: Kept::default().sink(stereo()),
            latency: Latency::Of(DELAY),
            block: 256,
            seed: number as u64 + 1,
            most: 2,
        };
        world.join(conferring(end, Instant::ZERO), 0);
    }
    world.run_until(seconds(3));
    for member in 0..4 {
        assert_eq!(heard_by(&mut world, member).len(), 2);
        let told = notices(world.member(member));
        assert!(told.contains(&PartyNotice::Full { most: 2 }), "{told:?}");
        assert!(!world.member(member).is_finished(), "the others go on");
    }
}

#[test]
fn a_goodbye_from_elsewhere_ends_nobody_who_talks() {
    let (mut world, kept) = group(3);
    world.run_until(seconds(2));
    let victim = ssrc_of(&mut world, 2);
    let mut bye = vec![0; 200];
    let mut len = write_report(victim, None, &[], &mut bye).expect("room");
    len += write_cname(victim, "party3", &mut bye[len..]).expect("room");
    len += write_bye(victim, &mut bye[len..]).expect("room");
    for _ in 0..50 {
        world.inject(ELSEWHERE, &bye[..len]);
        world.run_until(world.now + ms(100));
    }
    for (member, kept) in kept.iter().enumerate().take(2) {
        assert_eq!(heard_by(&mut world, member).len(), 2);
        assert!(notices(world.member(member)).iter().all(|one| matches!(one, PartyNotice::Joined { .. })));
        only_others(kept, &[tone_of(1 - member), tone_of(2)], 1.0, 6.9, 0.005);
    }
    // From its own address it counts.
    world.members[2].cut_off = true;
    world.inject(GroupWorld::<Session>::path_of(2), &bye[..len]);
    world.run_until(world.now + ms(400));
    assert_eq!(heard_by(&mut world, 0).len(), 1);
}

#[test]
fn two_with_one_ssrc_both_find_another() {
    let (mut world, mut kept) = group(2);
    world.run_until(seconds(2));
    // The same seed draws the same SSRC; its sound begins at another time.
    kept.push(Kept::default());
    let end = PartyEnd {
        source: tone(stereo(), 2, u64::MAX),
        sink: kept[2].sink(stereo()),
        latency: Latency::Of(DELAY),
        block: 256,
        seed: 1,
        most: 4,
    };
    world.join(conferring(end, seconds(2)), 0);
    assert_eq!(ssrc_of(&mut world, 0), ssrc_of(&mut world, 2));
    world.run_until(seconds(20));
    let ssrcs = [0, 1, 2].map(|member| ssrc_of(&mut world, member));
    for member in 0..3 {
        let mut heard: Vec<u32> = heard_by(&mut world, member).iter().map(|one| one.ssrc).collect();
        heard.sort_unstable();
        let mut others: Vec<u32> = ssrcs.iter().copied().filter(|one| *one != ssrcs[member]).collect();
        others.sort_unstable();
        assert_eq!(heard, others, "member {member}");
    }
}

#[test]
fn all_report_on_all_and_keep_to_their_share() {
    let (mut world, _kept) = group(5);
    let reports = Rc::new(RefCell::new([0_usize; 5]));
    let (counted, mut last) = (reports.clone(), Vec::new());
    world.passes = Some(Box::new(move |from, _to, bytes| {
        if is_rtcp(bytes) && last != bytes {
            counted.borrow_mut()[from] += bytes.len() + 28;
            last = bytes.to_vec();
        }
        true
    }));
    world.run_until(seconds(30));
    let (own, names) = (ssrc_of(&mut world, 0), [2, 3, 4, 5].map(|seed| format!("party{seed}")));
    for member in 1..5 {
        let ssrc = ssrc_of(&mut world, member);
        let session = world.member(0);
        assert_eq!(session.cname_of(ssrc).expect("it told its name").as_str(), names[member - 1]);
        let report = session.report_of(ssrc).expect("it reports on us");
        assert_eq!((report.block.ssrc, report.block.cumulative_lost), (own, 0));
        // 5 ms each way.
        let round_trip = report.round_trip.expect("it answered a report of ours");
        assert!((ms(9)..ms(11)).contains(&round_trip), "{round_trip:?}");
    }
    let told = world.member(0).told_delay();
    assert_eq!(told, Some(antiphon_session::PlayoutDelay::Of(DELAY)));
    // A twentieth of five times 1.536 Mbit/s for half a minute is 1.4 MB for all; half a second between the reports of each are
    // 60 reports of 0.5 kB at most.
    for bytes in *reports.borrow() {
        assert!((4_000..40_000).contains(&bytes), "{bytes} bytes of reports");
    }
}

#[test]
fn a_party_that_changes_its_format_is_heard_on() {
    let (mut world, kept) = group(2);
    world.run_until(seconds(2));
    let wide = stream(stereo(), 9, 40);
    wide.iter().for_each(|packet| world.inject(ELSEWHERE, packet));
    let ssrc = u32::from_be_bytes([wide[0][8], wide[0][9], wide[0][10], wide[0][11]]);
    let format = StreamFormat::new(44_100, 1).expect("a usual format");
    let mut packets = stream(format, 9, 260);
    for (n, packet) in packets.iter_mut().enumerate() {
        packet[2..4].copy_from_slice(&(30_000 + n as u16).to_be_bytes());
        world.inject(ELSEWHERE, packet);
        world.run_until(world.now + ms(5));
    }
    let told = notices(world.member(0));
    let changed =
        told.iter().filter(|one| matches!(one, PartyNotice::Gone { why: WhyGone::OtherFormat, .. }));
    assert_eq!(changed.count(), 1, "{told:?}");
    let heard = heard_by(&mut world, 0);
    assert!(heard.iter().any(|one| one.ssrc == ssrc && one.format == Some(format)), "{heard:?}");
    only_others(&kept[0], &[tone_of(1)], 1.0, 2.0, 0.005);
}

#[test]
fn a_party_that_cannot_be_played_is_told_once_and_costs_one_place() {
    let mut world = GroupWorld::new(ms(5), 1);
    let end = PartyEnd {
        source: tone(stereo(), 0, u64::MAX),
        sink: Kept::default().sink(stereo()),
        latency: Latency::Of(ms(2_000)),
        block: 256,
        seed: 1,
        most: 4,
    };
    world.join(conferring(end, Instant::ZERO), 0);
    // 64 channels of two seconds are 24 MB.
    let format = StreamFormat::new(48_000, 64).expect("a format");
    for packet in stream(format, 9, 40) {
        world.inject(ELSEWHERE, &packet);
        world.run_until(world.now + ms(1));
    }
    let told = notices(world.member(0));
    assert!(matches!(told[..], [PartyNotice::Gone { why: WhyGone::Unplayable, .. }]), "{told:?}");
    assert_eq!(heard_by(&mut world, 0).len(), 1);
    world.run_until(seconds(9));
    assert!(heard_by(&mut world, 0).is_empty());
    assert_eq!(notices(world.member(0)), []);
}

#[test]
fn a_source_of_unknown_format_is_told_once() {
    let (mut world, _kept) = group(2);
    world.run_until(seconds(1));
    notices(world.member(0));
    for mut packet in stream(stereo(), 9, 200) {
        // Without the header extension that tells the format.
        packet.drain(12..packet.len() - 1_024);
        packet[0] &= !0x10;
        world.inject(ELSEWHERE, &packet);
        world.run_until(world.now + ms(5));
    }
    assert_eq!(notices(world.member(0)), [PartyNotice::UnknownFormat { payload_type: 96 }]);
    assert_eq!(heard_by(&mut world, 0).len(), 1);
}

#[test]
fn rubbish_from_the_group_is_counted() {
    let (mut world, kept) = group(2);
    world.run_until(seconds(1));
    let mut rng = antiphon_core::Rng::fork(3, "rubbish");
    for n in 0..5_000 {
        let len = rng.below(200) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u32() as u8).collect();
        if let (Some(first), true) = (bytes.first_mut(), n % 2 == 0) {
            *first = 0x90;
        }
        world.inject(ELSEWHERE, &bytes);
        if n % 50 == 0 {
            world.run_until(world.now + ms(10));
        }
    }
    world.run_until(seconds(3));
    assert!(world.member(0).parties().expect("a call over a group").track_counters().malformed > 1_000);
    assert_eq!(heard_by(&mut world, 0).len(), 1);
    only_others(&kept[0], &[tone_of(1)], 1.0, 2.9, 0.005);
}
