//! Runs any transport over a recorded path: a passport becomes a medium of the world.
//!
//! Each transport has the path for itself, as in a comparison. Nothing random is drawn for the path, so the seed only
//! affects the endpoints' own choices; equal seeds give equal runs. A recording cannot tell how the path would have
//! treated another load: see [`antiphon_link::Replay`].

use std::time::Duration;

use antiphon_core::DEFAULT_LATENCY;
use antiphon_link::{ReplayEnd, ReplayPath};
use antiphon_trace::{PathSample, Paths};

use crate::figures::RunFigures;
use crate::setup::{Content, MediumKind, MediumSpec, NodeId, NodeSpec, Setup, StreamSpec};
use crate::tcp::Profile;
use crate::world::{self, WorldError};

/// What is sent over a recorded path.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplayOptions {
    /// Frame in bytes, RTP header included; `None`: as in the recording.
    pub frame: Option<usize>,
    /// Time between frames; `None`: as in the recording.
    pub interval: Option<Duration>,
    /// Duration; `None`: as long as the recording. For a longer run the recording is repeated.
    pub duration: Option<Duration>,
    /// Added to every delay, each way: the propagation time if two clocks did not measure it.
    pub propagation: Duration,
    /// The receiver's playout delay.
    pub latency: Duration,
    /// Age at which a frame whose transmission has not begun is given up; `None`: never.
    pub patience: Option<Duration>,
    /// Whether the far end returns every frame and round trips are measured.
    pub reflected: bool,
    /// The TCP below a transport on a byte stream.
    pub tcp: Profile,
}

impl Default for ReplayOptions {
    /// The recorded frames, one way, with the playout delay of `antiphon compare` and the TCP of a current Linux.
    fn default() -> Self {
        ReplayOptions {
            frame: None,
            interval: None,
            duration: None,
            propagation: Duration::ZERO,
            latency: DEFAULT_LATENCY,
            patience: None,
            reflected: false,
            tcp: Profile::linux(),
        }
    }
}

/// Why a path cannot be replayed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// The recording does not tell how often to send.
    #[error("the recording is too short to determine the packet interval: give it, such as 5ms")]
    NoInterval,
    /// The path.
    #[error(transparent)]
    Path(#[from] antiphon_link::ReplayError),
    /// The world around it.
    #[error(transparent)]
    World(Box<WorldError>),
}

impl From<WorldError> for ReplayError {
    fn from(error: WorldError) -> Self {
        ReplayError::World(Box::new(error))
    }
}

/// Results of replays.
#[derive(Clone, PartialEq, Debug)]
pub struct Replayed {
    /// Each transport's scheme and run, in the order asked for.
    pub runs: Vec<(String, RunFigures)>,
    /// Assumptions made about the path, in sentences.
    pub remarks: Vec<String>,
}

/// Runs each of `transports`, by scheme, over the recorded `paths`.
pub fn replay(
    paths: &Paths,
    transports: &[&str],
    options: &ReplayOptions,
    seed: u64,
) -> Result<Replayed, ReplayError> {
    let remarks = remarks(paths);
    let run = |scheme: &&str| {
        let figures = world::run(&setup(paths, scheme, options)?, seed)?;
        Ok((scheme.to_string(), figures))
    };
    let runs = transports.iter().map(run).collect::<Result<_, ReplayError>>()?;
    Ok(Replayed { runs, remarks })
}

/// What the reader of any result over `paths` has to know.
pub(crate) fn remarks(paths: &Paths) -> Vec<String> {
    let mut remarks = paths.remarks.clone();
    if paths.down.is_none() {
        remarks.push("the way back was not recorded and is assumed to be like the way out".into());
    }
    remarks
}

/// The recorded path there and back, each repeated when it is over, with so much more delay each way.
pub(crate) fn both_ways(
    paths: &Paths,
    propagation: Duration,
) -> Result<(ReplayPath, ReplayPath), antiphon_link::ReplayError> {
    let path = |samples: &[PathSample], end| {
        let later = |delay: Duration| delay.saturating_add(propagation);
        ReplayPath::new(samples.iter().map(|(at, delay)| (*at, delay.map(later))), end)
    };
    let end = ReplayEnd::Repeat(path(&paths.up, ReplayEnd::Hold)?.duration());
    let up = path(&paths.up, end)?;
    let down = match &paths.down {
        Some(samples) => path(samples, end)?,
        None => up.clone(),
    };
    Ok((up, down))
}

