//! Members of a group that is sent to: what each reports, and who comes and goes.

use antiphon_media::rtcp::RemoteReport;
use antiphon_session::{Joined, Member, Session};

use super::status::{delay_ms, millis, percent};

/// A member of a multicast group, as its last report shows it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SendMember {
    /// Its SSRC, in hexadecimal.
    pub ssrc: String,
    /// Packets that it has not received, in all.
    pub lost: i32,
    /// Its loss in the last interval between reports, in percent.
    pub loss_percent: f64,
    /// Its jitter (RFC 3550), in milliseconds.
    pub jitter_ms: f64,
    /// The round trip to it, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Its playout delay, in milliseconds; none if it has told none, or records.
    pub playout_delay_ms: Option<f64>,
    /// Packets that came too late to be played; none of receivers that do not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<u32>,
    /// From a sample's capture to its playout there, in milliseconds; none of receivers that do not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture_to_playout_ms: Option<f64>,
}

/// What has changed among those who get repairs of a group, in sentences.
pub(super) fn joins_and_leaves(before: Joined, now: Joined) -> impl Iterator<Item = String> {
    let receivers = |count: u64, what: &str| match count {
        0 => None,
        1 => Some(format!("a receiver {what}")),
        count => Some(format!("{count} receivers {what}")),
    };
    let left = now.members;
    let get = if left == 1 { "gets" } else { "get" };
    let count = |what: Option<String>| what.map(|what| format!("{what}; {left} {get} repairs now"));
    [
        count(receivers(now.joined - before.joined, "joined the group")),
        count(receivers(now.left - before.left, "left the group")),
        count(receivers(now.silent - before.silent, "of the group fell silent")),
        count(receivers(
            now.removed - before.removed,
            "of the group lacked over half of the packets, or took no more: its network or computer is too slow for this stream",
        )),
    ]
    .into_iter()
    .flatten()
}

/// The members of a group; none for a single receiver.
pub(super) fn members(session: &Session, rate: u32) -> Vec<SendMember> {
    let members = session.members();
    if members.len() < 2 {
        return Vec::new();
    }
    members.iter().filter_map(|member| one_member(member, rate)).collect()
}

/// A member, if it has reported.
pub(super) fn one_member(member: &Member, rate: u32) -> Option<SendMember> {
    let RemoteReport { block, round_trip, .. } = member.report?;
    Some(SendMember {
        ssrc: format!("{:08x}", member.ssrc),
        lost: block.cumulative_lost,
        loss_percent: percent(block.fraction_lost),
        jitter_ms: f64::from(block.jitter) * 1e3 / f64::from(rate),
        rtt_ms: round_trip.map(millis),
        playout_delay_ms: delay_ms(member.playout_delay),
        late: member.hearing.map(|heard| heard.late),
        capture_to_playout_ms: member.hearing.and_then(|heard| heard.delay).map(millis),
    })
}
