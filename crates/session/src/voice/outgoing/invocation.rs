//! What a channel does when it is due.

use antiphon_core::{Instant, Message, Profile, SendError};
use antiphon_media::voice::{NoiseLevel, QUIET, VOICE_RATE, VoiceContent, voice_header_len};

use super::{DATA, Outgoing, Send};
use crate::voice::VoiceSending;

/// What the channels that are due at one instant need.
pub(super) struct Turn<'a> {
    pub now: Instant,
    /// The byte of the clock.
    pub at: u64,
    pub profile: &'a Profile,
    pub send: &'a mut Send<'a>,
}

/// How an invocation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Invoked {
    Done,
    /// The transport takes nothing more.
    Blocked,
}

impl Outgoing {
    /// Sends what has accumulated in a channel's FIFO.
    pub(super) fn invoke(&mut self, turn: &mut Turn<'_>, number: usize) -> Invoked {
        let phase = self.phase_of(number);
        let Outgoing { settings, channels, buf, .. } = self;
        let channel = &mut channels[number];
        let accumulated = channel.captured(turn.at, phase) - channel.taken;
        if accumulated == 0 {
            return Invoked::Done;
        }
        let held = accumulated.min(settings.fifo as u64) as usize;
        let voice = &mut buf[voice_header_len(number as u32)..][..held];
        channel.source.read(channel.taken, voice);
        let (taken, detector) = (channel.taken, channel.detector);
        // Opus finds pauses itself, and its time stamps have another clock.
        let silence = settings.silence.filter(|_| settings.opus.is_none());
        let invoked = match silence.and_then(|threshold| channel.detector.look(voice, threshold)) {
            Some(level) => self.pause(turn, number, accumulated, level),
            None if settings.opus.is_some() => self.compress(turn, number, accumulated, held),
            None => self.talk(turn, number, accumulated, held),
        };
        let channel = &mut self.channels[number];
        if invoked == Invoked::Blocked && channel.taken == taken {
            // It is shown the same bytes again.
            channel.detector = detector;
        }
        invoked
    }

    /// What has accumulated belongs to a pause, of which the peer is told now and then.
    fn pause(&mut self, turn: &mut Turn<'_>, number: usize, accumulated: u64, level: NoiseLevel) -> Invoked {
        let Outgoing { settings, channels, sender, buf, sent, last, .. } = self;
        let channel = &mut channels[number];
        if channel.paused.is_none_or(|told| channel.taken - told >= PAUSE_TOLD_AGAIN) {
            let len = channel.header(*sender, number, VoiceContent::Pause(level), buf);
            let message = settings.message(turn, channel.priority, number, &buf[..len]);
            match (turn.send)(message) {
                Err(SendError::Blocked { .. }) => return Invoked::Blocked,
                // It is told again.
                Err(_) => {}
                Ok(()) => {
                    channel.sequence = channel.sequence.wrapping_add(1);
                    (sent.open, *last) = (sent.open + 1, turn.now);
                }
            }
            (channel.paused, channel.talks) = (Some(channel.taken), false);
        }
        channel.taken += accumulated;
        sent.paused += accumulated;
        Invoked::Done
    }

    /// Sends the `held` bytes behind the header's place; the rest of what has accumulated has found the FIFO full.
    fn talk(&mut self, turn: &mut Turn<'_>, number: usize, accumulated: u64, held: usize) -> Invoked {
        let Outgoing { settings, channels, sender, buf, sent, last, .. } = self;
        let channel = &mut channels[number];
        channel.paused = None;
        // Transports that don't cut messages get them cut, by samples, so that IP never does.
        let pieces = held.div_ceil(settings.most(turn.profile, voice_header_len(number as u32)));
        for piece in 0..pieces {
            let (from, to) = (piece * held / pieces, (piece + 1) * held / pieces);
            // The header stands where the end of the previous piece was, which has been handed over.
            let header = channel.header(*sender, number, VoiceContent::Sound(&[]), &mut buf[from..]);
            let message = settings.message(turn, channel.priority, number, &buf[from..to + header]);
            match (turn.send)(message) {
                // What the FIFO keeps is read again when there is room.
                Err(SendError::Blocked { .. }) => return Invoked::Blocked,
                Err(_) => sent.refused += (to - from) as u64,
                Ok(()) => {
                    (sent.open, sent.packets, *last) = (sent.open + 1, sent.packets + 1, turn.now);
                    sent.bytes += (to - from) as u64;
                }
            }
            channel.sequence = channel.sequence.wrapping_add(1);
            channel.taken += (to - from) as u64;
            channel.talks = true;
        }
        channel.taken += accumulated - held as u64;
        sent.overflow += accumulated - held as u64;
        Invoked::Done
    }

