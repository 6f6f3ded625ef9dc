//! The one list of metrics: name, unit and meaning of each, and where its value comes from.

use super::text::{Exposition, Metric, MetricKind};
use crate::{
    DelayStatus, DeviceStatus, LiveFigures, ReceiveStatus, ReflectStatus, ReflectedTransport, SendStatus,
    TalkStatus,
};

/// A metric with the value that a state has of it; `None`: not known yet.
struct Of<S> {
    metric: Metric,
    value: fn(&S) -> Option<f64>,
}

const fn of<S>(
    kind: MetricKind,
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    value: fn(&S) -> Option<f64>,
) -> Of<S> {
    Of { metric: Metric { name, kind, unit, help }, value }
}

use MetricKind::{Counter, Gauge, Info};

/// What is told of every command.
const ABOUT: Metric = Metric {
    name: "antiphon",
    kind: Info,
    unit: "",
    help: "The program: its version, and the command that runs.",
};
const AGE: Metric = Metric {
    name: "antiphon_state_age_seconds",
    kind: Gauge,
    unit: "seconds",
    help: "Time since the media thread has told its state; it does so ten times a second.",
};

fn count(number: u64) -> Option<f64> {
    Some(number as f64)
}

fn seconds(ms: Option<f64>) -> Option<f64> {
    ms.map(|ms| ms / 1e3)
}

fn ratio(percent: Option<f64>) -> Option<f64> {
    percent.map(|percent| percent / 100.0)
}

fn bytes_per_second(live: &LiveFigures) -> Option<f64> {
    live.kbit_per_s.map(|kbit| kbit * 125.0)
}

/// Full scale is 1; silence is 0.
fn peak(live: &LiveFigures) -> Option<f64> {
    Some(live.peak_dbfs.map_or(0.0, |dbfs| 10_f64.powf(dbfs / 20.0)))
}

/// Of a stream that is sent.
const SENT: &[Of<SendStatus>] = &[
    of(Counter, "antiphon_sent_sound_seconds", "seconds", "Sound sent.", |s| Some(s.sent_s)),
    of(Counter, "antiphon_packets_sent", "", "Packets handed to the transport.", |s| count(s.packets_sent)),
    of(
        Counter,
        "antiphon_packets_expired",
        "",
        "Packets given up, as they were too old to be of use.",
        |s| count(s.expired),
    ),
    of(Counter, "antiphon_packets_refused", "", "Packets that the transport did not take.", |s| {
        count(s.refused)
    }),
    of(
        Counter,
        "antiphon_packets_repeated",
        "",
        "Packets sent again after a break of the connection.",
        |s| count(s.repeated),
    ),
    of(
        Counter,
        "antiphon_packets_dropped",
        "",
        "Packets to a recording that could not be kept for it.",
        |s| count(s.dropped),
    ),
    of(Gauge, "antiphon_packets_unconfirmed", "", "Packets that the receiver has not confirmed yet.", |s| {
        count(s.unconfirmed)
    }),
    of(
        Counter,
        "antiphon_source_starved_seconds",
        "seconds",
        "Time in which the source had no sound.",
        |s| seconds(count(s.starved)),
    ),
    of(Gauge, "antiphon_round_trip_seconds", "seconds", "Round trip by the receiver's reports.", |s| {
        seconds(s.rtt_ms)
    }),
    of(Gauge, "antiphon_reported_loss_ratio", "ratio", "Loss by the receiver's last report.", |s| {
        ratio(s.remote_loss_percent)
    }),
    of(
        Gauge,
        "antiphon_reported_jitter_seconds",
        "seconds",
        "Jitter (RFC 3550) by the receiver's last report.",
        |s| seconds(s.remote_jitter_ms),
    ),
    of(
        Gauge,
        "antiphon_reported_playout_delay_seconds",
        "seconds",
        "Playout delay that the receiver reports.",
        |s| seconds(s.remote_latency_ms),
    ),
    of(Gauge, "antiphon_receivers", "", "Receivers that have called and are served.", |s| {
        s.receivers.and_then(count)
    }),
    of(Gauge, "antiphon_members", "", "Receivers that have reported.", |s| count(s.members)),
    of(Gauge, "antiphon_joined_members", "", "Members of a group that get repairs.", |s| {
        s.joined_members.and_then(count)
    }),
    of(
        Gauge,
        "antiphon_worst_loss_ratio",
        "ratio",
        "Highest loss that a member of a group has reported.",
        |s| ratio(s.worst_loss_percent),
    ),
    of(
        Gauge,
        "antiphon_sent_peak_ratio",
        "ratio",
        "Highest sample sent in the last second, of full scale.",
        |s| peak(&s.live),
    ),
    of(
        Gauge,
        "antiphon_sent_bytes_per_second",
        "bytes_per_second",
        "Rate of the RTP packets sent, of the last second.",
        |s| bytes_per_second(&s.live),
    ),
    of(
        Gauge,
        "antiphon_send_queue_seconds",
        "seconds",
        "Sound that waits to leave or, where the transport acknowledges, to be acknowledged.",
        |s| seconds(Some(s.live.buffer_ms)),
    ),
    of(Gauge, "antiphon_backup", "", "1 while the backup is sent in place of the source.", |s| {
        s.backup.and_then(|plays| count(plays.into()))
    }),
    of(Gauge, "antiphon_receiver_present", "", "1 while there is a receiver.", |s| {
        count(s.live.peer.is_some().into())
    }),
];

