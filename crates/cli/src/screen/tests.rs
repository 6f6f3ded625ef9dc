//! Pictures of made-up states.

use antiphon::{
    ChannelLevel, DelayBasis, DelayStatus, LiveFigures, ReceiveStatus, SendMember, SendReceiver, SendStatus,
    TalkStatus, TradeOff,
};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::parts::{bars, curve};
use super::*;

fn subject(command: &'static str, uri: &str) -> Subject {
    let mute = (command == "talk").then(|| MuteSwitch::new(false));
    Subject { command, uri: uri.into(), latency: None, mute, programme: None }
}

fn live(channels: usize) -> LiveFigures {
    let level = ChannelLevel { peak_dbfs: Some(-20.0), held_dbfs: Some(-12.34) };
    LiveFigures {
        peer: Some("192.0.2.7:7710".into()),
        peak_dbfs: Some(-12.34),
        kbit_per_s: Some(1584.4),
        buffer_ms: 37.6,
        levels: vec![level; channels],
    }
}

fn received(channels: usize, lost: u64) -> ReceiveStatus {
    ReceiveStatus {
        played_s: 67.8,
        lost,
        late: 2 * lost,
        repaired: 5,
        concealed: lost,
        jitter_rfc3550_ms: Some(3.21),
        drift_ppm: Some(11.6),
        latency_ms: Some(40.0),
        trade_off: vec![TradeOff { latency_ms: 52.4, late_percent: 0.1 }],
        live: live(channels),
        ..ReceiveStatus::default()
    }
}

fn sent() -> SendStatus {
    let member = |ssrc: &str, loss_percent| SendMember {
        ssrc: ssrc.into(),
        lost: 7,
        loss_percent,
        jitter_ms: 1.25,
        rtt_ms: Some(21.3),
        playout_delay_ms: None,
        late: None,
        capture_to_playout_ms: None,
    };
    SendStatus {
        sent_s: 67.8,
        total_s: Some(200.0),
        rtt_ms: Some(21.34),
        remote_loss_percent: Some(1.5),
        worst_loss_percent: Some(3.0),
        members: 2,
        members_shown: vec![member("0000aaaa", 0.0), member("0000bbbb", 3.0)],
        live: live(2),
        ..SendStatus::default()
    }
}

/// A stream of ten seconds that lost something in the fifth.
fn heard(channels: usize) -> Model {
    let mut model = Model::new(&subject("receive", "rtp://:7710"));
    model.log.on_notice(Instant::ZERO, "sound begins: 48000 Hz, 2 channels, l16");
    for second in 0..10 {
        let lost = if second < 5 { 0 } else { 3 };
        model.on_state(
            Instant::from_millis(second * 1000),
            State::Receive(Box::new(received(channels, lost))),
        );
    }
    model
}

fn talked() -> Model {
    let mut model = Model::new(&subject("talk", "rtp://192.0.2.7"));
    let delay = DelayStatus {
        from_peer_ms: 61.2,
        to_peer_ms: 64.7,
        half_width_ms: 1.26,
        sum_half_width_ms: 1.0,
        network_round_trip_ms: 1.5,
        basis: DelayBasis::RoundTrip,
    };
    let status = TalkStatus {
        muted: false,
        sent: sent(),
        received: received(1, 0),
        delay: Some(delay),
        parties: None,
    };
    model.on_state(Instant::ZERO, State::Talk(Box::new(status)));
    model
}

fn sending() -> Model {
    let mut model = Model::new(&subject("send", "rtp://239.1.2.3"));
    model.on_state(Instant::ZERO, State::Send(Box::new(sent())));
    model
}

/// The lines of a picture, without spaces at their ends.
fn picture(view: &View, model: &Model, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
    terminal.draw(|frame| view.draw(frame, model)).expect("memory");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_string();
    (0..height).map(line).collect()
}

fn plain() -> View {
    View::new(false)
}

