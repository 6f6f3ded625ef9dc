//! A participant's reports: compound packets of all its sources, and goodbyes.

use std::time::Duration;

use antiphon_core::Instant;

use super::{Own, RtcpSession};
use crate::rtcp::{
    GroupSize, NominalDelay, PictureLoss, ReportBlock, SenderInfo, write_bye, write_cname, write_group_size,
    write_nominal_delay, write_report,
};

impl RtcpSession {
    /// Reports of our sources, the first always, the others in turn as they fit; then their names; at the end BYEs.
    pub(super) fn write_compound(&mut self, now: Instant, buf: &mut [u8], bye: bool) -> Option<usize> {
        let (mut blocks, mut filled) = ([ReportBlock::default(); MAX_BLOCKS], 0);
        for step in 0..self.heard.len() {
            let at = (self.next_heard + step) % self.heard.len();
            if filled < MAX_BLOCKS && self.heard[at].since_report {
                blocks[filled] = self.heard[at].block(now);
                filled += 1;
                if filled == MAX_BLOCKS {
                    self.next_heard = at + 1;
                }
            }
        }
        let first = self.own[0];
        let mut len =
            write_report(first.ssrc, self.sender_info(now, first).as_ref(), &blocks[..filled], buf)?;
        let name = write_cname(first.ssrc, &self.config.cname, &mut buf[len..])?;
        let others = if bye { 0 } else { self.others_that_fit(len + name + SUMMARY_BYTES, name, buf.len()) };
        let turn = |step: usize| 1 + (self.next_own + step) % (self.own.len() - 1);
        for step in 0..others {
            let own = self.own[turn(step)];
            len += write_report(own.ssrc, self.sender_info(now, own).as_ref(), &[], &mut buf[len..])?;
        }
        len += write_cname(first.ssrc, &self.config.cname, &mut buf[len..])?;
        for step in 0..others {
            len += write_cname(self.own[turn(step)].ssrc, &self.config.cname, &mut buf[len..])?;
        }
        if let (Some(delay), false) = (self.playout, bye) {
            // The channel groups of one sender have one delay.
            let senders = if self.config.any_source { self.heard.len() } else { 1 };
            for heard in self.heard.iter().take(senders) {
                let told = NominalDelay { source: heard.ssrc, delay };
                len += write_nominal_delay(first.ssrc, told, &mut buf[len..])?;
            }
        }
        if first.sent.is_some() && self.is_group() && !self.config.any_source && !bye {
            self.said = self.receivers();
            let size = GroupSize { receivers: self.said, average_size: self.average_size as u16 };
            len += write_group_size(first.ssrc, self.config.epoch.ntp(now), size, &mut buf[len..])?;
        }
        for own in self.own.iter().filter(|_| bye) {
            len += write_bye(own.ssrc, &mut buf[len..])?;
        }
        if self.own.iter().any(|own| own.sent.is_some()) {
            self.note_said(now);
        }
        self.next_own += others;
        self.counters.sent += 1;
        self.weigh(len, 1 + others);
        Some(len)
    }

    /// Writes a report out of turn that asks for a key frame of `pictures`: a receiver may do so early (RFC 4585 §3.5.2), behind a report
    /// and a name (§3.1). Intervals go on as they are.
    pub fn write_question(&mut self, now: Instant, pictures: u32, buf: &mut [u8]) -> Option<usize> {
        let len = self.write_compound(now, buf, false)?;
        let asked = PictureLoss { ssrc: self.config.ssrc, pictures }.to_bytes();
        buf.get_mut(len..len + asked.len())?.copy_from_slice(&asked);
        Some(len + asked.len())
    }

    pub(super) fn write_goodbye(&self, now: Instant, own: Own, buf: &mut [u8]) -> Option<usize> {
        let mut len = write_report(own.ssrc, self.sender_info(now, own).as_ref(), &[], buf)?;
        len += write_cname(own.ssrc, &self.config.cname, &mut buf[len..])?;
        len += write_bye(own.ssrc, &mut buf[len..])?;
        Some(len)
    }

    /// How many of our other sources fit beside the first, each with its report and its name of `name` bytes.
    fn others_that_fit(&self, taken: usize, name: usize, buf: usize) -> usize {
        let room = buf.min(MAX_REPORT).saturating_sub(taken);
        (room / (SENDER_REPORT_BYTES + name)).min(self.own.len() - 1)
    }

    /// Whether this source of ours has sent media lately.
    pub(super) fn is_sending(&self, now: Instant, own: Own) -> bool {
        let patience = 2 * self.config.minimum_interval.max(Duration::from_secs(1));
        own.sent.is_some_and(|sent| now.since(sent.at) <= patience)
    }

    /// A sender report while we send; a source that was silent for two intervals only receives (§6.4).
    fn sender_info(&self, now: Instant, own: Own) -> Option<SenderInfo> {
        let sent = own.sent.filter(|_| self.is_sending(now, own))?;
        let silence = now.since(sent.at);
        let ticks = silence.as_nanos() * u128::from(own.rate) / 1_000_000_000;
        Some(SenderInfo {
            ntp: self.config.epoch.ntp(now),
            rtp_timestamp: sent.timestamp.wrapping_add(ticks as u32),
            packets: own.packets,
            octets: own.octets,
        })
    }
}

/// Blocks of a report (RFC 3550 §6.4.1: five bits); further sources follow in the next report.
const MAX_BLOCKS: usize = 31;
/// A summary of the group (RFC 5760), with its header.
const SUMMARY_BYTES: usize = 28;
/// Header, SSRC and sender information (§6.4.1).
const SENDER_REPORT_BYTES: usize = 28;
/// Limit of a compound packet of several sources in bytes, so that it fits any path: IPv6's minimum MTU (RFC 8200 §5)
/// leaves 1232 in UDP.
pub const MAX_REPORT: usize = 1200;
