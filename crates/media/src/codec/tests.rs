use super::*;
use proptest::prelude::*;

fn there_and_back(format: SampleFormat, bytes: &[u8]) -> Vec<u8> {
    let mut samples = vec![0.0; bytes.len() / format.bytes()];
    assert_eq!(decode(format, bytes, &mut samples), samples.len());
    let mut out = vec![0; bytes.len()];
    assert_eq!(encode(format, &samples, &mut out), out.len());
    out
}

#[test]
fn every_16_bit_sample_passes_unchanged() {
    let bytes: Vec<u8> = (i16::MIN..=i16::MAX).flat_map(i16::to_be_bytes).collect();
    assert_eq!(there_and_back(SampleFormat::L16, &bytes), bytes);
}

/// Output values of ITU-T G.711 table 2a (mu-law, positive), the ends of all segments.
#[test]
fn mulaw_agrees_with_the_recommendation() {
    let published = [
        (0x80, 8031),
        (0x8f, 4191),
        (0x9f, 2079),
        (0xaf, 1023),
        (0xbf, 495),
        (0xcf, 231),
        (0xdf, 99),
        (0xef, 33),
        (0xfe, 2),
        (0xff, 0),
    ];
    for (code, value) in published {
        assert_eq!(MULAW[code], value * 4, "code {code:#x}");
        assert_eq!(MULAW[code ^ 0x80], -value * 4, "code {code:#x} negative");
    }
}

/// Output values of ITU-T G.711 table 1a (A-law, positive), even bits inverted as on the line.
#[test]
fn alaw_agrees_with_the_recommendation() {
    let published = [
        (0xaa, 4032),
        (0xa5, 2112),
        (0xb5, 1056),
        (0x85, 528),
        (0x95, 264),
        (0xe5, 132),
        (0xf5, 66),
        (0xd5, 1),
    ];
    for (code, value) in published {
        assert_eq!(ALAW[code], value * 8, "code {code:#x}");
        assert_eq!(ALAW[code ^ 0x80], -value * 8, "code {code:#x} negative");
    }
}

#[test]
fn every_code_of_both_laws_comes_back() {
    for code in 0..=255u8 {
        assert_eq!(alaw_encode(ALAW[usize::from(code)]), code);
        // Mu-law has two zeros; both come back as the positive one.
        let expected = if code == 0x7f { 0xff } else { code };
        assert_eq!(mulaw_encode(MULAW[usize::from(code)]), expected);
    }
}

/// A wrong decision value would choose a code at least four further away, half the smallest step of both laws.
#[test]
fn laws_choose_the_nearest_value_of_the_segment() {
    for n in i16::MIN..=i16::MAX {
        for (table, code) in [(&MULAW, mulaw_encode(n)), (&ALAW, alaw_encode(n))] {
            let error = |code: u8| (i32::from(table[usize::from(code)]) - i32::from(n)).abs();
            let best = (0..16).map(|step| error(code & 0xf0 | step)).min().unwrap();
            assert!(error(code) <= best + 1, "{n} became {code:#x}");
        }
    }
}

/// Steps double per segment: half of one is at most 1/32 of the magnitude, or half the smallest step. A wrong segment is off by
/// a quarter of the magnitude at least. Mu-law clips above 32 635, A-law above 32 767.
#[test]
fn no_value_is_off_by_more_than_half_a_step() {
    for value in i16::MIN..=i16::MAX {
        let magnitude = i32::from(value).abs();
        for (back, clip, floor) in [
            (mulaw_expand(mulaw_encode(value)), 32_124 + 512, 4),
            (alaw_expand(alaw_encode(value)), 32_767, 8),
        ] {
            let error = (i32::from(back) - i32::from(value).clamp(-clip, clip)).abs();
            assert!(error <= (magnitude + 132) / 32 + floor, "{value} became {back}");
        }
    }
}

#[test]
fn what_no_integer_holds_is_clamped_and_nan_is_silent() {
    let wild = [2.0, -2.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0, -1.0];
    let read = |format| {
        let (mut bytes, mut back) = ([0; 28], [0.0; 7]);
        let len = encode(format, &wild, &mut bytes);
        decode(format, &bytes[..len], &mut back);
        back
    };
    let top = 1.0 - 1.0 / 32_768.0;
    assert_eq!(read(SampleFormat::L16), [top, -1.0, top, -1.0, 0.0, top, -1.0]);
    let top = 1.0 - 1.0 / 8_388_608.0;
    assert_eq!(read(SampleFormat::L24), [top, -1.0, top, -1.0, 0.0, top, -1.0]);
    assert_eq!(read(SampleFormat::F32), [2.0, -2.0, 0.0, 0.0, 0.0, 1.0, -1.0]);
    let top = 32_124.0 / 32_768.0;
    assert_eq!(read(SampleFormat::MuLaw), [top, -top, top, -top, 0.0, top, -top]);
}

/// Truncation or rounding half up would be off by one in half or in some of the cases.
#[test]
fn rounding_is_to_the_nearest_and_to_even() {
    for n in -200_000..200_000 {
        let x = n as f32 / 4.0 / SCALE_16;
        let expected = (n as f32 / 4.0).round_ties_even().clamp(-32_768.0, 32_767.0);
        assert_eq!(f32::from(to_i16(x)), expected, "{n}");
    }
    for n in (-70_000_000..70_000_000).step_by(997) {
        let x = n as f32 / 8.0 / SCALE_24;
        let expected = f64::from(n as f32 / 8.0).round_ties_even().clamp(-8_388_608.0, 8_388_607.0);
        assert_eq!(f64::from(to_i24(x)), expected, "{n}");
    }
}

#[test]
fn short_buffers_and_torn_samples_are_left_out() {
    let mut out = [0; 5];
    assert_eq!(encode(SampleFormat::L16, &[0.5; 9], &mut out), 4);
    assert_eq!(decode(SampleFormat::L24, &[0; 8], &mut [1.0; 9]), 2);
}

proptest! {
    #[test]
    fn every_24_bit_sample_passes_unchanged(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let whole = &bytes[..bytes.len() / 3 * 3];
        prop_assert_eq!(there_and_back(SampleFormat::L24, whole), whole);
    }

    #[test]
    fn every_finite_float_passes_unchanged(samples in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::ZERO, 1..100)) {
        let bytes: Vec<u8> = samples.iter().flat_map(|x| x.to_be_bytes()).collect();
        prop_assert_eq!(there_and_back(SampleFormat::F32, &bytes), bytes);
    }
}

#[test]
fn sixteen_bits_are_what_a_saturating_cast_gives() {
    let by_cast = |x: f32| (((x * SCALE_16).clamp(-32_768.0, 32_767.0) + ROUND_F32) - ROUND_F32) as i16;
    // Every exponent and sign, infinities and NaN, with many mantissas: the step is a prime.
    for bits in (0..=u32::MAX).step_by(65_537) {
        let x = f32::from_bits(bits);
        assert_eq!(to_i16(x), by_cast(x), "{x}");
    }
    // Halves go to the even neighbour.
    for n in -70_000..70_000 {
        let x = n as f32 / 2.0 / SCALE_16;
        assert_eq!(to_i16(x), by_cast(x), "{x}");
    }
}
