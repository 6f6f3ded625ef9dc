//! Pictures in a call over a group: everybody sends them once and is given those of all others, each with its own sound.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use antiphon_core::{Instant, Participant, PathId};
use antiphon_media::packet::{ExtensionIds, parse_rtp};
use antiphon_media::rtcp::ArrivalReport;
use antiphon_media::{Sink, SinkError, StreamFormat, Wants};
use antiphon_session::{
    AssociationId, Budget, CongestionManager, GroupPaths, Latency, OpenSink, PartyNotice, PartySinks,
    ReceiveError, Session, TrackId, VideoArrived, VideoPayload, VideoSink, VideoSource, VideoTrack,
    VideoTrackConfig, VideoWay, WhyGone, Written,
};
use antiphon_testkit::{GroupWorld, Kept, Noise, expected, ms, stereo};

use crate::common::conferring_apart;
use crate::conference::{DELAY, group, heard_by, notices, seconds};
use crate::video::config;

/// A picture each 40 ms, of so many parts, every 25th a key frame.
const INTERVAL: Duration = Duration::from_millis(40);
const PARTS: u32 = 4;
const KEYS: u64 = 25;
const BYTES: usize = 700;

/// Endless pictures of a party.
struct Film {
    party: u8,
    next: (u64, u32),
    bytes: Vec<u8>,
    /// Each picture can be decoded by itself.
    is_independent: bool,
}

/// It begins with whose picture it is, its number, and the number of the part.
fn payload_of(party: u8, unit: u64, part: u32) -> Vec<u8> {
    let head = [party, (unit >> 8) as u8, unit as u8, part as u8];
    let rest = (4..BYTES as u64).map(|n| (n * 7 + unit * 31 + u64::from(part) * 101) as u8 ^ party);
    head.into_iter().chain(rest).collect()
}

impl VideoSource for Film {
    fn next(&mut self) -> Option<VideoPayload<'_>> {
        let (unit, part) = self.next;
        self.bytes = payload_of(self.party, unit, part);
        let (due, is_key) = (INTERVAL * unit as u32, self.is_independent || unit.is_multiple_of(KEYS));
        Some(VideoPayload {
            unit,
            part: (part, PARTS),
            due,
            shown: due,
            is_key,
            is_needed: !self.is_independent,
            layer: 0,
            bytes: &self.bytes,
        })
    }

    fn take(&mut self) {
        let (unit, part) = self.next;
        self.next = if part + 1 == PARTS { (unit + 1, 0) } else { (unit, part + 1) };
    }

    fn is_ended(&mut self) -> bool {
        false
    }

    fn on_way(&mut self, _way: VideoWay) {}
}

/// What one party was given of another.
struct Given {
    ssrc: u32,
    sound: Kept,
    packets: Vec<(Vec<u8>, Option<i64>)>,
    error: Option<String>,
    is_closed: bool,
}

/// What a party was given of all others, in the order of their joining.
#[derive(Clone, Default)]
struct Sinks(Arc<Mutex<Vec<Given>>>);

/// Where the pictures of one go.
struct Shown(Sinks, usize);

impl VideoSink for Shown {
    fn on_packet(&mut self, packet: &VideoArrived<'_>) {
        self.0.all()[self.1].packets.push((packet.payload.to_vec(), packet.place));
    }
}

impl PartySinks for Sinks {
    fn open(&mut self, _now: Instant, ssrc: u32, _path: PathId) -> (OpenSink, Box<dyn VideoSink>) {
        let sound = Kept::default();
        let open = sound.opener();
        let given = Given { ssrc, sound, packets: Vec::new(), error: None, is_closed: false };
        self.all().push(given);
        let at = self.all().len() - 1;
        (open, Box::new(Shown(self.clone(), at)))
    }

    fn on_error(&mut self, ssrc: u32, error: &ReceiveError) {
        let mut all = self.all();
        let given = all.iter_mut().rfind(|given| given.ssrc == ssrc).expect("it was opened");
        assert!(given.error.replace(error.to_string()).is_none(), "it is told once");
    }

