//! Keeps a log readable under a fault that lasts: sentences of one kind are told often at first, then ever more rarely, with
//! the number of those left out.

use std::time::Duration;

use antiphon_core::Instant;

/// Decides which notices are told. Notices are of one kind if they differ in numbers, addresses and the like alone.
#[derive(Debug, Default)]
pub struct NoticeLimiter {
    kinds: Vec<Kind>,
}

#[derive(Debug)]
struct Kind {
    words: String,
    /// Told since it last was quiet.
    told: u32,
    /// Left out since one was told.
    left_out: u64,
    last: Instant,
    /// When the last one was told.
    told_at: Instant,
}

impl NoticeLimiter {
    /// Nothing was told yet.
    pub fn new() -> Self {
        NoticeLimiter::default()
    }

    /// What to print of a notice: itself, with a remark on those that were left out before it; or nothing.
    pub fn admit(&mut self, now: Instant, text: &str) -> Option<String> {
        let kind = self.kind(now, words(text));
        if now.since(kind.last) >= QUIET {
            kind.told = 0;
        }
        kind.last = now;
        let since = now.since(kind.told_at);
        if kind.told >= AT_ONCE && since < wait_after(kind.told) {
            kind.left_out += 1;
            return None;
        }
        kind.told += 1;
        kind.told_at = now;
        match std::mem::take(&mut kind.left_out) {
            0 => Some(text.into()),
            count => Some(format!("{text} (and {count} more like it in the last {})", rounded(since))),
        }
    }

    /// How many were left out and have not been mentioned.
    pub fn left_out(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.left_out).sum()
    }

    fn kind(&mut self, now: Instant, words: String) -> &mut Kind {
        let at = self.kinds.iter().position(|kind| kind.words == words).unwrap_or_else(|| {
            // The kinds are those of the program's sentences; what others write into them may make more.
            if self.kinds.len() == MOST_KINDS {
                return MOST_KINDS - 1;
            }
            self.kinds.push(Kind { words, told: 0, left_out: 0, last: now, told_at: now });
            self.kinds.len() - 1
        });
        &mut self.kinds[at]
    }
}

/// The words that do not vary: those without a digit that are no number in hexadecimal either.
fn words(text: &str) -> String {
    let hexadecimal = |word: &str| word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit());
    let varies = |word: &&str| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.contains(|c: char| c.is_ascii_digit()) || hexadecimal(bare)
    };
    text.split_whitespace().filter(|word| !varies(word)).take(MOST_WORDS).collect::<Vec<_>>().join(" ")
}

/// How long the next of a kind waits of which so many were told.
fn wait_after(told: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << (told - AT_ONCE).min(16)).min(LONGEST_WAIT)
}

fn rounded(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

/// So many of a kind are told as they come.
const AT_ONCE: u32 = 5;
/// How long the next one waits; each after it twice as long as the one before.
const FIRST_WAIT: Duration = Duration::from_secs(30);
/// What lasts is told once an hour: 24 lines a day of each kind.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// A kind that was not heard of for so long is new again.
const QUIET: Duration = Duration::from_secs(2 * 3600);
/// Further kinds count as one.
const MOST_KINDS: usize = 64;
/// Words of a sentence by which its kind is told.
const MOST_WORDS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_fault_that_lasts_a_week_is_told_in_some_two_hundred_lines() {
        let mut limiter = NoticeLimiter::new();
        let week = 7 * 24 * 3600;
        // A notice a second, each with another number.
        let told: Vec<u64> = (0..week)
            .filter(|s| limiter.admit(at(*s), &format!("sender {s:08x} is ignored")).is_some())
            .collect();
        assert_eq!(told[..7], [0, 1, 2, 3, 4, 34, 94]);
        assert!((160..=200).contains(&told.len()), "{}", told.len());
        // Nothing is told less often than once an hour.
        assert!(told.windows(2).all(|pair| pair[1] - pair[0] <= 3600));
    }

    #[test]
    fn what_was_left_out_is_counted() {
        let mut limiter = NoticeLimiter::new();
        let told: Vec<String> = (0..40).filter_map(|s| limiter.admit(at(s), "the server is gone")).collect();
        assert_eq!(told.len(), 6);
        assert_eq!(told[5], "the server is gone (and 29 more like it in the last 30 s)");
        assert_eq!(limiter.left_out(), 5);
    }

    #[test]
    fn another_kind_is_not_held_up_and_a_quiet_one_is_new_again() {
        let mut limiter = NoticeLimiter::new();
        (0..100).for_each(|s| drop(limiter.admit(at(s), "the server is gone")));
        assert!(limiter.admit(at(100), "192.0.2.7:5004 streams").is_some());
        let later = at(100 + QUIET.as_secs());
        assert!((0..5).all(|_| limiter.admit(later, "the server is gone").is_some()));
        assert!(limiter.admit(later, "the server is gone").is_none());
    }

    #[test]
    fn kinds_do_not_grow_without_bound() {
        let mut limiter = NoticeLimiter::new();
        let name = |n: u32| {
            n.to_string().chars().map(|digit| char::from(b'g' + digit as u8 - b'0')).collect::<String>()
        };
        let told =
            (0..10_000).filter(|n| limiter.admit(at(0), &format!("{} streams", name(*n))).is_some()).count();
        assert_eq!(limiter.kinds.len(), MOST_KINDS);
        assert!(told < MOST_KINDS + 10, "{told}");
    }
}
