//! The emulated link as others see it: a proxy before our receiver, a router between two namespaces that third-party
//! programs use, both without privilege where that is promised.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::child::{Child, antiphon, antiphon_by, free_ports, program};
use crate::dissect::{Dissected, dissect};

/// What became of the packets between two captures, by their sequence numbers alone.
struct Fate {
    sent: u64,
    arrived: u64,
    /// Missing between the first and the last that arrived: what a receiver can know of.
    missed: u64,
}

impl Fate {
    /// `sent` towards its port, `arrived` at its own: the link's two sides.
    fn of(sent: (&Dissected, u16), arrived: (&Dissected, u16)) -> Self {
        let (sent, arrived) = (sent.0.numbers(sent.1), arrived.0.numbers(arrived.1));
        let (first, last) = (arrived.iter().min().expect("some"), arrived.iter().max().expect("some"));
        let span = last - first + 1;
        Fate { sent: sent.len() as u64, arrived: arrived.len() as u64, missed: span - arrived.len() as u64 }
    }

    /// The receiver counted the same.
    fn check(&self, received: &Value) {
        self.check_counts(received);
        // 5 % of 800 is 40; none would be no link.
        assert!(self.missed > 0 && self.sent > self.arrived, "the losses happened");
    }

    fn check_counts(&self, received: &Value) {
        assert_eq!(
            (&received["packets_received"], &received["lost"]),
            (&self.arrived.into(), &self.missed.into())
        );
    }
}

/// The address behind `name` in what `antiphon link --json` says of itself.
fn address(link: &mut Child, name: &str) -> String {
    let line = link.wait_for("\"record\":\"run\"");
    let run: Value = serde_json::from_str(&line).expect("a record");
    let place = run["where"].as_str().expect("where its ends are").to_owned();
    let behind = place.split(name).nth(1).unwrap_or_else(|| panic!("no {name} in {place}"));
    behind.trim_start().split([' ', ',']).next().expect("an address").to_owned()
}

/// The link's counters a second later.
fn next_flow(link: &mut Child) -> Value {
    let line = link.wait_for("\"record\":\"interval\"");
    let mut now: Value = serde_json::from_str(&line).expect("a record");
    now["flows"][0].take()
}

fn on_the_way(flow: &Value, way: &str) -> u64 {
    number(&flow[way], "in_flight") + number(&flow[way], "queued")
}

/// Waits until sound, some 250 packets a second, has begun, ended and crossed. Who listens may go on reporting, and be told
/// that nobody is there any more.
fn crossed(link: &mut Child) {
    let mut before = 0;
    loop {
        let flow = next_flow(link);
        let offered = number(&flow["up"], "offered");
        if before > 100 && offered - before < 10 && on_the_way(&flow, "up") == 0 {
            return;
        }
        before = offered;
    }
}

/// Waits until nothing is sent across any more and nothing is on its way: how many packets came out there or went in
/// on the way back.
fn quiet(link: &mut Child) -> u64 {
    let mut before = Value::Null;
    loop {
        let flow = next_flow(link);
        let nothing = ["up", "down"].iter().all(|way| on_the_way(&flow, way) == 0);
        if flow == before && nothing && number(&flow["up"], "offered") > 0 {
            return number(&flow["up"], "delivered") + number(&flow["down"], "offered");
        }
        before = flow;
    }
}

