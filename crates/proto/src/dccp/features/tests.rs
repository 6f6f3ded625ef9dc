//! Both ends of a negotiation, and their handling of invalid options.

use super::*;
use crate::dccp::wire::{DccpOption, Options};

const SECOND: Duration = Duration::from_secs(1);

/// Carries the options of `from` to `to` in packet `seq`, acknowledging `ack`.
fn carry(
    from: &mut Features,
    to: &mut Features,
    seq: u64,
    ack: u64,
    to_server: bool,
) -> Result<usize, ResetCode> {
    let mut options = OptionWriter::default();
    from.write(Instant::ZERO, Seq48::new(seq), SECOND, false, &mut options);
    let mut count = 0;
    for option in Options::new(options.padded()) {
        let DccpOption::Feature { verb, feature, value } = option.read() else { panic!("{option:?}") };
        let (seq, ack) = (Seq48::new(seq), Some(Seq48::new(ack)));
        to.on_option(verb, feature, value, Arrival { seq, ack, mandatory: false, is_server: to_server })?;
        count += 1;
    }
    to.on_packet_read(Seq48::new(seq));
    Ok(count)
}

fn pair() -> (Features, Features) {
    let (mut client, mut server) = (Features::new(), Features::new());
    client.start(Seq48::new(100), Some(Seq48::new(500)));
    server.start(Seq48::new(500), Some(Seq48::new(100)));
    (client, server)
}

#[test]
fn the_servers_order_decides_what_the_client_offers() {
    let (mut client, mut server) = pair();
    client.prefer(Location::Local, CCID, &[2, 3]);
    server.prefer(Location::Remote, CCID, &[3, 2]);
    client.ask(Location::Local, CCID);
    client.tell(SEQUENCE_WINDOW, 1024);
    assert_eq!(carry(&mut client, &mut server, 100, 0, true), Ok(2));
    assert_eq!(server.value(Location::Remote, CCID), 3);
    assert_eq!(server.value(Location::Remote, SEQUENCE_WINDOW), 1024);
    assert_eq!(client.value(Location::Local, SEQUENCE_WINDOW), 100, "until it is confirmed");
    assert_eq!(carry(&mut server, &mut client, 501, 100, false), Ok(2));
    assert_eq!(client.value(Location::Local, CCID), 3);
    assert_eq!(client.value(Location::Local, SEQUENCE_WINDOW), 1024);
    assert!(!client.is_due(Instant::ZERO + 100 * SECOND) && client.poll_timeout().is_none());
    assert_eq!(carry(&mut server, &mut client, 502, 101, false), Ok(0), "a Confirm is never repeated");
}

#[test]
fn a_repetition_is_no_news_and_a_confirm_owed_is() {
    let (mut client, mut server) = pair();
    client.ask(Location::Remote, SEND_ACK_VECTOR);
    assert!(client.is_news());
    assert_eq!(carry(&mut client, &mut server, 100, 0, true), Ok(1));
    let later = Instant::ZERO + 2 * SECOND;
    assert!(client.is_due(later) && !client.is_news() && server.is_news());
    let [mut whole, mut brief] = [OptionWriter::default(), OptionWriter::default()];
    server.write_confirms(false, &mut whole);
    server.write_confirms(true, &mut brief);
    // Value alone, or value and preferences; still owed after either.
    assert_eq!((brief.padded(), whole.written()), (&[33, 4, SEND_ACK_VECTOR, 1][..], 6));
    assert!(server.is_news());
    assert_eq!(carry(&mut server, &mut client, 501, 100, false), Ok(1));
    assert!(!server.is_news() && client.value(Location::Remote, SEND_ACK_VECTOR) == 1);
}

#[test]
fn a_change_is_repeated_at_doubling_distances_until_confirmed() {
    let (mut client, _) = pair();
    client.ask(Location::Remote, SEND_ACK_VECTOR);
    let mut at = Instant::ZERO;
    for n in 0..4u32 {
        let mut options = OptionWriter::default();
        client.write(at, Seq48::new(100), SECOND, false, &mut options);
        assert_eq!(options.padded(), [34, 5, 6, 1, 0, 0, 0, 0], "Change R(Send Ack Vector; 1, 0)");
        assert_eq!(client.poll_timeout(), Some(at + (1 << n) * SECOND));
        at += (1 << n) * SECOND;
    }
}