    fn close(&mut self, ssrc: u32, sink: Option<Box<dyn Sink>>, written: Option<Written>) {
        let mut all = self.all();
        let given = all.iter_mut().rfind(|given| given.ssrc == ssrc).expect("it was opened");
        assert_eq!(sink.is_some(), written.is_some());
        given.is_closed = true;
    }
}

impl Sinks {
    fn all(&self) -> MutexGuard<'_, Vec<Given>> {
        self.0.lock().unwrap()
    }

    /// Of which party those of the `at`-th one to join are.
    fn party(&self, at: usize) -> u8 {
        self.all()[at].packets[0].0[0]
    }

    /// The pictures of the `at`-th one to join of which all parts came; each is as it was sent.
    fn whole(&self, at: usize) -> Vec<u64> {
        let (party, all) = (self.party(at), self.all());
        let mut parts: BTreeMap<u64, u32> = BTreeMap::new();
        for (payload, _) in &all[at].packets {
            let (unit, part) = (u64::from(payload[1]) << 8 | u64::from(payload[2]), u32::from(payload[3]));
            assert!(*payload == payload_of(party, unit, part), "picture {unit} of party {party}");
            *parts.entry(unit).or_default() += 1;
        }
        parts.into_iter().filter(|(_, count)| *count == PARTS).map(|(unit, _)| unit).collect()
    }

    /// Each picture has its place at the sample frame that was captured with it. Returns the first sample frame of sound, and how many
    /// there are.
    fn is_in_step(&self, at: usize) -> (u64, u64) {
        let all = self.all();
        let samples = all[at].sound.samples();
        let first = (0..10 * 48_000).find(|from| samples[..64] == expected(stereo(), *from, 32));
        let from = first.expect("sound of the first ten seconds begins it");
        let first = from as i64 * 1_000_000_000 / 48_000;
        for (payload, place) in &all[at].packets {
            let unit = i64::from(payload[1]) << 8 | i64::from(payload[2]);
            // Those that came before the sound have none of their own.
            let Some(place) = place else { continue };
            let off = place - (unit * INTERVAL.as_nanos() as i64 - first);
            assert!(off.abs() < 1_000_000, "picture {unit} is {off} ns off");
        }
        let placed = all[at].packets.iter().filter(|(_, place)| place.is_some()).count();
        assert!(placed > all[at].packets.len() * 9 / 10, "{placed} of {}", all[at].packets.len());
        (from, samples.len() as u64 / 2)
    }
}

/// A party with sound of which each sample is known, and pictures.
fn party(number: u8, sinks: &Sinks, now: Instant) -> Session {
    let seed = u64::from(number) + 1;
    let sound = Noise::endless(stereo());
    let session = conferring_apart(sound, (Latency::Of(DELAY), seed), Box::new(sinks.clone()), now);
    with_film(session, number, false)
}

fn with_film(mut session: Session, party: u8, is_independent: bool) -> Session {
    let sound = session.send_track().expect("it sends").packetiser().ssrc();
    let film = Film { party, next: (0, 0), bytes: Vec::new(), is_independent };
    let config = VideoTrackConfig { seed: 900 + u64::from(party), ..config(sound) };
    session.add_video_track(VideoTrack::new(Box::new(film), config));
    session
}

fn group_of(parties: u8) -> (GroupWorld<Session>, Vec<Sinks>) {
    let (mut world, sinks) = (GroupWorld::new(ms(5), 7), vec![(); usize::from(parties)]);
    let sinks: Vec<Sinks> = sinks.into_iter().map(|()| Sinks::default()).collect();
    for (number, sinks) in (0..).zip(&sinks) {
        world.join(party(number, sinks, Instant::ZERO), 0);
    }
    (world, sinks)
}

/// What was sent of a party's pictures from one second to another.
fn units(from: u64, to: u64) -> Vec<u64> {
    (from * 25..to * 25).collect()
}