    /// Sends the whole frames of the `held` bytes in Opus; what follows them stays in the FIFO, unless that is full.
    fn compress(&mut self, turn: &mut Turn<'_>, number: usize, accumulated: u64, held: usize) -> Invoked {
        let Outgoing { settings, channels, sender, buf, packet, sent, last, .. } = self;
        let channel = &mut channels[number];
        let ends = channel.taken + accumulated == channel.end;
        let frames = if ends { held.div_ceil(settings.size) } else { held / settings.size };
        for frame in 0..frames {
            let from = voice_header_len(number as u32) + frame * settings.size;
            let left = held - frame * settings.size;
            let voice = &mut buf[from..][..settings.size];
            // Of the last frame the source has only a part.
            voice[left.min(settings.size)..].fill(QUIET);
            let header = channel.header(*sender, number, VoiceContent::Opus(&[]), packet);
            let encoder = channel.encoder.as_mut().expect("Opus has one");
            let coded = encoder.encode(voice, &mut packet[header..]);
            let bytes = left.min(settings.size) as u64;
            channel.taken += bytes;
            channel.sequence = channel.sequence.wrapping_add(1);
            let Some(coded) = coded else {
                // Nothing of it can be sent.
                sent.refused += bytes;
                continue;
            };
            let message = settings.message(turn, channel.priority, number, &packet[..header + coded]);
            match (turn.send)(message) {
                // An encoder cannot go back.
                Err(SendError::Blocked { .. }) => {
                    sent.overflow += bytes;
                    return Invoked::Blocked;
                }
                Err(_) => sent.refused += bytes,
                Ok(()) => {
                    (sent.open, sent.packets, *last) = (sent.open + 1, sent.packets + 1, turn.now);
                    sent.bytes += bytes;
                }
            }
            channel.talks = true;
        }
        if accumulated > held as u64 {
            let rest = accumulated - (frames * settings.size).min(held) as u64;
            channel.taken += rest;
            sent.overflow += rest;
        }
        Invoked::Done
    }
}

impl VoiceSending {
    /// Bytes of voice in the longest message, behind a header of so many.
    fn most(&self, profile: &Profile, header: usize) -> usize {
        let whole = if profile.capabilities.fragmentation { profile.max_message } else { self.max_packet };
        whole.min(profile.max_message).saturating_sub(header).max(1)
    }

    fn message<'a>(&self, turn: &Turn<'_>, priority: u8, channel: usize, bytes: &'a [u8]) -> Message<'a> {
        let stream = turn.profile.media_stream(channel);
        Message { priority, stream, ..Message::new(DATA, bytes, Some(turn.now + self.lifetime)) }
    }
}

/// A pause is told again after so many bytes, as the first time may be lost: half a second.
const PAUSE_TOLD_AGAIN: u64 = VOICE_RATE as u64 / 2;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use antiphon_media::voice::{HANGOVER, VoiceMaterial, voice_bytes};

    use super::*;

    /// The bytes that are sent before a pause, where the transport takes nothing each `blocked`-th time.
    fn sent_before_the_pause(blocked: usize) -> u64 {
        let quiet = VoiceMaterial::of_channels(vec![vec![QUIET; 8_000]]);
        let mut sends = VoiceSending::new(vec![quiet.channel(0)], 160);
        sends.silence = Some(-45.0);
        let mut outgoing = Outgoing::new(sends, 1);
        let profile = Profile::of_datagrams(1_400, 1_400, 0);
        let mut now = Instant::ZERO;
        outgoing.begin(now);
        let mut calls = 0;
        while outgoing.sent(now).paused == 0 {
            now = outgoing.poll_timeout().unwrap_or(now).max(now + Duration::from_micros(1));
            outgoing.unblock();
            outgoing.run(now, &profile, &mut |_| {
                calls += 1;
                if calls % blocked == 0 { Err(SendError::Blocked { queued: 1 }) } else { Ok(()) }
            });
        }
        outgoing.sent(now).bytes
    }

    #[test]
    fn what_a_part_of_the_channels_has_sent_leaves_before_the_next_part() {
        let noise = VoiceMaterial::of_channels(vec![vec![1; 80]]);
        let mut outgoing = Outgoing::new(VoiceSending::new(vec![noise.channel(0); 3_000], 8), 1);
        let profile = Profile::of_datagrams(1_400, 1_400, 0);
        outgoing.begin(Instant::ZERO);
        let now = Instant::from_millis(20);
        let (mut sent, mut runs) = (0, 0);
        while outgoing.poll_timeout().is_some_and(|due| due <= now) && !outgoing.is_drained() {
            let before = sent;
            outgoing.run(now, &profile, &mut |_| {
                sent += 1;
                Ok(())
            });
            assert!((1..=128).contains(&(sent - before)), "{}", sent - before);
            runs += 1;
        }
        // Each has one message, with all that its FIFO kept, and has ended.
        assert_eq!((sent, runs, outgoing.is_drained()), (3_000, 24, true));
        assert_eq!(outgoing.sent(now).overflow, 3_000 * (80 - 16));
    }

    #[test]
    fn a_blocked_transport_makes_no_pause_begin_earlier() {
        assert_eq!(sent_before_the_pause(usize::MAX), voice_bytes(HANGOVER));
        assert_eq!(sent_before_the_pause(2), voice_bytes(HANGOVER));
    }
}