/// Of a stream that is received.
const RECEIVED: &[Of<ReceiveStatus>] = &[
    of(Counter, "antiphon_played_sound_seconds", "seconds", "Sound played or recorded.", |s| {
        Some(s.played_s)
    }),
    of(Counter, "antiphon_packets_received", "", "RTP packets of the stream that came.", |s| {
        count(s.packets_received)
    }),
    of(Counter, "antiphon_packets_lost", "", "Packets that never came though later ones were played.", |s| {
        count(s.lost)
    }),
    of(Counter, "antiphon_packets_late", "", "Packets that came after their playout time.", |s| {
        count(s.late)
    }),
    of(Counter, "antiphon_packets_duplicate", "", "Packets that came twice.", |s| count(s.duplicate)),
    of(Counter, "antiphon_packets_reordered", "", "Packets overtaken by later ones.", |s| count(s.reordered)),
    of(Counter, "antiphon_packets_repaired", "", "Packets that came in time as they were sent again.", |s| {
        count(s.repaired)
    }),
    of(Counter, "antiphon_gaps_concealed", "", "Gaps that were filled with made-up sound.", |s| {
        count(s.concealed)
    }),
    of(Counter, "antiphon_packets_unknown_source", "", "Packets of other senders, which are ignored.", |s| {
        count(s.unknown_sources)
    }),
    of(Counter, "antiphon_messages_malformed", "", "Messages that are neither RTP nor RTCP.", |s| {
        count(s.malformed)
    }),
    of(Gauge, "antiphon_jitter_seconds", "seconds", "Interarrival jitter (RFC 3550).", |s| {
        seconds(s.jitter_rfc3550_ms)
    }),
    of(
        Gauge,
        "antiphon_clock_drift_ratio",
        "ratio",
        "How much faster the sender's sampling clock runs.",
        |s| s.drift_ppm.map(|ppm| ppm / 1e6),
    ),
    of(
        Gauge,
        "antiphon_playout_delay_seconds",
        "seconds",
        "Playout delay in force; none for a recording.",
        |s| seconds(s.latency_ms),
    ),
    of(
        Gauge,
        "antiphon_played_peak_ratio",
        "ratio",
        "Highest sample of the last second, of full scale.",
        |s| peak(&s.live),
    ),
    of(
        Gauge,
        "antiphon_received_bytes_per_second",
        "bytes_per_second",
        "Rate of the RTP packets that come, of the last second.",
        |s| bytes_per_second(&s.live),
    ),
    of(Gauge, "antiphon_playout_buffer_seconds", "seconds", "Sound that waits to be played.", |s| {
        seconds(Some(s.live.buffer_ms))
    }),
    of(
        Gauge,
        "antiphon_lip_sync_skew_seconds",
        "seconds",
        "Skew between pictures and their sound that 99.9 % of the pictures have at most.",
        |s| seconds(s.pictures?.skew.map(|skew| skew.p99_9_ms)),
    ),
    of(
        Gauge,
        "antiphon_lip_sync_beyond_ratio",
        "ratio",
        "Share of the pictures that are shown more than 80 ms from their sound.",
        |s| ratio(s.pictures?.skew.map(|skew| skew.beyond_percent)),
    ),
    of(Gauge, "antiphon_lip_sync_kept", "", "0 while pictures come too late for their sound.", |s| {
        count(s.pictures?.out_of_sync_ms.is_none().into())
    }),
    of(
        Counter,
        "antiphon_pictures_frozen_seconds",
        "seconds",
        "Time during which the last picture stood still beyond its time.",
        |s| Some(s.pictures?.frozen_s),
    ),
    of(
        Counter,
        "antiphon_pictures_too_late",
        "",
        "Pictures that came too late to be shown with their sound.",
        |s| count(s.pictures?.too_late),
    ),
    of(Gauge, "antiphon_sender_present", "", "1 while there is a sender.", |s| {
        count(s.live.peer.is_some().into())
    }),
];

