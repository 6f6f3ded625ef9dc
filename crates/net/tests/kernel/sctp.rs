//! SCTP on IP protocol 132 and inside UDP, with the kernel's one-to-one and one-to-many sockets.

use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{CloseReason, Outcome};
use antiphon_net::{DriveOptions, Lines, OsClock, Stop, drive};

use antiphon_testkit::unless_held_up;

use crate::guest::{GUEST, Guest, HOST, SECOND_GUEST, SECOND_HOST, bracketed, figure, guest};
use crate::party::{Node, Served, Server, call, intact, messages, open_line};
use crate::transports::{WIRE, reflector};
use crate::wire::watched;

const MESSAGES: usize = 60;
const LEN: usize = 200;
const INTERVAL: Duration = Duration::from_millis(5);
/// A machine that holds up a thread, and the virtual one with it, for so long causes repetitions, and drops in the kernel's queues.
const HELD_UP: Duration = Duration::from_millis(50);
/// Time for a few packets on a busy machine, handshake and repetitions included.
const SOON: Duration = Duration::from_secs(10);
/// The listener's port inside UDP or on IP, here.
const PORT: u16 = 5004;
/// UDP's port, there and here (RFC 6951).
const UDP: u16 = 9899;

/// Ways to an SCTP port of the machine, raw and in UDP.
fn uris(version: usize, port: u16, query: &str) -> [String; 2] {
    let host = bracketed(GUEST[version]);
    [format!("sctp://{host}:{port}?over=ip&{query}"), format!("sctp://{host}:{UDP}?sctp-port={port}&{query}")]
}

/// Sends messages to an echo, waits for all of them, and closes.
pub fn echoed(node: &mut Node, count: usize, len: usize, interval: Duration) {
    let sent = messages(count, len);
    node.pace(&sent, interval, None);
    node.until("all messages and their outcomes", 3 * SOON, |party| {
        party.messages.len() == count && party.outcomes.len() == count
    });
    assert_eq!(node.party.count(|outcome| *outcome == Outcome::Acked), count, "{}", node.state());
    assert_eq!(intact(&sent, &node.party.messages), count);
    node.close();
    node.until("the end", SOON, |party| party.closed.is_some());
    assert_eq!(node.party.closed, Some(CloseReason::Local));
}

#[test]
#[ignore = "needs root and a Linux 6.1 kernel in a virtual machine; scripts/install-peers brings it"]
fn sctp_calls_the_kernel() {
    unless_held_up(HELD_UP, || {
        let guest = guest();
        watched(&guest, || {
            for (version, port, query) in [
                (0, 6001, "reliability=full&order=ordered"),
                (0, 6002, "reliability=full&style=many"),
                (1, 6003, "reliability=full"),
                (1, 6003, "reliability=full&order=ordered&streams=3&style=many"),
            ] {
                for uri in uris(version, port, query) {
                    call(&guest, &uri, |node| {
                        echoed(node, MESSAGES, LEN, INTERVAL);
                        let counters = node.party.endpoint.stats().counters;
                        assert_eq!((counters.malformed, counters.retransmitted), (0, 0), "{uri}");
                    });
                }
            }
        });
    });
}

/// A server of ours, raw or in UDP, and the options with which the kernel's client calls it.
fn both_uris(query: &str) -> [(String, String); 2] {
    [
        (format!("sctp://:{PORT}?over=ip&{query}"), String::new()),
        (format!("sctp://:{UDP}?sctp-port={PORT}&{query}"), format!("-e {UDP}")),
    ]
}

/// Lets the kernel's client send to our echo; returns its output, its exit status, and our results.
fn kernel_calls(guest: &Guest, uri: &str, version: usize, options: &str) -> (String, Option<i32>, Served) {
    let server = Server::start(guest, uri);
    let (printed, code) = guest.try_exec(&format!("sctp-client {options} {} {PORT}", HOST[version]));
    (printed, code, server.end())
}

#[test]
#[ignore = "needs root and a Linux 6.1 kernel in a virtual machine; scripts/install-peers brings it"]
fn the_kernel_calls_sctp() {
    let guest = guest();
    watched(&guest, || {
        for (version, query, options) in [
            (0, "reliability=full&order=ordered", "-S 4"),
            (0, "reliability=full", "-m -u"),
            (1, "reliability=full&order=ordered", "-m"),
            (1, "reliability=full", "-u"),
        ] {
            for (uri, way) in both_uris(query) {
                let options = format!("{way} {options} -n {MESSAGES} -i 5 -l {LEN}");
                let (printed, code, ours) = kernel_calls(&guest, &uri, version, &options);
                let what = format!("{uri}, sctp-client {options}: {printed}\n{}", ours.state);
                assert_eq!((code, figure(&printed, "recv")), (Some(0), MESSAGES as u64), "{what}");
                assert_eq!((figure(&printed, "bad"), figure(&printed, "dup")), (0, 0), "{what}");
                assert_eq!((ours.closed, ours.malformed), (Some(CloseReason::Peer), 0), "{what}");
            }
        }
    });
}

