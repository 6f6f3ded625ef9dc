//! Pictures and data to a multicast group: at a rate that its slowest member carries, as long as that has room for any.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Instant, Participant, PathId};
use antiphon_media::rtcp::{ArrivalReportWriter, PacketArrival};
use antiphon_session::{Arrived, GroupPaths, Latency, Seen, Session, SharedPath};

use antiphon_testkit::{Kept, Noise, World};

use crate::common::WIRE;
use crate::data_beside::{Sink, add_data, content};
use crate::hall::{Hall, format};
use crate::late_members::{clip, with_film};
use crate::transits::Transits;
use crate::video::{Pictures, Shared, with_pictures};
use crate::world::{datagram, heard, ms, receive_session, send_session_within, track_config};

/// How a member fared.
struct Fared {
    /// Packets of sound that never came, and that came too late.
    missing: u64,
    late: u64,
    /// 99 % of the sound waits no longer than this, in milliseconds.
    wait_ms: f64,
    whole: usize,
    /// Bytes of data.
    data: usize,
    /// The most members at once that the sender found far below the others, and without room for pictures.
    far_below: u16,
    without_room: u16,
}

/// What is sent to a group beside its sound of 0.83 Mbit/s.
struct Group<'a> {
    links: &'a [&'static str],
    /// Of 1.1 Mbit/s.
    has_pictures: bool,
    /// So many bytes.
    data: usize,
    is_managed: bool,
    seconds: u64,
}

impl<'a> Group<'a> {
    fn of(links: &'a [&'static str]) -> Self {
        Group { links, has_pictures: true, data: 0, is_managed: true, seconds: 15 }
    }

    fn hall(&self) -> Hall {
        let mut hall = Hall::group(self.links[0], self.seconds * 48_000, ms(80));
        if self.has_pictures {
            let nobody = Session::new(crate::common::session_config("nobody", 1), Instant::ZERO);
            let sender = std::mem::replace(&mut hall.sender, nobody);
            hall.sender = with_pictures(sender, Pictures::new(ms(40), 5, 25 * self.seconds).independent());
        }
        if self.data > 0 {
            add_data(&mut hall.sender, content(self.data), |_| {});
        }
        if self.is_managed {
            hall.sender.set_congestion_manager(Box::new(GroupPaths::new(3)));
        }
        hall
    }

    fn run(&self) -> Vec<Fared> {
        let mut hall = self.hall();
        let mut members = Vec::new();
        for link in self.links {
            hall.link = link;
            let number = hall.join(0.0, ms(0));
            let (seen, sink) = (Shared::default(), Sink::default());
            let session = &mut hall.listeners[number].session;
            session.set_video_sink(Box::new(seen.clone()));
            session.set_data_sink(Box::new(sink.clone()));
            members.push((seen, sink, Transits::of(session)));
        }
        let (mut far_below, mut without_room) = (0, 0);
        for second in 1..=self.seconds {
            hall.run_until(hall.at(1_000 * second));
            let uncounted = hall.sender.path_figures().uncounted;
            far_below = far_below.max(uncounted.far_below);
            without_room = without_room.max(uncounted.without_room);
        }
        let of = |(number, (seen, sink, transits)): (usize, &(Shared, Sink, Transits))| {
            let playout = heard(&hall.listeners[number].session).playout().expect("it played");
            let wait_ms = transits.waited(0.99).as_secs_f64() * 1e3;
            let got = sink.0.lock().unwrap();
            let is_right = |at: usize| !got.has[at] || got.bytes[at] == content(self.data)[at];
            assert!((0..got.has.len()).step_by(997).all(is_right), "each byte is in its place");
            let data = got.has.iter().filter(|has| **has).count();
            Fared {
                missing: playout.lost,
                late: playout.late,
                wait_ms,
                whole: seen.whole(5).len(),
                data,
                far_below,
                without_room,
            }
        };
        let all = members.iter().enumerate().map(of).collect::<Vec<_>>();
        for Fared { missing, late, wait_ms, whole, data, .. } in &all {
            println!("missing {missing}, late {late}, wait {wait_ms:.1} ms, whole {whole}, data {data}");
        }
        all
    }
}

const FAST: &str = "delay=5ms";
/// Half of the pictures have room beside the sound.
const THIN: &str = "delay=10ms,rate=1.4Mbit/s,queue=60kB";

