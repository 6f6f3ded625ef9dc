//! How long sound waits on its way.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Instant, NtpTime};
use antiphon_session::{Arrived, Seen, Session};

/// How long each packet of sound took that a session has received, by its sender's clock.
#[derive(Clone, Default)]
pub struct Transits(Rc<RefCell<Vec<i64>>>);

impl Transits {
    /// Observes `session`.
    pub fn of(session: &mut Session) -> Self {
        let transits = Transits::default();
        let noted = transits.0.clone();
        session.observe(Box::new(move |_: Instant, seen: &Seen| {
            if let Seen::Arrived(Arrived { ntp: Some(ntp), at, duplicate: false, .. }) = *seen {
                noted.borrow_mut().push(at.as_nanos() as i64 - ntp.signed_nanos_since(NtpTime::default()));
            }
        }));
        transits
    }

    /// By how much this share of the packets were later than the fastest, at most.
    pub fn waited(&self, share: f64) -> Duration {
        let mut all = self.0.borrow().clone();
        all.sort_unstable();
        let at = ((all.len() as f64 * share) as usize).min(all.len() - 1);
        Duration::from_nanos((all[at] - all[0]).unsigned_abs())
    }

    pub fn count(&self) -> usize {
        self.0.borrow().len()
    }

    /// Packets that were later than the fastest by more than this.
    pub fn longer_than(&self, wait: Duration) -> usize {
        let all = self.0.borrow();
        let least = all.iter().min().copied();
        all.iter().filter(|at| least.is_some_and(|least| **at - least > wait.as_nanos() as i64)).count()
    }
}
