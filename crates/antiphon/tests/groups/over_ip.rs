//! A group directly over IP.

use std::path::Path;
use std::time::Duration;

use antiphon::{ReceiveOptions, SendOptions, Stop, send};

use crate::A_TENTH;
use crate::common::{NOISE, listen, recorded, samples, scratch};
use crate::network::{Network, address, program};

/// Receivers of a group directly over IP, where they have no ports of UDP: two on one host, and one on another.
const RAW_MEMBERS: [usize; 3] = [1, 1, 2];

#[test]
#[ignore = "needs ip, tc, tshark and root, to make namespaces; scripts/install-peers brings them"]
fn a_group_directly_over_ip_has_members_on_one_host() {
    let network = match Network::new(3) {
        Ok(network) => network,
        Err(why) => return antiphon_testkit::skip_without_namespace(&why),
    };
    network.lose(1, A_TENTH);
    network.lose(2, A_TENTH);
    let directory = scratch("raw-group");
    let members = RAW_MEMBERS.into_iter().zip(1..).map(|(host, n)| {
        let options = ReceiveOptions {
            source: format!("xtp://@239.61.7.9:7710?over=ip&order=ordered&iface={}", address(host)),
            sink: directory.join(format!("{n}.wav")).display().to_string(),
            length: Some(Duration::from_secs(40)),
            give_up: Some(Duration::from_secs(5)),
            seed: n,
            ..ReceiveOptions::default()
        };
        network.hosts[host].run(|| listen(options)).expect("a namespace")
    });
    let members: Vec<_> = members.collect();
    let capture = directory.join("sent.pcapng");
    let options = SendOptions {
        source: NOISE.into(),
        target: format!("xtp://239.61.7.9:7710?over=ip&reliability=full&members=3&iface={}", address(0)),
        length: Some(Duration::from_secs(10)),
        capture: Some(capture.clone()),
        ..SendOptions::default()
    };
    let sent = network.hosts[0].run(|| send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}));
    let sent = sent.expect("a namespace").expect("the bridge carries multicast");
    members
        .into_iter()
        .for_each(|member| drop(member.join().unwrap().expect("receiving ends with the stream")));
    let expected = samples(NOISE, 10 * 48_000);
    for n in 1..=RAW_MEMBERS.len() {
        let recording = recorded(&directory.join(format!("{n}.wav")));
        assert!(recording == expected, "member {n}: {} of {} samples", recording.len(), expected.len());
    }
    for host in [1, 2] {
        assert!(network.lost(host) > 100, "host {host}: {} packets dropped", network.lost(host));
    }
    assert_eq!(sent.members_reported.len(), RAW_MEMBERS.len(), "{:?}", sent.members_reported);
    analysed(&capture);
    std::fs::remove_dir_all(&directory).expect("our own directory");
}

/// That tshark takes every packet directly over IP for one of XTP, and finds nothing to complain about in a capture. The sound in
/// them stands beside, as RTP in UDP.
fn analysed(capture: &Path) {
    let count = |filter: &str| {
        let file = capture.display();
        program(&format!("tshark -r {file} -Y \"{filter}\" -T fields -e frame.number")).lines().count()
    };
    let packets = count("ip.proto == 36");
    assert!(packets > 2_000, "{packets} packets");
    assert_eq!(count("xtp.checksum.status == 1"), packets);
    assert_eq!(count("_ws.malformed || _ws.expert.severity >= 6291456"), 0, "warnings or errors");
    // Version 4.0, in every packet; and our own formats, coded repairs and reports of what is missing, are among them.
    assert_eq!(count("xtp.cmd.ptype.ver == 1"), packets);
    for (format, least) in [(REPAIR, 50), (REPORT, 50)] {
        let seen = count(&format!("xtp.cmd.ptype.pformat == {format}"));
        assert!(seen >= least, "{seen} packets of format {format}");
    }
    let to_group = count("ip.proto == 36 && ip.dst == 239.61.7.9 && ip.src == 10.61.7.1");
    let to_or_from_members = count("ip.proto == 36 && ip.dst != 239.61.7.9");
    assert!(to_or_from_members > 50, "{to_or_from_members} to or from members");
    assert_eq!(to_group + to_or_from_members, packets);
}

/// Packet formats that XTP 4.0 does not use.
const REPAIR: u8 = 9;
const REPORT: u8 = 10;
