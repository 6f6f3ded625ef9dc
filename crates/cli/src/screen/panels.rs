//! The lines of each panel.

use antiphon::core::Instant;
use antiphon::{
    LiveFigures, PartyStatus, ReceiveStatus, Second, SendMember, SendReceiver, SendStatus, StreamEvent,
    TalkStatus, Weight,
};
use ratatui::text::{Line, Span};

use super::parts::{Look, bars, curve, level_bar, minutes, number};
use super::{Model, State};
use crate::grid::wrap;

/// A figure of the last minute.
struct Figure {
    name: &'static str,
    value: String,
    of: Option<fn(&Second) -> Option<f64>>,
}

impl Figure {
    fn new(name: &'static str, value: Option<f64>, unit: &str, of: fn(&Second) -> Option<f64>) -> Self {
        let value = value.map_or_else(|| "-".into(), |value| format!("{} {unit}", number(value)));
        Figure { name, value, of: Some(of) }
    }
}

/// Figures with their curves, what matters most first.
pub fn figures(model: &Model, width: usize, look: Look) -> Vec<Line<'static>> {
    let figures = match &model.state {
        None => return Vec::new(),
        Some(State::Send(status)) => sent_figures(status),
        Some(State::Receive(status)) => received_figures(status),
        Some(State::Talk(status)) => talk_figures(status),
    };
    let seconds: Vec<&Second> = model.log.minute().seconds().collect();
    let line = |figure: Figure| {
        let text = format!("{:<11}{:<12}", figure.name, figure.value);
        let values = figure.of.map(|of| seconds.iter().map(|second| of(second)).collect::<Vec<_>>());
        let rest = width.saturating_sub(text.chars().count() + 1);
        let drawn = values.map_or_else(String::new, |values| curve(&values, rest));
        Line::from(vec![Span::raw(text), Span::styled(drawn, look.curve())])
    };
    figures.into_iter().map(line).collect()
}

fn received_figures(status: &ReceiveStatus) -> Vec<Figure> {
    let drift = status.drift_ppm.map(|drift| format!("{drift:+.0} ppm"));
    let mut figures = vec![
        Figure::new("delay", status.latency_ms, "ms", |second| second.delay_ms),
        Figure::new("buffer", Some(status.live.buffer_ms), "ms", |second| second.buffer_ms),
        Figure::new("jitter", status.jitter_rfc3550_ms, "ms", |second| second.jitter_ms),
        Figure {
            name: "drift",
            value: drift.unwrap_or_else(|| "-".into()),
            of: Some(|second| second.drift_ppm),
        },
        Figure::new("rate", status.live.kbit_per_s, "kbit/s", |second| second.kbit_per_s),
    ];
    if let Some(skew) = status.pictures.and_then(|pictures| pictures.skew) {
        // Of 99.9 % of the pictures.
        figures.insert(2, Figure { name: "skew", value: format!("{} ms", number(skew.p99_9_ms)), of: None });
    }
    figures
}

fn sent_figures(status: &SendStatus) -> Vec<Figure> {
    let loss = status.worst_loss_percent.or(status.remote_loss_percent);
    vec![
        Figure::new("round trip", status.rtt_ms, "ms", |second| second.rtt_ms),
        Figure::new("its loss", loss, "%", |second| second.remote_loss_percent),
        Figure::new("its jitter", status.remote_jitter_ms, "ms", |second| second.jitter_ms),
        Figure::new("its delay", status.remote_latency_ms, "ms", |second| second.delay_ms),
        Figure::new("rate", status.live.kbit_per_s, "kbit/s", |second| second.kbit_per_s),
    ]
}

fn talk_figures(status: &TalkStatus) -> Vec<Figure> {
    let TalkStatus { sent, received, delay, .. } = status;
    if status.parties.is_some() {
        // Delays, drifts and round trips are each party's own.
        let mut figures = received_figures(received);
        figures.retain(|figure| figure.name != "drift");
        return figures;
    }
    let mut figures = received_figures(received);
    // The rate is told with the peer's.
    figures.pop();
    let way = |name, ms: Option<f64>| {
        let value = ms.zip(*delay).map(|(ms, delay)| format!("{ms:.0} ms ±{:.1}", delay.half_width_ms));
        Figure { name, value: value.unwrap_or_else(|| "-".into()), of: None }
    };
    figures.insert(3, way("ear < peer", delay.map(|delay| delay.from_peer_ms)));
    figures.insert(4, way("ear > peer", delay.map(|delay| delay.to_peer_ms)));
    let rtt = delay.map(|delay| delay.network_round_trip_ms).or(sent.rtt_ms);
    figures.insert(5, Figure::new("round trip", rtt, "ms", |second| second.rtt_ms));
    figures.push(Figure::new("its loss", sent.remote_loss_percent, "%", |second| second.remote_loss_percent));
    figures
}

