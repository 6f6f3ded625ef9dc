//! A player that is modelled: what it hears and shows, from the bytes that it is given and when.
//!
//! Sound is heard from its hand-over on, each sample after the one before. A picture is shown when it is handed over, but not before the sound
//! of its time in the stream is heard, and not at all when a newer one is to be shown by then.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_video::{Clip, Codec};

/// What a player was given.
#[derive(Default)]
pub(super) struct Player {
    /// Bytes of an element that is not whole.
    rest: Vec<u8>,
    /// Time in the stream at which the cluster begins, in milliseconds.
    cluster: u64,
    rate: u32,
    /// Blocks of sound: when they came, their time in the stream, and their samples.
    sound: Vec<(Instant, u64, Vec<i16>)>,
    /// Pictures: when they came, their time in the stream, and their bytes.
    pictures: Vec<(Instant, u64, Vec<u8>)>,
}

/// A picture that was shown: which one of the clip, by its time there, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownPicture {
    pub at: Instant,
    pub of: Duration,
    pub key: bool,
}

impl Player {
    /// Takes bytes of a live stream as [`antiphon_video::MatroskaWriter`] makes it.
    pub fn take(&mut self, now: Instant, bytes: &[u8]) {
        self.rest.extend(bytes);
        let mut rest = std::mem::take(&mut self.rest);
        let mut at = 0;
        while let Some((id, body, len)) = element(&rest[at..]) {
            match id {
                TRACKS => self.rate = rate_of(body).unwrap_or(0),
                TIMESTAMP => self.cluster = body.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)),
                SIMPLE_BLOCK => self.block(now, body),
                _ => {}
            }
            at += len;
        }
        rest.drain(..at);
        self.rest = rest;
    }

    fn block(&mut self, now: Instant, body: &[u8]) {
        let relative = i16::from_be_bytes([body[1], body[2]]);
        let (millis, data) = (self.cluster.saturating_add_signed(relative.into()), &body[4..]);
        match body[0] & 0x7f {
            1 => self.pictures.push((now, millis, data.to_vec())),
            _ => {
                let samples = data.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
                self.sound.push((now, millis, samples.collect()));
            }
        }
    }

    /// When the sound of this time of the stream is heard, in milliseconds; `None`: it was not given.
    fn heard_at(&self, millis: u64) -> Option<Instant> {
        let behind = self.sound.partition_point(|(_, begin, _)| *begin <= millis);
        let (came, begin, _) = self.sound.get(behind.checked_sub(1)?)?;
        Some(self.since_hand_over(behind - 1, *came) + Duration::from_millis(millis - begin))
    }

    /// When the block at `index` begins to be heard: after those that came with it.
    fn since_hand_over(&self, index: usize, came: Instant) -> Instant {
        let before = self.sound[..index].iter().rev().take_while(|(at, ..)| *at == came);
        let samples: usize = before.map(|(_, _, samples)| samples.len()).sum();
        came + Duration::from_secs_f64(samples as f64 / f64::from(self.rate))
    }

    /// When each click of the clip is heard, by the samples: where 5 ms of 1 kHz begin.
    pub fn clicks(&self) -> Vec<Instant> {
        let (form, every) = (click_form(), (self.rate / CLICK_RATE) as usize);
        let part = form.len() / 3;
        // Silence before the first one.
        let (mut all, mut begins) = (vec![0.0; part], Vec::new());
        for (index, (came, _, samples)) in self.sound.iter().enumerate() {
            begins.push((all.len(), self.since_hand_over(index, *came)));
            let mean =
                |samples: &[i16]| samples.iter().map(|sample| f32::from(*sample)).sum::<f32>() / every as f32;
            all.extend(samples.chunks(every).map(mean));
        }
        let (mut clicks, mut from) = (Vec::new(), 0);
        while let Some(found) = all[from..].iter().position(|sample| sample.abs() > QUIET) {
            // Where its form fits best.
            let near = (from + found).max(2 * part)..from + found + 2 * part;
            let fits = near.map(|at| (at - part, fit(&all[(at - 2 * part).min(all.len())..], &form)));
            let (best, fit) = fits.max_by(|(_, a), (_, b)| a.total_cmp(b)).expect("it is not empty");
            from += found + part;
            if fit > LEAST_FIT {
                let (begin, heard) = begins[begins.partition_point(|(begin, _)| *begin <= best) - 1];
                clicks.push(heard + Duration::from_secs_f64((best - begin) as f64 / f64::from(CLICK_RATE)));
                // Concealment may repeat it at once.
                from += CLICK_RATE as usize / 4;
            }
            from = from.min(all.len());
        }
        clicks
    }

    /// The pictures that were shown.
    pub fn shown(&self, clip: Clip) -> Vec<ShownPicture> {
        let known = KnownPictures::of(clip);
        let mut all: Vec<(Instant, u64, ShownPicture)> = Vec::new();
        for (came, millis, data) in &self.pictures {
            let at = self.heard_at(*millis).map_or(*came, |heard| heard.max(*came));
            let (of, key) = known.time(data);
            all.push((at, *millis, ShownPicture { at, of, key }));
        }
        // One that a newer one replaces at once is not seen.
        let mut shown: Vec<ShownPicture> = Vec::new();
        let mut next: Option<Instant> = None;
        all.sort_by_key(|(_, millis, _)| *millis);
        for (at, _, picture) in all.iter().rev() {
            if next.is_none_or(|next| *at < next) {
                shown.push(*picture);
                next = Some(*at);
            }
        }
        shown.reverse();
        shown
    }
}

