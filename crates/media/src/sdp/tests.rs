use super::*;
use proptest::prelude::*;

fn options() -> SdpOptions {
    SdpOptions {
        name: "Antiphon".into(),
        session_id: 3_900_000_000,
        origin: "192.0.2.1".parse().unwrap(),
        ttl: 4,
    }
}

#[test]
fn writes_what_players_expect() {
    let mut stream: StreamDescription = "l24/48000/2".parse().unwrap();
    stream.address = Some("239.1.2.3".parse().unwrap());
    stream.port = Some(5004);
    stream.source = Some("192.0.2.1".parse().unwrap());
    stream.ptime = Some(Duration::from_nanos(5_333_333));
    stream.reference_clock = Some("ntp=/traceable/".into());
    stream.media_clock = Some(MediaClock::Direct(77));
    let expected = "v=0\r\no=- 3900000000 1 IN IP4 192.0.2.1\r\ns=Antiphon\r\nc=IN IP4 239.1.2.3/4\r\nt=0 0\r\n\
        m=audio 5004 RTP/AVP 96\r\na=rtpmap:96 L24/48000/2\r\na=ptime:5.333\r\na=recvonly\r\na=rtcp-mux\r\n\
        a=source-filter: incl IN IP4 239.1.2.3 192.0.2.1\r\na=extmap:1 urn:ietf:params:rtp-hdrext:ntp-64\r\n\
        a=extmap:2 urn:x-antiphon:rtp-hdrext:format\r\na=ts-refclk:ntp=/traceable/\r\na=mediaclk:direct=77\r\n";
    assert_eq!(stream.to_sdp(&options()), expected);
    // Microseconds are as much of a packet's time as is written.
    stream.ptime = Some(Duration::from_micros(5_333));
    assert_eq!(StreamDescription::from_sdp(expected.as_bytes()).unwrap(), stream);
    assert_eq!(stream.ptp_offset(), None, "it is no PTP clock");
}

/// As AES67 devices write them: the clock of the session and of the media, with the grandmaster's domain.
#[test]
fn time_stamps_that_count_a_ptp_clock_are_told_from_others() {
    let read = |of_session: &str, of_media: &str| {
        let text = format!(
            "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=x\r\nt=0 0\r\n{of_session}m=audio 5004 RTP/AVP 98\r\n\
             a=rtpmap:98 L24/48000/8\r\n{of_media}"
        );
        StreamDescription::from_sdp(text.as_bytes()).unwrap().ptp_offset()
    };
    let ptp = "a=ts-refclk:ptp=IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0:0\r\n";
    assert_eq!(read("", &format!("{ptp}a=mediaclk:direct=963214424\r\n")), Some(963_214_424));
    assert_eq!(read(ptp, "a=mediaclk:direct=0\r\n"), Some(0));
    assert_eq!(read("", "a=ts-refclk:ptp=IEEE1588-2008:traceable\r\na=mediaclk:direct=7\r\n"), Some(7));
    for other in [
        "a=mediaclk:sender\r\n",
        "a=mediaclk:direct=4294967296\r\n",
        "a=mediaclk:direct=-1\r\n",
        "a=mediaclk:direct=0 rate=1000/1001\r\n",
        "",
    ] {
        assert_eq!(read(ptp, other), None, "{other}");
    }
    assert_eq!(read("a=ts-refclk:ntp=/traceable/\r\n", "a=mediaclk:direct=0\r\n"), None);
    assert_eq!(read("", "a=mediaclk:direct=0\r\n"), None);
}

/// Formatted as ffmpeg writes it: no rtcp-mux, a session name with spaces, an attribute before the media.
#[test]
fn reads_the_layout_of_ffmpeg() {
    let text = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=No Name\nc=IN IP4 127.0.0.1\nt=0 0\na=tool:libavformat\n\
        m=audio 7710 RTP/AVP 97\nb=AS:1536\na=rtpmap:97 L16/48000/2\n";
    let stream = StreamDescription::from_sdp(text.as_bytes()).unwrap();
    assert_eq!((stream.coding, stream.payload_type, stream.port), (SampleFormat::L16.into(), 97, Some(7710)));
    assert_eq!((stream.format.rate(), stream.format.channels()), (48_000, 2));
    assert_eq!(stream.address, Some("127.0.0.1".parse().unwrap()));
    assert!(!stream.rtcp_mux && stream.extensions == ExtensionIds::NONE);
}