/// Levels of as many channels as there are rows.
pub fn levels(model: &Model, width: usize, rows: usize, look: Look) -> Vec<Line<'static>> {
    match &model.state {
        None => Vec::new(),
        Some(State::Send(status)) => side("", &status.live, width, rows, look),
        Some(State::Receive(status)) => side("", &status.live, width, rows, look),
        Some(State::Talk(status)) => {
            let half = (rows / 2).max(1);
            let mut lines = match status.muted {
                true => vec![Line::from("you   muted; m unmutes")],
                false => side("you ", &status.sent.live, width, half, look),
            };
            let others = if status.parties.is_some() { "mix " } else { "peer " };
            lines.extend(side(others, &status.received.live, width, rows.saturating_sub(lines.len()), look));
            lines
        }
    }
}

fn side(who: &str, live: &LiveFigures, width: usize, rows: usize, look: Look) -> Vec<Line<'static>> {
    let channels = live.levels.len();
    if channels == 0 {
        return vec![Line::from(format!("{who}no sound yet"))];
    }
    let names = if who.is_empty() { 3 } else { 8 };
    let shown = if channels > rows { rows.saturating_sub(1) } else { channels };
    let level = |(at, level): (usize, &antiphon::ChannelLevel)| {
        let name = format!("{:<names$}", format!("{who}{}", at + 1));
        let value = level.held_dbfs.map_or_else(|| " silent".into(), |held| format!("{held:>7.1}"));
        let bar = level_bar(level.peak_dbfs, level.held_dbfs, width.saturating_sub(names + 9), look);
        let mut spans = vec![Span::raw(name)];
        spans.extend(bar);
        spans.push(Span::raw(value));
        Line::from(spans)
    };
    let mut lines: Vec<Line<'static>> = live.levels.iter().enumerate().take(shown).map(level).collect();
    if shown < channels {
        let peak = live.peak_dbfs.map_or_else(|| "silent".into(), |peak| format!("{peak:.1} dBFS"));
        lines.push(Line::from(format!("{who}{} more; highest of all {peak}", channels - shown)));
    }
    lines
}

/// What became of packets, second by second; then the members of a group.
pub fn packets(model: &Model, width: usize, look: Look) -> Vec<Line<'static>> {
    let seconds: Vec<&Second> = model.log.minute().seconds().collect();
    let row = |name: &str, total: String, of: fn(&Second) -> u64, bad: bool| {
        let counts: Vec<u64> = seconds.iter().map(|second| of(second)).collect();
        let text = format!("{name:<11}{total:>9}  ");
        let drawn = bars(&counts, width.saturating_sub(text.chars().count() + 1));
        let style = if bad && counts.iter().any(|count| *count > 0) { look.defect() } else { look.curve() };
        Line::from(vec![Span::raw(text), Span::styled(drawn, style)])
    };
    let heard = |status: &ReceiveStatus| {
        vec![
            row("lost", status.lost.to_string(), |second| second.lost, true),
            row("late", status.late.to_string(), |second| second.late, true),
            row("repaired", status.repaired.to_string(), |second| second.repaired, false),
            row("concealed", status.concealed.to_string(), |second| second.concealed, true),
        ]
    };
    let unsent = |status: &SendStatus| {
        let total = status.expired.saturating_add(status.refused).to_string();
        row("not sent", total, |second| second.unsent, true)
    };
    match &model.state {
        None => Vec::new(),
        Some(State::Receive(status)) => heard(status),
        Some(State::Talk(status)) => {
            let mut lines = heard(&status.received);
            lines.push(unsent(&status.sent));
            lines.extend(status.parties.iter().flat_map(|parties| others(parties)));
            lines
        }
        Some(State::Send(status)) => {
            let mut lines = vec![unsent(status)];
            lines.extend(receivers(status));
            lines
        }
    }
}