#[test]
fn a_group_gets_what_its_slowest_member_carries() {
    let links = [FAST, THIN, FAST];
    let without = Group { is_managed: false, ..Group::of(&links) }.run();
    let with = Group::of(&links).run();
    assert!(without[1].missing + without[1].late > 500, "the link is too thin for all");
    let thin = &with[1];
    // Of 2812 packets; those in the second in which the window is found.
    assert!(thin.missing == 0 && thin.late <= 10, "missing {}, late {}", thin.missing, thin.late);
    assert!(thin.wait_ms < 60.0, "{}", thin.wait_ms);
    // 0.5 Mbit/s of 1.1, and all get the same.
    assert!((120..230).contains(&thin.whole), "{}", thin.whole);
    for fast in [&with[0], &with[2]] {
        assert_eq!((fast.missing, fast.late), (0, 0));
        assert!(fast.whole >= thin.whole && fast.whole < 260, "{}", fast.whole);
    }
}

#[test]
fn a_member_without_room_for_pictures_holds_up_nobody() {
    let with = Group::of(&[FAST, "delay=10ms,rate=0.8Mbit/s,queue=60kB", FAST]).run();
    assert!(with[1].missing + with[1].late > 500, "it has no room for the sound alone");
    for fast in [&with[0], &with[2]] {
        assert_eq!((fast.missing, fast.late), (0, 0));
        // All but those of the first three seconds, until that is known.
        assert!(fast.whole >= 295, "{}", fast.whole);
        assert_eq!((fast.without_room, fast.far_below), (1, 0), "the sender knows it");
    }
}

/// How a member of a group with sound in Opus fared.
#[derive(Clone, Copy, Debug)]
struct Slow {
    /// Packets of sound, those that waited for longer than a playout delay of 240 ms, and those of them in the first two seconds.
    count: usize,
    late: usize,
    late_at_first: usize,
    whole: usize,
}

/// Sound in Opus of 16 kbit/s and pictures of 264 kbit/s, for so many seconds to these links; and the most members at once that the sender found without room.
fn thin(links: &[&'static str], seconds: u64) -> (Vec<Slow>, u16) {
    let mut hall = with_film(Hall::thin_group(links[0], seconds * 48_000), clip(seconds));
    hall.latency = Latency::Of(ms(240));
    hall.sender.set_congestion_manager(Box::new(GroupPaths::new(2)));
    let mut members = Vec::new();
    for link in links {
        hall.link = link;
        let number = hall.join(0.0, ms(0));
        let session = &mut hall.listeners[number].session;
        let seen = Shared::default();
        session.set_video_sink(Box::new(seen.clone()));
        members.push((seen, Transits::of(session), 0));
    }
    let mut without_room = 0;
    for second in 1..=seconds {
        hall.run_until(hall.at(1_000 * second));
        without_room = without_room.max(hall.sender.path_figures().uncounted.without_room);
        if second == 2 {
            members.iter_mut().for_each(|(_, waits, late)| *late = waits.longer_than(ms(240)));
        }
    }
    let of = |(seen, waits, late_at_first): &(Shared, Transits, usize)| {
        let (count, late) = (waits.count(), waits.longer_than(ms(240)));
        Slow { count, late, late_at_first: *late_at_first, whole: seen.whole(18).len() }
    };
    let fared = members.iter().map(of).collect();
    println!("{links:?}: {fared:?}, {without_room} without room");
    (fared, without_room)
}

/// There is room for 78 kbit/s of pictures beside the sound, or for too little: what has room is sent, and no more.
#[test]
fn pictures_fill_no_link_of_a_group_of_slow_members() {
    let slow = ["delay=10ms,rate=100kbit/s,queue=100kB", "delay=10ms,rate=80kbit/s,queue=100kB"];
    for links in [vec![slow[0]], vec![slow[0]; 3], vec![slow[1]], vec![slow[1]; 3], vec![slow[1]; 16]] {
        let (fared, without_room) = thin(&links, 20);
        for Slow { count, late, late_at_first, .. } in fared {
            // Two packets of 74 ms leave before anything is known of such a path.
            let most = if links[0] == slow[0] { 0 } else { 10 };
            assert!(count >= 320 && late == late_at_first, "{links:?}: {late} of {count} are late");
            assert!(late <= most, "{links:?}: {late} are late in the beginning");
        }
        assert_eq!(without_room, 0, "there is no other that has any");
    }
}

/// One that has room is not taken for one without, whatever is measured for a moment. After ten seconds and more it is found far below the others, which is told.
#[test]
fn a_slow_member_with_room_for_pictures_counts() {
    let (fared, without_room) = thin(&[FAST, "delay=10ms,rate=120kbit/s,queue=100kB", FAST], 11);
    assert_eq!((fared[1].late, without_room), (0, 0), "{fared:?}");
    assert!(fared.iter().all(|one| one.count >= 175 && one.whole >= 3), "{fared:?}");
}

/// What a false member tells after two seconds in which it tells the truth.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// The same again and again.
    Stale,
    /// Of ten packets one has come.
    OneOfTen,
    /// A single packet in 1.2 s.
    Seldom,
}

