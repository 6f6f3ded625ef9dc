//! RTP packets of unknown sources: parsed, unwrapped, decoded, in every sample format; pieces of data told apart.
#![no_main]

use antiphon_media::packet::{Depacketiser, ExtensionIds, MOST_DATA, classify, parse_data, parse_rtp};
use antiphon_media::{SampleFormat, StreamFormat};
use libfuzzer_sys::fuzz_target;

const SAMPLES: [SampleFormat; 5] =
    [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32, SampleFormat::MuLaw, SampleFormat::ALaw];

// Two bytes choose the stream, the rest is cut into packets by length bytes.
fuzz_target!(|data: &[u8]| {
    let [sample, channels, rest @ ..] = data else { return };
    let mut rest = rest;
    let format = StreamFormat::new(48_000, 1 + u32::from(channels % 64)).expect("a possible format");
    let sample = SAMPLES[usize::from(*sample) % SAMPLES.len()];
    let ids = ExtensionIds {
        ntp: Some(1 + channels % 14),
        format: Some(1 + (channels / 14) % 14),
        group: Some(1 + channels % 13),
        ..ExtensionIds::default()
    };
    let mut depacketiser = Depacketiser::new(format, sample);
    let mut out = vec![0.0; 4096];
    while let [len, more @ ..] = rest {
        let (packet, behind) = more.split_at(usize::from(*len).min(more.len()));
        rest = behind;
        let _kind = classify(packet);
        let Ok(view) = parse_rtp(packet, ids) else { continue };
        assert!(view.payload.len() <= packet.len() && view.payload_type < 128);
        if let Some((_, place, bytes)) = parse_data(&view) {
            assert!(place.offset < MOST_DATA && bytes.len() < view.payload.len());
        }
        let Ok(media) = depacketiser.accept(&view) else { continue };
        assert!(media.frames > 0 && media.frames * format.channels() * sample.bytes() == media.payload.len());
        for skip in [0, 1, media.frames - 1, media.frames, usize::from(*len)] {
            let whole = out.len() / format.channels() * format.channels();
            let written = media.decode(skip, &mut out[..whole]);
            assert_eq!(written, media.frames.saturating_sub(skip).min(whole / format.channels()));
        }
    }
});
