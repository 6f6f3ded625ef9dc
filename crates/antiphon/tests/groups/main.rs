//! Multicast groups on real sockets: on loopback, and in a network of its own, with a namespace for each member.

#[path = "../common/mod.rs"]
mod common;
mod network;
mod over_ip;

use std::time::Duration;

use antiphon::{
    ReceiveOptions, SendMember, SendOptions, SendStatus, SendSummary, Stop, TalkOptions, TalkSummary, send,
    talk,
};
use antiphon_testkit::unless_held_up;
use common::{HELD_UP, NOISE, free_port, listen, recorded, samples, scratch};
use network::{Network, address};

/// Receivers of each group.
const MEMBERS: usize = 8;

#[test]
fn a_sender_to_a_group_tells_its_members_apart() {
    unless_held_up(HELD_UP, || {
        // Reports come every 2.5 to 7.5 s (RFC 3550 §6.2).
        let port = free_port();
        let group = format!("rtp://@239.61.7.9:{port}?iface=127.0.0.1");
        let member = |seed: u64| {
            listen(ReceiveOptions {
                source: group.clone(),
                sink: "null:".into(),
                length: Some(Duration::from_secs(30)),
                seed,
                ..ReceiveOptions::default()
            })
        };
        let members: Vec<_> = (1..=MEMBERS as u64).map(member).collect();
        let options = SendOptions {
            source: NOISE.into(),
            target: format!("rtp://239.61.7.9:{port}?iface=127.0.0.1"),
            length: Some(Duration::from_secs(10)),
            ..SendOptions::default()
        };
        let sent =
            send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("loopback carries multicast");
        for member in members {
            let received = member.join().unwrap().expect("receiving ends with the stream");
            assert_eq!(received.status.lost, 0);
        }
        assert_eq!(sent.members_reported.len(), MEMBERS, "{:?}", sent.members_reported);
        for member in &sent.members_reported {
            assert!(member.lost == 0 && member.playout_delay_ms == Some(80.0), "{member:?}");
        }
    });
}

#[test]
fn a_group_goes_on_without_its_only_listener() {
    for scheme in ["rtp", "xtp"] {
        let port = free_port();
        let member = listen(ReceiveOptions {
            source: format!("{scheme}://@239.61.7.10:{port}?iface=127.0.0.1"),
            sink: "null:".into(),
            length: Some(Duration::from_secs(1)),
            ..ReceiveOptions::default()
        });
        let options = SendOptions {
            source: NOISE.into(),
            target: format!("{scheme}://239.61.7.10:{port}?iface=127.0.0.1"),
            length: Some(Duration::from_secs(3)),
            ..SendOptions::default()
        };
        let mut notices = Vec::new();
        let mut notice = |sentence| notices.push(sentence);
        let sent =
            send(&options, &Stop::new(), &mut notice, &mut |_| {}).expect("loopback carries multicast");
        member.join().unwrap().expect("it has what it wanted");
        assert_eq!((sent.shortfall, sent.status.sent_s), (None, 3.0), "{scheme}");
        let told = |what: &str| notices.iter().any(|sentence| sentence.contains(what));
        assert_eq!(told("joined the group; 1 gets repairs"), scheme == "xtp", "{notices:?}");
        assert_eq!(told("left the group; 0 get repairs"), scheme == "xtp", "{notices:?}");
    }
}

/// Playout delay of each member, in milliseconds, and whether it loses packets. Host 0 is the sender.
const DELAYS: [(u64, bool); MEMBERS] =
    [(80, false), (120, true), (80, false), (80, false), (80, true), (160, false), (80, false), (80, false)];

/// Every 20th RTP packet: those whose sequence numbers modulo 20 are 10. The number is behind 14, 20 and 8 bytes of headers and 2 of
/// RTP's own. In RTCP, the length of the report is there, which is less; ARP's packets end before.
const EVERY_20TH: &str = "5,40 0 0 44,148 0 0 20,21 0 1 10,6 0 0 4294967295,6 0 0 0";
/// One IPv4 packet of ten, at random: the kernel's random number is at least 9/10 of 2³².
const A_TENTH: &str = "6,40 0 0 12,21 0 3 2048,32 0 0 4294963256,53 0 1 3865470566,6 0 0 4294967295,6 0 0 0";

/// Less than a tenth of the 2813 packets of 15 s, by five standard deviations.
const A_TENTH_OF_15_S: u64 = 200;

