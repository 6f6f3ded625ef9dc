//! Each transport over loopback: a stream to a reflector in this process and back, as `compare` makes it. What comes
//! back must be the same samples; how long it takes is the two hosts' part of a round trip.

use std::sync::mpsc;

use antiphon_measure::TransportFigures;
use antiphon_media::{Pull, SampleFormat, Source};
use antiphon_net::{OsClock, Stop};
use antiphon_session::ArrivalTable;
use antiphon_sound::MemorySink;

use super::Check;
use crate::embedded::Place;
use crate::emulated::LOOPBACK;
use crate::far_end::{FarEnd, FarPlan};
use crate::measured::Measured;
use crate::near_end::{self, NearPlan};
use crate::run::spawn;
use crate::show::looks;
use crate::stream_plan::StreamPlan;
use crate::together::Starter;
use crate::transport::TransportChoice;
use crate::{CompareOptions, Error};

/// Checks one transport; nothing if it was stopped.
pub(super) fn check(choice: &TransportChoice, clock: OsClock, stop: &Stop) -> Option<Check> {
    let tried = over_loopback(choice, BLOCK, clock, stop);
    (!stop.is_asked()).then(|| judge(&choice.label, tried.map_err(|error| error.to_string())))
}

/// What came of a stream over loopback.
pub(crate) struct Tried {
    pub figures: TransportFigures,
    pub differs: Difference,
}

/// How what was heard differs from what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Difference {
    /// Sample frames sent.
    pub sent: usize,
    /// Sample frames that were heard otherwise, or not at all.
    pub wrong: usize,
}

/// Streams half a second, in blocks of so many sample frames, to a reflector in this process and back.
pub(crate) fn over_loopback(
    choice: &TransportChoice,
    block_frames: u32,
    clock: OsClock,
    stop: &Stop,
) -> Result<Tried, Error> {
    let options = CompareOptions {
        source: SOURCE.into(),
        block_frames,
        // Nothing is rounded: each bit is compared.
        sample: Some(SampleFormat::F32),
        out: None,
        ..CompareOptions::default()
    };
    let plan = StreamPlan::new(&options)?;
    let arrivals = Some(ArrivalTable::new());
    let far = FarEnd::start(FarPlan {
        choice: choice.clone(),
        bind: LOOPBACK,
        namespace: None,
        arrivals: arrivals.clone(),
        picture_arrivals: None,
        clock,
        socket: choice.socket(&options.socket),
        max_peers: 1,
        interval: Some(plan.shortest_interval()),
        seed: options.seed ^ 1,
        taps: None,
    })?;
    let frames = usize::try_from(plan.frames).unwrap_or(usize::MAX);
    let (sink, mut memory) = MemorySink::new(plan.format, 2 * frames);
    let near = NearPlan {
        place: Place { arrivals, ..Place::elsewhere(choice.clone(), far.address) },
        source: plan.open()?,
        sink: Box::new(sink),
        pictures: None,
        format: plan.format,
        sample: plan.sample,
        log_packets: plan.log_packets(),
        out: looks().0,
        taps: None,
        options,
        clock,
        starter: Starter::alone(clock),
    };
    let (ready, _is_not_waited_for) = mpsc::channel();
    let (go, begin) = mpsc::channel();
    let _it_may_begin_at_once = go.send(());
    let near_stop = stop.clone();
    let thread = spawn("doctor-near", move || near_end::run(near, &ready, &begin, &near_stop))?;
    let result = thread.join().map_err(|_| Error::failed("its thread failed (panic)"))??;
    far.finish();
    let sent = all_of(plan.open()?, frames);
    let differs = difference(&sent, &memory.take(), plan.format.channels());
    Ok(Tried { figures: Measured::new(choice.clone(), result, "loopback", None).figures, differs })
}

