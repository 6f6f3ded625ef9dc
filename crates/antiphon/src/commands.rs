//! What to type to stream as advised.

use std::path::PathBuf;

use antiphon_measure::{Advice, Purpose};
use antiphon_media::StreamFormat;

use crate::DEFAULT_PORT;

/// The receiver's command and the sender's, for `source` of this format with the pictures of `video` beside it; empty where nothing is advised.
pub(crate) fn commands(
    advice: &Advice,
    source: &str,
    video: &[PathBuf],
    format: StreamFormat,
) -> Vec<String> {
    if !advice.met {
        return Vec::new();
    }
    let (scheme, settings) = match advice.transport.split_once('?') {
        Some((scheme, settings)) => (scheme, format!("?{settings}")),
        None => (advice.transport.as_str(), String::new()),
    };
    let uri = |host: &str| quoted(&format!("{scheme}://{host}:{DEFAULT_PORT}{settings}"));
    // Late packets are of no use to a listener; a recording waits for them.
    let latency = latency(advice).map_or_else(String::new, |latency| format!(" {latency}"));
    let (rate, channels) = (format.rate(), format.channels());
    let pictures: String =
        video.iter().map(|file| format!(" --video {}", quoted(&file.to_string_lossy()))).collect();
    let play = |host: &str| {
        if !video.is_empty() {
            return format!("antiphon receive {} player:{latency}", uri(host));
        }
        let player = format!("aplay -t raw -f S16_LE -r {rate} -c {channels}");
        format!("antiphon receive {} '-?format=s16le'{latency} | {player}", uri(host))
    };
    let send = |host: &str| format!("antiphon send {} {}{pictures}", quoted(source), uri(host));
    match advice.purpose {
        Purpose::Record => {
            let take = if video.is_empty() { "take.wav" } else { "take.mkv" };
            vec![format!("antiphon receive {} {take}", uri("")), send("RECEIVER")]
        }
        Purpose::SendToMany => vec![play(&format!("@{GROUP}")), send(GROUP)],
        // With the microphone and the loudspeaker of each end.
        Purpose::Talk => {
            let shown = if video.is_empty() { "" } else { " --sink player:" };
            ["", "PEER"].map(|host| format!("antiphon talk {}{pictures}{shown}{latency}", uri(host))).to_vec()
        }
        Purpose::PlayTogether | Purpose::TvSound => vec![play(""), send("RECEIVER")],
    }
}

/// The option for the receiver's playout delay; `None` where the purpose needs none.
pub(crate) fn latency(advice: &Advice) -> Option<String> {
    advice.playout_delay_ms.map(|ms| format!("--latency {}ms", (ms + WAKING_MS).ceil()))
}

/// By how much a receiver's thread may wake late, on top of what the network does: packets are measured by the kernel's time
/// stamps, which don't hold that.
const WAKING_MS: f64 = 2.0;
/// A multicast group for examples, of those that an organisation gives out itself (RFC 2365 §6.2).
const GROUP: &str = "239.192.1.1";

/// A word, quoted for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(purpose: Purpose, transport: &str, playout_delay_ms: Option<f64>) -> Advice {
        Advice {
            record: "advice".into(),
            schema: Advice::SCHEMA,
            purpose,
            transport: transport.into(),
            ties: Vec::new(),
            met: true,
            promised: false,
            because: String::new(),
            confidence: None,
            playout_delay_ms,
            commands: Vec::new(),
            pictures: None,
        }
    }

    #[test]
    fn both_sides_get_a_command_with_the_settings_advised() {
        let format = StreamFormat::new(48_000, 2).unwrap();
        let typed = |purpose, transport, delay| {
            commands(&advice(purpose, transport, delay), "my song.flac", &[], format)
        };
        assert_eq!(
            typed(Purpose::PlayTogether, "rtp", Some(10.25)),
            [
                "antiphon receive rtp://:7710 '-?format=s16le' --latency 13ms | aplay -t raw -f S16_LE -r 48000 -c 2",
                "antiphon send 'my song.flac' rtp://RECEIVER:7710",
            ]
        );
        assert_eq!(
            typed(Purpose::Record, "sctp?reliability=full", None),
            [
                "antiphon receive 'sctp://:7710?reliability=full' take.wav",
                "antiphon send 'my song.flac' 'sctp://RECEIVER:7710?reliability=full'",
            ]
        );
        let many = typed(Purpose::SendToMany, "rtp", None);
        assert!(many[0].contains("rtp://@239.192.1.1:7710") && many[1].ends_with("rtp://239.192.1.1:7710"));
        assert_eq!(
            typed(Purpose::Talk, "srp", Some(20.0)),
            ["antiphon talk srp://:7710 --latency 22ms", "antiphon talk srp://PEER:7710 --latency 22ms"]
        );
        let none = Advice { met: false, ..advice(Purpose::Talk, "rtp", None) };
        assert!(commands(&none, "x.wav", &[], format).is_empty());
    }

    #[test]
    fn pictures_go_with_the_sound_and_are_shown() {
        let format = StreamFormat::new(48_000, 2).unwrap();
        let film = [PathBuf::from("my film.mp4")];
        let typed =
            |purpose, delay| commands(&advice(purpose, "rtp", delay), "song.flac", &film, format).join("\n");
        let tv = typed(Purpose::TvSound, Some(70.0));
        assert!(tv.contains("receive rtp://:7710 player: --latency 72ms"), "{tv}");
        assert!(tv.ends_with("send song.flac rtp://RECEIVER:7710 --video 'my film.mp4'"), "{tv}");
        assert!(typed(Purpose::Record, None).contains("receive rtp://:7710 take.mkv"));
        let talk = typed(Purpose::Talk, None);
        assert!(talk.ends_with("talk rtp://PEER:7710 --video 'my film.mp4' --sink player:"), "{talk}");
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("rtp://127.0.0.1:7710"), "rtp://127.0.0.1:7710");
        assert_eq!(quoted("loss<1%"), "'loss<1%'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