/// A report of a member that is not there on the newest packets of these streams.
fn report(streams: [(u32, u16); 2], came: impl Fn(u16) -> bool) -> Vec<u8> {
    let mut buf = [0; 600];
    let mut writer = ArrivalReportWriter::new(0x1234, &mut buf).expect("room for a header");
    for (ssrc, newest) in streams {
        let first = newest.wrapping_sub(39);
        writer.stream(
            ssrc,
            first,
            (0..40).map(|n| match came(first.wrapping_add(n)) {
                true => PacketArrival::Arrived(Some(Duration::ZERO)),
                false => PacketArrival::Missing,
            }),
        );
    }
    let len = writer.finish(0);
    buf[..len].to_vec()
}

/// Reports that tell of few packets, or of none that were not told of before, stop the pictures for some seconds, and no longer.
#[test]
fn a_member_that_tells_of_few_packets_stops_no_pictures() {
    for lie in [Lie::Stale, Lie::OneOfTen, Lie::Seldom] {
        let mut hall = Group::of(&[FAST]).hall();
        let seen: Vec<Shared> = [(); 2].map(|()| Shared::default()).into();
        let newest = Rc::new(Cell::new(0));
        for seen in &seen {
            let (number, noted) = (hall.join(0.0, ms(0)), newest.clone());
            let session = &mut hall.listeners[number].session;
            session.set_video_sink(Box::new(seen.clone()));
            session.observe(Box::new(move |_: Instant, seen: &Seen| {
                if let Seen::Arrived(Arrived { sequence, .. }) = *seen {
                    noted.set(sequence);
                }
            }));
        }
        let mut told = Vec::new();
        for n in 1..=150 {
            hall.run_until(hall.at(100 * n));
            let Some(number) = seen[0].0.lock().unwrap().numbers.last().copied() else { continue };
            let sound = hall.sender.send_track().expect("it sends").packetiser().ssrc();
            let streams = [(sound, newest.get()), (seen[0].0.lock().unwrap().ssrc, number)];
            let is_true = n <= 20;
            match (is_true, lie) {
                (true, _) => told = report(streams, |_| true),
                (false, Lie::Stale) => {}
                (false, Lie::Seldom) if n % 12 > 0 => continue,
                (false, Lie::Seldom) => told = report(streams, |of| streams.iter().any(|(_, n)| *n == of)),
                (false, Lie::OneOfTen) => told = report(streams, |number| number % 10 == 0),
            }
            let (now, mut bytes) = (hall.now, told.clone());
            hall.sender.handle_input(now, WIRE, datagram(&mut bytes, PathId(7), now));
        }
        for seen in &seen {
            let whole = seen.whole(5).len();
            println!("{lie:?}: {whole} of 375 pictures");
            assert!(whole >= 280, "{lie:?}: {whole}");
        }
    }
}

/// One that has room for a tenth of the pictures slows them for some twenty seconds. Of two members neither is the measure of the other.
#[test]
fn a_member_far_below_the_others_slows_the_pictures_for_a_while() {
    let slow = "delay=10ms,rate=1.02Mbit/s,queue=60kB";
    let with = Group { seconds: 40, ..Group::of(&[FAST, slow, FAST, FAST]) }.run();
    for fast in [&with[0], &with[2], &with[3]] {
        assert_eq!((fast.missing, fast.late), (0, 0));
        // 502 of 1000 here, and 111 if it counts for ever.
        assert!((450..800).contains(&fast.whole), "{}", fast.whole);
        assert_eq!(fast.far_below, 1, "the sender knows it");
    }
    let with = Group { seconds: 40, ..Group::of(&[FAST, slow]) }.run();
    assert_eq!(with[0].far_below, 0);
    assert!(with[0].whole < 250, "{}", with[0].whole);
}

/// One that leaves, or whose machine is switched off, tells nothing more of what is sent to it: the pictures of the others go on.
#[test]
fn a_member_that_leaves_holds_up_nobody() {
    for says_goodbye in [true, false] {
        let group = Group { seconds: 9, ..Group::of(&[FAST; 3]) };
        let mut hall = group.hall();
        let seen: Vec<_> = (0..3)
            .map(|_| {
                let (number, seen) = (hall.join(0.0, ms(0)), Shared::default());
                hall.listeners[number].session.set_video_sink(Box::new(seen.clone()));
                seen
            })
            .collect();
        hall.run_until(hall.at(4_000));
        let leaving = &mut hall.listeners[1];
        match says_goodbye {
            true => leaving.session.stop(leaving.clock.local(hall.now)),
            false => leaving.dead = true,
        }
        let before = hall.sender.video_sent().next().unwrap();
        hall.run_until(hall.at(8_000));
        let sent = hall.sender.video_sent().next().unwrap();
        let (units, left_out) = (sent.units - before.units, sent.left_out - before.left_out);
        println!("says goodbye {says_goodbye}: {units} pictures, {left_out} left out");
        // A few are late where nothing tells that it is gone.
        assert!(units + left_out == 100 && left_out <= if says_goodbye { 0 } else { 4 }, "{sent:?}");
        assert!(seen[0].whole(5).len() as u64 >= sent.units - 2, "{sent:?}");
        assert!(seen[1].whole(5).len() <= 102);
    }
}

