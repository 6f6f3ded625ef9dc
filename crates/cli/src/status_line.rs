//! The state of a stream on one line. Where there is no room for all of it, the less important parts fall away first.

use antiphon::{
    DeviceStatus, FurtherPictures, LiveFigures, PartyStatus, PicturesSent, ReceiveGroup, ReceiveStatus,
    SendGroup, SendReceiver, SendStatus, TalkStatus,
};

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
    line.pictures_sent(status);
    let waited = status.data.iter().map(|data| data.expired + data.refused).sum();
    line.data(status.data.iter().map(|data| data.bytes), (waited, "pieces left out"));
    line.device(status.device.as_ref());
    line.level(&status.live);
    line.rate(&status.live);
    if status.live.buffer_ms >= 0.5 {
        line.add(5, format!(", buffer {:.0} ms", status.live.buffer_ms));
    }
    if let Some(receivers) = status.receivers {
        let worst =
            status.worst_loss_percent.map_or_else(String::new, |worst| format!(", worst lost {worst:.1} %"));
        line.add(0, format!("; {}{worst}", counted(receivers)));
        return line.fitted(width);
    }
    match (status.remote_loss_percent, status.worst_loss_percent) {
        (_, Some(worst)) => {
            let repaired =
                status.joined_members.map_or_else(String::new, |joined| format!(", {joined} with repairs"));
            line.add(1, format!("; {} members{repaired}, worst lost {worst:.1} %", status.members));
        }
        (Some(loss), None) => line.add(1, format!("; receiver: lost {loss:.1} %")),
        (None, None) => {}
    }
    if let Some(rtt) = status.rtt_ms {
        line.add(4, format!(", round trip {rtt:.1} ms"));
    }
    if let Some(delay) = status.remote_latency_ms {
        line.add(6, format!(", delay up to {delay:.0} ms"));
    }
    if let Some(peer) = &status.live.peer {
        line.add(8, format!("; to {peer}"));
    }
    let lost =
        |group: &SendGroup| group.remote_lost.filter(|lost| *lost > 0).map(|lost| format!("lost {lost}"));
    line.add(0, of_groups(status.groups.iter().map(|group| (&group.channels, lost(group)))));
    line.fitted(width)
}

fn counted(receivers: u64) -> String {
    if receivers == 1 { "1 receiver".into() } else { format!("{receivers} receivers") }
}