#[test]
fn static_types_need_no_map_and_others_are_passed_over() {
    let text = "v=0\r\nm=video 1 RTP/AVP 31\r\nm=audio 5006 RTP/AVP 111 0 8\r\na=rtpmap:111 G722/8000\r\n\
        c=IN IP6 ff15::1\r\na=extmap:3/sendonly urn:ietf:params:rtp-hdrext:ntp-64\r\n";
    let stream = StreamDescription::from_sdp(text.as_bytes()).unwrap();
    assert_eq!(
        (stream.coding, stream.payload_type, stream.format.rate()),
        (SampleFormat::MuLaw.into(), 0, 8_000)
    );
    assert_eq!(stream.address, Some("ff15::1".parse().unwrap()));
    assert_eq!(stream.extensions, ExtensionIds { ntp: Some(3), ..ExtensionIds::NONE });
}

#[test]
fn refusals_name_the_remedy() {
    let error = |text: &str| StreamDescription::from_sdp(text.as_bytes()).unwrap_err().to_string();
    assert!(error("RIFF....WAVE").contains("v=0"));
    assert!(error("v=0\nm=video 1 RTP/AVP 31\n").contains("m=audio"));
    assert!(error("v=0\nm=audio 1 RTP/SAVP 0\n").contains("unencrypted"));
    let other = error("v=0\nm=audio 1 RTP/AVP 111\na=rtpmap:111 G722/8000\n");
    assert!(other.contains("G722/8000") && other.contains("L16"), "{other}");
    assert!(error("v=0\nm=audio 1 RTP/AVP 96\na=rtpmap:96 L16/4000/1\n").contains("8kHz to 192kHz"));
    assert!(error(&"v".repeat(70_000)).contains("too long"));
    let short = |text: &str| text.parse::<StreamDescription>().unwrap_err().to_string();
    assert!(short("l16").contains("l16/48000/2"));
    assert!(short("l17/48000/2").contains("did you mean 'l16'"));
    assert!(short("l16/48k/2").contains("SAMPLE/RATE/CHANNELS"));
    assert!(short("l16/48000/2/1").contains("SAMPLE/RATE/CHANNELS"));
    let mulaw: StreamDescription = "mulaw/8000".parse().unwrap();
    assert_eq!(mulaw.payload_type, 0);
    assert!(mulaw.clone().with_payload_type(72).unwrap_err().to_string().contains("96 to 127"));
    assert_eq!(mulaw.with_payload_type(100).unwrap().payload_type, 100);
}

#[test]
fn opus_is_described_as_rfc_7587_has_it() {
    let mut stream: StreamDescription = "opus/48000/2".parse().unwrap();
    stream.ptime = Some(Duration::from_micros(2_500));
    let text = stream.to_sdp(&options());
    let expected = "m=audio 5004 RTP/AVP 96\r\na=rtpmap:96 opus/48000/2\r\na=fmtp:96 stereo=1;sprop-stereo=1\r\n\
        a=ptime:2.5\r\na=maxptime:2.5\r\n";
    assert!(text.contains(expected), "{text}");
    assert_eq!(StreamDescription::from_sdp(text.as_bytes()).unwrap().format, stream.format);
    let mono: StreamDescription = "opus/48000".parse().unwrap();
    let text = mono.to_sdp(&options());
    assert!(text.contains("opus/48000/2\r\na=fmtp:96 stereo=0;sprop-stereo=0\r\n"), "{text}");
    assert_eq!(StreamDescription::from_sdp(text.as_bytes()).unwrap().format, mono.format);
    for refused in ["opus/44100/2", "opus/48000/6"] {
        assert!(refused.parse::<StreamDescription>().is_err(), "{refused}");
    }
}

#[test]
fn opus_of_others_has_the_channels_that_it_may_have() {
    let channels = |parameters: &str| {
        let text = format!("v=0\nm=audio 5004 RTP/AVP 97\na=rtpmap:97 OPUS/48000/2\n{parameters}\n");
        let stream = StreamDescription::from_sdp(text.as_bytes()).unwrap();
        assert_eq!((stream.coding, stream.format.rate()), (Coding::Opus, 48_000));
        stream.format.channels()
    };
    assert_eq!(channels("a=fmtp:97 sprop-stereo=1"), 2);
    assert_eq!(channels("a=fmtp:97 minptime=10; useinbandfec=1; sprop-stereo=0"), 1);
    assert_eq!((channels("a=ptime:20"), channels("a=fmtp:96 sprop-stereo=0")), (2, 2));
}

