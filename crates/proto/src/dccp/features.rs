//! Feature negotiation (RFC 4340 §6): the values that both ends have agreed on, and how they are changed.
//!
//! A feature belongs to one end, its location. Server-priority features have preference lists, and the first entry of
//! the server's list that is also in the client's wins; non-negotiable ones are announced by their location and
//! confirmed.

mod entry;

use std::time::Duration;

use antiphon_core::{Instant, Role};

use super::logs::REACH;
use super::seq::Seq48;
use super::settings::Settings;
use super::wire::options::FeatureVerb;
use super::wire::{OptionWriter, ResetCode};
use entry::{Change, Entry, MAX_PREFERENCES};

/// Which congestion control a half-connection has.
pub const CCID: u8 = 1;
/// How far sequence numbers may deviate, in packets.
pub const SEQUENCE_WINDOW: u8 = 3;
/// Data packets per acknowledgement (CCID 2).
pub const ACK_RATIO: u8 = 5;
/// Whether the location sends Ack Vectors.
pub const SEND_ACK_VECTOR: u8 = 6;
/// Whether the location sends NDP Counts.
pub const SEND_NDP_COUNT: u8 = 7;
/// The least checksum coverage that the location takes.
pub const MIN_COVERAGE: u8 = 8;
/// Whether the location sends CCID 3's Loss Event Rate.
pub const SEND_LOSS_EVENT_RATE: u8 = 192;

/// The end that a feature belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Location {
    /// This end's: Change L and Confirm L are sent, Change R and Confirm R received.
    Local,
    /// The peer's.
    Remote,
}

/// All features of both ends.
#[derive(Clone, Debug)]
pub struct Features {
    entries: [Entry; KNOWN.len() * 2],
    /// Empty Confirms owed for unknown features.
    refused: [Option<(FeatureVerb, u8)>; 4],
    /// Greatest number received with a feature option, and sent with a new Change.
    received: Seq48,
    sent: Seq48,
}

impl Features {
    /// All at their initial values (RFC 4340 table 4, RFC 4342 §8.5), and prepared for what this end supports.
    fn new() -> Self {
        let entry = |i: usize| {
            let (feature, initial, list) = KNOWN[i / 2];
            let location = if i.is_multiple_of(2) { Location::Local } else { Location::Remote };
            let mut entry = Entry {
                feature,
                location,
                value: initial,
                wanted: initial,
                tells: 0,
                preferences: [0; MAX_PREFERENCES],
                given: 0,
                owes_confirm: false,
                answered: false,
                change: Change::Stable,
            };
            entry.prefer(list);
            entry
        };
        Features {
            entries: std::array::from_fn(entry),
            refused: [None; 4],
            received: Seq48::default(),
            sent: Seq48::default(),
        }
    }

    /// The requests and preferences of an end with these settings; a client requests at once.
    pub fn wanted(settings: &Settings, role: Role) -> Self {
        let mut features = Features::new();
        let ccids: &[u8] = match (settings.ccid, role) {
            // A client that insists names one; a server that prefers one also accepts the other.
            (Some(2), Role::Caller) => &[2],
            (Some(2), Role::Listener) => &[2, 3],
            (Some(_), Role::Caller) => &[3],
            _ => &[3, 2],
        };
        for location in [Location::Local, Location::Remote] {
            features.prefer(location, CCID, ccids);
            if role == Role::Caller {
                features.ask(location, CCID);
            }
        }
        features.tell(SEQUENCE_WINDOW, REACH as u64);
        if settings.coverage > 0 {
            let list = [settings.coverage, 0];
            for location in [Location::Local, Location::Remote] {
                features.prefer(location, MIN_COVERAGE, &list);
            }
            features.ask(Location::Remote, MIN_COVERAGE);
        }
        features
    }

    /// Both ends' initial sequence numbers are known, or this end's alone.
    pub fn start(&mut self, iss: Seq48, isr: Option<Seq48>) {
        self.sent = iss;
        if let Some(isr) = isr {
            self.received = isr.plus(-1);
        }
    }

    /// The values in force.
    pub fn value(&self, location: Location, feature: u8) -> u64 {
        self.entry(location, feature).map_or(0, |entry| entry.value)
    }

    /// Sets the values that this end would accept, best first. Sends nothing to the peer yet.
    pub fn prefer(&mut self, location: Location, feature: u8, list: &[u8]) {
        if let Some(entry) = self.entry_mut(location, feature) {
            entry.prefer(list);
        }
    }

    /// Asks the peer for a change to what was [preferred](Self::prefer), if anything would change.
    pub fn ask(&mut self, location: Location, feature: u8) {
        if let Some(entry) = self.entry_mut(location, feature)
            && entry.change == Change::Stable
        {
            entry.change = Change::Due;
        }
    }

    /// The value of a feature of this end that the peer has, or is being told.
    pub fn told(&self, feature: u8) -> u64 {
        self.entry(Location::Local, feature).map_or(0, |entry| entry.wanted)
    }

    /// Tells the peer a new value of a non-negotiable feature of this end.
    pub fn tell(&mut self, feature: u8, value: u64) {
        if let Some(entry) = self.entry_mut(Location::Local, feature)
            && entry.wanted != value
        {
            entry.tells = entry.tells.saturating_add(1);
            entry.wanted = value;
            entry.change = Change::Due;
        }
    }

    /// From here on only the present value is accepted.
    pub fn freeze(&mut self, feature: u8) {
        for entry in self.entries.iter_mut().filter(|entry| entry.feature == feature) {
            let value = entry.value as u8;
            entry.prefer(&[value]);
        }
    }

