//! Voice channels on this machine: table 3 of Weaver and McNabb (1992) anew, and what a channel costs.
//!
//! `table`: how many channels of 64 kbit/s two processes carry over loopback, both ways at once, for each voice data size. A
//! number of channels is carried if at both ends, in one of two runs, every channel was heard, and at most 1 % of the bytes that
//! sources gave were lost, late, or found a FIFO full or empty (the paper's section 10 has 1 to 2 %). It is doubled until that fails, and bisected to 5 %; the CPU use is
//! that of the last run that was carried, of both processes together: 100 % is one processor.
//!
//! `cost`: processor time for one datum, from its source to its sink with its acknowledgement, of 10 to 10 000 channels in
//! virtual time without sockets.
//!
//! ```sh
//! cargo bench -p antiphon --bench voice_channels -- cost table transports=xtp,rtp sizes=64,512 seconds=2
//! ```

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use antiphon::core::uri::Query;
use antiphon::core::{Input, Instant, Participant, PathId, WireId, Wires, pump};
use antiphon::media::voice::{Piece, VoiceKind, VoiceMaterial};
use antiphon::net::OsClock;
use antiphon::proto::{StackArgs, find};
use antiphon::session::{VoicePort, VoiceReceiving, VoiceSending, VoiceSink};
use antiphon::{Stop, VoiceOptions, VoiceRole, voice};

/// The sizes of the paper's table 3.
const SIZES: [usize; 10] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// XTP as in the paper, with fewer acknowledgements, UDP with nothing, and the others.
const TRANSPORTS: [&str; 8] =
    ["xtp", "xtp?acks=gap", "rtp", "tcp?congestion=cubic", "sctp", "dccp", "srp", "arq"];
/// Of the bytes that sources gave, so many may not be heard.
const BAD: f64 = 0.01;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "end") {
        return end(&args[1..]);
    }
    let value = |key: &str| args.iter().find_map(|arg| arg.strip_prefix(key)?.strip_prefix('='));
    let asked = |word: &str| args.iter().any(|arg| arg == word);
    // `cargo test --benches` only checks that it runs.
    if !asked("--bench") {
        assert!(carried("xtp", 160, 10, 1).is_some(), "ten channels");
        return cost(&[10], 1);
    }
    let all = !asked("table") && !asked("cost");
    if all || asked("cost") {
        cost(&[10, 100, 1000, 10_000], 200_000);
    }
    if all || asked("table") {
        let list = |key| value(key).map(|text| text.split(',').map(String::from).collect::<Vec<_>>());
        let transports = list("transports").unwrap_or_else(|| TRANSPORTS.map(Into::into).to_vec());
        let sizes =
            list("sizes").map(|sizes| sizes.iter().map(|size| size.parse().expect("bytes")).collect());
        let seconds = value("seconds").map_or(2, |text| text.parse().expect("seconds, such as 2"));
        for transport in &transports {
            let mut first = 64;
            for size in sizes.clone().unwrap_or(SIZES.to_vec()) {
                first = search(transport, size, first, seconds);
            }
        }
    }
}

/// Finds how many channels are carried, beginning at `first`; returns where to begin for the next size.
fn search(transport: &str, size: usize, first: usize, seconds: u64) -> usize {
    let (mut most, mut best) = (0, None);
    let (mut next, mut fails) = (first, usize::MAX);
    while fails > most + (most / 20).max(1) && next > 0 {
        // A machine that other programs use as well stalls now and then.
        let tries = (0..2).find_map(|_| carried(transport, size, next, seconds));
        match tries {
            Some(cpu) => (most, best) = (next, Some(cpu)),
            None => fails = next,
        }
        next = match fails {
            usize::MAX if most == LIMIT => break,
            usize::MAX => (2 * most).min(LIMIT),
            _ if most == 0 => fails / 2,
            _ => most.midpoint(fails),
        };
    }
    println!(
        "{{\"bench\":\"voice_channels\",\"transport\":\"{transport}\",\"voice_data_bytes\":{size},\"channels\":{most},\
         \"data_per_s\":{},\"cpu_percent\":{:.0}}}",
        2 * most * 8000 / size,
        best.unwrap_or(0.0),
    );
    (most / 2).max(8)
}

