//! The programmes of a sender that is called: `receive --programmes`, and how the user changes to another one.

use std::io::{BufRead, Read};
use std::sync::{Arc, Mutex, PoisonError};

use antiphon::{Error, ProgrammeChoice, Programmes, ReceiveOptions, ReceiveStatus, list_programmes};
use serde_json::json;

use crate::args::{Global, ReceiveArgs};
use crate::exit;
use crate::grid::{Align, Cell, Grid, Tone};
use crate::keys::Keys;
use crate::output::Output;
use crate::stream::{begin, stopped};

/// Lists them; returns the exit code.
pub fn list(options: &ReceiveOptions, global: &Global, output: &mut Output) -> Result<u8, Error> {
    let run = json!({ "command": "receive", "source": options.source, "seed": options.seed });
    let watch = begin(run, global, output)?;
    let known = match list_programmes(options, &watch.stop) {
        Ok(known) => known,
        Err(error) => return stopped(error, &watch, output),
    };
    if output.json {
        for (one, number) in known.programmes.iter().zip(1..) {
            output.record(
                "programme",
                json!({
                    "number": number, "name": one.name, "channels": one.channels, "rate_hz": one.rate_hz,
                    "ended": one.ended,
                }),
            );
        }
        return Ok(watch.exit_code().unwrap_or(exit::DONE));
    }
    output.result(&table(&known, output));
    output.talk(&format!(
        "antiphon receive {} SINK --programme NAME   plays one",
        antiphon::quoted(&options.source)
    ));
    Ok(watch.exit_code().unwrap_or(exit::DONE))
}

fn table(known: &Programmes, output: &Output) -> String {
    let mut grid = Grid::new([Align::Right, Align::Left, Align::Left]);
    for (one, number) in known.programmes.iter().zip(1..) {
        let over = if one.ended { ", ended" } else { "" };
        let channels = if one.channels == 1 { "channel" } else { "channels" };
        let about = format!("{} {channels}, {} Hz{over}", one.channels, one.rate_hz);
        let name = Cell::new(one.name.as_str(), Tone::Head);
        grid.row([Cell::from(format!("{number}")), name, Cell::new(about, Tone::Dim)]);
    }
    grid.render(output.width, output.palette)
}

/// Takes the user's wishes while a stream is received: keys of the terminal, or lines on standard input.
pub struct Control {
    known: Arc<Mutex<Option<Programmes>>>,
    _keys: Option<Keys>,
}

impl Control {
    /// Lines if they were asked for; otherwise keys, unless the screen has its own or the terminal is not ours.
    pub fn open(args: &ReceiveArgs, options: &ReceiveOptions) -> Result<Self, Error> {
        let known = Arc::<Mutex<Option<Programmes>>>::default();
        let choice = options.programme.clone();
        if args.programme.as_deref() == Some("-") {
            // It ends with the program: nothing ends the wait for a line.
            std::thread::Builder::new()
                .name("lines".into())
                .spawn(move || follow_lines(std::io::stdin().lock(), &choice))
                .map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
            return Ok(Control { known, _keys: None });
        }
        let shared = known.clone();
        let on_key = move |key| {
            if let Some(known) = &*shared.lock().unwrap_or_else(PoisonError::into_inner) {
                on_key(key, known, &choice);
            }
        };
        let asked = !args.shown.screen && args.programme.is_some();
        let keys = asked.then(|| Keys::watch(on_key)).flatten();
        Ok(Control { known, _keys: keys })
    }

    /// A new state of the stream.
    pub fn look(&self, status: &ReceiveStatus) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != status.programmes {
            known.clone_from(&status.programmes);
        }
    }
}

/// `n` wishes for the next programme, a digit for the one of that number; returns whether the key meant one.
pub fn on_key(key: u8, known: &Programmes, choice: &ProgrammeChoice) -> bool {
    let number = match key {
        b'n' | b'N' => known.next(),
        b'1'..=b'9' => known.programmes.get(usize::from(key - b'1')),
        _ => return false,
    };
    number.iter().for_each(|one| choice.choose(&one.name));
    number.is_some()
}

/// Each line is a wish, until the input ends.
fn follow_lines(mut input: impl BufRead, choice: &ProgrammeChoice) {
    let mut line = Vec::new();
    // What is longer than any name is none.
    while let Ok(1..) = (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut line) {
        let name = String::from_utf8_lossy(&line);
        let name: String = name.trim().chars().filter(|c| !c.is_control()).collect();
        if !name.is_empty() {
            choice.choose(&name);
        }
        line.clear();
    }
}

const LONGEST_LINE: u64 = 1_024;

#[cfg(test)]
mod tests {
    use antiphon::ListedProgramme;

    use super::*;

    fn known() -> Programmes {
        let listed =
            |name: &str| ListedProgramme { name: name.into(), channels: 2, rate_hz: 48_000, ended: false };
        let programmes = ["News", "Film", "Sport"].map(listed).to_vec();
        Programmes { programmes, current: Some(3), refused: None }
    }

    #[test]
    fn keys_choose_by_number_and_in_turn() {
        let choice = ProgrammeChoice::default();
        assert!(on_key(b'2', &known(), &choice));
        assert_eq!(choice.wish().as_deref(), Some("Film"));
        assert!(on_key(b'n', &known(), &choice));
        assert_eq!(choice.wish().as_deref(), Some("News"), "after the last one the first");
        assert!(!on_key(b'9', &known(), &choice) && !on_key(b'q', &known(), &choice));
        assert_eq!(choice.wish().as_deref(), Some("News"));
    }

    #[test]
    fn lines_choose_whatever_else_they_hold() {
        let choice = ProgrammeChoice::default();
        follow_lines(&b"Film\n"[..], &choice);
        assert_eq!(choice.wish().as_deref(), Some("Film"));
        follow_lines(&b"Film\n\x1b[2JSport \r\n\n   \n"[..], &choice);
        assert_eq!(choice.wish().as_deref(), Some("[2JSport"));
        follow_lines(&[b'x'; 5_000][..], &choice);
        assert!(choice.wish().unwrap().len() <= LONGEST_LINE as usize);
    }
}
