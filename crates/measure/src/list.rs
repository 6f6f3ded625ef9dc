//! The list of all figures: name, unit, definition, and which direction is better.
//!
//! Tables, pages, gates and files of `compare` and of the laboratory read it. *Lost* is the network's doing, *expired* and
//! *refused* the sender's, *late* the receiver's; *missing* is all of them together (`docs/glossary.md`).

use crate::figures::TransportFigures;

/// A figure's entry in [`FIGURES`].
#[derive(Clone, Copy, Debug)]
pub struct FigureDef {
    /// In files: a word with its unit.
    pub name: &'static str,
    /// In tables for people.
    pub title: &'static str,
    /// Of its values.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
    /// Definition: what is counted or measured, and how.
    pub definition: &'static str,
    /// By what name a [`Gate`](crate::Gate) knows it; `None` where none does.
    pub gate: Option<&'static str>,
    /// Its value in a comparison; `None` where nothing was measured, or where a comparison has no such figure.
    pub read: fn(&TransportFigures) -> Option<f64>,
}

impl FigureDef {
    /// A figure beyond the list: a ratio of other figures, of which small values are good.
    pub const fn ratio(name: &'static str, title: &'static str, definition: &'static str) -> Self {
        let (unit, better, gate) = (Unit::Count, Better::Lower, None);
        FigureDef { name, title, unit, better, definition, gate, read: |_| None }
    }
}

impl PartialEq for FigureDef {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Which way is good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// Small is good, as with delay.
    Lower,
    /// Large is good.
    Higher,
    /// Neither, for example a count of packets sent.
    Neither,
}

/// What a figure is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A count, or a share of one.
    Count,
    /// Of the packets sent, unless the definition says otherwise.
    Percent,
    /// For each 1000 packets received.
    Per1000,
    /// Milliseconds.
    Millis,
    /// Bytes.
    Bytes,
    /// Thousands of bits a second.
    KbitPerS,
    /// Milliseconds of processor time a second.
    MsPerS,
}

impl Unit {
    /// The unit after a value; empty for counts.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Count => "",
            Unit::Percent => "%",
            Unit::Per1000 => "per 1000",
            Unit::Millis => "ms",
            Unit::Bytes => "bytes",
            Unit::KbitPerS => "kbit/s",
            Unit::MsPerS => "ms/s",
        }
    }

    /// Decimal places that people read.
    pub fn decimals(self) -> usize {
        match self {
            Unit::Count | Unit::Bytes | Unit::KbitPerS => 0,
            Unit::Millis | Unit::MsPerS | Unit::Per1000 => 2,
            Unit::Percent => 3,
        }
    }
}

/// The figure called `name`.
pub fn figure(name: &str) -> Option<&'static FigureDef> {
    FIGURES.iter().find(|def| def.name == name)
}

macro_rules! figures {
    (
        streams { $($name:ident $title:literal $unit:ident $better:ident $([$gate:literal])? $definition:literal $read:expr;)* }
        comparisons { $($more:ident $t:literal $u:ident $b:ident $([$g:literal])? $d:literal $r:expr;)* }
    ) => {
        /// What was measured of one stream of the laboratory in one run; `None` where there is nothing to measure. Fields are
        /// named as in files, with their units; [`STREAM_FIGURES`] defines them.
        #[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct StreamFigures {
            $(#[doc = $definition] #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<f64>,)*
        }

        impl StreamFigures {
            /// The values in the order of [`STREAM_FIGURES`].
            pub fn values(&self) -> Vec<Option<f64>> {
                vec![$(self.$name,)*]
            }

            /// From values in the order of [`STREAM_FIGURES`]; missing ones are `None`.
            pub fn from_values(values: &[Option<f64>]) -> Self {
                let mut values = values.iter().copied();
                StreamFigures { $($name: values.next().flatten(),)* }
            }
        }

        /// The figures of a stream of the laboratory, in the order of its tables' columns.
        pub static STREAM_FIGURES: &[FigureDef] = FIGURES.split_at([$(stringify!($name)),*].len()).0;

        /// All figures: those of a stream of the laboratory, then those that only a comparison has.
        pub static FIGURES: &[FigureDef] = &[
            $(FigureDef {
                name: stringify!($name), title: $title, unit: Unit::$unit, better: Better::$better, definition: $definition,
                gate: [$(Some($gate),)? None][0], read: $read,
            },)*
            $(FigureDef {
                name: stringify!($more), title: $t, unit: Unit::$u, better: Better::$b, definition: $d,
                gate: [$(Some($g),)? None][0], read: $r,
            },)*
        ];
    };
}

