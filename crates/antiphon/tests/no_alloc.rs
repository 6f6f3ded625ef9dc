//! Once a stream flows, the media threads neither allocate nor free: the allocator counts the calls of every thread,
//! and the counts of the media threads, known by their names, must not grow.
//!
//! No lock either: the crates on this path (`core`, `media`, `measure`, `proto`, `session`, `net`'s lines and `drive`)
//! hold no `Mutex`, `RwLock` or `Condvar`, which the last test checks in their sources; threads talk through
//! single-producer rings and atomics.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use antiphon::core::Instant;
use antiphon::messages::{MessageLink, MessageOptions};
use antiphon::net::OsClock;
use antiphon::{CompareOptions, LinkMethod, ReceiveOptions, SendOptions, Stop, compare, receive, send};
use antiphon_testkit::CountingThreads;
use common::free_port;

#[global_allocator]
static ALLOCATOR: CountingThreads = CountingThreads;

/// One run at a time: threads are known by their names.
static ALONE: Mutex<()> = Mutex::new(());

/// Reads the counts of the threads of one name while they stream.
struct Watch {
    name: String,
    first: BTreeMap<i32, u64>,
    last: BTreeMap<i32, u64>,
    clock: OsClock,
    /// When the stream began to flow, as far as is known: this may be reported late, never early.
    began: Option<Instant>,
    /// When the stream had been flowing at the first look and at the last.
    looked: (Duration, Duration),
}

impl Watch {
    fn new(name: &str) -> Self {
        Watch {
            name: name.into(),
            first: BTreeMap::new(),
            last: BTreeMap::new(),
            clock: OsClock::new(),
            began: None,
            looked: (Duration::ZERO, Duration::ZERO),
        }
    }

    /// `flowing`: for how long the stream has been flowing. Start-up is over after half a second; the end is not
    /// checked.
    fn look(&mut self, flowing: Duration) {
        let began = Instant::ZERO + self.clock.now().since(Instant::ZERO + flowing);
        let began = self.began.map_or(began, |before| before.min(began));
        self.began = Some(began);
        let seen = CountingThreads::calls(&self.name);
        // Read afterwards: the observing thread may have been delayed until the others had ended.
        let flowing = self.clock.now().since(began);
        if flowing < Duration::from_millis(500) || flowing > Duration::from_millis(2_100) {
            return;
        }
        if self.looked.1.is_zero() {
            (self.first, self.looked.0) = (seen.clone(), flowing);
        }
        (self.last, self.looked.1) = (seen, flowing);
    }

    /// Returns whether it was observed for long enough.
    fn verify(&self) -> bool {
        if self.looked.1.is_zero() {
            return false;
        }
        assert!(!self.first.is_empty(), "no thread called '{}' was seen", self.name);
        assert_eq!(self.last, self.first, "'{}' (thread and count) allocates while it streams", self.name);
        self.looked.1 - self.looked.0 >= Duration::from_secs(1)
    }
}

/// Streams until all threads were observed for a second while none stalled for longer than they reserve memory for. On
/// a busy machine they may stall, and so may the observing thread: `stream` then returns `None`.
fn verify(mut stream: impl FnMut() -> Option<Vec<Watch>>) {
    for _ in 0..10 {
        let Some(watches) = stream() else { continue };
        let long_enough: Vec<bool> = watches.iter().map(Watch::verify).collect();
        if long_enough.iter().all(|yes| *yes) {
            return;
        }
    }
    panic!("the machine is too busy: no run without a longer stall");
}

/// Frames that have come back when both ends know the stream's packet duration: a quarter of a second, and a third
/// more.
const SETTLED: u64 = 64;
/// The stall for which participants of one stream reserve memory (`session::messages_of_a_stall`), in milliseconds.
const STALL_MS: f64 = 250.0;

/// `query`: settings behind the URIs.
fn streams_without_allocating(scheme: &'static str, query: &str, groups: Option<&str>) {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    verify(|| Some(stream(scheme, query, groups)));
}

