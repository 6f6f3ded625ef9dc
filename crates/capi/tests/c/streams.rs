//! The examples, at work.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use antiphon::net::OsClock;
use antiphon::net::emulator::{UdpProxy, UdpProxyConfig};
use antiphon_testkit::free_ports;

use crate::installed::{Installed, Kind};
use crate::program::Program;

const TIME: Duration = Duration::from_secs(120);

/// Streams through 15 % loss each way, as `start` runs the program, and expects repairs.
fn through_loss(interval_ms: u32, start: impl Fn() -> Command) {
    // As many as a server keeps, or fewer: as published, a client that falls further behind asks for ever.
    let count = 240;
    let mut sender =
        Program::start(start().args(["send", &count.to_string(), &interval_ms.to_string()]), TIME);
    let port: u16 = sender.line("port").parse().expect("a port");
    let target: SocketAddr = ([127, 0, 0, 1], port).into();
    // The report's worst loss, with a hundredth of its delay: tests are not to last.
    let link = "loss=15%,delay=2ms".parse().expect("a link");
    let config = UdpProxyConfig::new(([127, 0, 0, 1], 0).into(), target, link, 11);
    let proxy = UdpProxy::start(config, OsClock::new()).expect("loopback");
    let receiver = Program::start(
        start()
            .args(["receive", "127.0.0.1", &proxy.local_addr().port().to_string(), &count.to_string()])
            .args(["0.1", "250"]),
        TIME,
    );
    let said = receiver.succeeds();
    sender.succeeds();
    let report = proxy.stop();
    let down = report.flows[0].down;
    // The losses happened: of 15 % among some 280 packets, less than 7 % is nearly four standard deviations off.
    assert!(down.lost * 100 > 7 * down.offered, "{down:?}");
    let words: Vec<u32> = said.split(' ').filter_map(|word| word.trim().parse().ok()).collect();
    let [received, lost, wrong] = words[..] else { panic!("{said}") };
    assert_eq!((received + lost, wrong), (count, 0));
    // With a desired loss of 10 % the client gives up far less than that, and asks for the rest. Without repairs 36 would
    // be lost, and 14 is four standard deviations below.
    assert!(lost < 14, "{lost} of {count} lost: nothing was repaired");
}

#[test]
fn a_program_of_the_appendix_streams_through_15_percent_loss() {
    let installed = Installed::get();
    let program = installed.compile("examples/srp_stream.c", Kind::Shared);
    through_loss(4, || installed.run(&program));
}

#[test]
fn messages_go_there_and_back_over_the_static_library() {
    let installed = Installed::get();
    let program = installed.compile("examples/messages.c", Kind::Static);
    there_and_back("srp", || Command::new(&program));
    there_and_back("tcp", || Command::new(&program));
}

fn there_and_back(scheme: &str, start: impl Fn() -> Command) {
    let (listener, port) = listening(scheme, &start);
    let caller = Program::start(start().args(["call", &format!("{scheme}://127.0.0.1:{port}"), "50"]), TIME);
    assert!(caller.succeeds().contains("50 messages"));
    listener.succeeds();
}

/// A listener, and the port that it has.
fn listening(scheme: &str, start: impl Fn() -> Command) -> (Program, u16) {
    let port = free_ports(1);
    let uri = format!("{scheme}://@127.0.0.1:{port}");
    let mut listener = Program::start(start().args(["listen", &uri, "50"]), TIME);
    assert_eq!(listener.any_line(), "listening");
    (listener, port)
}

#[test]
fn sound_is_heard() {
    let installed = Installed::get();
    let program = installed.compile("examples/messages.c", Kind::Shared);
    let uri = format!("rtp://127.0.0.1:{}", free_ports(1));
    let mut command = installed.run(&program);
    let said =
        Program::start(command.args(["sound", "tone:440Hz?seconds=500ms", &uri, "null:"]), TIME).succeeds();
    assert!(said.contains("heard 0.5") && said.contains(" 0 packets lost"), "{said}");
}

#[test]
#[ignore = "the compiler's sanitisers slow programs down and need their libraries"]
fn the_sanitisers_find_nothing_in_the_examples() {
    examples(Kind::Sanitised, 4, Installed::run);
}

#[test]
#[ignore = "needs valgrind (scripts/install-peers)"]
fn valgrind_finds_nothing_in_the_examples() {
    // Ten times slower, and so the stream is.
    examples(Kind::Shared, 20, Installed::run_watched);
}

/// Both examples under a tool that ends them at the first fault; a message every `interval_ms`.
fn examples(kind: Kind, interval_ms: u32, run: impl Fn(&Installed, &Path) -> Command) {
    let installed = Installed::get();
    let program = installed.compile("examples/srp_stream.c", kind);
    through_loss(interval_ms, || run(installed, &program));
    let program = installed.compile("examples/messages.c", kind);
    there_and_back("srp", || run(installed, &program));
}
