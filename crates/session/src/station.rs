//! What a world runs: anything that takes what arrives and says what to send and when to wake it.

use std::time::Duration;

use antiphon_core::{CloseMode, Endpoint, Frame, Input, Instant, PathId, StreamId, Transmit};

/// A party of a session with everything above the wire: endpoint, pipeline, sound.
///
/// A driver repeats: hand in what arrived, [`advance`](Self::advance), drain
/// [`poll_transmit`](Self::poll_transmit), wait until [`poll_timeout`](Self::poll_timeout) or the next arrival. The
/// same calls run it on real sockets (`net`) and in virtual time (`lab`).
pub trait Station {
    /// Something happened on the wire beneath. For stations with many peers, a datagram's path says whose it is.
    fn handle_input(&mut self, now: Instant, input: Input<'_>);

    /// Does what is due: time-outs, frames fetched and passed on, sound moved.
    fn advance(&mut self, now: Instant);

    /// Writes the next datagram or stream bytes into `buf`; see `Endpoint::poll_transmit`.
    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit>;

    /// When [`advance`](Self::advance) wants to be called next.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Asks for an orderly end; the station finishes soon after.
    fn stop(&mut self, now: Instant);

    /// Whether nothing is left to do.
    fn is_finished(&self) -> bool;

    /// Whether a datagram from `path` belongs to somebody this station already talks to. Drivers ask before they
    /// forget an address.
    fn knows(&self, path: PathId) -> bool {
        path == PathId::default()
    }

    /// The association of a station with one peer, as its packets name it (`Endpoint::association`).
    fn association(&self) -> Option<u64> {
        None
    }
}

/// A [`Station`] above one endpoint, which has nothing of its own to do at the wire: it handles frames and events.
pub trait OnEndpoint {
    /// What is beneath.
    fn endpoint(&self) -> &dyn Endpoint;

    /// The same, to be used.
    fn endpoint_mut(&mut self) -> &mut dyn Endpoint;

    /// Fetches what the endpoint has, and hands over what is due. Its own time-outs are done.
    fn work(&mut self, now: Instant);

    /// When there is [`work`](Self::work) that the endpoint knows nothing of.
    fn next_work(&self) -> Option<Instant> {
        None
    }

    /// Whether nothing is left to do.
    fn is_over(&self) -> bool {
        false
    }
}

impl<T: OnEndpoint> Station for T {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.endpoint_mut().handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        self.endpoint_mut().handle_due(now);
        self.work(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.endpoint_mut().poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        sooner(self.next_work(), self.endpoint().poll_timeout())
    }

    fn stop(&mut self, now: Instant) {
        self.endpoint_mut().close(now, CloseMode::Graceful);
    }

    fn is_finished(&self) -> bool {
        self.is_over()
    }
}

/// Sends a compound of RTCP. It is no report any more when it has waited for a second, and none need arrive (RFC 3550
/// §6.4: reports repeat), so that what becomes of it is nobody's concern.
pub(crate) fn send_report(endpoint: &mut dyn Endpoint, now: Instant, report: &[u8], stream: StreamId) {
    let patience = Some(now + Duration::from_secs(1));
    let _a_report_may_be_lost = endpoint.send(now, Frame { stream, ..Frame::new(report, patience) });
}

/// The sooner of two time-outs.
pub(crate) fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