#[test]
fn old_and_overtaken_options_are_ignored() {
    let (mut client, mut server) = pair();
    let arrival = |seq, ack, mandatory| Arrival {
        seq: Seq48::new(seq),
        ack: Some(Seq48::new(ack)),
        mandatory,
        is_server: true,
    };
    server.on_packet_read(Seq48::new(110));
    server.on_option(FeatureVerb::ChangeL, SEND_NDP_COUNT, &[1], arrival(105, 500, false)).unwrap();
    assert_eq!(server.value(Location::Remote, SEND_NDP_COUNT), 0, "overtaken");
    server.on_option(FeatureVerb::ChangeL, SEND_NDP_COUNT, &[1], arrival(111, 500, false)).unwrap();
    assert_eq!(server.value(Location::Remote, SEND_NDP_COUNT), 1);
    // A Confirm for something that was never asked, and one that answers an older Change.
    client.tell(SEQUENCE_WINDOW, 640);
    client.write(Instant::ZERO, Seq48::new(120), SECOND, false, &mut OptionWriter::default());
    let value = [0, 0, 0, 0, 2, 0x80];
    client.on_option(FeatureVerb::ConfirmR, SEQUENCE_WINDOW, &value, arrival(510, 119, false)).unwrap();
    assert_eq!(client.value(Location::Local, SEQUENCE_WINDOW), 100);
    client.on_option(FeatureVerb::ConfirmR, SEQUENCE_WINDOW, &value, arrival(510, 120, false)).unwrap();
    assert_eq!(client.value(Location::Local, SEQUENCE_WINDOW), 640);
}

/// Linux 6.1 takes Changes of an open connection in the order in which they arrive, and confirms each.
#[test]
fn a_confirm_of_an_overtaken_change_breaks_nothing() {
    let (mut client, _) = pair();
    let tell = |client: &mut Features, ratio, seq| {
        client.tell(ACK_RATIO, ratio);
        client.write(Instant::ZERO, Seq48::new(seq), SECOND, false, &mut OptionWriter::default());
    };
    let confirm = |client: &mut Features, ratio, seq| {
        let (seq, ack) = (Seq48::new(seq), Some(Seq48::new(103)));
        let arrival = Arrival { seq, ack, mandatory: false, is_server: false };
        client.on_option(FeatureVerb::ConfirmR, ACK_RATIO, &[0, ratio], arrival)
    };
    tell(&mut client, 4, 102);
    tell(&mut client, 3, 103);
    assert_eq!(confirm(&mut client, 4, 510), Ok(()));
    assert_eq!(client.value(Location::Local, ACK_RATIO), 2, "not what is wanted");
    assert!(client.poll_timeout().is_some(), "the Change is still under way");
    assert_eq!(confirm(&mut client, 3, 511), Ok(()));
    assert_eq!(client.value(Location::Local, ACK_RATIO), 3);
    assert_eq!(confirm(&mut client, 4, 512), Ok(()));
    assert!(client.is_due(Instant::ZERO), "the peer has the older value now: asked again");
    let arrival =
        Arrival { seq: Seq48::new(513), ack: Some(Seq48::new(103)), mandatory: false, is_server: false };
    tell(&mut client, 5, 103);
    let error = client.on_option(FeatureVerb::ConfirmR, ACK_RATIO, &[5], arrival);
    assert_eq!(error, Err(ResetCode::OPTION_ERROR), "of the wrong length");
}

#[test]
fn nonsense_is_answered_as_the_rfc_says() {
    let (mut client, mut server) = pair();
    let arrival =
        |mandatory| Arrival { seq: Seq48::new(101), ack: Some(Seq48::new(500)), mandatory, is_server: true };
    // Unknown features and impossible values: an empty Confirm; behind Mandatory: a Reset.
    server.on_option(FeatureVerb::ChangeL, 77, &[1], arrival(false)).unwrap();
    server.on_option(FeatureVerb::ChangeL, SEQUENCE_WINDOW, &[0, 0, 0, 0, 0, 5], arrival(false)).unwrap();
    assert_eq!(
        server.on_option(FeatureVerb::ChangeL, 77, &[1], arrival(true)),
        Err(ResetCode::MANDATORY_ERROR)
    );
    let mut options = OptionWriter::default();
    server.write(Instant::ZERO, Seq48::new(501), SECOND, false, &mut options);
    assert_eq!(options.padded(), [35, 3, 77, 35, 3, 3, 0, 0]);
    // A Confirm of what was not asked for.
    client.tell(SEQUENCE_WINDOW, 640);
    let wrong = [0, 0, 0, 0, 2, 0x81];
    let error = client.on_option(FeatureVerb::ConfirmR, SEQUENCE_WINDOW, &wrong, arrival(false));
    assert_eq!(error, Ok(()), "acknowledges less than the Change: ignored");
    client.write(Instant::ZERO, Seq48::new(100), SECOND, false, &mut OptionWriter::default());
    let at = Arrival { seq: Seq48::new(501), ..arrival(false) };
    let error = client.on_option(FeatureVerb::ConfirmR, SEQUENCE_WINDOW, &wrong, at);
    assert_eq!(error, Err(ResetCode::OPTION_ERROR));
}
