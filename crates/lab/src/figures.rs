//! The figures of one stream in one run, and their one list of names, units and definitions.

use antiphon_core::Instant;

/// A column of the results.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FigureDef {
    /// In files: a word with its unit.
    pub name: &'static str,
    /// In tables for people.
    pub title: &'static str,
    /// Unit of the value; empty for counts and shares of one.
    pub unit: &'static str,
    /// What is counted or measured, and how.
    pub definition: &'static str,
}

macro_rules! figures {
    ($($name:ident $title:literal [$unit:literal] $definition:literal;)*) => {
        /// What was measured of one stream in one run; `None` where there is nothing to measure. Fields are named as in
        /// files, with their units; [`FIGURES`] defines them.
        #[derive(Clone, Copy, PartialEq, Debug, Default)]
        pub struct StreamFigures {
            $(#[doc = $definition] pub $name: Option<f64>,)*
        }

        /// All figures, in the order of the columns.
        pub static FIGURES: &[FigureDef] = &[
            $(FigureDef { name: stringify!($name), title: $title, unit: $unit, definition: $definition },)*
        ];

        impl StreamFigures {
            /// The values in the order of [`FIGURES`].
            pub fn values(&self) -> Vec<Option<f64>> {
                vec![$(self.$name,)*]
            }

            /// From values in the order of [`FIGURES`]; missing ones are `None`.
            pub fn from_values(values: &[Option<f64>]) -> Self {
                let mut values = values.iter().copied();
                StreamFigures { $($name: values.next().flatten(),)* }
            }
        }
    };
}

figures! {
    sent "sent" [""] "Frames that the application handed over.";
    received "received" [""] "Different frames that arrived.";
    lost_percent "lost" ["%"] "Frames sent that never arrived, whatever the reason.";
    expired "expired" [""] "Frames that the sender gave up before they were begun.";
    duplicate "duplicates" [""] "Arrivals of a frame that was there already; no delay between arrivals counts them.";
    reordered "reordered" [""] "Frames that arrived behind one with a higher number.";
    gap_mean_s "mean inter-packet delay" ["s"] "Mean time between two successive arrivals of different frames.";
    gap_mad_ms "inter-packet delay, mean deviation" ["ms"] "Mean absolute deviation of the times between two successive arrivals from their mean.";
    gap_max_s "longest inter-packet delay" ["s"] "Longest time between two successive arrivals.";
    gaps_above_80ms "inter-packet delays above 80 ms" [""] "Times between successive arrivals of more than 80 ms, in the whole run.";
    gaps_above_80ms_per_1000 "inter-packet delays above 80 ms, per 1000" [""] "Times between successive arrivals of more than 80 ms, for each 1000 frames received.";
    delay_mean_ms "mean one-way delay" ["ms"] "From the frame's due time at the sender to its arrival at the receiver's application.";
    delay_p50_ms "median one-way delay" ["ms"] "Median of the same.";
    delay_p99_ms "one-way delay, 99 %" ["ms"] "99 of 100 delays are not above this.";
    delay_max_ms "longest one-way delay" ["ms"] "Greatest of the same.";
    rtt_mean_ms "mean round trip" ["ms"] "Reflected streams and pings: from sending to the return.";
    rtt_p99_ms "round trip, 99 %" ["ms"] "99 of 100 round trips are not above this.";
    jitter_sd_ms "jitter, standard deviation" ["ms"] "Standard deviation of the round trips, or of the one-way delays where nothing returns.";
    jitter_mad_ms "jitter, mean deviation" ["ms"] "Mean absolute deviation from the mean, of the same.";
    buffer_empty_per_1000 "buffer empty, per 1000" [""] "Restarts of a 70 ms buffer that ran empty, per 1000 frames received; lost frames are missing from it (bytes are counted).";
    buffer_not_full_per_1000 "buffer not full, per 1000" [""] "Restarts of the same buffer since it did not fill within 70 ms.";
    buffer_empty_numbered_per_1000 "buffer empty, numbered, per 1000" [""] "As buffer_empty_per_1000 where gaps in the numbers are filled with silence, and late frames and duplicates add nothing.";
    buffer_not_full_numbered_per_1000 "buffer not full, numbered, per 1000" [""] "As buffer_not_full_per_1000 where gaps in the numbers are filled with silence.";
    concealed_percent "concealed" ["%"] "Sound streams: packets of sound that the receiver had to make up.";
    wire_bytes "bytes on the wire" ["bytes"] "IP packets that the stream's sender put on its first medium, repairs included.";
    retransmissions "repetitions" [""] "Frames, segments or messages sent again by the transport.";
    mac_exhausted "dropped after the last MAC retry" [""] "Packets of the stream that an 802.11 station gave up after its retry limit.";
    queue_dropped "dropped by queues" [""] "Packets of the stream that found a queue full on their way, or were dropped before it was.";
    broken "broken" [""] "1 if the connection broke before the stream's end, else 0.";
}

/// What became of each frame of a stream in one run, to be drawn.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Course {
    /// When each frame was due, or sent where that is what counts, in the order of their numbers.
    pub sent: Vec<Instant>,
    /// The index in `sent` of each frame that came, and when, in the order of arrival. Duplicates are left out.
    pub came: Vec<(usize, Instant)>,
}

/// What a medium did in one run, for those who ask why.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MediumFigures {
    /// The medium's name in its setup.
    pub name: String,
    /// Name and value of each counter, the same names in each run of a setup.
    pub counters: Vec<(&'static str, f64)>,
}

/// What came of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunFigures {
    /// Each stream's and each ping's name and figures, in the order of the setup, streams first. A multicast stream's
    /// are those of its first receiver; the others follow as `name@node`.
    pub streams: Vec<(String, StreamFigures)>,
    /// Each medium, in the order of the setup.
    pub media: Vec<MediumFigures>,
    /// Events that the world went through.
    pub events: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_out_and_come_back_in_the_order_of_the_list() {
        let values: Vec<_> = (0..FIGURES.len()).map(|n| (n % 3 > 0).then_some(n as f64)).collect();
        let figures = StreamFigures::from_values(&values);
        assert_eq!(figures.values(), values);
        assert_eq!((FIGURES[1].name, figures.received), ("received", Some(1.0)));
        assert_eq!(StreamFigures::from_values(&[]), StreamFigures::default());
    }
}