/// Of a call.
const CALL: &[Of<TalkStatus>] = &[
    of(Gauge, "antiphon_muted", "", "1 while this end's source is muted.", |s| count(s.muted.into())),
    of(Gauge, "antiphon_parties", "", "Other parties of a call over a group.", |s| {
        s.parties.as_ref().and_then(|parties| count(parties.len() as u64))
    }),
];
const MOUTH_TO_EAR: Metric = Metric {
    name: "antiphon_mouth_to_ear_seconds",
    kind: Gauge,
    unit: "seconds",
    help: "How long sound takes from mouth to ear, each way of a call.",
};

/// Of the sound server of each end.
const DEVICE: &[Of<DeviceStatus>] = &[
    of(Gauge, "antiphon_device_connected", "", "1 while its sound server runs.", |s| {
        count(s.connected.into())
    }),
    of(Counter, "antiphon_device_xruns", "", "Cycles that the sound server did not finish in time.", |s| {
        count(s.xruns)
    }),
    of(Counter, "antiphon_device_underruns", "", "Cycles without enough sound.", |s| count(s.underruns)),
    of(Counter, "antiphon_device_missing_frames", "", "Sample frames of silence in place of sound.", |s| {
        count(s.missing_frames)
    }),
    of(Counter, "antiphon_device_dropped_frames", "", "Captured sample frames not fetched in time.", |s| {
        count(s.dropped_frames)
    }),
    of(Counter, "antiphon_device_lost_servers", "", "How often its server was lost.", |s| {
        count(s.lost_servers)
    }),
    of(Gauge, "antiphon_device_queue_seconds", "seconds", "Sound that waits for the device.", |s| {
        seconds(Some(s.queue_ms))
    }),
    of(
        Gauge,
        "antiphon_device_latency_seconds",
        "seconds",
        "How long sound takes in server and device.",
        |s| seconds(s.latency_ms),
    ),
];

/// Of a reflector, for each transport.
const REFLECTED: &[Of<ReflectedTransport>] = &[
    of(Counter, "antiphon_peers_served", "", "Peers served.", |s| count(s.peers)),
    of(Counter, "antiphon_messages_returned", "", "Packets returned.", |s| count(s.messages_returned)),
];