/// Ends a link; its counters, up and down, which must balance.
fn counters(link: Child) -> (Value, Value) {
    link.interrupt();
    let ended = link.end();
    assert_eq!(ended.code, Some(130), "{}", ended.err);
    let mut summary = ended.summary();
    let flow = summary["flows"][0].take();
    for way in ["up", "down"] {
        assert_eq!(flow[way]["balances"], true, "{flow}");
        assert_eq!((&flow[way]["queued"], &flow[way]["in_flight"]), (&0.into(), &0.into()), "{flow}");
    }
    (flow["up"].clone(), flow["down"].clone())
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// A sender, the proxy, a receiver; each counts for itself. `by`: what runs the proxy.
fn proxy_agrees(by: &[&str]) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (here, there, wav) = (path("sent.pcapng"), path("received.pcapng"), path("got.wav"));
    let port = free_ports(1)[0];
    let source = format!("rtp://127.0.0.1:{port}");
    let mut receiver =
        Child::start(&mut antiphon(["receive", &source, &wav, "--json", "--capture", &there]), DEADLINE);
    receiver.wait_for("listening on");
    let to = format!("127.0.0.1:{port}");
    let proxy = ["link", "loss=5%", "--listen", "127.0.0.1:0", "--to", &to, "--seed", "7", "--json"];
    let mut link = Child::start(&mut antiphon_by(by, proxy), DEADLINE);
    let listens = address(&mut link, "datagrams to");
    let target = format!("rtp://{listens}");
    let sound = "tone:noise?channels=2&seconds=4s";
    let mut sender = antiphon(["send", sound, &target, "--json", "--capture", &here]);
    let sent = Child::start(&mut sender, DEADLINE).succeed().summary();
    // What the link loses is missing in the recording, and told.
    let ended = receiver.end();
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let received = ended.summary();
    let (up, down) = counters(link);

    let near_port = listens.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let (near, far) = (dissect(Path::new(&here), near_port), dissect(Path::new(&there), port));
    let fate = Fate::of((&near, near_port), (&far, port));
    assert_eq!(sent["packets_sent"], fate.sent);
    fate.check(&received);
    // To the datagram: sound and reports there, reports back.
    assert_eq!(number(&up, "offered"), fate.sent + near.reports(near_port));
    assert_eq!(number(&up, "delivered"), fate.arrived + far.reports(port));
    assert_eq!(number(&down, "offered"), far.from(port).count() as u64);
    // The receiver's last report and its BYE may find the sender gone.
    let heard = near.from(near_port).count() as u64;
    assert!((heard..=heard + 2).contains(&number(&down, "delivered")), "{down}, {heard} heard");
    assert_eq!(number(&up, "lost"), number(&up, "offered") - number(&up, "delivered"));
}

#[test]
#[ignore = "needs tshark; scripts/install-peers brings it"]
fn a_proxy_and_the_receiver_behind_it_count_the_same_losses() {
    proxy_agrees(&["env"]);
}

#[test]
#[ignore = "needs tshark and root, to become another user; scripts/install-peers brings it"]
fn a_proxy_needs_no_privilege() {
    // The build may lie where only its owner goes, so a copy is run.
    let directory = open_directory();
    let copy = directory.path().join("antiphon").display().to_string();
    std::fs::copy(env!("CARGO_BIN_EXE_antiphon"), &copy).expect("a temporary directory");
    let words = [&NOBODY[..], &["sh", "-c", "shift; exec \"$0\" \"$@\"", &copy]].concat();
    proxy_agrees(&words);
}

/// Runs what follows as a user without any privilege.
pub const NOBODY: [&str; 6] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--"];

/// A temporary directory that all users can work in.
pub fn open_directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory.path(), mode).expect("it is ours");
    directory
}

/// A network namespace with a name of its own; gone with the value.
pub struct Netns(String);

impl Netns {
    pub fn new(side: &str) -> Self {
        let name = format!("antiphon-{}-{side}", std::process::id());
        Child::start(&mut program(&format!("ip netns add {name}")), DEADLINE).succeed();
        let netns = Netns(name);
        // Without it, what programs say to themselves (tshark looks for helpers on loopback) goes over the link.
        Child::start(&mut netns.command("ip link set lo up"), DEADLINE).succeed();
        netns
    }

    /// Runs `command` inside.
    pub fn enter(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.0]
    }

    pub fn command(&self, line: &str) -> Command {
        program(&format!("ip netns exec {} {line}", self.0))
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // Whether it went, the next run shows: its name would be taken.
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).output();
    }
}

