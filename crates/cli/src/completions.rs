//! The values that shells complete, and parsers that list them.

use std::ffi::OsStr;

use antiphon::AUTO;
use antiphon::link::PRESETS;
use antiphon::measure::Purpose;
use antiphon::media::conceal::Concealment;
use antiphon::media::{Coding, SampleFormat};
use antiphon::proto::TRANSPORTS;
use antiphon::session::StreamFraming;
use antiphon::sound::Clip;
use antiphon_experiments::PaperResults;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command};

/// A parser whose values shells complete, while it takes others, too: names of presets, schemes, formats.
pub fn completed<P: TypedValueParser>(
    parser: P,
    names: fn() -> Vec<String>,
) -> impl TypedValueParser<Value = P::Value> {
    Completed { parser, names }
}

/// `names` is called for completions only: some lists take time to read.
#[derive(Clone)]
struct Completed<P> {
    parser: P,
    names: fn() -> Vec<String>,
}

impl<P: TypedValueParser> TypedValueParser for Completed<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}

fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(Into::into).collect()
}

/// The names of the presets of links.
pub fn presets() -> Vec<String> {
    named(PRESETS.iter().map(|preset| preset.name))
}

/// The beginnings of the URIs of all transports.
pub fn schemes() -> Vec<String> {
    TRANSPORTS
        .iter()
        .map(|transport| transport.scheme)
        .chain([AUTO])
        .map(|scheme| format!("{scheme}://"))
        .collect()
}

/// What a source can be, apart from the path of a file.
pub fn sources() -> Vec<String> {
    let clips = Clip::ALL.iter().map(|clip| format!("clip:{}", clip.name()));
    clips
        .chain(named([
            "file:",
            "tone:440Hz",
            "tone:sweep",
            "tone:click",
            "tone:noise",
            "jack:",
            "pulse:",
            "-",
        ]))
        .collect()
}

/// What a sink can be, apart from the path of a file.
pub fn sinks() -> Vec<String> {
    named(["file:", "jack:", "pulse:", "null:", "-"])
}

/// The same for `receive`, which shows pictures as well.
pub fn receive_sinks() -> Vec<String> {
    sinks().into_iter().chain(named(["player:"])).collect()
}

/// The names of the papers.
pub fn papers() -> Vec<String> {
    known_papers().iter().map(|paper| paper.paper.key.into()).collect()
}

/// The names of the papers and of their experiments.
pub fn experiments() -> Vec<String> {
    let of = |paper: &PaperResults| {
        let key = paper.paper.key;
        let experiments = paper.paper.experiments.iter().map(move |it| format!("{key}/{}", it.key));
        std::iter::once(key.to_string()).chain(experiments).collect::<Vec<_>>()
    };
    known_papers().iter().flat_map(of).collect()
}

fn known_papers() -> Vec<PaperResults> {
    PaperResults::read(&[], &mut |_, _| Ok(None)).expect("no file is read, so nothing can fail")
}

/// The names of sample formats, and of what is compressed.
pub fn formats() -> Vec<String> {
    named(Coding::ALL.map(Coding::name))
}

/// The names of sample formats.
pub fn sample_formats() -> Vec<String> {
    named(SampleFormat::ALL.map(SampleFormat::name))
}

/// The kinds of concealment.
pub fn concealments() -> Vec<String> {
    named(Concealment::ALL.map(Concealment::name))
}

/// The kinds of framing.
pub fn framings() -> Vec<String> {
    named(StreamFraming::ALL.map(StreamFraming::name))
}

/// Values of `--protect`.
pub fn protections() -> Vec<String> {
    named(["none", "repeat:2,spacing=10ms"])
}

/// The code points that sound is sent with.
pub fn classes() -> Vec<String> {
    named(["ef", "af41", "cs5", "cs0", "le"])
}

/// One of some values, by its name.
pub fn one_of<T: Copy + Send + Sync + 'static>(
    values: impl IntoIterator<Item = (&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let values: Vec<(&str, T)> = values.into_iter().collect();
    let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    PossibleValuesParser::new(names).map(move |given: String| {
        let found = values.iter().find(|(name, _)| *name == given);
        found.expect("only these names pass").1
    })
}

/// A purpose, by its name or, for the longest one, in short.
pub fn purpose() -> impl TypedValueParser<Value = Purpose> {
    one_of(
        Purpose::ALL.map(|purpose| (purpose.name(), purpose)).into_iter().chain([("tv", Purpose::TvSound)]),
    )
}

/// The names of all transports, without their titles, which would make every option's help a paragraph.
pub fn transport() -> PossibleValuesParser {
    PossibleValuesParser::new(transports())
}

/// A transport with its own keys, such as `srp?mode=as-published`. Lists all names like [`transport`].
pub fn transport_with_keys() -> impl TypedValueParser<Value = String> {
    completed(|text: &str| antiphon::check_transport(text).map(|()| text.to_string()), transports)
}

/// The names of all transports.
pub fn transports() -> Vec<String> {
    named(TRANSPORTS.iter().map(|transport| transport.scheme))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{compared, dscp, link};

    #[test]
    fn completed_values_are_accepted() {
        assert!(presets().iter().all(|name| link(name).is_ok()));
        assert!(formats().iter().all(|name| name.parse::<Coding>().is_ok()));
        assert!(sample_formats().iter().all(|name| compared(name).is_ok()));
        assert!(classes().iter().all(|name| dscp(name).is_ok()));
        assert!(
            sources()
                .iter()
                .filter(|uri| *uri != "file:" && *uri != "-")
                .all(|uri| { uri.parse::<antiphon::sound::SourceSpec>().is_ok() })
        );
        assert!(
            concealments().iter().all(|name| name.parse::<antiphon::media::conceal::Concealment>().is_ok())
        );
        assert!(framings().iter().all(|name| name.parse::<antiphon::session::StreamFraming>().is_ok()));
        assert!(protections().iter().all(|name| name.parse::<antiphon::session::Repetition>().is_ok()));
        assert!(!papers().is_empty() && experiments().len() > papers().len());
    }
}