/// The state of a running command.
#[derive(Clone, Debug)]
pub enum MetricsState {
    /// Of `send`.
    Send(SendStatus),
    /// Of `receive`.
    Receive(ReceiveStatus),
    /// Of `talk`.
    Talk(Box<TalkStatus>),
    /// Of `reflect`.
    Reflect(ReflectStatus),
}

impl MetricsState {
    /// The command that it is of.
    fn command(&self) -> &'static str {
        match self {
            MetricsState::Send(_) => "send",
            MetricsState::Receive(_) => "receive",
            MetricsState::Talk(_) => "talk",
            MetricsState::Reflect(_) => "reflect",
        }
    }
}

/// The whole text of a state that is so old.
pub(super) fn exposition(state: &MetricsState, age_s: f64) -> String {
    let mut text = Exposition::default();
    let about = [("version", env!("CARGO_PKG_VERSION")), ("command", state.command())];
    text.family(&ABOUT, &[(&about, 1.0)]);
    text.family(&AGE, &[(&[], age_s)]);
    match state {
        MetricsState::Send(sent) => {
            plain(&mut text, SENT, sent);
            devices(&mut text, [("source", sent.device), ("sink", None)]);
        }
        MetricsState::Receive(received) => {
            plain(&mut text, RECEIVED, received);
            devices(&mut text, [("source", None), ("sink", received.device)]);
        }
        MetricsState::Talk(call) => {
            plain(&mut text, CALL, &**call);
            delay(&mut text, call.delay);
            plain(&mut text, SENT, &call.sent);
            plain(&mut text, RECEIVED, &call.received);
            devices(&mut text, [("source", call.sent.device), ("sink", call.received.device)]);
        }
        MetricsState::Reflect(reflected) => {
            let each = reflected.transports.iter().map(|one| (one.transport, one.clone()));
            labelled(&mut text, REFLECTED, "transport", &each.collect::<Vec<_>>());
        }
    }
    text.finish()
}

/// The devices of the ends that have one.
fn devices(text: &mut Exposition, ends: [(&str, Option<DeviceStatus>); 2]) {
    let there = ends.into_iter().filter_map(|(end, device)| Some((end, device?)));
    labelled(text, DEVICE, "end", &there.collect::<Vec<_>>());
}

fn delay(text: &mut Exposition, delay: Option<DelayStatus>) {
    let Some(delay) = delay else { return };
    let ways = [
        (&[("way", "from_peer")][..], delay.from_peer_ms / 1e3),
        (&[("way", "to_peer")][..], delay.to_peer_ms / 1e3),
    ];
    text.family(&MOUTH_TO_EAR, &ways);
}

/// Metrics without labels.
fn plain<S>(text: &mut Exposition, metrics: &[Of<S>], state: &S) {
    for Of { metric, value } in metrics {
        let value: Vec<(&[(&str, &str)], f64)> =
            value(state).into_iter().map(|value| (&[][..], value)).collect();
        text.family(metric, &value);
    }
}

/// Metrics of several things, which a label tells apart.
fn labelled<S>(text: &mut Exposition, metrics: &[Of<S>], label: &str, states: &[(&str, S)]) {
    for Of { metric, value } in metrics {
        let named: Vec<([(&str, &str); 1], f64)> =
            states.iter().filter_map(|(name, state)| Some(([(label, *name)], value(state)?))).collect();
        let samples: Vec<(&[(&str, &str)], f64)> =
            named.iter().map(|(labels, value)| (&labels[..], *value)).collect();
        text.family(metric, &samples);
    }
}

/// Every metric of the list, for the tests of its page.
#[cfg(test)]
pub(super) fn all() -> Vec<Metric> {
    fn metrics<S>(list: &[Of<S>]) -> impl Iterator<Item = Metric> {
        list.iter().map(|of| of.metric)
    }
    let streams = metrics(SENT).chain(metrics(RECEIVED)).chain(metrics(CALL)).chain(metrics(DEVICE));
    [ABOUT, AGE, MOUTH_TO_EAR].into_iter().chain(streams).chain(metrics(REFLECTED)).collect()
}