#[test]
fn the_smallest_terminal_has_every_panel() {
    let expected = [
        "antiphon receive  played 1:07  from 192.0.2.7:7710 over UDP/",
        "─ Levels in dBFS ──────  ─ Now, and the last minute ───────",
        "1  ████████·│··  -12.3   delay      40.0 ms              ██",
        "2  ████████·│··  -12.3   buffer     37.6 ms              ██",
        "                         jitter     3.2 ms               ██",
        "                         drift      +12 ppm              ██",
        "                         rate       1584 kbit/s          ██",
        "─ Packets, in all and each second of the last minute ──────",
        "lost               3  ··································█··",
        "late               6  ··································█··",
        "repaired           5  ·······························█·····",
        "concealed          3  ··································█··",
        "─ What happened ───────────────────────────────────────────",
        "  0:05  6 packets late: they came after the playout delay of",
        "        40 ms; jitter is 3.2 ms",
        " q ends   p freezes   ? explains",
    ];
    let lines = picture(&plain(), &heard(2), 60, 16);
    assert_eq!(lines, expected, "{lines:#?}");
}

#[test]
fn at_80_x_24_causes_and_remedies_are_whole() {
    let lines = picture(&plain(), &heard(2), 80, 24).join("\n");
    for text in [
        "  0:05  6 packets late: they came after the playout delay of 40 ms; jitter is",
        "        → use --latency 53ms (1 in 1000 late), or auto",
        "  0:05  3 packets lost: the network dropped them",
        "        → use a transport that repairs",
        "  0:00  sound begins: 48000 Hz, 2 channels, l16",
    ] {
        assert!(lines.contains(text), "{text}\n{lines}");
    }
}

#[test]
fn a_large_terminal_shows_more_channels() {
    let lines = picture(&plain(), &heard(12), 140, 40);
    assert!(lines.iter().any(|line| line.starts_with("12 █")), "{lines:#?}");
    let lines = picture(&plain(), &heard(64), 80, 24);
    assert!(lines.iter().any(|line| line.contains(" more; highest of all -12.3")), "{lines:#?}");
}