/// Whether so many channels each way are carried, and the CPU use of both ends in percent.
fn carried(transport: &str, size: usize, channels: usize, seconds: u64) -> Option<f64> {
    let port = std::net::UdpSocket::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
    let (scheme, query) = transport.split_once('?').unwrap_or((transport, ""));
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let (here, there) =
        (format!("{scheme}://@127.0.0.1:{port}{query}"), format!("{scheme}://127.0.0.1:{port}{query}"));
    let numbers = [size, channels, seconds as usize].map(|number| number.to_string());
    let start = |role: &str, uri: &str| {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["end", role, uri]).args(&numbers).stdout(Stdio::piped());
        command.spawn().expect("a second process")
    };
    let mut listener = start("listen", &here);
    let mut lines = BufReader::new(listener.stdout.take().expect("piped"));
    // It says when its socket is open.
    let opened = lines.read_line(&mut String::new());
    let near = opened.ok().and_then(|_| result(start("call", &there)));
    // A listener that did not hear the end of it has nothing to say.
    let mut text = String::new();
    let _ended = lines.read_to_string(&mut text);
    let _is_gone = listener.wait();
    let near = near?;
    let far: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let good = |end: &[f64]| matches!(end, [bad, captured, ..] if *bad <= BAD * captured && *captured > 0.0);
    (good(&near) && good(&far)).then(|| 100.0 * (near[2] + far[2]) / near[3])
}

fn result(mut child: Child) -> Option<Vec<f64>> {
    let mut text = String::new();
    let read = child.stdout.take().map(|mut out| out.read_to_string(&mut text));
    child.wait().ok()?;
    read?.ok()?;
    let last = text.lines().last()?;
    Some(last.split_whitespace().filter_map(|word| word.parse().ok()).collect())
}

/// One end, in a process of its own: prints bad bytes, captured bytes, CPU seconds and seconds. All bytes are bad if a channel was not
/// heard, or if there was no memory for one.
fn end(args: &[String]) {
    let [role, uri, numbers @ ..] = args else { panic!("a role and a URI") };
    let numbers: Vec<usize> = numbers.iter().map(|text| text.parse().expect("a number")).collect();
    let (size, channels, seconds) = (numbers[0], numbers[1], numbers[2] as u64);
    let listens = role == "listen";
    let length = Duration::from_secs(seconds) + Duration::from_micros(4 * 125 * size as u64);
    let options = VoiceOptions {
        uri: uri.clone(),
        role: if listens { VoiceRole::Receiver } else { VoiceRole::Sender },
        channels,
        source: "noise:".into(),
        size,
        length: Some(if listens { length + Duration::from_secs(20) } else { length }),
        ..VoiceOptions::default()
    };
    let stop = Stop::new();
    let mut last = None;
    let ended = voice(&options, &stop, &mut |sentence| println!("{sentence}"), &mut |status| {
        last = Some(status.clone())
    });
    let Some(status) = ended.map(|summary| summary.status).ok().or(last) else { return };
    let (sent, received) = (&status.sent, &status.received);
    let bad = sent.overflow_bytes
        + sent.refused_bytes
        + received.missing_bytes
        + received.underflow_bytes
        + received.overflow_bytes
        + received.late_bytes;
    let captured = sent.captured_s * 8000.0;
    // What never came is not known to be missing. The other end has captured as much, but for what is not on its way any more when
    // the caller leaves: two data in a FIFO and one that accumulates; and it begins when the call arrives.
    let apart = channels as f64 * (3 * size + APART) as f64;
    let heard = (received.taken_bytes + received.missing_bytes) as f64;
    let silent = (captured - apart - heard).max(0.0);
    let whole = received.channels == channels as u64 && received.malformed == 0;
    let bad = if whole { bad as f64 + silent } else { captured };
    println!("\n{bad} {captured} {} {}", cpu_seconds(), status.elapsed_s);
}

/// Processor time of this process (proc(5): fields 14 and 15, in ticks of 10 ms).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc is mounted");
    let (_, fields) = stat.rsplit_once(')').expect("the program's name is in brackets");
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().expect("a number of ticks")).sum::<f64>() / 100.0
}