#[test]
#[ignore = "needs ip, tc and root, to make namespaces; scripts/install-peers brings them"]
fn members_in_namespaces_report_their_own_losses() {
    unless_held_up(HELD_UP, || {
        let network = match Network::new(1 + MEMBERS) {
            Ok(network) => network,
            Err(why) => return antiphon_testkit::skip_without_namespace(&why),
        };
        let lossy = || (1..=MEMBERS).filter(|host| DELAYS[host - 1].1);
        lossy().for_each(|host| network.lose(host, EVERY_20TH));
        let members: Vec<_> = (1..=MEMBERS)
            .map(|host| {
                let options = ReceiveOptions {
                    source: format!("rtp://@239.61.7.9:7710?iface={}", address(host)),
                    sink: "null:".into(),
                    latency: Some(antiphon::Latency::Of(Duration::from_millis(DELAYS[host - 1].0))),
                    length: Some(Duration::from_secs(40)),
                    seed: host as u64,
                    ..ReceiveOptions::default()
                };
                network.hosts[host].run(|| listen(options)).expect("a namespace")
            })
            .collect();
        let sent = network.hosts[0].run(|| send_to_group(&address(0))).expect("a namespace");
        for (host, member) in (1..).zip(members) {
            let received = member.join().unwrap().expect("receiving ends with the stream").status;
            let (_, is_lossy) = DELAYS[host - 1];
            let dropped = if is_lossy { network.lost(host) } else { 0 };
            println!(
                "member {host}: {} of {} lost, {dropped} dropped",
                received.lost, sent.status.packets_sent
            );
            // What was dropped after the last packet that came is not known to be missing.
            assert!(
                received.lost <= dropped && received.lost + 2 > dropped,
                "{host}: {received:?}, {dropped} dropped"
            );
            assert!(!is_lossy || dropped.abs_diff(sent.status.packets_sent / 20) <= 1, "{dropped} dropped");
        }
        told_apart(&sent);
    });
}

fn send_to_group(from: &str) -> SendSummary {
    let options = SendOptions {
        source: NOISE.into(),
        target: format!("rtp://239.61.7.9:7710?iface={from}"),
        length: Some(Duration::from_secs(15)),
        ..SendOptions::default()
    };
    send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("the bridge carries multicast")
}

/// That the members' reports, as the sender knows them, are theirs.
fn told_apart(sent: &SendSummary) {
    println!("{:#?}", sent.members_reported);
    let told = |member: &SendMember| {
        let is_lossy = member.lost > 0;
        // Of an interval between reports of 2.5 s, one packet is 0.2 %.
        let share = if is_lossy { 2.0..=9.0 } else { 0.0..=0.0 };
        assert!(share.contains(&member.loss_percent), "{member:?}");
        assert!(member.rtt_ms.is_some_and(|rtt| rtt < 1_000.0), "{member:?}");
        (member.playout_delay_ms.expect("it plays") as u64, is_lossy)
    };
    let mut told: Vec<_> = sent.members_reported.iter().map(told).collect();
    let mut expected = DELAYS.to_vec();
    told.sort_unstable();
    expected.sort_unstable();
    assert_eq!(told, expected);
    assert_eq!(sent.status.members, 8);
}

/// Sends `seconds` of noise by reliable multicast to members that record it, all of which lose a tenth; says when so many packets have
/// left. Returns how many packets each lost, and its recording.
fn reliable_multicast(
    name: &str,
    seconds: u64,
    on_packets: &mut (dyn FnMut(&Network, u64) + Send),
) -> Option<Vec<(u64, Vec<i16>)>> {
    let network = match Network::new(1 + MEMBERS) {
        Ok(network) => network,
        Err(why) => {
            antiphon_testkit::skip_without_namespace(&why);
            return None;
        }
    };
    (1..=MEMBERS).for_each(|host| network.lose(host, A_TENTH));
    let directory = scratch(name);
    let file = |host: usize| directory.join(format!("{host}.wav"));
    let members: Vec<_> = (1..=MEMBERS)
        .map(|host| {
            let options = ReceiveOptions {
                source: format!("xtp://@239.61.7.9:7710?order=ordered&iface={}", address(host)),
                sink: file(host).display().to_string(),
                length: Some(Duration::from_secs(seconds + 30)),
                give_up: Some(Duration::from_secs(5)),
                seed: host as u64,
                ..ReceiveOptions::default()
            };
            network.hosts[host].run(|| listen(options)).expect("a namespace")
        })
        .collect();
    let options = SendOptions {
        source: NOISE.into(),
        target: format!("xtp://239.61.7.9:7710?reliability=full&members={MEMBERS}&iface={}", address(0)),
        length: Some(Duration::from_secs(seconds)),
        ..SendOptions::default()
    };
    let mut status = |status: &SendStatus| on_packets(&network, status.packets_sent);
    let sent = network.hosts[0].run(|| send(&options, &Stop::new(), &mut |_| {}, &mut status));
    println!("{:?}", sent.expect("a namespace").expect("the bridge carries multicast").status);
    let recordings = members.into_iter().zip(1..).map(|(member, host)| {
        let received = member.join().unwrap();
        let lost = network.lost(host);
        println!("member {host}: {lost} packets dropped, {:?}", received.map(|received| received.status));
        (lost, recorded(&file(host)))
    });
    let recordings = recordings.collect();
    std::fs::remove_dir_all(&directory).expect("our own directory");
    Some(recordings)
}