/// A receiver that has called, at the end of a stream.
pub fn receiver_line(receiver: &SendReceiver) -> String {
    let mut line = format!("receiver {}", receiver.number);
    if let Some(address) = &receiver.address {
        line += &format!(" ({address})");
    }
    line += &match (receiver.lost, receiver.late) {
        (Some(lost), Some(late)) => format!(": lost {lost}, late {late}"),
        (Some(lost), None) => format!(": lost {lost}"),
        (None, _) => ": told nothing".into(),
    };
    for (value, decimals, what, unit) in [
        (receiver.missing_percent, 2, "missing", "%"),
        (receiver.rtt_ms, 1, "round trip", "ms"),
        (receiver.playout_delay_ms, 0, "playout delay", "ms"),
        (receiver.capture_to_playout_ms, 1, "from capture to playout", "ms"),
    ] {
        if let Some(value) = value {
            line += &format!(", {what} {value:.decimals$} {unit}");
        }
    }
    match receiver.gone {
        Some("silent") => line + "; fell silent",
        Some(_) => line + "; left",
        None => line,
    }
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
    line.pictures(status);
    let missing = status.data.iter().map(|data| data.missing).sum();
    line.data(status.data.iter().map(|data| data.bytes), (missing, "bytes missing"));
    line.device(status.device.as_ref());
    line.level(&status.live);
    let fill = status.live.buffer_ms;
    match status.latency_ms {
        Some(delay) => {
            let mean =
                status.adapted.map_or_else(String::new, |adapted| format!(" (mean {:.0})", adapted.mean_ms));
            line.add(2, format!(", buffer {fill:.0} of {delay:.0} ms{mean}"));
        }
        None => line.add(6, format!(", buffer {fill:.0} ms")),
    }
    if let Some(step) = status.step.filter(|step| step.in_step) {
        line.add(3, format!(", in step {:.1} ms after capture", step.capture_to_playout_ms));
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

/// A call, likewise.
pub fn talk_line(status: &TalkStatus, width: usize) -> String {
    let TalkStatus { muted, sent, received, delay, parties } = status;
    let mut line = Line::new(format!("talked {:.1} s", sent.sent_s));
    let missing = received.lost + received.late > 0;
    line.add(if missing { 0 } else { 6 }, format!(", lost {}, late {}", received.lost, received.late));
    for (count, name) in
        [(received.concealed, "concealed"), (sent.expired, "expired"), (sent.refused, "refused")]
    {
        if count > 0 {
            line.add(1, format!(", {count} {name}"));
        }
    }
    line.pictures_sent(sent);
    line.pictures(received);
    line.device(sent.device.as_ref());
    line.device(received.device.as_ref());
    line.add(0, if *muted { "; you: muted".into() } else { format!("; you: {}", level(&sent.live)) });
    match parties {
        Some(parties) => line.parties(parties),
        None => line.add(0, format!(", peer: {}", level(&received.live))),
    }
    if let Some(delay) = delay {
        let (from, to, error) = (delay.from_peer_ms, delay.to_peer_ms, delay.half_width_ms);
        line.add(2, format!("; mouth to ear {from:.0}/{to:.0} ms ±{error:.1}"));
        if delay.basis.doubt().is_some() {
            line.add(3, " (ways not told apart)".into());
        }
    }
    if let Some(latency) = received.latency_ms.filter(|_| parties.is_none()) {
        line.add(3, format!(", buffer {:.0} of {latency:.0} ms", received.live.buffer_ms));
    }
    if let Some(loss) = sent.remote_loss_percent.filter(|_| parties.is_none()) {
        line.add(4, format!("; peer: lost {loss:.1} %"));
    }
    if let (Some(out), Some(back)) = (sent.live.kbit_per_s, received.live.kbit_per_s) {
        line.add(5, format!(", {out:.0} and {back:.0} kbit/s"));
    }
    if let Some(peer) = &received.live.peer {
        let with = if parties.is_some() { "in" } else { "with" };
        line.add(7, format!("; {with} {peer}"));
    }
    line.fitted(width)
}

/// A level, in words where there is none.
fn level(live: &LiveFigures) -> String {
    level_of(live.peak_dbfs)
}

fn level_of(peak_dbfs: Option<f64>) -> String {
    peak_dbfs.map_or_else(|| "silent".into(), |peak| format!("{} dBFS", tenths(peak)))
}

/// A level with one digit, which is never a negative zero.
fn tenths(peak: f64) -> String {
    let peak = format!("{peak:.1}");
    if peak == "-0.0" { "0.0".into() } else { peak }
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

    /// The pictures that are sent.
    fn pictures_sent(&mut self, status: &SendStatus) {
        let Some(pictures) = status.pictures else { return };
        let left_out = |pictures: &PicturesSent| match pictures.left_out {
            0 => String::new(),
            left_out => format!(" ({left_out} left out)"),
        };
        let over = pictures.over.map_or_else(String::new, |over| format!(" over {over}"));
        self.add(2, format!(", {} pictures{over}{}", pictures.sent, left_out(&pictures)));
        for (track, further) in (2..).zip(&status.further_pictures) {
            self.add(2, format!(", track {track}: {}{}", further.sent, left_out(further)));
        }
        if let Some(rate) = pictures.path_kbit_per_s {
            self.add(5, format!(", path {:.1} Mbit/s", rate / 1e3));
        }
    }

    /// Data of all tracks, and how much of them is not there, if there are any.
    fn data(&mut self, bytes: impl ExactSizeIterator<Item = u64>, (without, what): (u64, &str)) {
        if bytes.len() == 0 {
            return;
        }
        let without = if without == 0 { String::new() } else { format!(" ({without} {what})") };
        self.add(2, format!(", data {:.1} kB{without}", bytes.sum::<u64>() as f64 / 1e3));
    }

    /// The pictures that come.
    fn pictures(&mut self, status: &ReceiveStatus) {
        let Some(pictures) = status.pictures else { return };
        self.add(1, format!(", pictures: {} whole, {} broken", pictures.whole, pictures.broken));
        for (track, FurtherPictures { pictures: further, .. }) in (2..).zip(&status.further_pictures) {
            self.add(1, format!(", track {track}: {} whole, {} broken", further.whole, further.broken));
        }
        if pictures.too_late > 0 {
            self.add(1, format!(", {} too late", pictures.too_late));
        }
        if pictures.frozen_s >= 0.05 {
            self.add(1, format!(", frozen {:.1} s", pictures.frozen_s));
        }
        if let Some(skew) = pictures.skew {
            self.add(2, format!(", skew {:.0} ms (99.9 %: {:.0} ms)", skew.median_ms, skew.p99_9_ms));
        }
        if let Some(by) = pictures.out_of_sync_ms {
            self.add(0, format!(", OUT OF SYNC: pictures {by:.0} ms late"));
        }
        if pictures.dropped > 0 {
            self.add(
                0,
                format!(
                    ", {} packets of pictures not written: the disk or the player is too slow",
                    pictures.dropped
                ),
            );
        }
    }

    fn level(&mut self, live: &LiveFigures) {
        if let Some(peak) = live.peak_dbfs {
            self.add(2, format!(", peak {} dBFS", tenths(peak)));
        }
    }

    /// Who else is there: how many, then each with its level, what it lost, and its buffer, as far as there is room.
    fn parties(&mut self, parties: &[PartyStatus]) {
        match parties.len() {
            0 => return self.add(0, "; nobody else is there".into()),
            1 => self.add(0, "; 1 other".into()),
            others => self.add(0, format!("; {others} others")),
        }
        for (at, party) in parties.iter().enumerate() {
            let before = if at == 0 { ": " } else { ", " };
            self.add(2, format!("{before}{} {}", party.label, level_of(party.peak_dbfs)));
            if party.lost + party.late > 0 {
                self.add(2, format!(" lost {} late {}", party.lost, party.late));
            }
            if let Some(pictures) = party.pictures.filter(|pictures| pictures.whole + pictures.broken > 0) {
                let skew =
                    pictures.skew.map_or_else(String::new, |skew| format!(" skew {:.0} ms", skew.p99_9_ms));
                self.add(3, format!(" pictures {} whole {} broken{skew}", pictures.whole, pictures.broken));
            }
            self.add(3, format!(" buffer {:.0} ms", party.buffer_ms));
        }
    }

    /// What a sound server did, as its own, apart from what the network did.
    fn device(&mut self, device: Option<&DeviceStatus>) {
        let Some(device) = device else { return };
        let counts = [
            (device.xruns, "xrun", ""),
            (device.underruns, "underrun", ""),
            (device.lost_servers, "lost server", ""),
            (device.dropped_frames, "sample frame", " dropped"),
        ];
        let counts = counts.iter().filter(|(count, ..)| *count > 0);
        let words = |(count, name, what): &(u64, &str, &str)| {
            let plural = if *count == 1 { "" } else { "s" };
            format!("{count} {name}{plural}{what}")
        };
        let counts: Vec<String> = counts.map(words).collect();
        if !counts.is_empty() {
            self.add(1, format!(" ({}: {})", device.server, counts.join(", ")));
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
    use antiphon::{DataReceived, DataSent, DelayBasis, DelayStatus, PicturesReceived, SkewFigures};

    use super::*;

    const WHOLE: usize = usize::MAX;

    fn live(peak_dbfs: Option<f64>) -> LiveFigures {
        let peer = Some("[2001:db8::1234:5678]:7710".into());
        LiveFigures { peer, peak_dbfs, kbit_per_s: Some(1584.4), buffer_ms: 37.6, levels: Vec::new() }
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

    /// Sent and received, at their worst.
    fn pictures() -> (PicturesSent, PicturesReceived) {
        let sent = PicturesSent {
            sent: 50,
            left_out: 3,
            over: Some("tcp"),
            path_kbit_per_s: Some(2_040.0),
            ..PicturesSent::default()
        };
        let skew =
            SkewFigures { median_ms: 0.4, p95_ms: 9.0, p99_9_ms: 44.6, worst_ms: 60.0, beyond_percent: 0.0 };
        let received = PicturesReceived {
            whole: 47,
            broken: 1,
            too_late: 2,
            frozen_s: 1.25,
            out_of_sync_ms: Some(143.5),
            skew: Some(skew),
            ..PicturesReceived::default()
        };
        (sent, received)
    }

    #[test]
    fn data_are_in_the_lines_of_both_ends() {
        let going = |bytes, expired| DataSent {
            over: None,
            source: "a".into(),
            bytes,
            pieces: 9,
            expired,
            refused: 0,
            ended: false,
        };
        let sent = SendStatus { data: vec![going(1_200, 0), going(500, 3)], ..sent() };
        assert!(
            send_line(&sent, 200).contains(", data 1.7 kB (3 pieces left out)"),
            "{}",
            send_line(&sent, 200)
        );
        let coming = |missing| DataReceived { bytes: 2_000, missing, ..DataReceived::default() };
        let line = |data| receive_line(&ReceiveStatus { data, ..received(None) }, 200);
        assert!(line(vec![coming(0)]).contains(", data 2.0 kB,"), "{}", line(vec![coming(0)]));
        assert!(line(vec![coming(0), coming(40)]).contains(", data 4.0 kB (40 bytes missing)"));
        assert!(!line(Vec::new()).contains("data"));
    }

    #[test]
    fn each_track_of_pictures_is_in_the_lines_of_both_ends() {
        let (going, coming) = pictures();
        let further = FurtherPictures { file: "slides.mkv".into(), pictures: coming };
        let second = PicturesSent { sent: 12, left_out: 0, ..going };
        let sent = SendStatus { pictures: Some(going), further_pictures: vec![second, going], ..sent() };
        let received =
            ReceiveStatus { pictures: Some(coming), further_pictures: vec![further], ..received(None) };
        let line = send_line(&sent, 400);
        assert!(line.contains(", track 2: 12, track 3: ") && line.contains("left out"), "{line}");
        let line = receive_line(&received, 400);
        assert!(line.contains(", pictures: 47 whole, 1 broken, track 2: 47 whole, 1 broken"), "{line}");
    }

    #[test]
    fn pictures_are_in_the_lines_of_both_ends_and_of_a_call() {
        let (going, coming) = pictures();
        let sent = SendStatus { pictures: Some(going), ..sent() };
        let received = ReceiveStatus { pictures: Some(coming), ..received(None) };
        let going = ", 50 pictures over tcp (3 left out), path 2.0 Mbit/s";
        let coming = ", pictures: 47 whole, 1 broken, 2 too late, frozen 1.2 s, skew 0 ms (99.9 %: 45 ms), OUT OF SYNC: \
                      pictures 144 ms late";
        assert!(send_line(&sent, WHOLE).contains(going), "{}", send_line(&sent, WHOLE));
        assert!(receive_line(&received, WHOLE).contains(coming), "{}", receive_line(&received, WHOLE));
        let both = talk_line(&TalkStatus { sent, received, ..TalkStatus::default() }, WHOLE);
        assert!(both.contains(going) && both.contains(coming), "{both}");
        // What needs the user's attention stays.
        let narrow =
            receive_line(&ReceiveStatus { pictures: Some(pictures().1), ..self::received(None) }, 80);
        assert!(narrow.contains("OUT OF SYNC"), "{narrow}");
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
             round trip 21.3 ms, delay up to 40 ms; to [2001:db8::1234:5678]:7710"
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
    fn a_call_shows_both_levels_and_the_delay() {
        let delay = DelayStatus {
            from_peer_ms: 61.2,
            to_peer_ms: 64.7,
            half_width_ms: 1.26,
            sum_half_width_ms: 1.0,
            network_round_trip_ms: 1.5,
            basis: DelayBasis::RoundTrip,
        };
        let status = |delay| TalkStatus {
            muted: false,
            sent: sent(),
            received: received(Some(-20.0)),
            delay: Some(delay),
            parties: None,
        };
        assert_eq!(
            talk_line(&status(delay), WHOLE),
            "talked 12.3 s, lost 0, late 0; you: -3.2 dBFS, peer: -20.0 dBFS; mouth to ear 61/65 ms ±1.3, \
             buffer 38 of 40 ms; peer: lost 0.0 %, 1584 and 1584 kbit/s; with [2001:db8::1234:5678]:7710"
        );
        let unsure = DelayStatus { half_width_ms: 31.0, basis: DelayBasis::UnequalRates, ..delay };
        let line = talk_line(&TalkStatus { muted: true, ..status(unsure) }, 120);
        assert!(line.starts_with("talked 12.3 s; you: muted, peer: -20.0 dBFS"), "{line}");
        let narrow = talk_line(&status(delay), 80);
        assert_eq!(narrow, "talked 12.3 s; you: -3.2 dBFS, peer: -20.0 dBFS; mouth to ear 61/65 ms ±1.3");
        assert!(line.contains("±31.0 (ways not told apart)"), "{line}");
        for width in 60..200 {
            let line = talk_line(&status(delay), width);
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }

    #[test]
    fn a_call_over_a_group_shows_each_party() {
        let party = |label: &str, peak_dbfs, lost| PartyStatus {
            label: label.into(),
            peak_dbfs,
            lost,
            buffer_ms: 38.4,
            ..PartyStatus::default()
        };
        let parties = vec![party("10.0.0.2", Some(-20.04), 0), party("10.0.0.3", None, 5)];
        let status = |parties| TalkStatus {
            sent: sent(),
            received: received(Some(-20.0)),
            parties: Some(parties),
            ..TalkStatus::default()
        };
        assert_eq!(
            talk_line(&status(parties.clone()), WHOLE),
            "talked 12.3 s, lost 0, late 0; you: -3.2 dBFS; 2 others: 10.0.0.2 -20.0 dBFS buffer 38 ms, 10.0.0.3 silent \
             lost 5 late 0 buffer 38 ms, 1584 and 1584 kbit/s; in [2001:db8::1234:5678]:7710"
        );
        assert_eq!(
            talk_line(&status(parties), 100),
            "talked 12.3 s; you: -3.2 dBFS; 2 others: 10.0.0.2 -20.0 dBFS, 10.0.0.3 silent lost 5 late 0"
        );
        let coming = pictures().1;
        let seen = PartyStatus { pictures: Some(coming), ..party("10.0.0.2", None, 0) };
        let unseen =
            PartyStatus { pictures: Some(PicturesReceived::default()), ..party("10.0.0.3", None, 0) };
        let line = talk_line(&status(vec![seen, unseen]), WHOLE);
        let others = "2 others: 10.0.0.2 silent pictures 47 whole 1 broken skew 45 ms buffer 38 ms, 10.0.0.3 silent buffer 38 ms";
        assert!(line.contains(others), "{line}");
        let alone = talk_line(&status(Vec::new()), 60);
        assert_eq!(alone, "talked 12.3 s; you: -3.2 dBFS; nobody else is there");
    }

    #[test]
    fn full_scale_is_zero_and_silence_shows_no_level() {
        // The highest sample of 16 bits is 32767 of 32768.
        let highest = 20.0 * f64::from(32_767.0_f32 / 32_768.0).log10();
        assert!(receive_line(&received(Some(highest)), WHOLE).contains(", peak 0.0 dBFS,"));
        assert!(!receive_line(&received(None), WHOLE).contains("dBFS"));
    }

    #[test]
    fn a_sound_server_is_blamed_for_its_own_only() {
        let device = DeviceStatus { server: "JACK", xruns: 3, lost_servers: 1, ..DeviceStatus::default() };
        let line = receive_line(&ReceiveStatus { lost: 5, device: Some(device), ..received(None) }, WHOLE);
        assert!(line.contains(", lost 5, late 0 (JACK: 3 xruns, 1 lost server), buffer"), "{line}");
        let line = send_line(&SendStatus { device: Some(device), ..sent() }, WHOLE);
        assert!(line.contains(" packets (JACK: 3 xruns, 1 lost server), peak"), "{line}");
        let fine = Some(DeviceStatus::default());
        assert!(!receive_line(&ReceiveStatus { device: fine, ..received(None) }, WHOLE).contains("JACK"));
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