/// Bytes of a channel by which the ends may begin apart: 50 ms, on a busy machine.
const APART: usize = 400;
/// The most channels that are tried.
const LIMIT: usize = antiphon::MOST_VOICE_CHANNELS;

/// Counts what is heard.
struct Heard(u64);

impl VoiceSink for Heard {
    fn piece(&mut self, _channel: u32, _tick: u64, piece: Piece<'_>) {
        if let Piece::Sound(bytes) = piece {
            self.0 += bytes.len() as u64;
        }
    }

    fn on_taken(&mut self, _tick: u64) {}
}

/// Datagrams on their way.
#[derive(Default)]
struct Flight {
    /// Bytes of all of them, and the length of each.
    bytes: Vec<u8>,
    lens: Vec<usize>,
}

impl Wires for Flight {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        let mut buf = [0; 1500];
        while let Some(transmit) = participant.poll_transmit(now, wire, &mut buf) {
            self.bytes.extend_from_slice(&buf[..transmit.len]);
            self.lens.push(transmit.len);
        }
    }

    fn close(&mut self, _now: Instant, _wire: WireId) {}
}

impl Flight {
    fn deliver(&mut self, now: Instant, participant: &mut impl Participant) {
        let mut rest = &mut self.bytes[..];
        for (number, len) in self.lens.drain(..).enumerate() {
            let (bytes, others) = rest.split_at_mut(len);
            participant.handle_input(now, WIRE, Input::Datagram { path: PathId(0), bytes, received_at: now });
            rest = others;
            // As many as a driver reads before it lets the participant act.
            if number % 128 == 127 {
                participant.advance(now);
            }
        }
        self.bytes.clear();
    }
}

const WIRE: WireId = WireId(0);

/// Prints what a datum costs with so many channels; about `packets` of them are sent.
fn cost(numbers: &[usize], packets: usize) {
    const SIZE: usize = 160;
    for &channels in numbers {
        let query: Query = "".parse().expect("an empty query");
        let args = StackArgs::new(&query, 1, 1452, Duration::from_millis(40));
        let stack = || (find("xtp").expect("a transport").stack)(&args).expect("good settings");
        let material = VoiceMaterial::of_kind(VoiceKind::Noise, 1);
        let sources = (0..channels).map(|number| material.channel(number)).collect();
        let sends = VoiceSending::new(sources, SIZE);
        let mut now = Instant::from_millis(1);
        let mut near =
            VoicePort::new(now, 1, VoiceRole::Sender, Some(sends), VoiceReceiving::default(), Heard(0));
        near.call(now, WIRE, &[PathId(0)], &*stack());
        let mut far = VoicePort::new(now, 2, VoiceRole::Receiver, None, VoiceReceiving::default(), Heard(0));
        far.listen(now, WIRE, stack(), Duration::from_secs(1));
        let (mut up, mut down) = (Flight::default(), Flight::default());
        let clock = OsClock::new();
        let (mut begun, mut sent) = (clock.now(), 0);
        let warm = now + Duration::from_secs(1);
        let cycles = (packets / channels).max(20) as u64;
        let until = warm + Duration::from_micros(125 * SIZE as u64 * cycles);
        let mut is_warm = false;
        while now < until {
            if now >= warm && !is_warm {
                (is_warm, begun, sent) = (true, clock.now(), near.sent(now).packets);
            }
            loop {
                let _ended = (pump(&mut near, now, &mut up), pump(&mut far, now, &mut down));
                if up.lens.is_empty() && down.lens.is_empty() {
                    break;
                }
                up.deliver(now, &mut far);
                down.deliver(now, &mut near);
            }
            let due = [near.poll_timeout(), far.poll_timeout()].into_iter().flatten().min();
            now = due.unwrap_or(until).max(now + Duration::from_nanos(1));
        }
        let data = near.sent(now).packets - sent;
        let nanos = clock.now().since(begun).as_nanos() as f64 / data as f64;
        let fifos = far.received().fifos;
        assert!(fifos.missing + fifos.overflow + fifos.underflow == 0, "{fifos:?}");
        println!("{{\"bench\":\"voice_cost\",\"channels\":{channels},\"ns_per_datum\":{nanos:.0}}}");
    }
}