#[test]
fn a_sender_shows_its_receivers_and_a_call_both_ends() {
    let lines = picture(&plain(), &sending(), 80, 24);
    let text = lines.join("\n");
    assert!(lines[0].starts_with("antiphon send  sent 1:07 of 3:20  to 192.0.2.7:7710"), "{text}");
    assert!(
        lines.iter().any(|line| line == "0000bbbb       3.0 %        1.2           21.3         -"),
        "{text}"
    );
    assert!(text.contains("a receiver of the group lost 3.0 %"), "{text}");
    let lines = picture(&plain(), &talked(), 80, 24);
    let text = lines.join("\n");
    for part in ["you 1", "you 2", "peer 1", "ear < peer 61 ms ±1.3", "ear > peer 65 ms ±1.3", "m mutes"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn a_sender_that_is_called_lists_who_is_there() {
    let receiver = |number: u64, lost| SendReceiver {
        number,
        address: Some(format!("192.0.2.{number}:40112")),
        joined_s: 1.0,
        gone: None,
        packets_sent: 5_000,
        not_sent: 0,
        lost,
        late: lost.map(|_| 2),
        missing_percent: lost.map(|_| 0.1),
        loss_percent: None,
        jitter_ms: None,
        rtt_ms: Some(0.4),
        playout_delay_ms: None,
        capture_to_playout_ms: Some(80.0),
    };
    let receivers_shown = vec![receiver(7, Some(3)), receiver(8, None)];
    let status = SendStatus { receivers: Some(2), receivers_shown, ..sent() };
    let mut model = Model::new(&subject("send", "rtp://:7710"));
    model.on_state(Instant::ZERO, State::Send(Box::new(status)));
    let text = picture(&plain(), &model, 80, 30).join("\n");
    for line in [
        "2 receivers are there",
        "receiver                 lost  late  missing  trip ms  delay ms",
        "192.0.2.7:40112             3     2    0.1 %      0.4      80.0",
        "192.0.2.8:40112             -     -      - %      0.4      80.0",
    ] {
        assert!(text.contains(line), "no '{line}' in\n{text}");
    }
}

#[test]
fn keys_freeze_and_explain() {
    let (mut view, before, mut after) = (plain(), heard(2), heard(2));
    view.on_key(b'p', &before);
    after.on_state(Instant::from_millis(11_000), State::Receive(Box::new(received(2, 99))));
    let frozen = picture(&view, &after, 80, 24);
    assert!(frozen[23].starts_with(" frozen: p goes on"), "{frozen:#?}");
    assert!(frozen[8].starts_with("lost               3"), "{frozen:#?}");
    view.on_key(b'p', &after);
    assert!(picture(&view, &after, 80, 24)[8].starts_with("lost              99"));
    view.on_key(b'?', &after);
    let help = picture(&view, &talked(), 60, 16).join("\n");
    assert!(help.contains("mutes and unmutes this end") && help.contains("highest of a second"), "{help}");
}

#[test]
fn a_terminal_that_is_too_small_says_so() {
    let text = picture(&plain(), &heard(2), 50, 10).join(" ");
    assert!(text.contains("--screen needs 60 x 16 characters; here are 50 x"), "{text}");
}

#[test]
fn words_are_the_same_without_colours() {
    assert_eq!(picture(&View::new(true), &heard(2), 80, 24), picture(&plain(), &heard(2), 80, 24));
    let colours = |coloured| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("memory");
        terminal.draw(|frame| View::new(coloured).draw(frame, &heard(2))).expect("memory");
        let cells = terminal.backend().buffer().content();
        cells.iter().filter(|cell| cell.fg != ratatui::style::Color::Reset).count()
    };
    assert_eq!(colours(false), 0);
    assert!(colours(true) > 0);
}

#[test]
fn curves_end_with_the_newest_second() {
    assert_eq!(curve(&[Some(1.0), Some(8.0)], 60), format!("{}▂█", " ".repeat(58)));
    // The highest of the seconds of a column.
    assert_eq!(curve(&[Some(8.0), Some(0.0)], 30), format!("{}█", " ".repeat(29)));
    assert_eq!(bars(&[0, 4, 0], 60), format!("{}█·", "·".repeat(58)));
    assert_eq!((curve(&[], 0), curve(&[Some(f64::NAN)], 3)), (String::new(), "   ".into()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_size_and_no_figures_panic(
        width in 0_u16..200, height in 0_u16..60, channels in 0_usize..70, count in any::<u64>(),
        x in any::<f64>(), y in any::<f64>(), second in any::<u32>(), help in any::<bool>(), text in "\\PC{0,300}",
    ) {
        let level = ChannelLevel { peak_dbfs: Some(x), held_dbfs: Some(y) };
        let live = LiveFigures {
            peer: Some(text.clone()), peak_dbfs: Some(y), kbit_per_s: Some(x), buffer_ms: y, levels: vec![level; channels],
        };
        let received = ReceiveStatus {
            played_s: x, lost: count, late: count, jitter_rfc3550_ms: Some(y), drift_ppm: Some(x), latency_ms: Some(y),
            trade_off: vec![TradeOff { latency_ms: x, late_percent: y }], live: live.clone(), ..ReceiveStatus::default()
        };
        let sent = SendStatus { sent_s: y, total_s: Some(x), refused: count, expired: count, rtt_ms: Some(x), live, ..sent() };
        let talk = TalkStatus { muted: help, sent: sent.clone(), received: received.clone(), delay: None, parties: None };
        let states =
            [State::Receive(Box::new(received)), State::Send(Box::new(sent)), State::Talk(Box::new(talk))];
        for (state, command) in states.into_iter().zip(["receive", "send", "talk"]) {
            let mut model = Model::new(&subject(command, &text));
            model.log.on_notice(Instant::ZERO, &text);
            model.on_state(Instant::from_millis(u64::from(second)), state);
            let mut view = View::new(help);
            if help {
                view.on_key(b'?', &model);
            }
            picture(&view, &model, width, height);
        }
    }
}