#[test]
fn a_group_of_fast_members_gets_all() {
    let with = Group::of(&[FAST, "delay=40ms,rate=20Mbit/s,queue=100kB"]).run();
    assert!(with.iter().all(|member| member.whole >= 365 && member.missing + member.late == 0));
}

/// Data that are more than the slowest member's path carries: nobody's sound is lost, and all get what that path has room for.
#[test]
fn a_group_gets_data_at_the_rate_of_its_slowest_member() {
    let with = Group { has_pictures: false, data: 4_000_000, ..Group::of(&[FAST, THIN, FAST]) }.run();
    let thin = &with[1];
    // Of 2812 packets; those in the seconds in which the window is found.
    assert!(thin.missing == 0 && thin.late <= 28, "missing {}, late {}", thin.missing, thin.late);
    assert!(thin.wait_ms < 60.0, "{}", thin.wait_ms);
    for member in &with {
        // 0.25 to 0.6 Mbit/s of data.
        assert!((450_000..1_100_000).contains(&member.data), "{}", member.data);
        assert!(member.data * 100 >= thin.data * 98, "{} and {}", member.data, thin.data);
    }
    for fast in [&with[0], &with[2]] {
        assert_eq!((fast.missing, fast.late), (0, 0));
    }
}

/// Beside pictures that fill the path of the slowest member they get next to nothing, and cost nobody any sound or picture.
#[test]
fn data_to_a_group_come_after_its_pictures() {
    let links = [FAST, THIN, FAST];
    let (alone, both) = (Group::of(&links).run(), Group { data: 4_000_000, ..Group::of(&links) }.run());
    for (alone, both) in alone.iter().zip(&both) {
        assert!(both.missing == 0 && both.late <= alone.late.max(10), "late {}", both.late);
        assert!(both.whole * 100 >= alone.whole * 95, "{} of {} pictures", both.whole, alone.whole);
    }
}

/// Who comes later has a hole where it was not there.
#[test]
fn a_later_member_lacks_the_first_data() {
    let mut hall = Group { has_pictures: false, data: 4_000_000, ..Group::of(&[THIN]) }.hall();
    let early = Sink::default();
    let number = hall.join(0.0, ms(0));
    hall.listeners[number].session.set_data_sink(Box::new(early.clone()));
    hall.run_until(hall.at(5_000));
    let late = Sink::default();
    let number = hall.join(0.0, ms(0));
    hall.listeners[number].session.set_data_sink(Box::new(late.clone()));
    hall.run_until(hall.at(10_000));
    let (early, late) = (early.0.lock().unwrap(), late.0.lock().unwrap());
    let first = late.has.iter().position(|has| *has).expect("it gets what comes now");
    assert!(early.has[..first].iter().all(|has| *has) && first > 100_000, "{first}");
    assert!(late.has[first..].iter().all(|has| *has));
}

/// To one receiver, too: where the sound has most of the path, its own part of the queue takes long to empty, and is no other sender's.
#[test]
fn sound_that_has_most_of_a_path_is_taken_for_nobody_else() {
    for rate in ["1.3Mbit/s", "1.4Mbit/s", "1.6Mbit/s"] {
        let near =
            send_session_within("rtp", Noise::new(format(), 15 * 48_000), track_config(format(), 5), ms(80));
        let mut near = with_pictures(near, Pictures::new(ms(40), 5, 375).independent());
        near.set_congestion_manager(Box::new(SharedPath::new(2)));
        let kept = Kept::default();
        let mut far = receive_session("rtp", Some(ms(80)), &kept);
        let seen = Shared::default();
        far.set_video_sink(Box::new(seen.clone()));
        let mut world = World::linked(near, far, &format!("delay=10ms,rate={rate},queue=60kB"), 3);
        for second in 1..15 {
            world.run_until(Instant::from_millis(1_000 * second));
            assert!(!world.near.path_figures().competes, "{rate}, after {second} s");
        }
        let playout = heard(&world.far).playout().expect("it played");
        println!("{rate}: late {}, lost {}, whole {}", playout.late, playout.lost, seen.whole(5).len());
        assert!(playout.lost == 0 && playout.late <= 5, "{rate}: {playout:?}");
        assert!(seen.whole(5).len() >= 90, "{rate}: {}", seen.whole(5).len());
    }
}
