//! Multicast groups on real sockets: on loopback, and in a network of its own, with a namespace for each member.

mod common;

use std::process::Command;
use std::time::Duration;

use antiphon::net::netns::{Namespace, NetnsError};
use antiphon::{ReceiveOptions, SendMember, SendOptions, SendStatus, SendSummary, Stop, send};
use common::{NOISE, free_port, listen, recorded, samples, scratch};

/// Receivers of each group.
const MEMBERS: usize = 8;

#[test]
fn a_sender_to_a_group_tells_its_members_apart() {
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
    let sent = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("loopback carries multicast");
    for member in members {
        let received = member.join().unwrap().expect("receiving ends with the stream");
        assert_eq!(received.status.lost, 0);
    }
    assert_eq!(sent.members_reported.len(), MEMBERS, "{:?}", sent.members_reported);
    for member in &sent.members_reported {
        assert!(member.lost == 0 && member.playout_delay_ms == Some(80.0), "{member:?}");
    }
}

/// Namespaces that a bridge joins. None has a name: they and their devices exist as long as the handles, or this process.
struct Network {
    /// Where the bridge is, with a port for each host.
    hub: Namespace,
    /// The sender, then the members; host *n* has the address 10.61.7.(*n* + 1).
    hosts: Vec<Namespace>,
}

impl Network {
    fn new(hosts: usize) -> Result<Self, NetnsError> {
        let hub = Namespace::private()?;
        let hosts = (0..hosts).map(|_| Namespace::private()).collect::<Result<Vec<_>, _>>()?;
        let network = Network { hub, hosts };
        network.hub.run(|| network.join())?;
        Ok(network)
    }

    /// Makes the bridge and its ports, in the hub.
    fn join(&self) {
        // Without snooping it floods groups at once; with it, members would first have to be learned.
        program("ip link add bridge type bridge mcast_snooping 0");
        program("ip link set bridge up");
        let here = std::fs::read_link("/proc/thread-self").expect("/proc is mounted");
        let here = format!("/proc/{}/ns/net", here.display());
        for (n, host) in self.hosts.iter().enumerate() {
            let connect = || {
                program(&format!("ip link add net type veth peer name port{n} netns {here}"));
                program(&format!("ip address add {}/24 dev net", address(n)));
                program("ip link set net up");
            };
            host.run(connect).expect("a namespace");
            program(&format!("ip link set port{n} master bridge up"));
        }
    }

    /// Takes from what a host is to receive the packets that a classic BPF program chooses.
    fn lose(&self, host: usize, program_of_filter: &str) {
        let (port, sink) = (format!("port{host}"), format!("lost{host}"));
        self.in_hub(|| {
            // Its other end receives what was lost, and nobody reads it.
            program(&format!("ip link add {sink} up type veth peer name end{host}"));
            program(&format!("ip link set end{host} up"));
            program(&format!("tc qdisc add dev {port} clsact"));
            program(&format!(
                "tc filter add dev {port} egress bpf bytecode {program_of_filter:?} action mirred egress redirect \
                 dev {sink}"
            ));
        });
    }

    /// Nothing reaches a host any more, nor leaves it.
    fn cut_off(&self, host: usize) {
        self.in_hub(|| program(&format!("ip link set port{host} down")));
    }

    /// Packets that a host did not get since [`Self::lose`].
    fn lost(&self, host: usize) -> u64 {
        let told = self.in_hub(|| program(&format!("tc -s filter show dev port{host} egress")));
        // The action's statistics: "Sent 14920 bytes 10 pkt (dropped 0, …".
        let before = told.split(" pkt ").next().and_then(|before| before.split_whitespace().last());
        before.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no packets in {told}"))
    }

    fn in_hub<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.hub.run(work).expect("a namespace")
    }
}

fn address(host: usize) -> String {
    format!("10.61.7.{}", host + 1)
}

/// Runs a program in the namespace of the calling thread, and returns what it says; words in quotation marks stay together.
fn program(line: &str) -> String {
    let parts: Vec<&str> = line.split('"').collect();
    let words = parts.iter().enumerate().flat_map(|(n, part)| match n % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![*part],
    });
    let words: Vec<&str> = words.collect();
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", words[0]));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
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
                latency: Some(Duration::from_millis(DELAYS[host - 1].0)),
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
        println!("member {host}: {} of {} lost, {dropped} dropped", received.lost, sent.status.packets_sent);
        // What was dropped after the last packet that came is not known to be missing.
        assert!(
            received.lost <= dropped && received.lost + 2 > dropped,
            "{host}: {received:?}, {dropped} dropped"
        );
        assert!(!is_lossy || dropped.abs_diff(sent.status.packets_sent / 20) <= 1, "{dropped} dropped");
    }
    told_apart(&sent);
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