#[test]
fn each_of_three_gets_the_pictures_of_the_two_others_with_their_sound() {
    let (mut world, sinks) = group_of(3);
    world.run_until(Instant::from_millis(10_030));
    for (member, sinks) in sinks.iter().enumerate() {
        let others: Vec<u8> = (0..2).map(|at| sinks.party(at)).collect();
        assert!(others.len() == 2 && !others.contains(&(member as u8)) && others[0] != others[1]);
        for (at, other) in others.iter().enumerate() {
            assert_eq!(sinks.whole(at)[..250], units(0, 10), "of party {other}");
            // Ten seconds but the playout delay, the way, and the packet that shows that it streams.
            let (from, frames) = sinks.is_in_step(at);
            assert!(from == 256 && (475_000..480_000).contains(&frames), "{from}, {frames}");
            assert!(sinks.all()[at].sound.samples() == expected(stereo(), from, frames));
        }
        for heard in heard_by(&mut world, member) {
            assert_eq!((heard.playout.lost, heard.playout.late, heard.playout.concealed_frames), (0, 0, 0));
            assert!(heard.pictures.is_some_and(|pictures| pictures.packets >= 1_000), "{heard:?}");
            assert!(heard.peak > 0.1, "{}", heard.peak);
        }
        let sent = world.member(member).video_sent().next().expect("pictures");
        assert_eq!((sent.left_out, sent.refused), (0, 0), "{sent:?}");
        // 1875 packets of sound and 1004 of pictures, each once; reports, fifty a second of them on what came.
        let count = world.members[member].counts[0];
        assert!((3_360..3_420).contains(&count), "{count} packets");
        assert_eq!(notices(world.member(member)).len(), 2);
    }
}

#[test]
fn one_that_comes_late_gets_pictures_from_then_on_and_one_that_dies_disturbs_nobody() {
    let (mut world, mut sinks) = group_of(3);
    world.run_until(seconds(3));
    sinks.push(Sinks::default());
    let late = party(3, &sinks[3], seconds(3));
    world.join(late, 0);
    world.run_until(seconds(6));
    world.members[2].cut_off = true;
    world.run_until(Instant::from_millis(12_030));
    for member in [0, 1] {
        let sinks = &sinks[member];
        for at in 0..3 {
            let (party, whole) = (sinks.party(at), sinks.whole(at));
            sinks.is_in_step(at);
            match party {
                2 => assert_eq!(whole[..149], units(0, 6)[..149]),
                // Its pictures began at three seconds.
                3 => assert_eq!(whole[..225], units(0, 9)),
                _ => assert_eq!(whole[..300], units(0, 12)),
            }
            assert_eq!(sinks.all()[at].is_closed, party == 2);
        }
        let told = notices(world.member(member));
        assert!(matches!(told.last(), Some(PartyNotice::Gone { why: WhyGone::Silent, .. })), "{told:?}");
    }
    // The late one misses at most what came before it knew the format of the sound.
    for at in 0..3 {
        let (party, whole) = (sinks[3].party(at), sinks[3].whole(at));
        if party != 2 {
            assert!(whole[0] <= 78 && whole.last() >= Some(&299), "{:?} to {:?}", whole[0], whole.last());
            assert!(whole.windows(2).all(|pair| pair[1] == pair[0] + 1));
        }
        sinks[3].is_in_step(at);
    }
}

#[test]
fn losses_of_two_percent_leave_the_sound_as_without_pictures() {
    let (mut world, sinks) = group_of(3);
    world.loss = 0.02;
    world.run_until(seconds(20));
    for (member, sinks) in sinks.iter().enumerate() {
        for heard in heard_by(&mut world, member) {
            // 3 740 packets, of which 75 are lost: 8.6 is their standard deviation.
            let playout = heard.playout;
            assert!((40..=110).contains(&playout.lost) && playout.late == 0, "{playout:?}");
            assert!(playout.concealed_frames >= 256 * playout.lost, "{playout:?}");
        }
        for at in 0..2 {
            // All four parts of 92 % come: 461 of 500, with a standard deviation of 6.
            let whole = sinks.whole(at).len();
            assert!((430..=490).contains(&whole), "{whole}");
            sinks.is_in_step(at);
        }
    }
}

