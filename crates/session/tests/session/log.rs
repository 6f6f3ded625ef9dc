//! The log of a session that compares, readable while the session has it.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use antiphon_core::Instant;
use antiphon_measure::PacketLog;
use antiphon_session::{ArrivalTable, CallLog, Observer, Seen, Session};

/// The log, shared with the session that it observes.
pub struct Log(Rc<RefCell<CallLog>>);

impl Log {
    /// Observes `session`, for so many packets; `table` is the one of the far end.
    pub fn of(session: &mut Session, packets: usize, table: Option<ArrivalTable>) -> Self {
        let track = session.send_track().expect("it sends");
        let log = Rc::new(RefCell::new(CallLog::new(track.packetiser(), packets, table)));
        let shared = Rc::clone(&log);
        session.observe(Box::new(move |now: Instant, seen: &Seen| shared.borrow_mut().on(now, seen)));
        Log(log)
    }

    /// What is known so far.
    pub fn get(&self) -> Ref<'_, PacketLog> {
        Ref::map(self.0.borrow(), CallLog::log)
    }

    /// The session has finished: what did not come is lost, and what was concealed is counted.
    pub fn finish(&self, session: &Session) {
        let playout = session.receive_track().and_then(|track| track.playout());
        self.0.borrow_mut().finish(playout.map_or(0, |playout| playout.concealed_frames));
    }
}
