//! Pictures to a multicast group: at a rate that its slowest member carries, as long as that has room for any.

use antiphon_core::Instant;
use antiphon_session::{GroupPaths, SharedPath};

use antiphon_testkit::{Kept, Noise, World};

use crate::hall::{Hall, format};
use crate::transits::Transits;
use crate::video::{Pictures, Shared, with_pictures};
use crate::world::{heard, ms, receive_session, send_session_within, track_config};

/// How a member fared.
struct Fared {
    /// Packets of sound that never came, and that came too late.
    missing: u64,
    late: u64,
    /// 99 % of the sound waits no longer than this, in milliseconds.
    wait_ms: f64,
    whole: usize,
}

/// Fifteen seconds of sound of 0.83 Mbit/s and pictures of 1.1 Mbit/s to members behind these links.
fn fared(links: &[&'static str], is_managed: bool) -> Vec<Fared> {
    let mut hall = Hall::group(links[0], 15 * 48_000, ms(80));
    let sender = std::mem::replace(
        &mut hall.sender,
        antiphon_session::Session::new(crate::common::session_config("nobody", 1), Instant::ZERO),
    );
    hall.sender = with_pictures(sender, Pictures::new(ms(40), 5, 375).independent());
    if is_managed {
        hall.sender.set_congestion_manager(Box::new(GroupPaths::new(2)));
    }
    let mut members = Vec::new();
    for link in links {
        hall.link = link;
        let number = hall.join(0.0, ms(0));
        let seen = Shared::default();
        let session = &mut hall.listeners[number].session;
        session.set_video_sink(Box::new(seen.clone()));
        let transits = Transits::of(session);
        members.push((seen, transits));
    }
    hall.run_until(hall.at(15_000));
    let of = |(number, (seen, transits)): (usize, &(Shared, Transits))| {
        let playout = heard(&hall.listeners[number].session).playout().expect("it played");
        let wait_ms = transits.waited(0.99).as_secs_f64() * 1e3;
        Fared { missing: playout.lost, late: playout.late, wait_ms, whole: seen.whole(5).len() }
    };
    let all = members.iter().enumerate().map(of).collect::<Vec<_>>();
    for Fared { missing, late, wait_ms, whole } in &all {
        println!("managed {is_managed}: missing {missing}, late {late}, wait {wait_ms:.1} ms, whole {whole}");
    }
    all
}

const FAST: &str = "delay=5ms";
/// Half of the pictures have room beside the sound.
const THIN: &str = "delay=10ms,rate=1.4Mbit/s,queue=60kB";

#[test]
fn a_group_gets_what_its_slowest_member_carries() {
    let links = [FAST, THIN, FAST];
    let (without, with) = (fared(&links, false), fared(&links, true));
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
    let with = fared(&[FAST, "delay=10ms,rate=0.8Mbit/s,queue=60kB", FAST], true);
    assert!(with[1].missing + with[1].late > 500, "it has no room for the sound alone");
    for fast in [&with[0], &with[2]] {
        assert_eq!((fast.missing, fast.late), (0, 0));
        // All but those of the first three seconds, until that is known.
        assert!(fast.whole >= 295, "{}", fast.whole);
    }
}

#[test]
fn a_group_of_fast_members_gets_all() {
    let with = fared(&[FAST, "delay=40ms,rate=20Mbit/s,queue=100kB"], true);
    assert!(with.iter().all(|member| member.whole >= 365 && member.missing + member.late == 0));
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