/// The kernel's client aborts; ours is told that the peer left.
#[test]
#[ignore = "needs root and a Linux 6.1 kernel in a virtual machine; scripts/install-peers brings it"]
fn an_abort_ends_an_association_at_once() {
    let guest = guest();
    for (uri, way) in both_uris("reliability=full&order=ordered") {
        let (printed, _, ours) = kernel_calls(&guest, &uri, 0, &format!("{way} -A -n 5"));
        assert_eq!(figure(&printed, "recv"), 5, "{uri}: {printed}\n{}", ours.state);
        assert_eq!(ours.closed, Some(CloseReason::Peer), "{uri}: {}", ours.state);
    }
    // No socket listens: the kernel answers with an ABORT.
    for uri in uris(0, 6666, "") {
        call(&guest, &uri, |node| {
            node.until("a refusal", Duration::from_secs(3), |party| party.closed.is_some());
            assert_eq!(node.party.closed, Some(CloseReason::Refused), "{uri}");
        });
    }
}

/// Our server closes; the kernel's client sees the end of the association.
#[test]
#[ignore = "needs root and a Linux 6.1 kernel in a virtual machine; scripts/install-peers brings it"]
fn our_server_closes_an_association() {
    let guest = guest();
    for (uri, way) in both_uris("reliability=full&order=ordered") {
        let server = Server::start_closing(&guest, &uri, 20);
        let (printed, _) = guest.try_exec(&format!("sctp-client {way} -n 500 -i 10 {} {PORT}", HOST[0]));
        let ours = server.end();
        assert_eq!(ours.closed, Some(CloseReason::Local), "{uri}: {}", ours.state);
        let came = figure(&printed, "recv");
        assert!((15..60).contains(&came), "{uri}: {printed}");
    }
}

/// 200 kB messages, 140 fragments each, there and back through losses.
#[test]
#[ignore = "needs root and a Linux 6.1 kernel in a virtual machine; scripts/install-peers brings it"]
fn large_messages_cross_through_loss_whole() {
    let guest = guest();
    guest.impair("loss 5%");
    for uri in uris(0, 6001, "reliability=full&order=ordered") {
        call(&guest, &uri, |node| echoed(node, 3, 200_000, Duration::ZERO));
    }
    // The kernel's client waits 5 s for its association, and the kernel repeats a lost INIT after 3 s and then 6 s (RFC 9260
    // §16): two losses, in 3 of 100 handshakes, would end the test. After 0.2 s it takes five in a row.
    guest.set_first_rto(200);
    for (uri, way) in both_uris("reliability=full&order=ordered") {
        let options = format!("{way} -n 3 -l 200000 -w 30000");
        let (printed, code, ours) = kernel_calls(&guest, &uri, 0, &options);
        let what = format!("{uri}: {printed}\n{}", ours.state);
        assert_eq!((code, figure(&printed, "recv")), (Some(0), 3), "{what}");
        assert_eq!(ours.messages.len(), 3, "{what}");
    }
    // 5 % of some 4000 packets.
    assert!(guest.lost() > 50, "the losses happened: {}", guest.lost());
}

/// A repair arrives a round trip after the first transmission would have: 45 ms there, and a message's lifetime is 40
/// ms. Of 120 messages, 24 are lost on the way and a few more wait for the window.
const IMPAIRMENT: &str = "delay 15ms loss 20%";