#[test]
fn describes_what_a_packetiser_sends() {
    let format = StreamFormat::new(48_000, 2).unwrap();
    // 256 sample frames of 24-bit stereo go in two packets.
    let config = PacketConfig { payload_type: 99, ..PacketConfig::new(format, SampleFormat::L24, 256) };
    let text = StreamDescription::of(&config).unwrap().to_sdp(&options());
    assert!(text.contains("a=rtpmap:99 L24/48000/2") && text.contains("a=ptime:2.667"), "{text}");
}

#[test]
fn any_is_no_address_to_listen_for() {
    let stream: StreamDescription = "l16/48000/2".parse().unwrap();
    let text = stream.to_sdp(&options());
    assert!(text.contains("c=IN IP4 0.0.0.0"));
    assert_eq!(StreamDescription::from_sdp(text.as_bytes()).unwrap().address, None);
}

#[test]
fn a_name_cannot_smuggle_lines() {
    let stream: StreamDescription = "l16/48000/2".parse().unwrap();
    let text = stream.to_sdp(&SdpOptions { name: "x\r\nm=audio 1 RTP/AVP 0".into(), ..options() });
    assert_eq!(text.matches("\r\nm=").count(), 1);
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        coding in 0usize..5, rate in 8_000u32..=192_000, channels in 1u32..=64, port in 1u16..,
        group in any::<bool>(), ms in 1u64..200, dynamic in 96u32..=127, mux in any::<bool>(),
    ) {
        let format = StreamFormat::new(rate, channels).unwrap();
        let mut stream = StreamDescription::new(SampleFormat::ALL[coding], format).with_payload_type(dynamic).unwrap();
        stream.port = Some(port);
        stream.ptime = Some(Duration::from_millis(ms));
        stream.rtcp_mux = mux;
        stream.address = Some(if group { "ff15::7" } else { "198.51.100.9" }.parse().unwrap());
        stream.source = group.then(|| "2001:db8::1".parse().unwrap());
        prop_assert_eq!(StreamDescription::from_sdp(stream.to_sdp(&options()).as_bytes()), Ok(stream));
    }

    #[test]
    fn no_text_panics(lines in prop::collection::vec("[a-z]=[ -~]{0,40}|a=(rtpmap|extmap|ptime|source-filter):[ -~]{0,30}|m=audio [0-9]{1,5} RTP/AVP [0-9 ]{0,9}|.{0,20}", 0..12)) {
        let text = format!("v=0\r\n{}", lines.join("\r\n"));
        let _ = StreamDescription::from_sdp(text.as_bytes());
        let _ = text.parse::<StreamDescription>();
    }
}

#[test]
fn groups_are_described_together() {
    let format = StreamFormat::new(48_000, 4).unwrap();
    let config = PacketConfig::new(format, SampleFormat::L16, 256);
    let groups = crate::ChannelGroups::parse(4, "1,3").unwrap();
    let made = crate::packet::Packetiser::for_groups(config, groups, 5).unwrap();
    let described: Vec<_> = made.iter().map(|p| StreamDescription::of(p.config()).unwrap()).collect();
    let ssrcs: Vec<u32> = made.iter().map(crate::packet::Packetiser::ssrc).collect();
    let text = sdp_of(&described, &ssrcs, "me", &options());
    assert!(text.contains("a=group:LS 1 2\r\n") && text.contains("a=group:BUNDLE 1 2\r\n"));
    assert_eq!((text.matches("\r\nm=audio 5004 RTP/AVP ").count(), text.matches("a=mid:").count()), (2, 2));
    assert!(text.contains("a=rtpmap:96 L16/48000\r\n") && text.contains("a=rtpmap:97 L16/48000/3\r\n"));
    for ssrc in &ssrcs {
        assert!(text.contains(&format!("a=ssrc:{ssrc} cname:me\r\n")));
    }
    assert!(text.contains(&format!("a=extmap:3 {}\r\n", ExtensionIds::GROUP_URI)));
    let read = StreamDescription::from_sdp(text.as_bytes()).unwrap();
    let sent = ExtensionIds { group: Some(3), ..ExtensionIds::UNDIVIDED };
    assert!(read.is_part && read.extensions == sent, "{:?}", read.extensions);
    // Synchronised with video, or alone, the stream holds all of the sound.
    let with_picture = text.replacen("m=audio 5004 RTP/AVP 97", "m=video 5004 RTP/AVP 97", 1);
    assert!(!StreamDescription::from_sdp(with_picture.as_bytes()).unwrap().is_part);
    assert!(!StreamDescription::from_sdp(described[0].to_sdp(&options()).as_bytes()).unwrap().is_part);
}