/// The other parties of a call over a group.
fn others(parties: &[PartyStatus]) -> Vec<Line<'static>> {
    if parties.is_empty() {
        return vec![Line::from("nobody else is there yet")];
    }
    let or_none = |value: Option<f64>| value.map_or_else(|| "-".into(), number);
    let mut lines =
        vec![Line::from("party               dBFS      lost      late  buffer ms  round trip ms")];
    let party = |party: &PartyStatus| {
        let label: String = party.label.chars().take(15).collect();
        Line::from(format!(
            "{label:<15} {:>8} {:>9} {:>9} {:>10} {:>14}",
            party.peak_dbfs.map_or_else(|| "silent".into(), |peak| format!("{peak:.1}")),
            party.lost,
            party.late,
            number(party.buffer_ms),
            or_none(party.rtt_ms)
        ))
    };
    lines.extend(parties.iter().map(party));
    lines
}

fn receivers(status: &SendStatus) -> Vec<Line<'static>> {
    if let Some(present) = status.receivers {
        return called(present, &status.receivers_shown);
    }
    let repaired =
        status.joined_members.map_or_else(String::new, |joined| format!(", {joined} with repairs"));
    let known = match status.members {
        0 => "no receiver has reported yet".into(),
        1 => "1 receiver reports".into(),
        members => format!("{members} receivers report{repaired}"),
    };
    let mut lines = vec![Line::from(known)];
    if !status.members_shown.is_empty() {
        lines.push(Line::from("receiver    lost now  jitter ms  round trip ms  delay ms"));
    }
    let or_none = |value: Option<f64>| value.map_or_else(|| "-".into(), number);
    let member = |member: &SendMember| {
        Line::from(format!(
            "{:<8} {:>9} % {:>10} {:>14} {:>9}",
            member.ssrc,
            number(member.loss_percent),
            number(member.jitter_ms),
            or_none(member.rtt_ms),
            or_none(member.playout_delay_ms)
        ))
    };
    lines.extend(status.members_shown.iter().map(member));
    lines
}

/// Receivers that have called.
fn called(present: u64, shown: &[SendReceiver]) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(match present {
        0 => "no receiver is there".into(),
        1 => "1 receiver is there".into(),
        present => format!("{present} receivers are there"),
    })];
    if !shown.is_empty() {
        lines.push(Line::from("receiver                 lost  late  missing  trip ms  delay ms"));
    }
    let or_none = |value: Option<f64>| value.map_or_else(|| "-".into(), number);
    let count = |value: Option<i64>| value.map_or_else(|| "-".into(), |value| value.to_string());
    let one = |one: &SendReceiver| {
        Line::from(format!(
            "{:<22} {:>6} {:>5} {:>6} % {:>8} {:>9}",
            one.address.clone().unwrap_or_else(|| one.number.to_string()),
            count(one.lost),
            count(one.late.map(i64::from)),
            or_none(one.missing_percent),
            or_none(one.rtt_ms),
            or_none(one.capture_to_playout_ms.or(one.playout_delay_ms)),
        ))
    };
    lines.extend(shown.iter().map(one));
    lines
}

/// What happened, the newest first: what and why, and what to do about it.
pub fn events(model: &Model, width: usize, rows: usize, look: Look) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for event in model.log.events() {
        if lines.len() >= rows {
            break;
        }
        lines.extend(event_lines(event, width, look));
    }
    lines.truncate(rows);
    lines
}

fn event_lines(event: &StreamEvent, width: usize, look: Look) -> Vec<Line<'static>> {
    let time = format!("{:>6}  ", minutes(event.at.since(Instant::ZERO).as_secs()));
    let indent = " ".repeat(time.chars().count());
    let room = width.saturating_sub(time.chars().count()).max(20);
    let length = event.last.since(event.at).as_secs();
    let within = if length < 2 { String::new() } else { format!(" in {length} s") };
    let what = match event.cause.as_str() {
        "" => event.what.clone(),
        cause => format!("{}{within}: {cause}", event.what),
    };
    let style = if event.weight == Weight::Defect { look.defect() } else { ratatui::style::Style::new() };
    let first = wrap(&what, room).into_iter().enumerate().map(|(at, text)| {
        let before = if at == 0 { time.clone() } else { indent.clone() };
        Line::from(vec![Span::raw(before), Span::styled(text, style)])
    });
    let remedy = (!event.remedy.is_empty()).then(|| wrap(&event.remedy, room.saturating_sub(2).max(18)));
    let second = remedy.into_iter().flatten().enumerate().map(|(at, text)| {
        let arrow = if at == 0 { "→ " } else { "  " };
        Line::from(format!("{indent}{arrow}{text}"))
    });
    first.chain(second).collect()
}