/// How the pictures and the sound of the parties of a call fare of which the last one's link carries `kbit_per_s`: for each party how many of its pictures come
/// whole to the first that is not it, and how many packets of sound the last one lacks or has late: in the first two seconds, in which the windows are found, and after these.
fn thin_call(kbit_per_s: f64, is_managed: bool) -> (Vec<usize>, [u64; 2]) {
    let (mut world, sinks) = (GroupWorld::new(ms(5), 7), [(); 3].map(|()| Sinks::default()));
    for (number, sinks) in (0..).zip(&sinks) {
        let (sound, seed) = (Noise::endless(stereo()), u64::from(number) + 1);
        let sinks = Box::new(sinks.clone());
        let session = conferring_apart(sound, (Latency::Of(DELAY), seed), sinks, Instant::ZERO);
        let mut session = with_film(session, number, true);
        if is_managed {
            session.set_congestion_manager(Box::new(GroupPaths::of_call(2)));
        }
        world.join(session, 0);
    }
    world.members[2].narrow = Some((kbit_per_s * 125.0, 60_000));
    let mut lacking_at = |at| {
        world.run_until(at);
        heard_by(&mut world, 2).iter().map(|one| one.playout.lost + one.playout.late).sum::<u64>()
    };
    let at_first = lacking_at(seconds(2));
    let lacks = [at_first, lacking_at(seconds(20)) - at_first];
    let whole = |party: u8| {
        let sinks = &sinks[usize::from(party == 0)];
        (0..2).find(|at| sinks.party(*at) == party).map_or(0, |at| sinks.whole(at).len())
    };
    let whole: Vec<usize> = (0..3).map(whole).collect();
    println!("{kbit_per_s} kbit/s, managed {is_managed}: whole {whole:?}, the last one lacks {lacks:?}");
    (whole, lacks)
}

/// Two sounds take 3.3 Mbit/s of the last one's link, and their pictures 1.2: they have room for half.
#[test]
fn pictures_of_a_call_leave_the_sound_of_a_party_with_a_thin_link() {
    let (_, lacks) = thin_call(3_900.0, false);
    assert!(lacks[0] > 80 && lacks[1] > 1_000, "the link is too thin for all: {lacks:?}");
    let (whole, lacks) = thin_call(3_900.0, true);
    // Of 750 packets, and of 6750.
    assert!(lacks[0] <= 20 && lacks[1] == 0, "{lacks:?}");
    for party in [0, 1] {
        assert!((100..450).contains(&whole[party]), "{whole:?} of 500");
    }
    // What the others send to it delays their reports as well, which it takes for a queue of its own.
    assert!(whole[2] >= 100, "{whole:?}");
}

#[test]
fn a_call_with_room_for_all_has_all_pictures() {
    let (whole, lacks) = thin_call(20_000.0, true);
    assert!(lacks == [0, 0] && whole.iter().all(|whole| *whole >= 490), "{whole:?}, {lacks:?}");
}

/// A call of three with congestion managers.
fn managed_call(manager: impl Fn() -> Box<dyn CongestionManager>) -> (GroupWorld<Session>, Vec<Sinks>) {
    let (mut world, sinks) = group_of(3);
    (0..3).for_each(|member| world.member(member).set_congestion_manager(manager()));
    (world, sinks)
}