/// Settings of `send` and `receive`.
fn stream(scheme: &'static str, query: &str, groups: Option<&str>) -> Vec<Watch> {
    let directory = std::env::temp_dir().join(format!("antiphon-no-alloc-{}-{scheme}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    let port = free_port();
    let receiving = ReceiveOptions {
        source: format!("{scheme}://@127.0.0.1:{port}{query}"),
        sink: directory.join("got.wav").display().to_string(),
        latency: Some(antiphon::Latency::Of(Duration::from_millis(20))),
        passport: Some(directory.join("got.passport")),
        ..ReceiveOptions::default()
    };
    let (listening, is_listening) = std::sync::mpsc::channel();
    let receiver = std::thread::spawn(move || {
        let mut watch = Watch::new("receive");
        let summary = receive(
            &receiving,
            &Stop::new(),
            &mut |sentence| drop(listening.send(sentence)),
            &mut |status| watch.look(Duration::from_secs_f64(status.played_s)),
        );
        (watch, summary)
    });
    is_listening.recv().expect("the receiver says that it listens");
    let sending = SendOptions {
        target: format!("{scheme}://127.0.0.1:{port}{query}"),
        length: Some(Duration::from_millis(2_500)),
        latency: Some(antiphon::session::PlayoutDelay::Of(Duration::from_millis(500))),
        // A passport records one RTP stream.
        passport: groups.is_none().then(|| directory.join("sent.passport")),
        groups: groups.map(Into::into),
        ..SendOptions::default()
    };
    let mut watch = Watch::new("send");
    let sent = send(&sending, &Stop::new(), &mut |_| {}, &mut |status| {
        watch.look(Duration::from_secs_f64(status.sent_s));
    });
    let (receiver_watch, received) = receiver.join().unwrap();
    assert!(sent.unwrap().status.packets_sent > 450 && received.unwrap().status.packets_received > 450);
    std::fs::remove_dir_all(directory).unwrap();
    vec![watch, receiver_watch]
}

#[test]
fn send_and_receive_over_rtp_do_not_allocate_while_streaming() {
    streams_without_allocating("rtp", "", None);
}

#[test]
fn send_and_receive_over_tcp_do_not_allocate_while_streaming() {
    streams_without_allocating("tcp", "", None);
}

#[test]
fn medusas_framing_does_not_allocate_while_streaming() {
    streams_without_allocating("rtp", "?framing=medusa", None);
    streams_without_allocating("tcp", "?framing=medusa", None);
}

#[test]
fn channel_groups_do_not_allocate_while_streaming() {
    for scheme in ["rtp", "sctp"] {
        streams_without_allocating(scheme, "", Some("1"));
    }
}

#[test]
fn both_ends_of_a_comparison_do_not_allocate_while_streaming() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    verify(comparison);
}

fn comparison() -> Option<Vec<Watch>> {
    let options = CompareOptions {
        link: ("loss=2%,delay=5ms,jitter=2ms".into(), "loss=2%,delay=5ms,jitter=2ms".parse().unwrap()),
        length: Some(Duration::from_millis(2_500)),
        out: None,
        link_method: Some(LinkMethod::Proxy),
        ..CompareOptions::default()
    };
    let schemes = antiphon::proto::TRANSPORTS.iter().map(|transport| transport.scheme);
    let threads = schemes.flat_map(|s| [format!("near-{s}"), format!("far-{s}")]);
    let mut watches: Vec<Watch> = threads.map(|name| Watch::new(&name)).collect();
    let result = compare(&options, &Stop::new(), &mut |progress| {
        for (ends, transport) in watches.chunks_mut(2).zip(&progress.transports) {
            // A handshake with a lost packet takes longer, and what follows it is start-up, too.
            if transport.received >= SETTLED {
                ends.iter_mut().for_each(|end| end.look(progress.elapsed));
            }
        }
    });
    let figures = result.unwrap().figures;
    // A round trip of the link is 14 ms; repairs of lost frames take less than a stall.
    let longest = figures.iter().filter_map(|figures| figures.rtt_ms.max_ms).fold(0.0, f64::max);
    if longest > STALL_MS {
        println!("a thread stood still: {longest} ms there and back");
        return None;
    }
    assert!(figures.iter().all(|figures| figures.packets_sent > 450));
    Some(watches)
}

#[test]
fn messages_of_a_program_pass_without_an_allocation_on_the_media_threads() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for scheme in ["rtp", "tcp"] {
        let (port, options) = (free_port(), MessageOptions::default());
        let listener =
            MessageLink::open(&format!("{scheme}://@127.0.0.1:{port}"), &options).expect("listens");
        let caller = MessageLink::open(&format!("{scheme}://127.0.0.1:{port}"), &options).expect("calls");
        let (patience, mut buf) = (Some(Duration::from_secs(20)), [0; 2000]);
        let mut there_and_back = |frames: u32| {
            for n in 0..frames {
                caller.send(&[n as u8; 500], patience).unwrap();
                let there = listener.receive(&mut buf, patience).unwrap();
                listener.send(&buf[..there.len], patience).unwrap();
                assert_eq!(caller.receive(&mut buf, patience).unwrap().len, 500);
            }
        };
        there_and_back(300);
        let before = CountingThreads::calls("messages");
        there_and_back(300);
        assert_eq!(before.len(), 2, "a media thread at each end");
        assert_eq!(CountingThreads::calls("messages"), before, "{scheme}: thread and count");
    }
}