figures! {
    streams {
        sent "packets sent" Count Neither
            "Packets handed to the transport, including refused ones." |f| Some(f.packets_sent as f64);
        received "packets received" Count Higher ["received"]
            "Distinct packets received, in time or late." |f| Some(f.packets_received as f64);
        missing_percent "missing" Percent Lower ["missing"]
            "Packets lost, expired, refused or late: those that could not be played."
            |f| f.lip_sync.missing_percent;
        lost_percent "lost" Percent Lower ["loss"]
            "Packets sent and lost by the network; in both directions together if packets are returned." |f| f.lost_percent;
        late_percent "late" Percent Lower ["late"]
            "Packets that arrived after their playout time." |f| f.late_percent;
        expired "expired packets" Count Lower ["expired_packets"]
            "Packets that the sender discarded as too old, and that were not received." |f| Some(f.expired as f64);
        refused "refused packets" Count Lower ["refused_packets"]
            "Packets that the transport did not accept: its queue was full, or it was closed." |f| Some(f.refused as f64);
        duplicate "duplicates" Count Lower ["duplicate_packets"]
            "Arrivals of a packet that was already received; gaps between arrivals ignore them."
            |f| Some(f.duplicate as f64);
        duplicate_packet_late "duplicates, packet late" Count Lower
            "Duplicates that were sent before any transmission of the packet had arrived; of simple retransmission as published." |_| None;
        duplicate_ack_late "duplicates, acknowledgement late" Count Lower
            "Duplicates that were sent while an acknowledgement of the packet was on its way to the sender, and arrived." |_| None;
        duplicate_ack_lost "duplicates, acknowledgement lost" Count Lower
            "Duplicates that were sent although the packet had arrived, because none of its acknowledgements reached the sender."
            |_| None;
        duplicate_ack_unread "duplicates, acknowledgement unread" Count Lower
            "Duplicates that were sent while an acknowledgement of the packet waited in the sender's socket." |_| None;
        reordered "reordered packets" Count Lower ["reordered_packets"]
            "Packets that arrived after one with a higher number (RFC 4737)." |f| Some(f.reordered as f64);
        gap_mean_ms "mean gap" Millis Lower
            "Mean time between two successive arrivals of different packets." |f| f.gap_mean_ms;
        gap_mad_ms "gap, mean deviation" Millis Lower
            "Mean absolute deviation of the times between successive arrivals from their mean." |_| None;
        gap_max_ms "longest gap" Millis Lower ["gap_max"]
            "Longest time between two successive arrivals." |f| f.gap_max_ms;
        gaps_above_80ms "gaps above 80 ms" Count Lower
            "Times between successive arrivals of more than 80 ms, in the whole run." |f| Some(f.gaps_over_80ms as f64);
        gaps_above_80ms_per_1000 "gaps above 80 ms" Per1000 Lower
            "Times between successive arrivals of more than 80 ms, for each 1000 packets received." |_| None;
        delay_mean_ms "one way, mean" Millis Lower
            "From the packet's due time at the sender to its arrival at the receiver's application."
            |f| f.one_way_ms?.mean_ms;
        delay_p50_ms "one way, p50" Millis Lower ["one_way_p50"]
            "Median: half of the packets arrived sooner (nearest rank)." |f| f.one_way_ms?.p50_ms;
        delay_p99_ms "one way, p99" Millis Lower ["one_way_p99"]
            "99 % of the packets arrived sooner." |f| f.one_way_ms?.p99_ms;
        delay_max_ms "one way, max" Millis Lower ["one_way_max"]
            "The slowest packet." |f| f.one_way_ms?.max_ms;
        rtt_mean_ms "round trip, mean" Millis Lower ["mean"]
            "From sending a packet until it is back; for returned streams and pings." |f| f.rtt_ms.mean_ms;
        rtt_p50_ms "round trip, p50" Millis Lower ["p50"]
            "Median: half of the packets were back sooner (nearest rank)." |f| f.rtt_ms.p50_ms;
        rtt_p99_ms "round trip, p99" Millis Lower ["p99"]
            "99 % of the packets were back sooner." |f| f.rtt_ms.p99_ms;
        rtt_max_ms "round trip, max" Millis Lower ["max"]
            "The slowest packet." |f| f.rtt_ms.max_ms;
        rtt_timed_p999_ms "round trip, p99.9 by a timer" Millis Lower
            "99.9 % of the packets were back sooner (nearest rank), as a timer of the stream's resolution reads it: from a random part \
             of a tick, rounded to a whole one." |_| None;
        jitter_sd_ms "jitter (SD)" Millis Lower
            "Standard deviation of the round trips, or of the one-way delays if packets are not returned." |_| None;
        jitter_mad_ms "jitter (MAD)" Millis Lower ["jitter"]
            "Mean absolute deviation of the round trips, or of the one-way delays, from their mean (Schiavoni, Queiroz and \
             Wanderley 2013, equation 2)." |f| f.jitter_mad_ms;
        buffer_empty_per_1000 "buffer empty" Per1000 Lower
            "Restarts of a 70 ms buffer that ran empty; missing packets leave it shorter (it counts bytes)."
            |f| f.buffer_bytes.empty_per_1000();
        buffer_not_full_per_1000 "buffer not full" Per1000 Lower
            "Restarts of the same buffer because it did not fill within 70 ms." |f| f.buffer_bytes.not_full_per_1000();
        buffer_empty_numbered_per_1000 "buffer empty, numbered" Per1000 Lower
            "As buffer_empty_per_1000, but gaps in the sequence are filled with silence, and late packets and duplicates add nothing."
            |f| f.buffer_sequence.empty_per_1000();
        buffer_not_full_numbered_per_1000 "buffer not full, numbered" Per1000 Lower
            "As buffer_not_full_per_1000, but gaps in the sequence are filled with silence."
            |f| f.buffer_sequence.not_full_per_1000();
        concealed_percent "concealed" Percent Lower ["concealed"]
            "Share of the sound that the receiver had to conceal." |f| f.concealed_percent;
        wire_bytes "bytes on the wire" Bytes Lower
            "IP packets sent by the stream's sender, including retransmissions." |f| Some(f.wire_bytes as f64);
        retransmissions "retransmissions" Count Lower
            "Packets, segments or messages sent again by the transport." |_| None;
        mac_exhausted "dropped after the last MAC retry" Count Lower
            "Packets of the stream that an 802.11 station dropped at its retry limit." |_| None;
        queue_dropped "dropped by queues" Count Lower
            "Packets of the stream dropped by full queues or by early dropping." |_| None;
        broken "broken" Count Lower
            "1 if the connection broke before the end of the stream, else 0." |_| None;
        watched_missing_percent "missing, watched" Percent Lower
            "Packets that never came, of those due in the watched part of the run: the first seconds of each period but the first." |_| None;
        watched_jitter_mad_ms "jitter (MAD), watched" Millis Lower
            "Mean absolute deviation of the one-way delays of the packets due in the watched part of the run." |_| None;
        gaps_above_250ms "gaps above 250 ms" Count Lower
            "Times between successive arrivals of more than 250 ms, in the whole run; of a stream beside which another one is looked at." |_| None;
        gaps_above_500ms "gaps above 500 ms" Count Lower
            "The same of more than 500 ms." |_| None;
        gap_shared_ms "mean gap with the other stream" Millis Lower
            "Mean of those times between successive arrivals in which at least one packet of the stream beside it arrived." |_| None;
        gap_unshared_ms "mean gap without the other stream" Millis Neither
            "Mean of those in which none arrived." |_| None;
        gap_sd_mean_ms "deviation of 100 gaps, mean" Millis Lower
            "Standard deviation of the last 100 times between arrivals, in the mean over the arrivals while the stream beside it was sent." |_| None;
        gap_sd_max_ms "deviation of 100 gaps, greatest" Millis Lower
            "Its greatest value in that time." |_| None;
        missed_50ms_percent "missed with 50 ms" Percent Lower
            "What a listener with a playout delay of 50 ms misses: packets that never came, or more than that later than the least delayed one." |_| None;
        missed_100ms_percent "missed with 100 ms" Percent Lower "The same of 100 ms." |_| None;
        missed_200ms_percent "missed with 200 ms" Percent Lower "The same of 200 ms." |_| None;
        missed_500ms_percent "missed with 500 ms" Percent Lower "The same of 500 ms." |_| None;
        missed_1000ms_percent "missed with 1 s" Percent Lower "The same of 1 s." |_| None;
        media_kbit_per_s "video received" KbitPerS Higher
            "Bytes of a video that were received, over the time from its first to its last arrival." |_| None;
        frames_sent "video frames sent" Count Neither
            "Video frames that were handed to the transport; a sender that chooses the newest one leaves out others."
            |f| Some(f.pictures?.sent as f64);
        frames_whole "video frames whole" Count Higher
            "Video frames of which every packet arrived." |f| Some(f.pictures?.whole as f64);
        frame_delay_mean_ms "delay of video frames" Millis Lower
            "From a whole video frame's due time to the arrival of its last packet, in the mean." |_| None;
        frame_gap_mean_ms "gap of video frames" Millis Lower
            "From one change of the picture to the next, in the mean: whole frames that are newer than the one shown." |_| None;
        freeze_percent "picture frozen" Percent Lower
            "Time beyond one frame interval in which the picture did not change, as a share of the time from the video's beginning to its end, or to its \
             last arrival if that is later." |_| None;
        changes_failed "changes that failed" Count Lower
            "Changes of the stream's transport, and transports beside it, that failed; of streams that have any." |_| None;
    }
    comparisons {
        expired_percent "expired" Percent Lower ["expired"]
            "Packets that the sender discarded as too old." |f| f.expired_percent;
        refused_percent "refused" Percent Lower ["refused"]
            "Packets that the transport did not accept: its queue was full, or it was closed." |f| f.refused_percent;
        duplicate_percent "duplicate" Percent Lower ["duplicate"]
            "Packets that arrived more than once." |f| f.duplicate_percent;
        reordered_percent "reordered" Percent Lower ["reordered"]
            "Packets that arrived after a later one (RFC 4737)." |f| f.reordered_percent;
        lost "lost packets" Count Lower ["lost"]
            "Packets sent and lost by the network." |f| Some(f.lost as f64);
        late "late packets" Count Lower ["late_packets"]
            "Packets that arrived after their playout time." |f| Some(f.late as f64);
        concealed "concealed packets" Count Lower ["concealed_packets"]
            "Sound that had to be concealed, in packets." |f| Some(f.concealed as f64);
        longest_loss_burst "longest loss" Count Lower ["longest_loss_burst"]
            "Most packets lost in a row." |f| Some(f.longest_loss_burst as f64);
        rtt_p90_ms "round trip, p90" Millis Lower ["p90"]
            "90 % of the packets were back sooner." |f| f.rtt_ms.p90_ms;
        rtt_p999_ms "round trip, p99.9" Millis Lower ["p999"]
            "99.9 % of the packets were back sooner." |f| f.rtt_ms.p999_ms;
        rtt_min_ms "round trip, min" Millis Lower ["min"]
            "The fastest packet." |f| f.rtt_ms.min_ms;
        jitter_rfc3550_ms "jitter (RFC 3550)" Millis Lower ["jitter_rfc3550"]
            "Interarrival jitter at the end of the run (RFC 3550 §6.4.1)." |f| f.jitter_rfc3550_ms;
        rolling_deviation_ms "deviation of gaps" Millis Lower ["rolling_deviation"]
            "Standard deviation of the last 100 gaps." |f| f.rolling_deviation_ms;
        rolling_deviation_max_ms "rolling deviation" Millis Lower
            "Largest standard deviation of 100 gaps in a row." |f| f.rolling_deviation_max_ms;
        pdv_ms "delay variation" Millis Lower ["pdv"]
            "99.9th percentile of the round trips minus the smallest (RFC 5481 §4.2)." |f| f.pdv_ms;
        wire_kbit_per_s "wire rate" KbitPerS Lower
            "Rate on the wire in the sending direction, including IP headers." |f| f.wire_kbit_per_s;
        overhead_percent "overhead" Percent Lower
            "Bytes on the wire in addition to the sound, in percent of the sound." |f| f.overhead_percent;
        cpu_ms_per_s "CPU" MsPerS Lower ["cpu"]
            "Processor time of the media thread per second of stream." |f| f.cpu_ms_per_s;
        pictures_left_out "pictures left out" Count Lower
            "Pictures that the sender left out, as they would have come too late, or could not be decoded." |f| Some(f.pictures?.left_out as f64);
        pictures_whole_percent "pictures whole" Percent Higher ["pictures_whole"]
            "Pictures of which every packet arrived, of those sent and left out." |f| f.pictures?.whole_percent;
        pictures_too_late "pictures too late" Count Lower ["pictures_too_late"]
            "Whole pictures that came too late to be shown with their sound." |f| Some(f.pictures?.too_late as f64);
        pictures_frozen_percent "pictures frozen" Percent Lower ["pictures_frozen"]
            "Time in which a picture stood still beyond its own time, of the time in which there are pictures." |f| f.pictures?.frozen_percent;
        pictures_lost_percent "picture packets lost" Percent Lower ["pictures_loss"]
            "Packets of pictures sent and lost by the network, of those sent." |f| f.pictures?.lost_percent;
        pictures_delay_p50_ms "pictures one way, p50" Millis Lower
            "The one-way delay of packets of pictures: half of them arrived sooner." |f| f.pictures?.one_way_ms?.p50_ms;
        pictures_delay_p99_ms "pictures one way, p99" Millis Lower
            "99 % of them arrived sooner." |f| f.pictures?.one_way_ms?.p99_ms;
        pictures_rtt_p50_ms "pictures round trip, p50" Millis Lower
            "From sending a packet of pictures until it is back: half of them were back sooner." |f| f.pictures?.rtt_ms.p50_ms;
        pictures_rtt_p99_ms "pictures round trip, p99" Millis Lower ["pictures_p99"]
            "99 % of them were back sooner." |f| f.pictures?.rtt_ms.p99_ms;
        pictures_skew_p999_ms "skew, p99.9" Millis Lower ["skew"]
            "How far 99.9 % of the pictures that were shown are from their sound at most." |f| Some(f.pictures?.skew?.p99_9_ms);
        pictures_kbit_per_s "rate of pictures" KbitPerS Higher
            "Bytes of the packets of pictures, while there are any." |f| f.pictures?.media_kbit_per_s;
        sound_beside_missing_percent "sound missing beside pictures" Percent Lower
            "Packets of sound that could not be played, of those sent while there are pictures." |f| Some(f.pictures?.sound_beside?.missing_percent);
        sound_alone_missing_percent "sound missing alone" Percent Lower
            "The same of those sent after the last picture." |f| Some(f.pictures?.sound_alone?.missing_percent);
        sound_beside_rtt_p99_ms "sound back beside pictures, p99" Millis Lower
            "99 % of the packets of sound that were sent while there are pictures were back sooner." |f| Some(f.pictures?.sound_beside?.rtt_p99_ms);
        sound_alone_rtt_p99_ms "sound back alone, p99" Millis Lower
            "The same of those sent after the last picture." |f| Some(f.pictures?.sound_alone?.rtt_p99_ms);
    }
}

#[cfg(test)]
mod tests;
