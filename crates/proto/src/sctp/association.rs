//! All state of one association.

use antiphon_core::{Instant, PathId, Seq32};

use super::assembly::Assembly;
use super::cookie::Tcb;
use super::heartbeat::Echoes;
use super::outgoing::{Outgoing, Rules};
use super::path::Path;
use super::received::TsnLog;
use super::settings::{MAX_PATHS, STANDBY_HEARTBEAT, Settings};

/// An association, from its INIT to its end.
#[derive(Debug)]
pub(super) struct Association {
    pub phase: Phase,
    /// The SCTP ports, ours and the peer's.
    pub local_port: u16,
    pub remote_port: u16,
    /// What both sides agreed on; the peer's tag is 0 until it has sent it.
    pub tcb: Tcb,
    pub paths: Vec<Path>,
    pub out: Outgoing,
    pub log: TsnLog,
    pub assembly: Assembly,
    /// Path on which the peer's INIT arrived.
    pub init_path: usize,
    /// For the caller: the cookie to return, and the errors to report with it.
    pub cookie: Vec<u8>,
    pub due: Due,
    pub sack: Acknowledgement,
    /// T1-init, T1-cookie or T2-shutdown, depending on the phase.
    pub t1: Option<Instant>,
    /// When the application is told that nobody answers the call.
    pub tell_at: Option<Instant>,
    /// Time-outs of T1 or T2 so far.
    pub tries: u32,
    /// The first time-out since the last packet from the peer.
    pub silent_since: Option<Instant>,
    pub forwarded_at: Option<Instant>,
    pub echoes: Echoes,
    /// The next packet of a fast retransmission ignores the window.
    pub burst: bool,
}

/// State of an association (RFC 9260 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    CookieWait,
    CookieEchoed,
    Established,
    ShutdownSent,
    ShutdownReceived,
    ShutdownAckSent,
}

impl Phase {
    /// Whether the association is still being set up.
    pub fn is_handshake(self) -> bool {
        matches!(self, Phase::CookieWait | Phase::CookieEchoed)
    }
}

/// Chunks to send besides payload.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// INIT, COOKIE ECHO, SHUTDOWN or SHUTDOWN ACK, depending on the phase.
    pub step: bool,
    /// To the path on which the cookie arrived.
    pub cookie_ack: Option<usize>,
    pub shutdown_complete: bool,
    /// Holds its error causes.
    pub abort: Option<Vec<u8>>,
    /// Causes of an ERROR.
    pub errors: Vec<u8>,
    /// A parameter of the next INIT: by how many milliseconds the cookie's life must be extended.
    pub preservative: Option<u32>,
}

/// Acknowledgements that are due, and when (RFC 9260 §6.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acknowledgement {
    /// Packets with payload that no SACK has reported.
    pub packets: u32,
    /// Must be sent at once.
    pub now: bool,
    /// Latest time for it.
    pub at: Option<Instant>,
    /// The path of the last payload received.
    pub path: usize,
    /// The window reported last.
    pub window: usize,
}

impl Association {
    /// An association of a caller; `ports`: ours and the peer's.
    pub fn calling(
        settings: &Settings,
        ports: (u16, u16),
        (tag, first_tsn): (u32, Seq32),
        packet: usize,
        now: Instant,
    ) -> Self {
        let tcb =
            Tcb { local_tag: tag, local_tsn: first_tsn, out_streams: settings.streams, ..Tcb::default() };
        let mut association = Association::answering(settings, ports, &tcb, PathId(0), packet, now);
        association.phase = Phase::CookieWait;
        association.paths[0].confirmed = false;
        for n in 1..=settings.other_paths {
            association.add_path(settings, PathId(n), packet, now);
        }
        association
    }

