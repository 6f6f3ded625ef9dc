//! One feature of one end: its value, acceptable values, and the progress of a change.

use std::time::Duration;

use antiphon_core::Instant;

use super::{ACK_RATIO, Location, SEQUENCE_WINDOW};
use crate::dccp::wire::options::FeatureVerb;
use crate::dccp::wire::{OptionWriter, ResetCode, big_endian};

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub feature: u8,
    pub location: Location,
    pub value: u64,
    /// The value that a Change of a non-negotiable feature asks for.
    pub wanted: u64,
    /// How often that value was set anew.
    pub tells: u32,
    pub preferences: [u8; MAX_PREFERENCES],
    pub given: u8,
    pub owes_confirm: bool,
    /// A Confirm went out.
    pub answered: bool,
    pub change: Change,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Stable,
    /// Not sent yet.
    Due,
    /// Sent; repeated at that instant, and then after twice the time.
    Sent {
        again: Instant,
        wait: Duration,
    },
}

impl Change {
    pub fn sent(self, now: Instant, rtt: Duration) -> Change {
        let wait = match self {
            Change::Sent { wait, .. } => (2 * wait).min(LONGEST_WAIT),
            Change::Stable | Change::Due => rtt.max(SHORTEST_WAIT),
        };
        Change::Sent { again: now + wait, wait }
    }
}

impl Entry {
    pub fn prefer(&mut self, list: &[u8]) {
        let given = list.len().min(MAX_PREFERENCES);
        self.preferences[..given].copy_from_slice(&list[..given]);
        self.given = given as u8;
    }

    fn list(&self) -> &[u8] {
        &self.preferences[..usize::from(self.given)]
    }

    pub fn is_due(&self, now: Instant) -> bool {
        match self.change {
            Change::Stable => false,
            Change::Due => true,
            Change::Sent { again, .. } => again <= now,
        }
    }

    /// Bytes of a non-negotiable feature's value; `None`: server priority.
    fn fixed_len(&self) -> Option<usize> {
        match self.feature {
            SEQUENCE_WINDOW => Some(6),
            ACK_RATIO => Some(2),
            _ => None,
        }
    }

    /// Whether the peer's Change is valid; then it is applied, and a Confirm is due.
    pub fn on_change(&mut self, value: &[u8], is_server: bool) -> bool {
        if let Some(len) = self.fixed_len() {
            let told = big_endian(value);
            let possible = self.feature != SEQUENCE_WINDOW || SEQUENCE_WINDOWS.contains(&told);
            if self.location == Location::Local || value.len() != len || !possible {
                return false;
            }
            self.value = told;
        } else {
            if value.is_empty() {
                return false;
            }
            let (server, client) = if is_server { (self.list(), value) } else { (value, self.list()) };
            // Without a common entry the value stays (RFC 4340 §6.3.1).
            if let Some(agreed) = server.iter().find(|entry| client.contains(entry)) {
                self.value = u64::from(*agreed);
            }
            self.change = Change::Stable;
        }
        self.owes_confirm = true;
        true
    }

    pub fn on_confirm(&mut self, value: &[u8]) -> Result<(), ResetCode> {
        if self.confirms_older(value) {
            // The peer has that one now, perhaps because it took Changes in the order of their arrival, as Linux 6.1
            // does: what is under way goes on, and what was settled is asked for again.
            if self.change == Change::Stable {
                self.change = Change::Due;
            }
            return Ok(());
        }
        // A non-negotiable value may have changed again before this was sent: it confirms the one before.
        let is_old = self.change == Change::Due && self.fixed_len().is_some();
        if self.change == Change::Stable || is_old {
            return Ok(());
        }
        // An empty Confirm: the peer does not know the feature, and its value stays.
        if !value.is_empty() {
            if let Some(len) = self.fixed_len() {
                let told = big_endian(value);
                if value.len() != len || told != self.wanted {
                    return Err(ResetCode::OPTION_ERROR);
                }
                self.value = told;
            } else if self.list().contains(&value[0]) || u64::from(value[0]) == self.value {
                self.value = u64::from(value[0]);
            } else {
                return Err(ResetCode::OPTION_ERROR);
            }
        }
        self.change = Change::Stable;
        Ok(())
    }

    /// Whether this is not the value asked for last, where others were before.
    fn confirms_older(&self, value: &[u8]) -> bool {
        let told = big_endian(value);
        self.tells > 1 && self.fixed_len() == Some(value.len()) && told != self.wanted
    }

    pub fn write_change(&self, options: &mut OptionWriter) -> bool {
        let verb = match self.location {
            Location::Local => FeatureVerb::ChangeL,
            Location::Remote => FeatureVerb::ChangeR,
        };
        let wanted = self.wanted.to_be_bytes();
        match self.fixed_len() {
            Some(len) => options.feature(verb, self.feature, &[&wanted[8 - len..]]),
            None => options.feature(verb, self.feature, &[self.list()]),
        }
    }

    pub fn write_confirm(&self, brief: bool, options: &mut OptionWriter) -> bool {
        let verb = match self.location {
            Location::Local => FeatureVerb::ConfirmL,
            Location::Remote => FeatureVerb::ConfirmR,
        };
        let value = self.value.to_be_bytes();
        match self.fixed_len() {
            Some(len) => options.feature(verb, self.feature, &[&value[8 - len..]]),
            None if brief => options.feature(verb, self.feature, &[&value[7..]]),
            None => options.feature(verb, self.feature, &[&value[7..], self.list()]),
        }
    }
}

/// RFC 4340 §7.5.2.
const SEQUENCE_WINDOWS: std::ops::RangeInclusive<u64> = 32..=(1 << 46) - 1;
pub(super) const MAX_PREFERENCES: usize = 4;
/// RFC 4340 §6.6.3: at least a round trip, without a measurement 0.2 s (§8.5's default), doubled up to 64 s.
const SHORTEST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(64);
