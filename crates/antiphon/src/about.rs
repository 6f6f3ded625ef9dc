//! What reports and results say of their making: when, by which build, on which machine.

use std::time::Duration;

use antiphon_core::NtpTime;

/// The commit that this was built from, if it was built in its repository.
const COMMIT: Option<&str> = option_env!("ANTIPHON_COMMIT");

/// The version, and the commit where it is known.
pub(crate) fn version() -> String {
    let version = concat!("antiphon ", env!("CARGO_PKG_VERSION"));
    COMMIT.map_or(version.into(), |commit| format!("{version}, based on commit {commit}"))
}

/// A wall time as `2026-11-23 08:30 UTC`.
pub fn date(time: NtpTime) -> String {
    let since_1900 = time.to_bits() >> 32;
    // NTP's seconds wrap in 2036: what seems to lie before 1970 is of the next era (RFC 5905 section 6).
    let era = if since_1900 < NtpTime::UNIX_OFFSET_SECONDS { 1 << 32 } else { 0 };
    let seconds = since_1900 + era - NtpTime::UNIX_OFFSET_SECONDS;
    let (year, month, day) = civil(seconds / 86_400);
    let minutes = seconds % 86_400 / 60;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// Year, month and day so many days after 1970-01-01, in the Gregorian calendar.
///
/// Source: Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`: years begin in March, so that the leap
/// day is their last.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + later, month, day)
}

/// Operating system, kernel, processors; without the machine's name, as reports are passed on.
pub fn machine() -> String {
    // Other systems have no such files: the sentence then leaves the release and the model out.
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    let kernel = kernel.map_or(String::new(), |release| format!(" {}", release.trim()));
    let model = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| model_name(&text));
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let processors = match (count, model) {
        (1, Some(model)) => format!("1 processor ({model})"),
        (count, Some(model)) => format!("{count} processors ({model})"),
        (1, None) => "1 processor".into(),
        (count, None) => format!("{count} processors"),
    };
    let system = match std::env::consts::OS {
        "linux" => "Linux",
        "windows" => "Windows",
        other => other,
    };
    format!("{system}{kernel}, {}, {processors}", std::env::consts::ARCH)
}

/// The model name in `/proc/cpuinfo`, short enough for a sentence.
fn model_name(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    let name: String = line.split_once(':')?.1.trim().chars().take(80).collect();
    (!name.is_empty()).then_some(name)
}

/// A length of time as `20.7 s`.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_by_known_instants() {
        let date_of = |unix: u64| date(NtpTime::from_unix(Duration::from_secs(unix)));
        for (unix, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_356_912_000, "2012-12-31 00:00 UTC"),
            (1_234_567_890, "2009-02-13 23:31 UTC"),
            (4_107_542_399, "2100-02-28 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date_of(unix), expected);
        }
    }

    #[test]
    fn a_processor_is_found_or_left_out() {
        let text = "processor\t: 0\nmodel name\t: AMD Athlon(tm) II Neo K125\nflags\t: fpu\n";
        assert_eq!(model_name(text).as_deref(), Some("AMD Athlon(tm) II Neo K125"));
        assert_eq!(model_name("model name\t:\n"), None);
        assert_eq!(model_name("CPU architecture: 8\n"), None);
        assert!(machine().contains(" processor") && !machine().contains(" ,"), "{}", machine());
    }

    #[test]
    fn the_machine_is_told_in_a_line() {
        let machine = machine();
        assert!(machine.contains("processor") && !machine.contains('\n'), "{machine}");
        assert!(version().starts_with("antiphon "));
    }
}