/// Who leaves, or is gone, tells nothing more of what comes to it, and the pictures of the others go on.
#[test]
fn a_party_that_leaves_holds_up_no_pictures() {
    for says_goodbye in [true, false] {
        let (mut world, sinks) = managed_call(|| Box::new(GroupPaths::of_call(2)));
        world.run_until(seconds(4));
        match says_goodbye {
            true => world.member(2).stop(seconds(4)),
            false => world.members[2].cut_off = true,
        }
        world.run_until(Instant::from_millis(8_030));
        for member in [0, 1] {
            let sent = world.member(member).video_sent().next().expect("pictures");
            // What waits until it is clear that one is gone is too late, with what can't be decoded without it.
            let most = if says_goodbye { 0 } else { KEYS };
            assert!(sent.left_out <= most && sent.units + sent.left_out == 201, "{says_goodbye}: {sent:?}");
            let at = (0..2).find(|at| sinks[member].party(*at) == 1 - member as u8).expect("the other");
            let whole = sinks[member].whole(at);
            assert!(
                whole.ends_with(&units(5, 8)) || whole.ends_with(&[units(5, 8), vec![200]].concat()),
                "{whole:?}"
            );
            assert!(whole.len() as u64 >= 200 - most, "{whole:?}");
        }
    }
}

/// Counts the reports that a party takes for those on its own streams.
#[derive(Default)]
struct Told {
    own: HashSet<u32>,
    reports: Arc<AtomicU64>,
}

impl CongestionManager for Told {
    fn on_sent(&mut self, _now: Instant, _on: AssociationId, _track: TrackId, packet: &[u8]) {
        self.own.insert(parse_rtp(packet, ExtensionIds::default()).expect("one of ours").ssrc);
    }

    fn on_report(&mut self, _now: Instant, _on: AssociationId, report: &ArrivalReport<'_>) {
        assert!(!self.own.contains(&report.ssrc), "it comes back");
        assert!(report.packets().any(|(ssrc, ..)| self.own.contains(&ssrc)), "it is on others' streams");
        self.reports.fetch_add(1, Ordering::Relaxed);
    }

    fn budget(&mut self, _now: Instant, _track: TrackId) -> Budget {
        Budget::All
    }
}

#[test]
fn a_party_is_told_of_its_own_streams_alone() {
    let reports = Arc::<AtomicU64>::default();
    let (mut world, _sinks) = managed_call(|| Box::new(Told { reports: reports.clone(), ..Told::default() }));
    world.run_until(seconds(2));
    let all = reports.swap(0, Ordering::Relaxed);
    // The others tell of each other alone.
    world.passes = Some(Box::new(|from, _, _| from != 2));
    world.run_until(seconds(4));
    let of_two = reports.load(Ordering::Relaxed);
    assert!(all > 200 && of_two > 50 && of_two < all / 2, "{all}, {of_two}");
}

#[test]
fn a_sink_of_all_leaves_pictures_out_and_says_so_once() {
    let (mut world, _kept) = group(1);
    let sinks = Sinks::default();
    world.join(party(1, &sinks, Instant::ZERO), 0);
    world.join(party(2, &sinks, Instant::ZERO), 0);
    world.run_until(seconds(4));
    let told = notices(world.member(0));
    let of_pictures = told.iter().filter(|one| matches!(one, PartyNotice::Pictures { .. })).count();
    assert_eq!((of_pictures, told.len()), (1, 3), "{told:?}");
    let parties = world.member(0).parties().expect("a call over a group");
    let counters = parties.counters();
    assert!(counters.pictures_left_out >= 800 && counters.malformed == 0, "{counters:?}");
    assert_eq!(parties.playout().lost, 0);
}