/// All samples of a source that is no live one.
fn all_of(mut source: Box<dyn Source>, frames: usize) -> Vec<f32> {
    let channels = source.format().channels();
    let (mut samples, mut at) = (vec![0.0; frames * channels], 0);
    while at < samples.len() {
        match source.pull(&mut samples[at..]) {
            Pull::Frames(more) => at += more * channels,
            Pull::Starved | Pull::End => break,
        }
    }
    samples.truncate(at);
    samples
}

/// Compares sample frames at the same places. Silence that was heard after the end is none of the stream's.
pub(super) fn difference(sent: &[f32], heard: &[f32], channels: usize) -> Difference {
    let both = sent.chunks_exact(channels).zip(heard.chunks_exact(channels));
    let same = both.filter(|(sent, heard)| sent == heard).count();
    let frames = sent.len() / channels;
    let surplus = heard.chunks_exact(channels).skip(frames);
    let wrong = surplus.filter(|frame| frame.iter().any(|sample| *sample != 0.0));
    Difference { sent: frames, wrong: frames - same + wrong.count() }
}

/// Judges one transport.
pub(super) fn judge(label: &str, tried: Result<Tried, String>) -> Check {
    let name = format!("loopback {label}");
    let Tried { figures, differs } = match tried {
        Ok(tried) => tried,
        Err(why) => return Check::fault(name, format!("no stream over loopback: {why}"), UNREACHABLE),
    };
    let (Some(p50), Some(p99)) = (figures.rtt_ms.p50_ms, figures.rtt_ms.p99_ms) else {
        return Check::fault(name, "nothing came back over loopback", UNREACHABLE);
    };
    let trip = format!("round trip {p50:.3} ms (p99 {p99:.3} ms)");
    let missing = [
        (figures.lost, "lost"),
        (figures.late, "late"),
        (figures.expired, "expired"),
        (figures.refused, "refused"),
    ];
    let missing = missing.iter().filter(|(count, _)| *count > 0);
    let missing: Vec<String> = missing.map(|(count, what)| format!("{count} {what}")).collect();
    let check = match (differs.wrong, &missing[..]) {
        (0, []) if p99 <= HOSTS_MS => {
            Check::ok(name, format!("{trip}; {} sample frames came back exactly", differs.sent))
        }
        (0, []) => Check::warning(
            name,
            format!("{trip}; {} sample frames came back exactly, but slowly", differs.sent),
            "see 'scheduling' and 'waking': the media threads of both ends are woken late",
        ),
        (wrong, []) => Check::fault(
            name,
            format!(
                "{trip}; {wrong} of {} sample frames came back changed, though no packet is missing",
                differs.sent
            ),
            "this is a defect of the program: report it with the output of 'antiphon doctor --json'",
        ),
        // Packets of a byte stream or a repaired one can't be lost on loopback but by a thread that stood still.
        (wrong, missing) => Check::fault(
            name,
            format!(
                "{trip}; of {} packets {}, so that {wrong} of {} sample frames are missing",
                figures.packets_sent,
                missing.join(", "),
                differs.sent
            ),
            "close what keeps the processors busy and try again; see 'scheduling', 'waking' and 'socket buffers'",
        ),
    };
    let packets = figures.packets_sent as f64;
    check.with(&[
        ("rtt_p50_ms", p50),
        ("rtt_p99_ms", p99),
        ("packets", packets),
        ("missing_packets", packets - figures.played as f64 - figures.recovered as f64),
        ("wrong_frames", differs.wrong as f64),
    ])
}

/// Half a second of noise: in blocks of 64 sample frames, 375 packets.
const SOURCE: &str = "tone:noise?level=-20dB&seed=1&channels=2&rate=48kHz&seconds=500ms";
const BLOCK: u32 = 64;
/// More than this of a round trip is of the hosts' making: a tenth of the 20 to 30 ms one way that musicians bear (Schiavoni,
/// Queiroz and Wanderley 2013).
const HOSTS_MS: f64 = 2.0;
const UNREACHABLE: &str = "let programs of this machine reach each other over 127.0.0.1: check the firewall \
    ('sudo nft list ruleset') and that the interface lo is up ('ip link show lo')";