    /// An option of packet `seq` arrived, acknowledging `ack`. `Err`: the connection must be reset.
    pub fn on_option(
        &mut self,
        verb: FeatureVerb,
        feature: u8,
        value: &[u8],
        at: Arrival,
    ) -> Result<(), ResetCode> {
        let fresh = self.received.is_before(at.seq);
        let location = match verb {
            FeatureVerb::ChangeR | FeatureVerb::ConfirmR => Location::Local,
            FeatureVerb::ChangeL | FeatureVerb::ConfirmL => Location::Remote,
        };
        let sent = self.sent;
        match verb {
            FeatureVerb::ChangeL | FeatureVerb::ChangeR if fresh => {
                let accepted = self
                    .entry_mut(location, feature)
                    .is_some_and(|entry| entry.on_change(value, at.is_server));
                if !accepted && at.mandatory {
                    return Err(ResetCode::MANDATORY_ERROR);
                }
                if !accepted {
                    self.refuse(verb, feature);
                }
            }
            FeatureVerb::ConfirmL | FeatureVerb::ConfirmR
                if fresh && at.ack.is_some_and(|ack| !ack.is_before(sent)) =>
            {
                if let Some(entry) = self.entry_mut(location, feature) {
                    entry.on_confirm(value)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// All options of packet `seq` were read, and some of them were of this kind.
    pub fn on_packet_read(&mut self, seq: Seq48) {
        self.received = self.received.later(seq);
    }

    /// Whether the next packet that may carry options must do so.
    pub fn is_due(&self, now: Instant) -> bool {
        self.refused[0].is_some() || self.entries.iter().any(|entry| entry.owes_confirm || entry.is_due(now))
    }

    /// Whether there is something to send that was not sent before.
    pub fn is_news(&self) -> bool {
        let is_new = |entry: &Entry| entry.owes_confirm || entry.change == Change::Due;
        self.refused[0].is_some() || self.entries.iter().any(is_new)
    }

    /// When a Change must go out again.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let again = |entry: &Entry| match entry.change {
            Change::Sent { again, .. } => Some(again),
            Change::Stable | Change::Due => None,
        };
        self.entries.iter().filter_map(again).min()
    }

    /// Writes Confirms and Changes that are due into packet `seq`; with `all`, every Change in progress.
    pub fn write(&mut self, now: Instant, seq: Seq48, rtt: Duration, all: bool, options: &mut OptionWriter) {
        for slot in &mut self.refused {
            if let Some((verb, feature)) = *slot
                && options.feature(verb, feature, &[])
            {
                *slot = None;
            }
        }
        for entry in &mut self.entries {
            if entry.owes_confirm && entry.write_confirm(false, options) {
                (entry.owes_confirm, entry.answered) = (false, true);
            }
            let under_way = entry.change != Change::Stable;
            if (entry.is_due(now) || all && under_way) && entry.write_change(options) {
                if entry.change == Change::Due {
                    self.sent = self.sent.later(seq);
                }
                entry.change = entry.change.sent(now, rtt);
            }
        }
    }

    /// Writes Confirms that are due, and keeps them due: for a Response that has no room for more; `brief` omits
    /// optional parts, this end's preferences.
    pub fn write_confirms(&self, brief: bool, options: &mut OptionWriter) {
        for (verb, feature) in self.refused.iter().flatten() {
            options.feature(*verb, *feature, &[]);
        }
        for entry in self.entries.iter().filter(|entry| entry.owes_confirm) {
            entry.write_confirm(brief, options);
        }
    }

    /// Repeats the Confirms that were sent so far: Linux settles everything with the first packet that reaches it after
    /// its Response, and gives up if that is not the one that confirmed.
    pub fn repeat_confirms(&self, options: &mut OptionWriter) {
        for entry in self.entries.iter().filter(|entry| entry.answered && !entry.owes_confirm) {
            entry.write_confirm(false, options);
        }
    }

    fn refuse(&mut self, verb: FeatureVerb, feature: u8) {
        let answer = match verb {
            FeatureVerb::ChangeL => FeatureVerb::ConfirmR,
            _ => FeatureVerb::ConfirmL,
        };
        if let Some(slot) = self.refused.iter_mut().find(|slot| slot.is_none_or(|is| is == (answer, feature)))
        {
            *slot = Some((answer, feature));
        }
    }

    fn entry(&self, location: Location, feature: u8) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.location == location && entry.feature == feature)
    }

    fn entry_mut(&mut self, location: Location, feature: u8) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.location == location && entry.feature == feature)
    }
}

/// The packet that an option arrived in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The packet's number.
    pub seq: Seq48,
    /// Its acknowledgement number.
    pub ack: Option<Seq48>,
    /// Whether Mandatory preceded the option.
    pub mandatory: bool,
    /// Whether this end is the server, whose preferences count.
    pub is_server: bool,
}

/// What is known: feature, initial value, what this end takes of server-priority ones.
const KNOWN: [(u8, u64, &[u8]); 10] = [
    (CCID, 2, &[2, 3]),
    (2, 0, &[0]),
    (SEQUENCE_WINDOW, 100, &[]),
    (4, 0, &[0, 1]),
    (ACK_RATIO, 2, &[]),
    (SEND_ACK_VECTOR, 0, &[1, 0]),
    (SEND_NDP_COUNT, 0, &[1, 0]),
    (MIN_COVERAGE, 0, &[0]),
    (9, 0, &[1, 0]),
    (SEND_LOSS_EVENT_RATE, 0, &[1, 0]),
];

#[cfg(test)]
mod tests;