#[test]
fn the_instrument_notices_a_single_allocation() {
    let (go, begin) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("mutant".into()).spawn(move || {
        tell.send(()).unwrap();
        begin.recv().unwrap();
        drop(std::hint::black_box(Box::new(7)));
        tell.send(()).unwrap();
        begin.recv().unwrap();
    });
    told.recv().unwrap();
    let before = CountingThreads::calls("mutant");
    go.send(()).unwrap();
    told.recv().unwrap();
    let after = CountingThreads::calls("mutant");
    go.send(()).unwrap();
    thread.unwrap().join().unwrap();
    let (before, after) = (before.values().sum::<u64>(), after.values().sum::<u64>());
    // One to take and one to return a buffer; the channel may add its own.
    assert!(before > 0 && after >= before + 2, "{before} {after}");
}

/// A source without its items under `#[cfg(test)]`; what stands behind them stays.
fn without_tests(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("#[cfg(test)]") {
        kept.push_str(before);
        let end = behind.find([';', '{']).expect("an item follows");
        let mut depth = 0;
        let len = behind[end..].find(|letter| {
            depth += i32::from(letter == '{') - i32::from(letter == '}');
            depth == 0
        });
        rest = &behind[end + len.expect("it ends") + 1..];
    }
    kept + rest
}

#[test]
fn what_stands_behind_tests_is_scanned() {
    let text = "a\n#[cfg(test)]\nmod tests;\nb\n#[cfg(test)]\nmod more {\n fn f() { g() }\n}\nc";
    assert_eq!(without_tests(text), "a\n\nb\n\nc");
}

#[test]
fn the_media_path_names_no_lock() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths: Vec<_> = ["core", "media", "measure", "proto", "session"]
        .iter()
        .map(|name| crates.join(name).join("src"))
        .collect();
    // The emulator beside them is no media path.
    let net = std::fs::read_dir(crates.join("net/src")).unwrap().map(|entry| entry.unwrap().path());
    paths.extend(net.filter(|path| !path.ends_with("emulator") && !path.ends_with("capture")));
    let mut read = 0;
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        if path.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = without_tests(&text);
        read += 1;
        for lock in ["Mutex", "RwLock", "Condvar", "OnceLock", "LazyLock", "mpsc"] {
            assert!(!text.contains(lock), "{} names {lock}", path.display());
        }
    }
    assert!(read > 60, "only {read} files were found");
}