/// Two nodes, the path between them, and a stream over `transport` called `audio`.
pub fn setup(paths: &Paths, transport: &str, options: &ReplayOptions) -> Result<Setup, ReplayError> {
    let (up, down) = both_ways(paths, options.propagation)?;
    let length = up.duration();
    let interval = options.interval.or(paths.interval).filter(|interval| !interval.is_zero());
    let (near, far) = (NodeId(0), NodeId(1));
    let content = Content::Packets {
        frame: options.frame.unwrap_or(paths.frame_bytes as usize),
        interval: interval.ok_or(ReplayError::NoInterval)?,
        count: None,
    };
    let stream = StreamSpec {
        reflected: options.reflected,
        patience: options.patience,
        latency: options.latency,
        tcp: options.tcp,
        ..StreamSpec::new("audio", transport, [near, far], content)
    };
    Ok(Setup {
        duration: options.duration.unwrap_or(length),
        drain: DRAIN,
        ends_with_streams: false,
        media_seed: None,
        nodes: ["near", "far"].map(NodeSpec::new).to_vec(),
        media: vec![MediumSpec::new("path", MediumKind::Replay { between: [near, far], up, down })],
        traffic: Vec::new(),
        streams: vec![stream],
    })
}

/// How long repairs are waited for after the end: a few of TCP's time-outs, the first of which is a second (RFC 6298).
const DRAIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use antiphon_core::Instant;

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(5);

    /// Two seconds of a packet every 5 ms: delays of 20 ms, but for a rise to 60 ms and back, and ten packets lost.
    fn paths(down: bool) -> Paths {
        let sample = |n: u64| {
            let lost = (100..104).contains(&n) || (200..206).contains(&n);
            let late = if n == 300 { 60 } else { 20 };
            (Instant::from_millis(5 * n), (!lost).then(|| Duration::from_millis(late)))
        };
        Paths {
            transport: "rtp".into(),
            frame_bytes: 1_056,
            interval: Some(INTERVAL),
            up: (0..400).map(sample).collect(),
            down: down.then(|| vec![(Instant::ZERO, Some(Duration::from_millis(10)))]),
            remarks: Vec::new(),
        }
    }

    fn of<'a>(replayed: &'a Replayed, scheme: &str) -> &'a crate::figures::StreamFigures {
        let run = replayed.runs.iter().find(|(name, _)| name == scheme).expect("it ran");
        &run.1.streams[0].1
    }

    #[test]
    fn datagrams_meet_the_losses_and_delays_of_the_recording_and_tcp_repairs_them() {
        let options = ReplayOptions::default();
        let replayed = replay(&paths(true), &["rtp", "tcp"], &options, 1).unwrap();
        let (rtp, tcp) = (of(&replayed, "rtp"), of(&replayed, "tcp"));
        assert_eq!((rtp.sent, rtp.received), (Some(400.0), Some(390.0)));
        // Every frame is sent at a sample's time, so that the delays equal the recording's to the microsecond: the
        // frames after the one that took 60 ms took 20.
        assert_eq!((rtp.delay_p50_ms, rtp.delay_max_ms), (Some(20.0), Some(60.0)), "{rtp:?}");
        // Its handshake takes a round trip of 30 ms, in which six frames would have been sent.
        assert_eq!((tcp.sent, tcp.received), (Some(394.0), Some(394.0)));
        // A loss is known after a round trip of 30 ms at the soonest, and its repair takes 20 ms.
        assert!(tcp.delay_max_ms.unwrap() > 70.0 && tcp.retransmissions.unwrap() >= 2.0, "{tcp:?}");
        assert_eq!(replay(&paths(true), &["rtp", "tcp"], &options, 1).unwrap(), replayed);
    }

    #[test]
    fn a_longer_run_begins_the_recording_anew_and_propagation_is_added() {
        let options = ReplayOptions {
            duration: Some(Duration::from_secs(6)),
            propagation: Duration::from_millis(7),
            ..ReplayOptions::default()
        };
        let replayed = replay(&paths(false), &["rtp"], &options, 1).unwrap();
        let rtp = of(&replayed, "rtp");
        assert_eq!((rtp.sent, rtp.received), (Some(1_200.0), Some(1_170.0)));
        assert_eq!((rtp.delay_p50_ms, rtp.delay_max_ms), (Some(27.0), Some(67.0)));
        assert!(replayed.remarks[0].contains("way back"));
    }

    #[test]
    fn what_cannot_run_says_why() {
        let options = ReplayOptions::default();
        let error = |paths: &Paths, scheme| replay(paths, &[scheme], &options, 1).unwrap_err().to_string();
        assert!(error(&paths(true), "carrier-pigeon").contains("carrier-pigeon"));
        assert!(error(&Paths { interval: None, ..paths(true) }, "rtp").contains("such as 5ms"));
        assert!(error(&Paths { up: Vec::new(), ..paths(true) }, "rtp").contains("record longer"));
    }
}
