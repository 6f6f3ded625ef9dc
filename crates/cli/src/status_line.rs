//! The state of a stream on one line. Where there is no room for all of it, the less important parts fall away first.

use antiphon::{LiveFigures, ReceiveGroup, ReceiveStatus, SendGroup, SendStatus};

/// A stream being sent, in at most `width` characters as far as its beginning and the groups that lost something allow.
pub fn send_line(status: &SendStatus, width: usize) -> String {
    let total = status.total_s.map_or_else(String::new, |total| format!(" of {total:.1}"));
    let mut line = Line::new(format!("sent {:.1}{total} s", status.sent_s));
    line.add(7, format!(", {} packets", status.packets_sent));
    for (count, name) in
        [(status.expired, "expired"), (status.refused, "refused"), (status.starved, "ms without a source")]
    {
        if count > 0 {
            line.add(1, format!(", {count} {name}"));
        }
    }
    line.level(&status.live);
    line.rate(&status.live);
    if status.live.buffer_ms >= 0.5 {
        line.add(5, format!(", buffer {:.0} ms", status.live.buffer_ms));
    }
    match (status.remote_loss_percent, status.worst_loss_percent) {
        (_, Some(worst)) => line.add(1, format!("; {} members, worst lost {worst:.1} %", status.members)),
        (Some(loss), None) => line.add(1, format!("; receiver: lost {loss:.1} %")),
        (None, None) => {}
    }
    if let Some(rtt) = status.rtt_ms {
        line.add(4, format!(", round trip {rtt:.1} ms"));
    }
    if let Some(delay) = status.remote_latency_ms {
        line.add(6, format!(", delay {delay:.0} ms"));
    }
    if let Some(peer) = &status.live.peer {
        line.add(8, format!("; to {peer}"));
    }
    let lost =
        |group: &SendGroup| group.remote_lost.filter(|lost| *lost > 0).map(|lost| format!("lost {lost}"));
    line.add(0, of_groups(status.groups.iter().map(|group| (&group.channels, lost(group)))));
    line.fitted(width)
}

/// A stream being received, likewise.
pub fn receive_line(status: &ReceiveStatus, width: usize) -> String {
    let mut line = Line::new(format!("played {:.1} s", status.played_s));
    line.add(8, format!(", {} packets", status.packets_received));
    line.add(0, format!(", lost {}, late {}", status.lost, status.late));
    for (count, name) in [
        (status.concealed, "concealed"),
        (status.reordered, "reordered"),
        (status.unknown_sources, "from unknown sources"),
        (status.malformed, "malformed"),
    ] {
        if count > 0 {
            line.add(1, format!(", {count} {name}"));
        }
    }
    line.level(&status.live);
    let fill = status.live.buffer_ms;
    match status.latency_ms {
        Some(delay) => line.add(2, format!(", buffer {fill:.0} of {delay:.0} ms")),
        None => line.add(6, format!(", buffer {fill:.0} ms")),
    }
    line.rate(&status.live);
    if let Some(jitter) = status.jitter_rfc3550_ms {
        line.add(4, format!(", jitter {jitter:.1} ms"));
    }
    if let Some(drift) = status.drift_ppm {
        line.add(5, format!(", drift {} ppm", signed(drift)));
    }
    if let Some(peer) = &status.live.peer {
        line.add(7, format!("; from {peer}"));
    }
    let missed = |group: &ReceiveGroup| {
        (group.lost + group.late > 0).then(|| format!("lost {}, late {}", group.lost, group.late))
    };
    line.add(0, of_groups(status.groups.iter().map(|group| (&group.channels, missed(group)))));
    line.fitted(width)
}

/// Parts of a line, each with the separator before it and how early it falls away: 0 never, the largest number first.
struct Line {
    parts: Vec<(u8, String)>,
}

impl Line {
    fn new(beginning: String) -> Self {
        Line { parts: vec![(0, beginning)] }
    }

    fn add(&mut self, falls: u8, text: String) {
        self.parts.push((falls, text));
    }

    fn level(&mut self, live: &LiveFigures) {
        if let Some(peak) = live.peak_dbfs {
            let peak = format!("{peak:.1}");
            let peak = if peak == "-0.0" { "0.0" } else { &peak };
            self.add(2, format!(", peak {peak} dBFS"));
        }
    }

    fn rate(&mut self, live: &LiveFigures) {
        if let Some(rate) = live.kbit_per_s {
            self.add(3, format!(", {rate:.0} kbit/s"));
        }
    }

    fn fitted(mut self, width: usize) -> String {
        let length =
            |parts: &[(u8, String)]| parts.iter().map(|(_, text)| text.chars().count()).sum::<usize>();
        while length(&self.parts) > width {
            let last = self.parts.iter().map(|(falls, _)| *falls).max().unwrap_or(0);
            if last == 0 {
                break;
            }
            self.parts.retain(|(falls, _)| *falls < last);
        }
        self.parts.into_iter().map(|(_, text)| text).collect()
    }
}

