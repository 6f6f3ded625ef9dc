//! Checks of claims of ours on audio and video of one session with a congestion manager. They are of the emulators: on the modem the sound alone
//! takes all but a tenth.

use super::super::judge::{Case, NotRun};
use super::checks::Outcome;
use super::own::{CROSSING, EMULATORS, OVER_TCP};
use super::{AUDIO, MANAGER, ONCE, TCP, TWICE, UDP, VIDEO};

const CROSSING_MANAGER: &str = "crossing_manager";
const PACKETS: &str = "packets";
/// Of the video's packets there.
const LENGTHS: [&str; 6] = ["401B", "501B", "601B", "708B", "1002B", "1336B"];
const LOSSES: [&str; 3] = ["0%", "2%", "5%"];
const SRP: &str = "srp";
/// Transports of the session, and how its audio is protected.
const WAYS: [(&str, &str); 3] = [(UDP, ONCE), (SRP, ONCE), (UDP, TWICE)];
/// Of audio in a packet, as the scenario says.
const PACKET_S: f64 = 0.06;

impl Case<'_> {
    fn managed(
        &mut self,
        path: &str,
        (transport, protect): (&str, &str),
        stream: &str,
        figure: &'static str,
    ) -> Result<f64, NotRun> {
        let point = [("path", path), ("transport", transport), ("protect", protect)];
        self.mean_of(MANAGER, stream, &point, figure)
    }

    /// Seconds of audio that a listener with 200 ms of playout misses, and those of them that never came.
    fn seconds_missed(&mut self, path: &str, way: (&str, &str)) -> Result<(f64, f64), NotRun> {
        let sent = self.managed(path, way, AUDIO, "sent")?;
        let missed = self.managed(path, way, AUDIO, "missed_200ms_percent")? / 100.0 * sent;
        let never = sent - self.managed(path, way, AUDIO, "received")?;
        Ok((PACKET_S * missed, PACKET_S * never))
    }

    /// The video of a session as a share of what TCP carries beside audio of the paper over the same path.
    fn share_of_tcp(&mut self, path: &str, way: (&str, &str)) -> Result<f64, NotRun> {
        let tcp = self.way(path, OVER_TCP, VIDEO, "media_kbit_per_s")?;
        Ok(self.managed(path, way, VIDEO, "media_kbit_per_s")? / tcp)
    }
}

pub(super) fn no_audio_is_late(case: &mut Case<'_>) -> Outcome {
    case.every(EMULATORS, |case, path| {
        case.every([ONCE, TWICE], |case, protect| {
            let (missed, never) = case.seconds_missed(path, (UDP, protect))?;
            Ok(missed - never <= 0.1)
        })
    })
}

pub(super) fn repairs_leave_half_a_second(case: &mut Case<'_>) -> Outcome {
    case.every(EMULATORS, |case, path| Ok(case.seconds_missed(path, (SRP, ONCE))?.0 < 0.5))
}

pub(super) fn audio_twice_leaves_half_a_second(case: &mut Case<'_>) -> Outcome {
    case.every(EMULATORS, |case, path| Ok(case.seconds_missed(path, (UDP, TWICE))?.0 < 0.5))
}

pub(super) fn as_much_video_as_over_tcp(case: &mut Case<'_>) -> Outcome {
    case.every(EMULATORS, |case, path| {
        case.every(WAYS, |case, way| Ok(case.share_of_tcp(path, way)? >= 0.95))
    })
}

/// A tenth and a fifth: bounds chosen here.
pub(super) fn repairs_are_far_better_than_tcp(case: &mut Case<'_>) -> Outcome {
    case.every(EMULATORS, |case, path| {
        let (missed, sent) =
            (case.seconds_missed(path, (SRP, ONCE))?.0, case.managed(path, (SRP, ONCE), AUDIO, "sent")?);
        let share = missed / (PACKET_S * sent);
        let enough = case.share_of_tcp(path, (SRP, ONCE))? >= 0.8;
        Ok(100.0 * share < case.listener_misses(path, OVER_TCP)? / 10.0 && enough)
    })
}

/// The goals of repaired audio and of video exclude each other: packets that are short enough for repairs in time have too many headers. Half a second and
/// 0.95 are the goals; that the first is reached at all belongs to it.
pub(super) fn no_length_of_packets_has_both(case: &mut Case<'_>) -> Outcome {
    let packet_of_audio = PACKET_S / 100.0;
    case.every(EMULATORS, |case, path| {
        let enough = 0.95 * case.way(path, OVER_TCP, VIDEO, "media_kbit_per_s")?;
        let (mut is_heard, mut has_both) = (false, false);
        for packet in LENGTHS {
            let point = [("path", path), ("transport", SRP), ("packet", packet)];
            let missed = case.mean_of(PACKETS, AUDIO, &point, "missed_200ms_percent")?;
            let sent = case.mean_of(PACKETS, AUDIO, &point, "sent")?;
            let video = case.mean_of(PACKETS, VIDEO, &point, "media_kbit_per_s")?;
            let is_whole = packet_of_audio * missed * sent < 0.5;
            is_heard |= is_whole;
            has_both |= is_whole && video >= enough;
        }
        Ok(is_heard && !has_both)
    })
}

/// From 12 kB/s on: below that the sound alone takes half of the path.
pub(super) fn the_manager_has_no_crossing(case: &mut Case<'_>) -> Outcome {
    let rates = ["124kbit/s", "160kbit/s", "192kbit/s", "224kbit/s", "256kbit/s", "288kbit/s", "320kbit/s"];
    case.every(rates, |case, rate| {
        case.every(LOSSES, |case, loss| {
            let tcp = [("video", TCP), ("rate", rate), ("loss", loss)];
            let tcp = case.mean_of(CROSSING, AUDIO, &tcp, "missed_200ms_percent")?;
            let own = [("transport", SRP), ("rate", rate), ("loss", loss)];
            Ok(case.mean_of(CROSSING_MANAGER, AUDIO, &own, "missed_200ms_percent")? < tcp / 5.0)
        })
    })
}
