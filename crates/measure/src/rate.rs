//! Rates and shares: plain arithmetic on counts, defined once so that every table uses the same.

use std::time::Duration;

/// Mean rate in kbit/s (1000 bits).
pub fn kbit_per_s(bytes: u64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| bytes as f64 * 8.0 / 1e3 / time.as_secs_f64())
}

/// Bytes on the wire beyond the media, in percent of the media; negative if packets never reached the wire. `None`
/// without media.
pub fn overhead_percent(wire_bytes: u64, media_bytes: u64) -> Option<f64> {
    (media_bytes > 0).then(|| (wire_bytes as f64 - media_bytes as f64) * 100.0 / media_bytes as f64)
}

/// Milliseconds of processor time per second of stream; `None` if the stream had no length.
pub fn cpu_ms_per_s(cpu: Duration, stream: Duration) -> Option<f64> {
    (!stream.is_zero()).then(|| cpu.as_secs_f64() * 1e3 / stream.as_secs_f64())
}

/// `part` in percent of `whole`; `None` if `whole` is zero.
pub fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_known_streams() {
        // One second of CD sound: 44100 · 2 · 16 bit.
        assert_eq!(kbit_per_s(176_400, Duration::from_secs(2)), Some(705.6));
        assert_eq!(kbit_per_s(1, Duration::ZERO), None);
        assert_eq!(overhead_percent(988, 940), Some(48.0 * 100.0 / 940.0));
        assert_eq!(overhead_percent(1, 0), None);
        assert_eq!(cpu_ms_per_s(Duration::from_millis(30), Duration::from_secs(15)), Some(2.0));
        assert_eq!(percent(1, 0), None);
    }
}