#[test]
#[ignore = "needs ffmpeg, tshark, ip and root, to make namespaces; scripts/install-peers brings them"]
fn other_programs_stream_across_the_router() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (near, far) = (Netns::new("a"), Netns::new("b"));
    let words =
        ["link", "wifi-home,loss=5%", "--from-netns", &near.0, "--to-netns", &far.0, "--seed", "7", "--json"];
    let mut link = Child::start(&mut antiphon(words), DEADLINE);
    let to = address(&mut link, &format!("{} is", far.0));

    // Namespaces have ports of their own: these are free. Both receivers write down what they get.
    let (ours, theirs) = (PORT, PORT + 2);
    let (source, wav, capture) = (format!("rtp://0.0.0.0:{ours}"), path("got.wav"), path("received.pcapng"));
    let receive = ["receive", &source, &wav, "--format", "l16/48000/2", "--json", "--capture", &capture];
    let mut receiver = Child::start(&mut antiphon_by(&far.enter(), receive), DEADLINE);
    receiver.wait_for("listening on");
    // All that crosses is seen here: what the kernels answer to closed ports (ICMP), too.
    let wire = path("wire.pcapng");
    let mut shark = far.command("tshark -i any -P -l -w");
    let mut shark = Child::start(shark.arg(&wire), DEADLINE);
    shark.wait_for("Capture started");

    let (sdp, heard) = (path("stream.sdp"), path("heard.raw"));
    std::fs::write(
        &sdp,
        format!("v=0\no=- 0 0 IN IP4 {to}\ns=-\nc=IN IP4 {to}\nt=0 0\nm=audio {theirs} RTP/AVP 10\n"),
    )
    .expect("a temporary directory");
    let player = "ffmpeg -hide_banner -nostdin -nostats -protocol_whitelist file,udp,rtp -i";
    let player = Child::start(far.command(player).args([&sdp, "-f", "s16le", &heard]), DEADLINE);
    let send = |rate: u32, port: u16| {
        let source = format!("anoisesrc=d=4:r={rate}:seed=1:a=0.3");
        let line = "ffmpeg -hide_banner -nostdin -nostats -re -f lavfi -i";
        let mut command = near.command(line);
        command.arg(source).args(["-ac", "2", "-c:a", "pcm_s16be", "-f", "rtp", "-rtpflags", "send_bye"]);
        command.arg(format!("rtp://{to}:{port}?pkt_size=1400&rtcpport={port}"));
        Child::start(&mut command, DEADLINE)
    };
    let senders = [send(48_000, ours), send(44_100, theirs)];
    for sender in senders {
        sender.succeed();
    }
    // Their BYEs may have been lost, so those who listen are told when it is over; until then they report.
    crossed(&mut link);
    let [received, _] = [receiver, player].map(|child| {
        child.interrupt();
        child.end()
    });
    assert!(matches!(received.code, Some(1 | 130)), "it misses what the link lost: {}", received.err);
    let received = received.summary();
    let crossed = quiet(&mut link);
    shark.wait_until("all that crossed", |line| line.trim_start().starts_with(&format!("{crossed} ")));
    shark.interrupt();
    shark.end();
    let (up, down) = counters(link);

    // Four seconds of stereo at 44.1 kHz, a twentieth of it lost; ffmpeg plays on across the holes.
    let heard = std::fs::metadata(&heard).expect("the player wrote it").len();
    assert!(heard > 3 * 44_100 * 4, "{heard} bytes heard");
    let got = dissect(Path::new(&capture), ours);
    Fate::of((&got, ours), (&got, ours)).check_counts(&received);
    let crossed = |way: &str| {
        // The first address only: a kernel's answer to a closed port quotes the header of what it answers.
        let mut command = program(&format!("tshark -T fields -E occurrence=f -e ip.{way} -r"));
        let ended = Child::start(command.arg(&wire), DEADLINE).succeed();
        ended.out.lines().filter(|address| *address == to).count() as u64
    };
    assert_eq!(number(&up, "delivered"), crossed("dst"), "{up}");
    assert_eq!(number(&down, "offered"), crossed("src"), "{down}");
    assert!(number(&up, "lost") > 0, "the losses happened: {up}");
}

/// Any port: namespaces of one's own have all of them free.
const PORT: u16 = 40_000;
/// Four seconds of sound, and what a busy machine needs around them.
const DEADLINE: Duration = Duration::from_secs(30);
