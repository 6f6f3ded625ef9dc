//! Writes a report of invented but realistic runs, for viewing the pages without measuring.
//!
//! `cargo run -p antiphon-report --example sample -- OUT.html [--many] [--seconds N]` writes `OUT.html` and, beside
//! it, `OUT.svg`. With `--many`, seven transports instead of two.

use antiphon_core::Rng;
use antiphon_report::{
    Better, Card, Clip, Command, CompareReport, Fate, LatencyNote, Limit, LinkNote, Row, TradeOff,
    TransportPanel, compare_svg, render_compare,
};
use std::path::Path;

/// 256 sample packets at 48 kHz.
const PERIOD_MS: f32 = 256.0 / 48.0;
const SEED: u64 = 20_040;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(out) = arguments.iter().find(|a| a.ends_with(".html")) else {
        eprintln!("Usage: sample OUT.html [--many] [--seconds N]");
        std::process::exit(2);
    };
    let seconds =
        arguments.iter().position(|a| a == "--seconds").and_then(|i| arguments.get(i + 1)?.parse().ok());
    let report = sample(arguments.iter().any(|a| a == "--many"), seconds.unwrap_or(16.0));
    std::fs::write(out, render_compare(&report))?;
    std::fs::write(Path::new(out).with_extension("svg"), compare_svg(&report))
}

/// How a transport of the sample behaves.
struct Manner {
    name: &'static str,
    title: &'static str,
    /// Extra milliseconds on every packet.
    extra_ms: f32,
    /// Resends after this long and holds back what follows (TCP), resends without holding back, or never resends.
    resend_ms: Option<f32>,
    in_order: bool,
    gives_up: bool,
}

const MANNERS: [Manner; 7] = [
    Manner { name: "rtp", title: "UDP", extra_ms: 0.0, resend_ms: None, in_order: false, gives_up: false },
    Manner {
        name: "tcp",
        title: "TCP",
        extra_ms: 0.2,
        resend_ms: Some(34.0),
        in_order: true,
        gives_up: false,
    },
    Manner {
        name: "sctp",
        title: "SCTP, partial",
        extra_ms: 0.4,
        resend_ms: Some(30.0),
        in_order: false,
        gives_up: true,
    },
    Manner {
        name: "dccp",
        title: "DCCP, CCID 3",
        extra_ms: 0.6,
        resend_ms: None,
        in_order: false,
        gives_up: false,
    },
    Manner {
        name: "xtp",
        title: "XTP",
        extra_ms: 0.5,
        resend_ms: Some(26.0),
        in_order: false,
        gives_up: false,
    },
    Manner {
        name: "srp",
        title: "SRP, decide=ell",
        extra_ms: 0.1,
        resend_ms: Some(24.0),
        in_order: false,
        gives_up: true,
    },
    Manner {
        name: "arq",
        title: "simple ARQ",
        extra_ms: 0.1,
        resend_ms: Some(28.0),
        in_order: true,
        gives_up: true,
    },
];

const TARGET_MS: f32 = 40.0;

/// One transport over a link with bursty loss and a varying delay with spikes.
fn run(manner: &Manner, seconds: f32) -> TransportPanel {
    // One seed for the impairments, so that all transports get the same.
    let mut impairments = Rng::fork(SEED, "weather");
    let mut own = Rng::fork(SEED, manner.name);
    let frames = (seconds * 1000.0 / PERIOD_MS) as usize;
    let (mut bad, mut swell, mut head) = (false, 0.0f32, 0.0f32);
    let mut panel = TransportPanel {
        name: manner.name.into(),
        title: manner.title.into(),
        playout_target_ms: Some(TARGET_MS),
        ..TransportPanel::default()
    };
    for i in 0..frames {
        let sent = i as f32 * PERIOD_MS + own.unit() as f32 * 0.15;
        bad = impairments.chance(if bad { 0.75 } else { 0.006 });
        let dropped = impairments.chance(if bad { 0.6 } else { 0.001 });
        swell = (swell * 0.97
            + impairments.exponential() as f32 * 0.08
            + f32::from(u8::from(impairments.chance(0.002))) * 22.0)
            .max(0.0);
        let mut latency = 8.0 + manner.extra_ms + swell + own.exponential() as f32 * 0.7;
        let mut fate = Fate::Received;
        if dropped {
            match manner.resend_ms {
                Some(resend) if !(manner.gives_up && own.chance(0.12)) => {
                    latency += resend + own.exponential() as f32 * 5.0;
                    fate = Fate::Recovered;
                }
                Some(_) => fate = Fate::Expired,
                None => fate = Fate::Lost,
            }
        }
        let there = matches!(fate, Fate::Received | Fate::Recovered);
        if manner.in_order && there {
            head = head.max(sent + latency);
            latency = head - sent;
        }
        if there && latency > TARGET_MS {
            fate = Fate::Late;
        }
        panel.sent_ms.push(sent);
        panel.latency_ms.push(there.then_some(latency));
        panel.fate.push(fate);
    }
    panel.mouth_to_ear_ms = panel.latency_ms.iter().map(|l| l.map(|l| PERIOD_MS + l / 2.0)).collect();
    panel.hides_repairs = manner.name == "sctp";
    panel.heard = Some(Clip {
        title: format!("heard over {}", manner.name),
        file: format!("heard-{}.flac", manner.name),
        seconds: f64::from(seconds),
        peaks: peaks(seconds),
        note: format!("{} packets concealed.", panel.fate.iter().filter(|f| !f.is_heard()).count()),
        ..Clip::default()
    });
    panel
}

