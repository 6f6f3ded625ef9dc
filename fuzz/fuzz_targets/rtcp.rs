//! RTCP compound packets of unknown sources, read bare and by a session that answers.
#![no_main]

use std::time::Duration;

use antiphon_core::{Epoch, Instant, NtpTime};
use antiphon_media::rtcp::{
    App, ClockQuestion, ClockWord, Delays, PlayoutDelay, ProgrammeAnswer, ProgrammeQuestion, RtcpConfig, RtcpItem,
    RtcpSession, visit_compound,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let epoch = Epoch { ntp_at_zero: NtpTime::from_unix(Duration::from_secs(1_700_000_000)) };
    let config = RtcpConfig::new(7, "fuzz@localhost", 48_000, epoch);
    let mut session = RtcpSession::new(config, 1, Instant::ZERO);
    let mut now = Instant::ZERO;
    let (mut rest, mut own) = (data, [0; 1500]);
    while let [high, low, more @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([high & 0x07, *low]));
        let (packet, behind) = more.split_at(len.min(more.len()));
        rest = behind;
        now += Duration::from_millis(1 << (high >> 4));
        if let Some(app) = App::parse(packet) {
            assert_eq!(app.to_bytes()[..], *packet);
        }
        if let Some(told) = Delays::parse(packet) {
            // Longer times than an hour are told as an hour.
            let again = Delays::parse(&told.to_bytes()).expect("what we write can be read");
            assert_eq!(Delays::parse(&again.to_bytes()), Some(again));
        }
        if let Some(question) = ClockQuestion::parse(packet) {
            assert_eq!(ClockQuestion::parse(&question.to_bytes()), Some(question));
        }
        if let Some((word, answers)) = ClockWord::parse(packet) {
            let answers: Vec<_> = answers.collect();
            let mut again = [0; ClockWord::MOST];
            let len = word.write(&answers, &mut again);
            assert_eq!(ClockWord::parse(&again[..len]).map(|(word, _)| word), Some(word));
        }
        if let Some(question) = ProgrammeQuestion::parse(packet) {
            let mut again = [0; ProgrammeQuestion::MOST];
            let len = question.write(&mut again);
            assert_eq!(ProgrammeQuestion::parse(&again[..len]), Some(question));
        }
        if let Some(answer) = ProgrammeAnswer::parse(packet) {
            let mut again = [0; ProgrammeAnswer::MOST];
            let len = answer.write(&mut again);
            assert!(ProgrammeAnswer::parse(&again[..len]).is_some_and(|read| read.entries.len() <= answer.entries.len()));
        }
        let bare = visit_compound(packet, |item| match item {
            RtcpItem::Sender { blocks, .. } | RtcpItem::Receiver { blocks, .. } => {
                assert!(blocks.count() <= 31)
            }
            RtcpItem::Cname { name, .. } => assert!(name.len() <= 255),
            RtcpItem::Other { packet_type, bytes } => {
                assert!((192..=223).contains(&packet_type) && bytes.len() <= packet.len());
            }
            // Sixteen bits of milliseconds (RFC 7005 §3).
            RtcpItem::Buffered { told, .. } => {
                let bound = PlayoutDelay::Of(Duration::from_millis(1 << 16));
                assert!(told.delay == PlayoutDelay::Unbounded || told.delay < bound);
            }
            RtcpItem::Bye { .. } | RtcpItem::Group { .. } => {}
        });
        assert_eq!(session.handle(now, packet, false, |_| {}), bare);
        session.on_received(now, u32::from(*high), u16::from(*low), len as u32);
        if let Some(len) = session.poll_report(now, &mut own) {
            visit_compound(&own[..len], |_| {}).expect("what we write can be read");
        }
        assert!(session.poll_timeout().is_some());
    }
    if let Some(len) = session.close(now, &mut own) {
        visit_compound(&own[..len], |_| {}).expect("what we write can be read");
    }
});
