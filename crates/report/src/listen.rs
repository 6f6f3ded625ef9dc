//! The player: one switch between sounds that keeps the position, a waveform with the losses marked, and buttons that jump to
//! the next and the previous loss. Without scripts, each sound has a plain player.

use crate::cards::swatch;
use crate::encode::Pool;
use crate::fate::{Fate, SECONDS_QUANTUM};
use crate::html::{beside, escape, inline, script_json, unless_empty};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// One sound file next to the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clip {
    /// Description of the sound.
    pub title: String,
    /// The file, relative to the report and in its directory or below; any other is named but not played.
    pub file: String,
    /// What to listen for; may be empty.
    pub note: String,
    /// Number of the series' colour in which the title is shown.
    pub colour: Option<usize>,
    /// The strip of the loss map (see [`crate::Strip::name`]) whose cells play this clip; empty for the original.
    pub strip: String,
    /// How long the file lasts, in seconds.
    pub seconds: f64,
    /// The largest magnitude, 0 to 1, in each of equal parts of the file, for its waveform; may be empty.
    pub peaks: Vec<f32>,
    /// Where sound is missing, from and to, in seconds, in order.
    pub gaps: Vec<(f64, f64)>,
}

impl Clip {
    /// What the switch calls it.
    fn name(&self) -> &str {
        if self.strip.is_empty() { &self.title } else { &self.strip }
    }

    fn spec(&self, pool: &mut Pool) -> serde_json::Value {
        json!({
            "name": self.name(),
            "strip": self.strip,
            "note": self.note,
            "colour": self.colour,
            "seconds": if self.seconds.is_finite() { self.seconds } else { 0.0 },
            "peaks": pool.add(self.peaks.iter().map(|p| Some(f64::from(*p))), PEAK_QUANTUM),
            "from": pool.add(self.gaps.iter().map(|gap| Some(gap.0)), SECONDS_QUANTUM),
            "to": pool.add(self.gaps.iter().map(|gap| Some(gap.1)), SECONDS_QUANTUM),
        })
    }
}

/// A hundredth of full scale: finer than the waveform's lines.
const PEAK_QUANTUM: f64 = 0.01;

/// Where a listener did not hear the packets, from and to, in seconds. `sent_ms`: when each was sent, which for live sound is
/// its place in the sound; the last lasts as long as the one before.
pub fn gaps(fates: &[Fate], sent_ms: &[f32]) -> Vec<(f64, f64)> {
    let at = |i: usize| {
        let known = sent_ms.get(i).or(sent_ms.last()).map_or(0.0, |ms| f64::from(*ms));
        // Beyond the last packet sent, as far apart as the last two.
        let [.., before, last] = sent_ms else { return known / 1000.0 };
        let beyond = (i + 1).saturating_sub(sent_ms.len()) as f64;
        (known + beyond * f64::from(last - before)) / 1000.0
    };
    let mut gaps = Vec::new();
    let mut i = 0;
    for run in fates.chunk_by(|a, b| a.is_heard() == b.is_heard()) {
        if !run[0].is_heard() && at(i).is_finite() && at(i + run.len()).is_finite() {
            gaps.push((at(i), at(i + run.len())));
        }
        i += run.len();
    }
    gaps
}

pub(crate) fn render_listen(clips: &[Clip], pool: &mut Pool, out: &mut String) {
    out.push_str("<div class=\"listen\" data-figure=\"listen\">\n<fieldset class=\"switch js\"><legend>Listen to</legend>");
    for (i, clip) in clips.iter().enumerate() {
        let disabled = if beside(&clip.file).is_some() { "" } else { " disabled" };
        out.push_str(&format!(
            "<label><input type=\"radio\" name=\"listen\" value=\"{i}\"{disabled}><span>{}{}</span></label>",
            swatch(clip.colour),
            escape(clip.name())
        ));
    }
    out.push_str(CONTROLS);
    out.push_str("<details class=\"files\"><summary>The sound files, each with its own player</summary><div class=\"clips\">\n");
    for (i, clip) in clips.iter().enumerate() {
        render_clip(i, clip, out);
    }
    let spec = json!({ "clips": clips.iter().map(|clip| clip.spec(pool)).collect::<Vec<_>>() });
    out.push_str(&format!(
        "</div></details>\n<script type=\"application/json\">{}</script></div>\n",
        script_json(&spec)
    ));
}

/// What the script gives life to: waveform, buttons, and lines for what is played.
const CONTROLS: &str = "</fieldset>\n\
    <div class=\"wave js\" tabindex=\"0\" role=\"slider\" aria-label=\"Position in the sound\" aria-valuemin=\"0\" \
    aria-valuemax=\"0\" aria-valuenow=\"0\"></div>\n\
    <div class=\"buttons js\"><button type=\"button\" class=\"play\">Play</button>\
    <button type=\"button\" class=\"previous\">\u{2039} Previous loss</button>\
    <button type=\"button\" class=\"next\">Next loss \u{203a}</button><span class=\"time\"></span></div>\n\
    <p class=\"playing js\" role=\"status\"></p>\n\
    <p class=\"muted remark js\">Red marks sound that was lost or came too late. Switching keeps the position; levels are not \
    changed.</p>\n\
    <p class=\"muted keys js\">Keys: space plays and pauses, \u{2190} and \u{2192} move by a second, <kbd>n</kbd> and \
    <kbd>p</kbd> go to the next and the previous loss, <kbd>1</kbd> to <kbd>9</kbd> switch.</p>\n";

fn render_clip(index: usize, clip: &Clip, out: &mut String) {
    let title = escape(&clip.title);
    let player = match beside(&clip.file) {
        Some(url) => format!(
            "<audio controls preload=\"metadata\" src=\"{url}\" aria-label=\"{title}\" data-clip=\"{index}\"></audio>"
        ),
        None => "<p class=\"muted\">This file isn't next to the report, so it can't be played from here.</p>"
            .into(),
    };
    let note = unless_empty(&clip.note, |text| format!("<p>{}</p>", inline(text)));
    out.push_str(&format!(
        "<div class=\"clip\"><h3>{}{title}</h3>{player}{note}<p class=\"muted\"><code>{}</code></p></div>\n",
        swatch(clip.colour),
        escape(&clip.file),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_elsewhere_gets_no_player() {
        let mut out = String::new();
        let clip = Clip { file: "../../secret.wav".into(), ..Clip::default() };
        render_listen(&[clip], &mut Pool::default(), &mut out);
        assert!(!out.contains("<audio") && out.contains("value=\"0\" disabled"), "{out}");
        assert!(out.contains("../../secret.wav"), "the reader still learns its name");
    }

    #[test]
    fn gaps_are_where_nothing_was_heard() {
        use Fate::*;
        let sent = [0.0, 5.0, 10.0, 15.0, 20.0];
        assert_eq!(gaps(&[Received, Lost, Late, Recovered, Received], &sent), [(0.005, 0.015)]);
        // The last packet ends where one more would begin.
        assert_eq!(gaps(&[Received, Received, Received, Received, Expired], &sent), [(0.02, 0.025)]);
        assert_eq!(gaps(&[Lost; 5], &sent), [(0.0, 0.025)]);
        assert!(gaps(&[], &[]).is_empty() && gaps(&[Received; 5], &sent).is_empty());
        assert_eq!(gaps(&[Lost], &[]), [(0.0, 0.0)], "times that are missing do no harm");
    }
}