/// Something that looks like music: beats that fade.
fn peaks(seconds: f32) -> Vec<f32> {
    let mut rng = Rng::fork(SEED, "peaks");
    (0..(seconds * 100.0) as usize)
        .map(|i| (1.0 - (i % 47) as f32 / 47.0).powi(2) * (0.4 + 0.5 * rng.unit() as f32))
        .collect()
}

fn quantile(panel: &TransportPanel, q: f64) -> Option<f64> {
    let mut there: Vec<f32> = panel.latency_ms.iter().flatten().copied().collect();
    there.sort_by(f32::total_cmp);
    there.get(((there.len() as f64 * q) as usize).min(there.len().saturating_sub(1))).map(|l| f64::from(*l))
}

fn share(panel: &TransportPanel, fate: Fate) -> Option<f64> {
    let count = panel.fate.iter().filter(|f| **f == fate).count();
    Some(100.0 * count as f64 / panel.fate.len() as f64)
}

fn rows(panels: &[TransportPanel]) -> Vec<Row> {
    let each = |f: &dyn Fn(&TransportPanel) -> Option<f64>| panels.iter().map(f).collect::<Vec<_>>();
    let came: Vec<_> = panels.iter().map(|p| Some(p.latency_ms.iter().flatten().count() as u64)).collect();
    let sent: Vec<_> = panels.iter().map(|p| Some(p.fate.len() as u64)).collect();
    let latency = |label: &str, q: f64, key: bool| Row {
        samples: came.clone(),
        definition: format!("Round trip within which {} % of the packets that came back did so.", q * 100.0),
        key,
        ..Row::numbers(label, "ms", 1, Better::Lower, &each(&|p| quantile(p, q)))
    };
    let loss = |label: &str, fate: Fate, definition: &str| Row {
        samples: sent.clone(),
        definition: definition.into(),
        key: true,
        ..Row::numbers(label, "%", 2, Better::Lower, &each(&|p| share(p, fate)))
    };
    let number = |n: f64| each(&|_| Some(n));
    vec![
        Row { group: "Latency".into(), ..latency("p50", 0.5, true) },
        latency("p90", 0.9, false),
        latency("p99", 0.99, true),
        latency("p99.9", 0.999, false),
        latency("largest", 1.0, false),
        Row {
            definition: "Interarrival jitter, RFC 3550 \u{a7}6.4.1, at the end of the run.".into(),
            ..Row::numbers(
                "jitter (RFC 3550)",
                "ms",
                2,
                Better::Lower,
                &each(&|p| Some(0.4 + quantile(p, 0.9)? / 40.0)),
            )
        },
        Row { group: "Packets".into(), ..loss("lost", Fate::Lost, "Packets the network did not deliver.") },
        loss("late", Fate::Late, "Packets that came after the playout delay of 40 ms."),
        Row {
            key: false,
            ..loss("expired", Fate::Expired, "Packets the sender gave up, their deadline being past.")
        },
        Row {
            group: "Cost".into(),
            definition: "All bytes on the wire, headers of IP and below not counted.".into(),
            ..Row::numbers("wire bytes", "", 0, Better::Lower, &each(&|p| Some(p.fate.len() as f64 * 1040.0)))
        },
        Row::numbers("media bit rate", "kbit/s", 0, Better::Neither, &number(1536.0)),
        Row {
            definition: "Processor time of the media thread per second of stream.".into(),
            ..Row::numbers(
                "processor",
                "ms/s",
                1,
                Better::Lower,
                &panels
                    .iter()
                    .enumerate()
                    .map(|(i, _)| (i != 3).then_some(4.1 + i as f64))
                    .collect::<Vec<_>>(),
            )
        },
    ]
}