/// Rounded to whole numbers; with its sign, even a plus.
fn signed(value: f64) -> String {
    let whole = value.round_ties_even();
    if whole == 0.0 { "0".into() } else { format!("{whole:+.0}") }
}

/// Text for each channel group; empty if there is one group, or if all groups are complete.
fn of_groups<'a>(groups: impl Iterator<Item = (&'a String, Option<String>)>) -> String {
    let words = groups.filter_map(|(channels, word)| Some(format!("channels {channels}: {}", word?)));
    let words: Vec<String> = words.collect();
    if words.is_empty() { String::new() } else { format!("; {}", words.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: usize = usize::MAX;

    fn live(peak_dbfs: Option<f64>) -> LiveFigures {
        let peer = Some("[2001:db8::1234:5678]:7710".into());
        LiveFigures { peer, peak_dbfs, kbit_per_s: Some(1584.4), buffer_ms: 37.6 }
    }

    fn received(peak_dbfs: Option<f64>) -> ReceiveStatus {
        ReceiveStatus {
            played_s: 12.34,
            packets_received: 2312,
            jitter_rfc3550_ms: Some(0.12),
            drift_ppm: Some(11.6),
            latency_ms: Some(40.0),
            live: live(peak_dbfs),
            ..ReceiveStatus::default()
        }
    }

    fn sent() -> SendStatus {
        SendStatus {
            sent_s: 12.34,
            total_s: Some(20.7),
            packets_sent: 2312,
            rtt_ms: Some(21.34),
            remote_loss_percent: Some(0.0),
            remote_latency_ms: Some(40.0),
            live: live(Some(-3.21)),
            ..SendStatus::default()
        }
    }

    #[test]
    fn a_wide_line_has_everything() {
        assert_eq!(
            receive_line(&received(Some(-3.21)), WHOLE),
            "played 12.3 s, 2312 packets, lost 0, late 0, peak -3.2 dBFS, buffer 38 of 40 ms, 1584 kbit/s, \
             jitter 0.1 ms, drift +12 ppm; from [2001:db8::1234:5678]:7710"
        );
        assert_eq!(
            send_line(&sent(), WHOLE),
            "sent 12.3 of 20.7 s, 2312 packets, peak -3.2 dBFS, 1584 kbit/s, buffer 38 ms; receiver: lost 0.0 %, \
             round trip 21.3 ms, delay 40 ms; to [2001:db8::1234:5678]:7710"
        );
    }

    #[test]
    fn a_narrow_line_keeps_what_matters() {
        assert_eq!(
            receive_line(&received(Some(-3.21)), 80),
            "played 12.3 s, lost 0, late 0, peak -3.2 dBFS, buffer 38 of 40 ms, 1584 kbit/s"
        );
        assert_eq!(
            send_line(&sent(), 80),
            "sent 12.3 of 20.7 s, peak -3.2 dBFS, 1584 kbit/s; receiver: lost 0.0 %"
        );
        let troubled =
            ReceiveStatus { lost: 1234, late: 567, concealed: 1801, reordered: 99, ..received(Some(0.0)) };
        for width in 40..200 {
            for line in [
                receive_line(&received(None), width),
                receive_line(&troubled, width),
                send_line(&sent(), width),
            ] {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn full_scale_is_zero_and_silence_shows_no_level() {
        // The highest sample of 16 bits is 32767 of 32768.
        let highest = 20.0 * f64::from(32_767.0_f32 / 32_768.0).log10();
        assert!(receive_line(&received(Some(highest)), WHOLE).contains(", peak 0.0 dBFS,"));
        assert!(!receive_line(&received(None), WHOLE).contains("dBFS"));
    }

    #[test]
    fn drift_has_a_sign() {
        assert_eq!([11.6, -11.6, 0.2, -0.2].map(signed), ["+12", "-12", "0", "0"]);
    }

    #[test]
    fn groups_are_named_where_something_is_amiss() {
        let group = |channels: &str, lost, late| {
            let channels = channels.to_string();
            ReceiveGroup { channels, lost, late, ..ReceiveGroup::default() }
        };
        let groups = vec![group("1-2", 0, 0), group("3-4", 5, 1), group("5", 0, 2)];
        let line = receive_line(&ReceiveStatus { lost: 5, late: 3, groups, ..ReceiveStatus::default() }, 60);
        assert!(
            line.ends_with("lost 5, late 3; channels 3-4: lost 5, late 1; channels 5: lost 0, late 2"),
            "{line}"
        );
        assert!(!receive_line(&ReceiveStatus::default(), WHOLE).contains("channels"));
        let group = |channels: &str, lost| {
            let channels = channels.to_string();
            SendGroup { channels, remote_lost: Some(lost), remote_loss_percent: Some(0.0) }
        };
        let groups = vec![group("1-2", 0), group("3-4", 7)];
        let line = send_line(&SendStatus { groups, ..SendStatus::default() }, WHOLE);
        assert!(line.ends_with("; channels 3-4: lost 7"), "{line}");
    }
}