/// Messages that cannot arrive in time are given up, and the kernel is told to skip them: it continues with the next
/// one. Also in the other direction.
#[test]
#[ignore = "needs root and a Linux 6.1 kernel in a virtual machine; scripts/install-peers brings it"]
fn partially_reliable_frames_expire_on_both_sides() {
    let guest = guest();
    let queries = ["order=ordered", "order=unordered", "retransmissions=0&order=ordered"];
    for (n, query) in queries.into_iter().enumerate() {
        let uri = &uris(0, 6001, query)[n % 2];
        call(&guest, uri, |node| {
            node.until("an association", SOON, |party| party.connected == 1);
            guest.impair(IMPAIRMENT);
            let sent = messages(3 * MESSAGES, LEN);
            node.pace(&sent[..2 * MESSAGES], INTERVAL, Some(Duration::from_millis(40)));
            let given_up =
                |outcome: &Outcome| matches!(outcome, Outcome::Expired { .. } | Outcome::RetriesExhausted);
            node.until("every outcome", SOON, |party| party.outcomes.len() == 2 * MESSAGES);
            let lost = node.party.count(given_up);
            assert!((5..=100).contains(&lost), "{uri}: {lost} given up; {}", node.state());
            // Skipped messages hold up nothing: without losses all is as before.
            guest.unimpaired();
            node.runs_until(Duration::from_secs(1), |_| false);
            let before = node.party.messages.len();
            assert!(before < 2 * MESSAGES, "{uri}: {}", node.state());
            node.pace(&sent[2 * MESSAGES..], INTERVAL, Some(Duration::from_secs(2)));
            node.until("messages without losses", SOON, |party| party.messages.len() >= before + MESSAGES);
            intact(&sent, &node.party.messages);
            node.close();
            node.until("the end", SOON, |party| party.closed.is_some());
        });
    }
    // The losses begin after the association is established: the kernel's first time-out is 3 s.
    let (uri, _) = &both_uris("order=ordered")[0];
    let server = Server::start(&guest, uri);
    let impair = format!("sleep 1; kp-netem out eth0 {IMPAIRMENT}; kp-netem in eth0 {IMPAIRMENT}");
    let client = format!("sctp-client -T 60 -n {} -i 20 -w 500 {} {PORT}", 3 * MESSAGES, HOST[0]);
    let printed = guest.exec(&format!("({impair}) >/tmp/impair.log & {client}"));
    guest.unimpaired();
    let ours = server.end();
    let came = ours.messages.len();
    let what = format!("{uri}: {came} came; {printed}\n{}", ours.state);
    assert!((MESSAGES..3 * MESSAGES).contains(&came), "{what}");
    assert_eq!(figure(&printed, "bad"), 0, "{what}");
}

/// An association with two addresses at both ends continues on the second when the first is cut off; the kernel knows
/// ours because our INIT lists them.
#[test]
#[ignore = "needs root and a Linux 6.1 kernel in a virtual machine; scripts/install-peers brings it"]
fn an_association_goes_on_by_the_kernels_other_address() {
    let guest = guest();
    guest.with_second_addresses(|| {
        let ours = format!("reliability=full&order=ordered&addresses={},{SECOND_HOST}", HOST[0]);
        for (uri, port) in uris(0, 6001, &ours).into_iter().zip([6001, UDP]) {
            call(&guest, &format!("{uri}&peers={SECOND_GUEST}:{port}"), |node| {
                let sent = messages(3 * MESSAGES, LEN);
                node.pace(&sent[..MESSAGES], INTERVAL, None);
                node.until("messages by the first address", SOON, |party| party.messages.len() == MESSAGES);
                // Heartbeats on an idle path are a second apart.
                node.runs_until(Duration::from_secs(2), |_| false);
                guest.cut_off(GUEST[0], || {
                    node.pace(&sent[MESSAGES..2 * MESSAGES], INTERVAL, None);
                    // The kernel's minimum time-out is a second.
                    node.until("messages by the second", SOON, |party| party.outcomes.len() == 2 * MESSAGES);
                    node.until("their return", SOON, |party| party.messages.len() == 2 * MESSAGES);
                });
                node.pace(&sent[2 * MESSAGES..], INTERVAL, None);
                node.until("all of them", SOON, |party| party.messages.len() == 3 * MESSAGES);
                assert_eq!(intact(&sent, &node.party.messages), 3 * MESSAGES);
                assert_eq!(node.party.closed, None, "{uri}: {}", node.state());
                assert_eq!(node.party.endpoint.stats().counters.malformed, 0, "{uri}: {}", node.state());
                node.close();
                node.until("the end", SOON, |party| party.closed.is_some());
            });
        }
        // From an address that it does not know the kernel answers as if there were no association: the first address
        // still works.
        let [uri, _] = uris(0, 6001, "reliability=full&order=ordered");
        let out_of_the_blue = || {
            let counted = guest.exec("grep SctpOutOfBlues /proc/net/sctp/snmp");
            counted.split_whitespace().last().and_then(|n| n.parse::<u64>().ok()).expect("a counter")
        };
        let before = out_of_the_blue();
        call(&guest, &format!("{uri}&peers={SECOND_GUEST}:6001"), |node| {
            node.runs_until(Duration::from_secs(2), |_| false);
            assert!(out_of_the_blue() > before, "heartbeats that it answers with ABORTs: {}", node.state());
            echoed(node, MESSAGES, LEN, INTERVAL);
            assert_eq!(node.party.endpoint.stats().counters.malformed, 0, "{}", node.state());
        });
    });
}

