//! What users write: URIs and quantities. What was understood is written and understood again.
#![no_main]

use antiphon_core::units::{format_duration, parse_duration, parse_frequency};
use antiphon_core::uri::Uri;
use antiphon_core::{BitRate, ByteCount, Ppm, Ratio};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(uri) = text.parse::<Uri>() {
        let written = uri.to_string();
        let again: Uri =
            written.parse().unwrap_or_else(|error| panic!("{text:?} became {written:?}: {error}"));
        assert_eq!(again, uri, "{written:?}");
        let _known = uri.query.only(["latency", "loss"]);
    }
    if let Ok(duration) = parse_duration(text) {
        let written = format_duration(duration);
        let again = parse_duration(&written).unwrap_or_else(|error| panic!("{written:?}: {error}"));
        // Written with six digits at least.
        let off = again.abs_diff(duration).as_secs_f64();
        assert!(off <= duration.as_secs_f64() * 1e-3 + 1e-9, "{duration:?} became {again:?}");
    }
    let _frequency = parse_frequency(text);
    macro_rules! understood_again {
        ($($unit:ty)*) => { $(
            if let Ok(value) = text.parse::<$unit>() {
                let written = value.to_string();
                assert!(written.parse::<$unit>().is_ok(), "{text:?} became {written:?}");
            }
        )* };
    }
    understood_again!(BitRate ByteCount Ppm Ratio);
});