/// Somebody else says of its pictures that they belong to the sound of a party.
#[test]
fn pictures_from_elsewhere_get_nowhere() {
    let (mut world, sinks) = group_of(2);
    world.run_until(seconds(1));
    let victim = world.member(0).send_track().expect("it sends").packetiser().ssrc();
    let encoding = config(0).encoding;
    let mut stream = antiphon_media::packet::VideoStream::new(encoding, 100, victim, 77);
    for n in 0..500u64 {
        let mut buf = vec![0; 1_400];
        let marking = antiphon_media::packet::Marking::default();
        let ntp = antiphon_core::NtpTime::from_bits(n);
        let len = stream.packet((n * 3_600, marking), ntp, &[9; 500], &mut buf).expect("it fits");
        stream.advance();
        world.inject(PathId(77), &buf[..len]);
    }
    world.run_until(seconds(4));
    assert_eq!(sinks[1].party(0), 0);
    assert_eq!(sinks[1].whole(0)[..99], units(0, 4)[..99]);
    let counters = world.member(1).parties().expect("a call over a group").counters();
    assert_eq!(counters.pictures_left_out, 500);
}

/// A sink that fails or is closed after some blocks.
struct Failing {
    blocks: u32,
    error: SinkError,
    format: StreamFormat,
}

impl Sink for Failing {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn push(&mut self, _block: &[f32]) -> Result<(), SinkError> {
        self.blocks = self.blocks.saturating_sub(1);
        if self.blocks == 0 { Err(self.error.clone()) } else { Ok(()) }
    }

    fn clocked(&self) -> bool {
        false
    }

    fn wants(&self) -> Option<Wants> {
        None
    }

    fn period(&self) -> Option<usize> {
        None
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn silence(&mut self, _frames: u64) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Of each party in the order of joining how its sink ends: after so many blocks.
struct Ending(Sinks, Vec<(u32, SinkError)>);

impl PartySinks for Ending {
    fn open(&mut self, now: Instant, ssrc: u32, path: PathId) -> (OpenSink, Box<dyn VideoSink>) {
        let (_, video) = self.0.open(now, ssrc, path);
        let (blocks, error) = self.1.remove(0);
        let open: OpenSink = Box::new(move |format, _| match blocks {
            0 => Err("no room on the disk".into()),
            blocks => Ok(Box::new(Failing { blocks, error: error.clone(), format })),
        });
        (open, video)
    }

    fn on_error(&mut self, ssrc: u32, error: &ReceiveError) {
        self.0.on_error(ssrc, error);
    }

    fn close(&mut self, ssrc: u32, sink: Option<Box<dyn Sink>>, written: Option<Written>) {
        self.0.close(ssrc, sink, written);
    }
}

/// A call with others one of whose sinks after the other ends so, at four seconds; and what the first one was given.
fn with_ends(ends: Vec<(u32, SinkError)>) -> (GroupWorld<Session>, Sinks) {
    let (sinks, own, others) = (Sinks::default(), Sinks::default(), ends.len() as u8);
    let ending = Box::new(Ending(own.clone(), ends));
    let mut world = GroupWorld::new(ms(5), 7);
    let (sound, how) = (Noise::endless(stereo()), (Latency::Of(DELAY), 50));
    world.join(conferring_apart(sound, how, ending, Instant::ZERO), 0);
    for number in 1..=others {
        world.join(party(number, &sinks, Instant::ZERO), 0);
    }
    world.run_until(seconds(4));
    (world, own)
}

#[test]
fn the_call_goes_on_until_the_last_of_the_sinks_is_lost() {
    let (failed, closed) = (SinkError::Failed, SinkError::Closed);
    let errors = |own: &Sinks| own.all().iter().filter(|given| given.error.is_some()).count();
    // One that is there, and one that could not be opened and may be when its party comes again.
    for (ends, lost) in [([200, 90_000], 1), ([200, 0], 2)] {
        let (mut world, own) = with_ends(ends.map(|blocks| (blocks, failed.clone())).into());
        assert_eq!(errors(&own), lost);
        assert!(world.member(0).parties().expect("a call over a group").error().is_none());
        assert!(!world.member(0).is_finished());
    }
    let (mut world, own) = with_ends(vec![(200, failed), (500, closed)]);
    assert_eq!(errors(&own), 2);
    let error = world.member(0).parties().expect("a call over a group").error();
    assert_eq!(error, Some(&ReceiveError::SinkClosed));
    assert!(world.member(0).is_finished());
}