fn sample(many: bool, seconds: f32) -> CompareReport {
    let manners = &MANNERS[..if many { 7 } else { 2 }];
    let panels: Vec<TransportPanel> = manners.iter().map(|m| run(m, seconds)).collect();
    let command = |place: &str, line: &str| Command { place: place.into(), line: line.into() };
    let advice = |purpose: &str, (transport, gloss): (&str, &str), sentence: &str, confidence: f64| Card {
        heading: purpose.into(),
        answer: transport.into(),
        gloss: gloss.into(),
        sentence: sentence.into(),
        because: "R 92.1 (MOS 4.39, concealment as G.711 assumed) at 25 ms mouth to ear, 0.12 % missing"
            .into(),
        confidence: Some(confidence),
        sureness: format!("{:.0} % sure", confidence * 100.0),
        commands: match transport {
            "" => Vec::new(),
            name => vec![
                command("On the receiving computer", &format!("antiphon receive {name}://:7710 take.wav")),
                command(
                    "On the sending computer",
                    &format!("antiphon send tabla.flac {name}://RECEIVER:7710"),
                ),
            ],
        },
        ..Card::default()
    };
    let best = if many {
        ("srp", "UDP that asks again for what is missing")
    } else {
        ("rtp", "plain UDP: sends once, repeats nothing")
    };
    let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
    CompareReport {
        title: "What to use over wifi-home".into(),
        lead: format!(
            "{} ways of sending live sound, tried at once for {seconds} s over a model of this network.",
            if many { "Seven" } else { "Two" }
        ),
        meta: vec![
            pair("Streamed", "tabla.flac, 48 kHz stereo, 256-frame blocks"),
            pair("Duration", &format!("{seconds} s, {} packets per transport", panels[0].fate.len())),
            pair("When", "2026-11-21 08:30 UTC"),
            pair("Made by", "`antiphon` 0.1.0, invented data"),
            pair("Scheduling", "SCHED_FIFO 60 obtained"),
        ],
        command: format!("antiphon compare --link wifi-home --seconds {seconds} --seed {SEED}"),
        link: LinkNote {
            name: "wifi-home".into(),
            parameters: vec![
                pair("Rate", "25 Mbit/s, drop-tail, 100 packets"),
                pair("Delay", "4 ms each way"),
                pair("Variation", "gamma, 1.2 ms, order kept"),
                pair("Loss", "Gilbert-Elliott, 1.4 %, mean burst 2.5"),
            ],
            method: "Each transport crossed its own copy of the link, built from the same seed, between two network \
                     namespaces of this machine."
                .into(),
            limits: vec![
                "A seed fixes which packets the link drops, not the operating system's timing: two runs differ by \
                 microseconds, and tcp by more."
                    .into(),
                "No contention between the transports: each had the link to itself.".into(),
            ],
        },
        latency: LatencyNote {
            label: "round trip".into(),
            definition: "From handing a packet to the transport until the reflector's copy is back.".into(),
        },
        table: rows(&panels),
        limits: [("play together", 30.0), ("TV sound", 80.0), ("talk", 150.0)]
            .map(|(purpose, mouth_to_ear_ms)| Limit { purpose: purpose.into(), mouth_to_ear_ms })
            .to_vec(),
        advice: vec![
            Card {
                others: if many { "arq and xtp will do as well.".into() } else { String::new() },
                ..advice(
                    "Play together",
                    best,
                    "Players hear each other after 24 ms; up to 30 ms they can keep time together.",
                    0.97,
                )
            },
            advice(
                "TV sound on headphones",
                best,
                "Sound stays within 80 ms of the picture, and 1.4 % of it is missing.",
                0.71,
            ),
            advice(
                "Record without loss",
                ("tcp", "TCP: repeats all that is lost, may pause"),
                "Nothing is missing: what the network loses is sent again.",
                0.99,
            ),
            advice(
                "Talk",
                best,
                "You hear each other after 25 ms (up to 150 ms feels natural), and none of the sound is missing.",
                0.88,
            ),
            advice("Send to many", ("", ""), "None of them can reach several receivers with one packet.", 1.0),
        ],
        listening: "Each had its own copy of the network.".into(),
        trade_off: TradeOff::from_frames(&panels),
        original: Some(Clip {
            title: "original".into(),
            file: "original.flac".into(),
            note: "What was sent.".into(),
            seconds: f64::from(seconds),
            peaks: peaks(seconds),
            ..Clip::default()
        }),
        notes: vec!["These runs are invented by the `sample` example.".into()],
        transports: panels,
    }
}
