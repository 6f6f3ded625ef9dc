//! One end of a TCP connection in the world: replaces a kernel's socket.

use antiphon_core::wire::TCP_SEGMENT;
use antiphon_core::{BrokenReason, ByteCount, Input, Instant, KernelReport, Participant, WireId, WireView};

use super::network::Network;
use super::packet::{Body, Carried, Parcel};
use crate::tcp::{Closed, Segment, State, Tcp};

/// A TCP, and the state that its user has been told.
pub struct StreamEnd {
    pub tcp: Tcp,
    flow: u32,
    way: u16,
    /// The wire on which its participant calls or listens.
    own: WireId,
    /// The participant's number of the connection; an incoming one has none before it is accepted.
    wire: Option<WireId>,
    told_connected: bool,
    told_gone: bool,
    /// The participant may have more data than there was room for.
    is_waiting: bool,
    /// It is asked again because of that, and may have none.
    is_resuming: bool,
    next_report: Instant,
}

impl StreamEnd {
    /// An end of a connection of the participant's wire `own`, whose packets use `way` of `flow`.
    pub fn new(tcp: Tcp, own: WireId, flow: u32, way: u16) -> Self {
        let (told_connected, told_gone, is_waiting, is_resuming) = (false, false, false, false);
        let next_report = Instant::ZERO;
        StreamEnd {
            tcp,
            flow,
            way,
            own,
            wire: None,
            told_connected,
            told_gone,
            is_waiting,
            is_resuming,
            next_report,
        }
    }

    /// Whether its participant calls it so.
    pub fn is(&self, wire: WireId) -> bool {
        self.wire.unwrap_or(self.own) == wire
    }

    /// A segment has arrived.
    pub fn on_segment(&mut self, now: Instant, mut segment: Carried<Segment>, net: &Network) {
        let payload = self.tcp.handle_segment(now, std::mem::take(&mut *segment));
        net.pool.keep_payload(payload);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Instant) {
        if self.tcp.poll_timeout().is_some_and(|at| at <= now) {
            self.tcp.handle_timeout(now);
        }
    }

    /// Sends what may be sent.
    pub fn transmit(&mut self, now: Instant, net: &mut Network) {
        loop {
            // One at a time, so that an end that only acknowledges leaves buffers for the other.
            if !self.tcp.has_spare()
                && let Some(payload) = net.pool.payload()
            {
                self.tcp.recycle(payload);
            }
            let Some(segment) = self.tcp.poll_transmit(now) else { return };
            let len = segment.wire_size();
            let body = Body::Segment(net.pool.wrap(segment));
            net.send(now, Parcel::new(len, self.flow, self.way, body));
        }
    }

    /// Reports connection events to the participant, and hands it what arrived, a little at a time, so that its inbox
    /// stays small however much follows a hole. `accepts`: it is offered the connection.
    pub fn tell(&mut self, now: Instant, participant: &mut dyn Participant, accepts: bool, buf: &mut [u8]) {
        if !accepts {
            self.wire = Some(self.own);
        }
        if self.tcp.is_established() && !self.told_connected {
            self.told_connected = true;
            self.wire = self.wire.or_else(|| participant.accept(now, self.own));
            match self.wire {
                Some(wire) => participant.handle_input(now, wire, Input::Connected),
                None => self.tcp.close(now),
            }
        }
        let Some(wire) = self.wire else { return };
        while self.tcp.readable() > 0 {
            let n = self.tcp.read(now, buf);
            participant.handle_input(now, wire, Input::Stream { bytes: &mut buf[..n], received_at: now });
            participant.advance(now);
        }
        if let Some(reason) = self.gone()
            && !self.told_gone
        {
            self.told_gone = true;
            participant.handle_input(now, wire, Input::Broken(reason));
        }
        if self.told_connected && now >= self.next_report {
            self.next_report = now + REPORT_EVERY;
            participant.handle_input(now, wire, Input::Report(self.report()));
        }
    }

    fn gone(&self) -> Option<BrokenReason> {
        match self.tcp.state() {
            State::Closed(Closed::Reset) => Some(BrokenReason::Refused),
            State::Closed(_) => Some(BrokenReason::Unreachable),
            _ => self.tcp.peer_finished().then_some(BrokenReason::EndOfStream),
        }
    }

    /// The wire of a participant that may have more data than there was room for; once.
    pub fn take_waiting(&mut self) -> Option<WireId> {
        let wire = self.wire.filter(|_| std::mem::take(&mut self.is_waiting));
        self.is_resuming = wire.is_some();
        wire
    }

    /// Takes what the participant wants to write, as long as there is room; `low_water`: only while fewer bytes than
    /// this are unsent.
    pub fn fill(
        &mut self,
        now: Instant,
        participant: &mut WireView<'_>,
        buf: &mut [u8],
        low_water: Option<usize>,
        net: &mut Network,
    ) {
        // The participant has something to write.
        if self.told_connected && !std::mem::take(&mut self.is_resuming) {
            self.tcp.note_waiting();
        }
        while self.told_connected && !self.told_gone {
            let room = self.tcp.writable().min(WRITE_ROOM);
            if room == 0 || low_water.is_some_and(|low| self.tcp.unsent() >= low) {
                self.is_waiting = true;
                break;
            }
            let Some(written) = participant.poll_transmit(now, &mut buf[..room]).filter(|t| t.len > 0) else {
                break;
            };
            self.tcp.write(now, &buf[..written.len]);
            self.transmit(now, net);
        }
    }

    /// Sends its own segments (acknowledgements, retransmissions), and ends the connection when its user has ended.
    pub fn finish(&mut self, now: Instant, user_finished: bool, net: &mut Network) {
        if user_finished && self.told_connected {
            self.tcp.close(now);
        }
        self.transmit(now, net);
    }

    fn report(&self) -> KernelReport {
        let stats = self.tcp.stats();
        let mss = f64::from(stats.mss);
        KernelReport {
            srtt: stats.srtt.unwrap_or_default(),
            rttvar: stats.rttvar,
            min_rtt: stats.min_rtt.unwrap_or_default(),
            cwnd: ByteCount((stats.cwnd * mss) as u64),
            in_flight: ByteCount((stats.in_flight * mss) as u64),
            retransmitted: stats.retransmitted_segments,
            sent_bytes: stats.acknowledged_bytes + stats.retransmitted_bytes,
            segments_sent: stats.segments_sent,
        }
    }
}

/// Bytes asked of a participant at a time, as in `net`: one full segment, so that the choice is made late.
const WRITE_ROOM: usize = TCP_SEGMENT;
/// How often a participant gets the TCP's figures, as in `net`.
const REPORT_EVERY: std::time::Duration = std::time::Duration::from_millis(100);