/// The pictures of a clip by their bytes, as Matroska has them.
struct KnownPictures(Vec<(usize, Vec<u8>, Duration, bool)>);

impl KnownPictures {
    fn of(clip: Clip) -> Self {
        let mut reader = clip.open().expect("a clip");
        let mut known = Vec::new();
        while let Some(frame) = reader.next_frame().expect("a good file") {
            // H.264 has start codes instead of lengths in front of its parts; both are four bytes, and none are at the end.
            assert!(matches!(frame.codec, Codec::H264 | Codec::Vp8 | Codec::Av1));
            known.push((frame.data.len(), end(&frame.data), frame.time.duration(), frame.picture.key));
        }
        KnownPictures(known)
    }

    fn time(&self, data: &[u8]) -> (Duration, bool) {
        let of_it = |(len, tail, ..): &&(usize, Vec<u8>, _, _)| *len == data.len() && *tail == end(data);
        let (.., time, key) = self.0.iter().find(of_it).expect("it is a picture of the clip");
        (*time, *key)
    }
}

/// A click, 5 ms of 1 kHz, with as much silence before and after it: some speech resembles the 5 ms alone.
fn click_form() -> Vec<f32> {
    let part = CLICK_RATE / 200;
    let tone = |n: u32| (std::f32::consts::TAU * 1_000.0 * n as f32 / CLICK_RATE as f32).sin();
    (0..3 * part).map(|n| if (part..2 * part).contains(&n) { tone(n - part) } else { 0.0 }).collect()
}

/// The correlation of what is heard with a form, up to 1.
fn fit(heard: &[f32], form: &[f32]) -> f32 {
    let Some(heard) = heard.get(..form.len()) else { return 0.0 };
    let product: f32 = heard.iter().zip(form).map(|(heard, form)| heard * form).sum();
    let power = |samples: &[f32]| samples.iter().map(|sample| sample * sample).sum::<f32>();
    product / (power(heard) * power(form)).sqrt().max(1e-6)
}

fn end(data: &[u8]) -> Vec<u8> {
    data[data.len() - data.len().min(12)..].to_vec()
}

/// The next element: its identifier, its body, and its length in all. Masters of unknown size have no body; what is in them follows.
fn element(bytes: &[u8]) -> Option<(u32, &[u8], usize)> {
    let id_len = bytes.first()?.leading_zeros() as usize + 1;
    let id = bytes.get(..id_len)?.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
    let size_len = bytes.get(id_len)?.leading_zeros() as usize + 1;
    let size = bytes.get(id_len..id_len + size_len)?;
    let value = size.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let mask = (1u64 << (7 * size_len)) - 1;
    let begin = id_len + size_len;
    if value & mask == mask {
        return Some((id, &[], begin));
    }
    let end = begin + (value & mask) as usize;
    Some((id, bytes.get(begin..end)?, end))
}

/// The rate of the track of sound.
fn rate_of(tracks: &[u8]) -> Option<u32> {
    let mut at = tracks;
    while let Some((_, entry, len)) = element(at) {
        let mut inner = entry;
        while let Some((id, body, len)) = element(inner) {
            if let (AUDIO, Some((SAMPLING, rate, _))) = (id, element(body)) {
                return Some(f64::from_be_bytes(rate.try_into().ok()?) as u32);
            }
            inner = &inner[len..];
        }
        at = &at[len..];
    }
    None
}

const TRACKS: u32 = 0x1654_ae6b;
const TIMESTAMP: u32 = 0xe7;
const SIMPLE_BLOCK: u32 = 0xa3;
const AUDIO: u32 = 0xe1;
const SAMPLING: u32 = 0xb5;
/// Rate at which clicks are looked for.
const CLICK_RATE: u32 = 8_000;
/// A click has larger samples than this: 22 900 as it was sent.
const QUIET: f32 = 8_000.0;
/// How well a click fits its form at least: all of the clip have 0.84 or more, and in Opus of 16 kbit/s 0.71; its speech has 0.64 at most.
const LEAST_FIT: f32 = 0.68;