#[test]
#[ignore = "needs ip, tc and root, to make namespaces; scripts/install-peers brings them"]
fn reliable_multicast_loses_nothing_where_each_member_loses_a_tenth() {
    let Some(recordings) = reliable_multicast("reliable", 15, &mut |_, _| {}) else { return };
    let sent = samples(NOISE, 15 * 48_000);
    for (at, (lost, recording)) in recordings.iter().enumerate() {
        assert!(*lost > A_TENTH_OF_15_S, "member {}: {lost} packets dropped", at + 1);
        assert!(*recording == sent, "member {}: {} of {} samples", at + 1, recording.len(), sent.len());
    }
}

#[test]
#[ignore = "needs ip, tc and root, to make namespaces; scripts/install-peers brings them"]
fn a_member_that_is_cut_off_costs_the_others_nothing() {
    let mut is_cut = false;
    let cut = &mut |network: &Network, packets: u64| {
        if packets > 500 && !std::mem::replace(&mut is_cut, true) {
            network.cut_off(3);
        }
    };
    let Some(recordings) = reliable_multicast("cut-off", 15, cut) else { return };
    assert!(is_cut);
    let sent = samples(NOISE, 15 * 48_000);
    for (at, (lost, recording)) in recordings.iter().enumerate() {
        let whole = *recording == sent;
        // The third was cut off after 500 packets.
        let least = if at + 1 == 3 { 30 } else { A_TENTH_OF_15_S };
        assert!(*lost > least, "member {}: {lost} packets dropped", at + 1);
        assert_eq!(whole, at + 1 != 3, "member {}: {} of {} samples", at + 1, recording.len(), sent.len());
    }
}

/// A party of a call over a group, on that host, for so many seconds.
fn talking(network: &Network, host: usize, seconds: u64) -> std::thread::JoinHandle<TalkSummary> {
    let options = TalkOptions {
        send: SendOptions {
            source: format!("tone:{}Hz?channels=2", 300 + 100 * host),
            target: format!("rtp://239.61.7.11:7710?iface={}", address(host)),
            length: Some(Duration::from_secs(seconds)),
            seed: host as u64,
            ..SendOptions::default()
        },
        receive: ReceiveOptions {
            sink: "null:".into(),
            latency: Some(antiphon::Latency::Of(Duration::from_millis(200))),
            ..ReceiveOptions::default()
        },
        ..TalkOptions::default()
    };
    let call = move || {
        // Shown while all are there: the last of them sees the others leave.
        let mut fullest = None;
        let summary = talk(&options, &Stop::new(), &mut |_| {}, &mut |status| {
            if status.parties.as_ref().is_some_and(|parties| parties.len() == 2) {
                fullest = Some(status.clone());
            }
        });
        let summary = summary.expect("the bridge carries multicast");
        TalkSummary { status: fullest.unwrap_or(summary.status), ..summary }
    };
    network.hosts[host].run(|| std::thread::spawn(call)).expect("a namespace")
}

#[test]
#[ignore = "needs ip, tc and root, to make namespaces; scripts/install-peers brings them"]
fn three_in_namespaces_hear_one_another() {
    unless_held_up(HELD_UP, || {
        let network = match Network::new(3) {
            Ok(network) => network,
            Err(why) => return antiphon_testkit::skip_without_namespace(&why),
        };
        network.lose(2, EVERY_20TH);
        let parties = [0, 1, 2].map(|host| talking(&network, host, 8));
        for (host, party) in parties.into_iter().enumerate() {
            let summary = party.join().expect("it does not panic");
            let others = summary.status.parties.expect("a call over a group");
            let mut from: Vec<String> = others.iter().filter_map(|other| other.address.clone()).collect();
            from.sort();
            let expected: Vec<String> = (0..3)
                .filter(|other| *other != host)
                .map(|other| format!("{}:7710", address(other)))
                .collect();
            assert_eq!(from, expected, "{others:?}");
            for other in &others {
                // 1500 packets of 8 s, of which a twentieth.
                let lost = if host == 2 { 60..=80 } else { 0..=0 };
                assert!(lost.contains(&other.lost) && other.late == 0, "{host}: {others:?}");
                assert!(other.peak_dbfs.is_some_and(|peak| peak > -21.0), "{others:?}");
                assert!(other.name.is_some() && other.rtt_ms.is_some_and(|ms| ms < 100.0), "{others:?}");
                // Every party knows who loses of it.
                let loses = other.address.as_deref() == Some("10.61.7.3:7710");
                assert_eq!(other.remote_loss_percent.is_some_and(|loss| loss > 1.0), loses, "{others:?}");
            }
        }
    });
}
