//! Descriptions of pictures by other programs: what is odd in them is an error or is left out, and nothing panics.

use antiphon_media::{SdpOptions, StreamDescription, StreamFormat};
use antiphon_video::{Codec, VideoDescription, VideoSdpError};
use proptest::prelude::*;

const HEAD: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n";

fn read(media: &str) -> Result<VideoDescription, VideoSdpError> {
    VideoDescription::from_sdp(format!("{HEAD}{media}").as_bytes())
}

#[test]
fn the_first_of_several_pictures_that_can_be_unpacked_is_taken() {
    let media = "m=audio 5000 RTP/AVP 0\r\nm=video 5002 RTP/AVP 98\r\na=rtpmap:98 H265/90000\r\n\
                 m=video 5004 RTP/AVP 99 96\r\na=rtpmap:99 theora/90000\r\na=rtpmap:96 VP8/90000\r\n\
                 m=video 5006 RTP/AVP 26\r\n";
    let found = read(media).expect("VP8 is there");
    assert_eq!((found.codec, found.payload_type, found.port), (Codec::Vp8, 96, Some(5004)));
}

#[test]
fn pictures_that_nobody_unpacks_are_named() {
    for (map, named) in [
        ("96 H265/90000", "H265/90000"),
        ("96 H264/48000", "H264/48000"),
        ("96 H264", "H264"),
        ("96 H264/99999999999999999999", "H264/9999"),
        ("97 H264/90000", "96"),
    ] {
        let error = read(&format!("m=video 5004 RTP/AVP 96\r\na=rtpmap:{map}\r\n")).expect_err(map);
        let VideoSdpError::Unsupported { offered } = error else { panic!("{map}: {error}") };
        assert!(offered.starts_with(named), "{map}: {offered}");
    }
    assert!(matches!(read("m=audio 5004 RTP/AVP 0\r\n"), Err(VideoSdpError::NoVideo)));
    // Encrypted.
    assert!(matches!(read("m=video 5004 RTP/SAVP 26\r\n"), Err(VideoSdpError::NoVideo)));
}

#[test]
fn odd_parameters_of_h264_are_left_out() {
    let sets = |parameters: &str| {
        let media =
            format!("m=video 5004 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 {parameters}\r\n");
        read(&media).map(|found| found.config.len())
    };
    assert_eq!(sets("packetization-mode=1"), Ok(0), "they come in the stream");
    assert_eq!(sets("sprop-parameter-sets=Z0IACpZTBYmI,aMljiA=="), Ok(2));
    assert_eq!(sets("sprop-parameter-sets="), Ok(0));
    assert_eq!(sets("sprop-parameter-sets=!!!!,Z0IACpZTBYmI,"), Ok(1), "no base64");
    assert_eq!(sets("sprop-parameter-sets=AAAA;profile-level-id=zzzz"), Ok(0), "no parameter set");
    assert_eq!(sets(&format!("sprop-parameter-sets={}", "Z0IACpZTBYmI,".repeat(500))), Ok(32), "bounded");
    assert!(sets("packetization-mode=2").is_err(), "interleaved");
    assert_eq!(sets("packetization-mode=99999999999"), Ok(0));
}

#[test]
fn absurd_numbers_are_errors() {
    for media in [
        "m=video 70000 RTP/AVP 26\r\n",
        "m=video -1 RTP/AVP 26\r\n",
        "m=video 0 RTP/AVP 26\r\n",
        "m=video 5004 RTP/AVP 300\r\na=rtpmap:300 VP8/90000\r\n",
        "m=video 5004 RTP/AVP\r\n",
        "m=video\r\n",
    ] {
        assert!(read(media).is_err(), "{media}");
    }
    assert!(VideoDescription::from_sdp(&vec![b'a'; 70_000]).is_err());
    // One identifier for two elements: neither is believed.
    let twice = "m=video 5004 RTP/AVP 26\r\na=extmap:3 urn:ietf:params:rtp-hdrext:ntp-64\r\n\
                 a=extmap:3 urn:ietf:params:rtp-hdrext:framemarking\r\n";
    assert_eq!(read(twice).map(|found| (found.ntp, found.marking)), Ok((None, None)));
}

proptest! {
    #[test]
    fn any_lines_are_read_without_panic(
        lines in prop::collection::vec(
            prop_oneof![
                "[vosctbam]=.{0,40}",
                "m=video [0-9]{1,6} RTP/AVPF? [0-9 ]{0,12}",
                "a=(rtpmap|fmtp|extmap|rtcp-fb|mid|group):[0-9]{1,4} [!-~]{0,40}",
                "a=fmtp:96 (sprop-parameter-sets|packetization-mode)=[A-Za-z0-9+/=,]{0,60}",
            ],
            0..20,
        ),
        whole in any::<bool>(),
    ) {
        let text = format!("{}{}\r\n", if whole { HEAD } else { "" }, lines.join("\r\n"));
        let read = VideoDescription::from_sdp(text.as_bytes());
        let memory = read.map_or(0, |read| read.config.iter().map(Vec::len).sum::<usize>());
        prop_assert!(memory <= text.len());
    }

    #[test]
    fn what_is_told_beside_sound_is_read(
        codec in prop::sample::select(Codec::ALL.to_vec()),
        port in 1..=u16::MAX,
        (ntp, marking) in (prop::option::of(1..7u8), prop::option::of(8..14u8)),
        (rtcp_mux, feedback) in any::<(bool, bool)>(),
        address in any::<[u8; 4]>(),
    ) {
        let address = [address[0] % 223 + 1, address[1], address[2], address[3]];
        let described = VideoDescription {
            address: Some(address.into()),
            port: Some(port),
            ntp,
            marking,
            rtcp_mux,
            feedback,
            ..VideoDescription::new(codec)
        };
        let format = StreamFormat::new(48_000, 2).expect("a format");
        let sound = StreamDescription::new(antiphon_media::SampleFormat::L16, format);
        let options = SdpOptions {
            name: "-".into(),
            session_id: 1,
            origin: [127, 0, 0, 1].into(),
            ttl: 1,
        };
        let both = described.add_to(&sound.to_sdp(&options)).expect("our own");
        prop_assert_eq!(VideoDescription::from_sdp(both.as_bytes()), Ok(described));
        prop_assert_eq!(StreamDescription::from_sdp(both.as_bytes()).map(|heard| heard.format), Ok(format));
    }
}