    /// An association made from a cookie.
    pub fn answering(
        settings: &Settings,
        ports: (u16, u16),
        tcb: &Tcb,
        path: PathId,
        packet: usize,
        now: Instant,
    ) -> Self {
        let mut first = Path::new(path, packet, tcb.interleaving, settings, now);
        first.confirmed = true;
        // The driver already knows the path on which the association begins.
        first.told = true;
        first.heartbeat_at = now + settings.heartbeat;
        let mut paths = Vec::with_capacity(MAX_PATHS);
        paths.push(first);
        Association {
            phase: Phase::Established,
            local_port: ports.0,
            remote_port: ports.1,
            tcb: *tcb,
            paths,
            out: Outgoing::new(rules(settings, tcb), tcb.local_tsn, tcb.peer_window),
            log: TsnLog::new(tcb.peer_tsn),
            assembly: Assembly::new(tcb.interleaving),
            init_path: 0,
            cookie: Vec::new(),
            due: Due::default(),
            sack: Acknowledgement { window: usize::MAX, ..Acknowledgement::default() },
            t1: None,
            tell_at: None,
            tries: 0,
            silent_since: None,
            forwarded_at: None,
            echoes: Echoes::new(),
            burst: false,
        }
    }

    /// Applies what both sides agreed on; before any payload, or after a restart.
    pub fn begin(&mut self, settings: &Settings, tcb: &Tcb, packet: usize, now: Instant) {
        self.tcb = *tcb;
        self.out = Outgoing::new(rules(settings, tcb), tcb.local_tsn, tcb.peer_window);
        self.log = TsnLog::new(tcb.peer_tsn);
        self.assembly = Assembly::new(tcb.interleaving);
        self.sack = Acknowledgement { window: usize::MAX, ..Acknowledgement::default() };
        self.due = Due::default();
        (self.silent_since, self.forwarded_at, self.burst) = (None, None, false);
        self.paths.iter_mut().for_each(|path| {
            path.restart(packet, tcb.interleaving, settings, now);
            path.heartbeat_at = now + settings.heartbeat;
        });
    }

    /// The handshake is complete.
    pub fn establish(&mut self, now: Instant) {
        self.phase = Phase::Established;
        (self.t1, self.tell_at, self.tries, self.due.step) = (None, None, 0, false);
        self.paths[self.init_path].confirmed = true;
        // Other paths are probed as soon as the peer's tag is known.
        self.paths.iter_mut().filter(|path| !path.confirmed).for_each(|path| path.heartbeat_at = now);
    }

    /// The path with this number, added if there is room: only heartbeats are sent to it until it answers.
    pub fn path_of(&mut self, settings: &Settings, id: PathId, packet: usize, now: Instant) -> Option<usize> {
        let known = self.paths.iter().position(|path| path.id == id);
        known.or_else(|| self.add_path(settings, id, packet, now))
    }

    fn add_path(&mut self, settings: &Settings, id: PathId, packet: usize, now: Instant) -> Option<usize> {
        let path = Path::new(id, packet, self.tcb.interleaving, settings, now);
        if self.paths.len() < MAX_PATHS {
            self.paths.push(path);
            return Some(self.paths.len() - 1);
        }
        // Replaces an address that never answered, or one whose translator changed its port.
        let idle = |other: &Path| other.flight == 0 && (!other.confirmed || other.errors > 0);
        let places = self.paths.iter().enumerate().filter(|(_, other)| idle(other));
        let (at, _) = places.max_by_key(|(_, other)| (!other.confirmed, other.errors))?;
        self.paths[at] = path;
        Some(at)
    }

    /// The path for payload: the first while it works, else another that works, else the one with the fewest errors.
    pub fn best_path(&self) -> usize {
        let paths = self.paths.iter().enumerate().filter(|(_, path)| path.confirmed);
        let rank = |path: &Path| if path.is_good() { 0 } else { path.errors };
        paths.min_by_key(|(at, path)| (rank(path), *at)).map_or(0, |(at, _)| at)
    }

    /// How long a path may be idle before a heartbeat checks it.
    pub fn heartbeat_interval(&self, settings: &Settings, at: usize) -> std::time::Duration {
        if self.paths.len() > 1 && at != self.best_path() {
            return settings.heartbeat.min(STANDBY_HEARTBEAT);
        }
        settings.heartbeat
    }
}

fn rules(settings: &Settings, tcb: &Tcb) -> Rules {
    Rules {
        ordered: settings.ordered,
        reliability: settings.reliability,
        streams: tcb.out_streams.max(1),
        interleaved: tcb.interleaving,
        may_give_up: tcb.forward_tsn,
    }
}