/// The same where the kernel calls us: our INIT ACK lists our addresses, and what comes to the second from the kernel's
/// second is the same association's.
#[test]
#[ignore = "needs root and a Linux 6.1 kernel in a virtual machine; scripts/install-peers brings it"]
fn an_association_of_the_kernels_goes_on_by_our_other_address() {
    let guest = guest();
    guest.with_second_addresses(|| {
        // Otherwise the kernel tries the path that is cut for a minute.
        guest.exec("echo 1 > /proc/sys/net/sctp/path_max_retrans");
        for (uri, way) in
            both_uris(&format!("reliability=full&order=ordered&addresses={},{SECOND_HOST}", HOST[0]))
        {
            let (stop, (tell, told)) = (Stop::new(), mpsc::channel());
            let printed = std::thread::scope(|scope| {
                let (guest, asked, uri) = (&guest, stop.clone(), &uri);
                let served = scope.spawn(move || {
                    guest.namespace.enter().expect("root");
                    serve_many(uri, &asked, tell);
                });
                told.recv_timeout(SOON).expect("the reflector opens");
                let sends = format!("-n {} -i 20 -l {LEN} -w 20000", 4 * MESSAGES);
                let both = format!("-b {},{SECOND_GUEST}", GUEST[0]);
                let client = scope.spawn(move || {
                    guest.exec(&format!("sctp-client {way} {sends} {both} {} {PORT}", HOST[0]))
                });
                // The kernel's end has no event for it: a quarter of the messages.
                std::thread::park_timeout(Duration::from_millis(20) * MESSAGES as u32);
                let printed = guest.cut_off(GUEST[0], || client.join().expect("it ends well"));
                stop.ask();
                served.join().expect("no panic");
                printed
            });
            let result = printed.lines().find(|line| line.starts_with("RESULT")).expect("one");
            let came = (figure(result, "recv"), figure(result, "bad"));
            assert_eq!(came, (4 * MESSAGES as u64, 0), "{uri}: {printed}");
        }
        guest.exec("echo 5 > /proc/sys/net/sctp/path_max_retrans");
    });
}

/// A reflector of ours, configured like `reflect`, serves several associations at once on one socket, of callers that
/// share an address, and in UDP a port as well, as all of Linux do.
#[test]
#[ignore = "needs root and a Linux 6.1 kernel in a virtual machine; scripts/install-peers brings it"]
fn one_socket_of_ours_serves_many_of_the_kernels() {
    let guest = guest();
    for (uri, way) in both_uris("reliability=full&order=ordered&style=many") {
        let (stop, (tell, told)) = (Stop::new(), mpsc::channel());
        let printed = std::thread::scope(|scope| {
            let (guest, asked) = (&guest, stop.clone());
            let served = scope.spawn(move || {
                guest.namespace.enter().expect("root");
                serve_many(&uri, &asked, tell);
            });
            told.recv_timeout(SOON).expect("the reflector opens");
            let client = format!("sctp-client {way} -n {MESSAGES} -i 5 -l {LEN} {} {PORT}", HOST[0]);
            let several = format!("for n in 1 2 3 4; do {client} & done; {client} -m; wait");
            let printed = guest.exec(&several);
            stop.ask();
            served.join().expect("no panic");
            printed
        });
        let results = printed.lines().filter(|line| line.starts_with("RESULT")).collect::<Vec<_>>();
        assert_eq!(results.len(), 5, "{printed}");
        for result in results {
            assert_eq!((figure(result, "recv"), figure(result, "bad")), (MESSAGES as u64, 0), "{printed}");
        }
    }
}

fn serve_many(uri: &str, stop: &Stop, tell: mpsc::Sender<()>) {
    let clock = OsClock::new();
    let (line, stack, _) = open_line(uri);
    let mut reflector = reflector(stack, 16, clock.now());
    let mut lines = Lines::new();
    lines.add(WIRE, line).expect("it is the first");
    tell.send(()).expect("the test waits");
    drive(&mut lines, &mut reflector, &clock, stop, DriveOptions::default()).expect("the line lives");
}

/// Both sides could interleave (RFC 8260), but Linux numbers fragments differently: large messages are delivered
/// nevertheless, as each is told that the other does not interleave.
#[test]
#[ignore = "needs root and a Linux 6.1 kernel in a virtual machine; scripts/install-peers brings it"]
fn no_interleaving_with_the_kernels_fragment_numbers() {
    let guest = guest();
    guest.exec("sysctl -w net.sctp.intl_enable=1");
    guest.start("inter", "sctp-server -p 6004 -I");
    watched(&guest, || {
        for uri in uris(0, 6004, "reliability=full&interleaving=on&streams=2&order=ordered") {
            call(&guest, &uri, |node| echoed(node, 20, 20_000, INTERVAL));
        }
        let (uri, way) = &both_uris("reliability=full&interleaving=on&streams=4&order=ordered")[0];
        let (printed, _, ours) = kernel_calls(&guest, uri, 0, &format!("{way} -I -S 4 -n 20 -l 20000"));
        assert_eq!(figure(&printed, "recv"), 20, "{printed}\n{}", ours.state);
    });
    guest.exec("kp-stop inter; sysctl -w net.sctp.intl_enable=0");
}
