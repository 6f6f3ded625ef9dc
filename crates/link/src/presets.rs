//! Links named after real places. Every number states its reason, and `antiphon link --list` prints both.

use crate::spec::{DuplexSpec, LinkSpec};

/// A named link.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name in a specification.
    pub name: &'static str,
    /// Where such a link occurs.
    pub place: &'static str,
    /// The settings that define it.
    pub settings: &'static [Setting],
}

/// One number of a preset.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// As in a specification: `delay=5ms`, `up.rate=10Mbit/s`.
    pub text: &'static str,
    /// Why this number.
    pub reason: &'static str,
}

impl Preset {
    /// The preset as data.
    pub fn spec(&self) -> DuplexSpec {
        let words: Vec<&str> = self.settings.iter().map(|setting| setting.text).collect();
        if words.is_empty() {
            return DuplexSpec { up: LinkSpec::default(), down: LinkSpec::default() };
        }
        words.join(",").parse().expect("every preset is parsed by a test")
    }
}

/// The preset of that name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

const fn set(text: &'static str, reason: &'static str) -> Setting {
    Setting { text, reason }
}

/// All presets, from the best network to the worst; then the emulators and the modem of a study of 2003.
pub const PRESETS: [Preset; 11] = [
    Preset { name: "ideal", place: "no network at all: only the delay of the computers", settings: &[] },
    Preset {
        name: "ethernet",
        place: "wired network in a studio or home: one gigabit switch between two computers",
        settings: &[
            set("rate=1Gbit/s", "1000BASE-T"),
            set("queue=512kB", "packet memory of a small switch: 4 ms at full rate"),
            set(
                "delay=50us",
                "store and forward 11 us at 1300 bytes, switch 5 to 20 us, the rest in the two adapters",
            ),
            set("jitter=10us/exponential", "interrupt moderation of the adapters"),
        ],
    },
    Preset {
        name: "wifi-home",
        place: "Wi-Fi in a flat: access point one room away, neighbours nearby",
        settings: &[
            set("rate=60Mbit/s", "what 802.11n at 20 MHz and two streams leaves for UDP of its 130 Mbit/s"),
            set("queue=200kB", "about 130 full packets in the access point: 27 ms at full rate"),
            set(
                "delay=1ms",
                "contention, frame and acknowledgement on an idle channel, with the cable behind it",
            ),
            set(
                "jitter=600us/pareto",
                "back-off and retries behind other stations' frames: 1 packet in 100 over 5 ms, 1 in 1000 over 18 ms",
            ),
            set(
                "stall=30ms/8s",
                "the client leaves the channel to scan, or rate control recovers after a fade: 0.4 % of time",
            ),
            set(
                "loss=0.4%/10ms",
                "retries exhausted in short fades: a few tenths of a percent each way; people who move fade 2.4 GHz for 5 to 100 ms",
            ),
        ],
    },
    Preset {
        name: "wifi-busy",
        place: "Wi-Fi at a crowded conference, or in a flat where somebody downloads",
        settings: &[
            set(
                "rate=12Mbit/s",
                "the share left on a loaded channel; one 802.11g cell carries this much relayed traffic before it breaks",
            ),
            set("queue=150kB", "100 full packets in the access point: 100 ms at this rate"),
            set("delay=2ms", "the idle channel is rare: a frame of another station comes first"),
            set(
                "jitter=2ms/pareto",
                "a queue of stations before each frame: 1 packet in 100 over 18 ms, 1 in 1000 over 61 ms",
            ),
            set("stall=50ms/3s", "collisions and rate fall-back feed each other: 1.7 % of time"),
            set(
                "loss=2%/15ms",
                "published for audio with 12 Mbit/s of disturbing traffic on an 802.11g access point: 1.98 %",
            ),
        ],
    },
    Preset {
        name: "dsl",
        place: "a house on VDSL2, to a server in the same country",
        settings: &[
            set("up.rate=10Mbit/s", "the common 50/10 contract"),
            set("down.rate=50Mbit/s", "the common 50/10 contract"),
            set("up.queue=128kB", "router at home: 102 ms when an upload fills it"),
            set("down.queue=512kB", "line card: 82 ms when a download fills it"),
            set(
                "delay=9ms",
                "half of the 18 ms round trip usual with retransmission (G.998.4) to a national exchange",
            ),
            set(
                "jitter=300us/exponential",
                "cells, retransmission slots and aggregation upstream of the line card",
            ),
            set("loss=0.01%", "impulse noise that retransmission does not catch"),
        ],
    },
    Preset {
        name: "lte",
        place: "a mobile phone, moving slowly",
        settings: &[
            set("up.rate=10Mbit/s", "shared cell at medium signal"),
            set("down.rate=30Mbit/s", "shared cell at medium signal"),
            set("up.queue=250kB", "the phone's own buffer: 200 ms at this rate"),
            set(
                "down.queue=1500kB",
                "the base station buffers deeply rather than dropping: 400 ms at this rate",
            ),
            set("up.delay=22ms", "requesting a grant takes about 10 ms before anything is sent"),
            set("down.delay=15ms", "1 ms slots, processing, and the core network to the exchange"),
            set(
                "up.jitter=5ms/exponential",
                "grants come in a cycle of 5 to 10 ms; each HARQ round adds 8 ms",
            ),
            set("down.jitter=3ms/exponential", "scheduling among users; each HARQ round adds 8 ms"),
            set("stall=50ms/10s", "a handover interrupts for about 50 ms"),
            set(
                "loss=0.1%/10ms",
                "what HARQ and the radio link's own retransmission leave, mostly at handover",
            ),
        ],
    },
    Preset {
        name: "intercontinental",
        place: "Europe to the west coast of America, good lines at both ends",
        settings: &[
            set("rate=100Mbit/s", "the access line at the slower end"),
            set("queue=1MB", "80 ms at this rate: near one bandwidth-delay product of half the path"),
            set(
                "delay=75ms",
                "9 000 km at 200 000 km/s are 45 ms; real routes are longer by about two thirds",
            ),
            set("jitter=500us/exponential", "queues of about fifteen routers, most of them nearly empty"),
            set("loss=0.1%/10ms", "full buffers at exchange points: long-haul paths lose 0.05 to 0.2 %"),
        ],
    },
    Preset {
        name: "satellite",
        place: "a geostationary satellite, as on ships and in remote places",
        settings: &[
            set("up.rate=3Mbit/s", "usual consumer contract"),
            set("down.rate=20Mbit/s", "usual consumer contract"),
            set("up.queue=150kB", "terminal: 400 ms at this rate"),
            set("down.queue=1MB", "gateway: 400 ms at this rate"),
            set(
                "delay=270ms",
                "2 x 35 786 km at the speed of light are 239 ms, slant range and coding the rest",
            ),
            set("up.jitter=12ms", "the terminal waits for its slot in a frame of about 24 ms"),
            set("down.jitter=2ms", "frames of the forward carrier"),
            set("loss=0.3%/25ms", "fades longer than a code word: several packets each time"),
        ],
    },
    Preset {
        name: "nistnet",
        place: "the NIST Net emulator of the two-stream study (Latecki, Kulkarni, Mulik 2003, section 3), with the queue that its results show",
        settings: &[
            set("rate=124kbit/s", "section 3: 15 500 bytes/s"),
            set(
                "queue=32768packets",
                "the thresholds of its derivative random drop are not printed, and hardly more than the random 5 % was lost: it never \
                 filled",
            ),
            set("loss=5%/before-queue", "section 3; NIST Net drops at random before its queue"),
        ],
    },
    Preset {
        name: "dummynet",
        place: "the dummynet of Emulab in the same study (section 4)",
        settings: &[
            set("rate=124kbit/s", "section 4: 15 500 bytes/s"),
            set("queue=50packets", "dummynet's default: 50 slots, drop-tail"),
            set("loss=5%/before-queue", "section 4; dummynet's plr drops before the queue"),
        ],
    },
    Preset {
        name: "dialup",
        place: "a modem of 28.8 kbit/s, as in the same study (section 4)",
        settings: &[
            set("rate=28.8kbit/s", "section 4"),
            set("queue=10packets", "not printed; with it the study's figures of lost audio come out"),
            set(
                "delay=75ms",
                "not printed: a round trip of 150 ms, most of it the modems' own (V.34 with V.42 error correction)",
            ),
            set("loss=1%/before-queue", "not printed: what the Internet path before the modem lost"),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::LossModel;

    #[test]
    fn every_preset_parses_and_has_a_reason_for_each_number() {
        for preset in &PRESETS {
            let spec = preset.spec();
            assert_eq!(preset.name.parse::<DuplexSpec>(), Ok(spec));
            assert!(preset.settings.iter().all(|setting| setting.reason.len() > 8), "{}", preset.name);
            let up_and_down = [spec.up, spec.down];
            assert!(up_and_down.iter().all(|link| link.validate().is_ok()));
            assert_eq!(up_and_down.iter().all(|link| link.rate.is_none()), preset.name == "ideal");
        }
        assert!(preset("nowhere").is_none());
    }

    #[test]
    fn the_emulators_lose_before_their_queues() {
        for name in ["nistnet", "dummynet", "dialup"] {
            let spec = preset(name).expect("there is one").spec();
            assert!(spec.up.loss_before_queue && spec.down.loss_before_queue, "{name}");
        }
    }

    #[test]
    fn the_home_loses_a_little_in_small_bursts() {
        let spec = preset("wifi-home").expect("there is one").spec();
        // The comparison relies on this: a few tenths of a percent up to 1 % lost, in fades longer than the time between two packets of 256
        // sample frames.
        assert!((0.002..=0.01).contains(&spec.up.loss.mean().0));
        let LossModel::Fading { bad, .. } = spec.up.loss else { panic!("fades") };
        assert!(bad > std::time::Duration::from_micros(5_334));
    }
}
