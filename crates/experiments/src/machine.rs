//! Describes the machine on which figures were measured.

use antiphon_net::OsClock;

/// The processor, how many of them, the kernel and today's date (UTC), as far as they are known: "AMD EPYC 7763, 2
/// processors, Linux 6.1.0, 2026-03-01".
pub(super) fn describe() -> String {
    let processor = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| model_name(&text));
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    // Without this file the sentence has no release.
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    let release = release.map_or(String::new(), |release| format!(" {}", release.trim()));
    let system = match std::env::consts::OS {
        "linux" => "Linux",
        other => other,
    };
    let clock = OsClock::new();
    let seconds = clock.epoch().ntp(clock.now()).to_bits() >> 32;
    let (year, month, day) = date(seconds.saturating_sub(NTP_TO_UNIX) / 86_400);
    let processor = processor.unwrap_or_else(|| std::env::consts::ARCH.into());
    let plural = if count == 1 { "" } else { "s" };
    format!("{processor}, {count} processor{plural}, {system}{release}, {year}-{month:02}-{day:02}")
}

/// The model name in `/proc/cpuinfo`, short enough for a sentence.
fn model_name(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    let name: String = line.split_once(':')?.1.trim().chars().take(80).collect();
    (!name.is_empty()).then_some(name)
}

/// Year, month and day of a day counted from 1970-01-01 (proleptic Gregorian, after Hinnant's `civil_from_days`).
fn date(days: u64) -> (u64, u64, u64) {
    // From 0000-03-01, in eras of 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month < 3), month, day)
}

/// Seconds from 1900, where NTP begins, to 1970 (RFC 5905 §6).
const NTP_TO_UNIX: u64 = 2_208_988_800;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (15_705, (2012, 12, 31)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn a_processor_is_found_or_left_out() {
        let text = "processor\t: 0\nmodel name\t: AMD Athlon(tm) II Neo K125\nflags\t: fpu\n";
        assert_eq!(model_name(text).as_deref(), Some("AMD Athlon(tm) II Neo K125"));
        assert_eq!(model_name("model name\t:\n"), None);
        assert_eq!(model_name("CPU architecture: 8\n"), None);
        let told = describe();
        assert!(told.contains(" processor") && !told.contains(" ,"), "{told}");
    }
}
