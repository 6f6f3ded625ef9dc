//! Whether each receiver hears TV sound as it should: within 80 ms of the picture, and with under 1.8 % missing.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_measure::LipSync;
use antiphon_session::{Hearing, Session};

/// Who is watched: a receiver that has called, by its number, or a member by its SSRC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Who {
    Receiver(u64),
    Member(u32),
}

/// What has become worse, or good again, for a receiver.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Verdict {
    /// So many percent are missing.
    Missing(f64),
    /// Its sound is so late.
    Late(Duration),
    /// Both are as they should be again.
    Good,
}

/// Judges each receiver by what it tells. On the media thread: allocates nothing after it began.
pub(crate) struct TvWatch {
    known: Vec<Known>,
    next: Instant,
}

#[derive(Clone, Copy)]
struct Known {
    who: Who,
    heard: Hearing,
    missing: bool,
    late: bool,
    seen: Instant,
}

/// Verdicts of one look.
pub(crate) type Verdicts = [Option<(Who, Verdict)>; MOST_VERDICTS];

impl TvWatch {
    pub fn new() -> Self {
        TvWatch { known: Vec::with_capacity(MOST_WATCHED), next: Instant::ZERO }
    }

    /// What is new, at most a few at once; the others come with the next look.
    pub fn look(&mut self, now: Instant, session: &Session) -> Verdicts {
        let mut verdicts = [None; MOST_VERDICTS];
        if now < self.next {
            return verdicts;
        }
        self.next = now + LOOK_EVERY;
        let mut free = verdicts.iter_mut();
        if session.served().joined > 0 {
            for receiver in session.receivers().filter(|receiver| receiver.gone.is_none()) {
                let heard = receiver.member.and_then(|member| member.hearing);
                self.judge(now, Who::Receiver(receiver.number), heard, &mut free);
            }
        } else {
            for member in session.members().iter().filter(|member| !member.left) {
                self.judge(now, Who::Member(member.ssrc), member.hearing, &mut free);
            }
        }
        self.known.retain(|known| now.since(known.seen) < FORGET);
        verdicts
    }

    fn judge<'a>(
        &mut self,
        now: Instant,
        who: Who,
        heard: Option<Hearing>,
        free: &mut impl Iterator<Item = &'a mut Option<(Who, Verdict)>>,
    ) {
        let Some(heard) = heard else { return };
        let at = match self.known.binary_search_by_key(&who, |known| known.who) {
            Ok(at) => at,
            Err(_) if self.known.len() == MOST_WATCHED => return,
            Err(at) => {
                let known = Known { who, heard, missing: false, late: false, seen: now };
                return self.known.insert(at, known);
            }
        };
        let known = &mut self.known[at];
        known.seen = now;
        let Some(percent) = missing_percent(known.heard, heard) else { return };
        let missing = percent > LipSync::LOSS_PERCENT;
        // What cannot be told for sure is not held against it.
        let late = heard.delay.filter(|delay| delay.saturating_sub(heard.error) > LipSync::SKEW + ROUNDING);
        let verdict = match (missing, late) {
            (true, _) if !known.missing => Some(Verdict::Missing(percent)),
            (_, Some(delay)) if !known.late => Some(Verdict::Late(delay)),
            (false, None) if known.missing || known.late => Some(Verdict::Good),
            _ => None,
        };
        if let Some(verdict) = verdict {
            // Without room it is told with the next look.
            let Some(place) = free.next() else { return };
            *place = Some((who, verdict));
        }
        (known.heard, known.missing, known.late) = (heard, missing, late.is_some());
    }
}

/// What is missing of the packets between two tellings, in percent; `None` while they are too few.
fn missing_percent(before: Hearing, now: Hearing) -> Option<f64> {
    let more = |of: fn(&Hearing) -> u32| f64::from(of(&now).wrapping_sub(of(&before)) as i32).max(0.0);
    let (lost, late) = (more(|one| one.lost), more(|one| one.late));
    let all = more(|one| one.received) + lost;
    (all >= FEW_PACKETS).then(|| 100.0 * (lost + late) / all)
}

impl Verdict {
    /// The verdict on `who` as a sentence: what is wrong, and what to do.
    pub fn sentence(self, who: &str) -> String {
        let (loss, skew) = (LipSync::LOSS_PERCENT, LipSync::SKEW.as_millis());
        match self {
            Verdict::Missing(percent) => format!(
                "{who} misses {percent:.1} % of the sound, more than the {loss} % that TV sound bears: its network loses or \
                 delays too much; move it closer, use a wired network, or a transport that repairs, such as srp:// or xtp://"
            ),
            Verdict::Late(delay) => format!(
                "{who} plays {:.0} ms after the picture, more than the {skew} ms that go unnoticed: let it play when the sender \
                 says (receive without --latency), and choose a shorter --block here and a faster sound device there",
                delay.as_secs_f64() * 1e3
            ),
            Verdict::Good => format!("{who} is within {skew} ms and {loss} % again"),
        }
    }
}

/// Verdicts of one look.
const MOST_VERDICTS: usize = 4;
/// Receivers that are watched.
const MOST_WATCHED: usize = 1024;
/// Packets from which a share is computed: five seconds of the usual ones are 940.
const FEW_PACKETS: f64 = 100.0;
/// Receivers tell once a second how they fare, and a share of 1.8 % needs some packets.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// One that tells nothing for so long is forgotten.
const FORGET: Duration = Duration::from_secs(60);
/// What rounding and the end of a block may add.
const ROUNDING: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(received: u32, lost: u32, late: u32, delay_ms: u64) -> Option<Hearing> {
        let (delay, error) = (Some(Duration::from_millis(delay_ms)), Duration::from_micros(50));
        Some(Hearing { received, lost, late, delay, error })
    }

    fn judge(watch: &mut TvWatch, heard: Option<Hearing>) -> Option<Verdict> {
        let mut verdicts = [None; 1];
        watch.judge(Instant::ZERO, Who::Receiver(3), heard, &mut verdicts.iter_mut());
        verdicts[0].map(|(_, verdict)| verdict)
    }

    #[test]
    fn each_bound_is_told_once_and_its_end() {
        let mut watch = TvWatch::new();
        assert_eq!(judge(&mut watch, heard(100, 50, 0, 80)), None, "what was before is not counted");
        assert_eq!(judge(&mut watch, heard(1_100, 50, 0, 80)), None);
        // 18 of 1000 is the bound.
        assert_eq!(judge(&mut watch, heard(2_092, 58, 10, 80)), None);
        assert_eq!(judge(&mut watch, heard(3_082, 68, 19, 80)), Some(Verdict::Missing(1.9)));
        assert_eq!(judge(&mut watch, heard(4_000, 100, 40, 80)), None, "it is known");
        assert_eq!(judge(&mut watch, heard(5_000, 100, 40, 80)), Some(Verdict::Good));
        let late = Verdict::Late(Duration::from_millis(95));
        assert_eq!(judge(&mut watch, heard(6_000, 100, 40, 95)), Some(late));
        assert_eq!(judge(&mut watch, heard(7_000, 100, 40, 81)), Some(Verdict::Good), "rounding is no delay");
        assert_eq!(judge(&mut watch, heard(7_049, 150, 40, 81)), None, "too few to tell");
    }

    #[test]
    fn one_that_counts_anew_misses_nothing_by_it() {
        let mut watch = TvWatch::new();
        judge(&mut watch, heard(5_000, 100, 40, 80));
        assert_eq!(judge(&mut watch, heard(200, 0, 0, 80)), None);
        assert_eq!(judge(&mut watch, heard(1_200, 0, 0, 80)), None);
    }
}
