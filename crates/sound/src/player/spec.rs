//! `player:` as it is written.

use std::path::PathBuf;

use antiphon_core::uri::Query;

use super::find::{KNOWN, Program, find};
use crate::OpenError;

/// A player as requested: `player:` is the first known one that is found, `player:NAME` a known one, `player:PATH` any program
/// that plays Matroska from its standard input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlayerSpec {
    choice: Choice,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Choice {
    First,
    Known(&'static str),
    Path(PathBuf),
}

impl PlayerSpec {
    pub(crate) fn read(name: &str, query: &Query) -> Result<Self, OpenError> {
        query.only(["rate", "channels"])?;
        let known = KNOWN.iter().find(|known| known.name == name);
        let choice = match (name, known) {
            ("", _) => Choice::First,
            (_, Some(known)) => Choice::Known(known.name),
            (path, None) if path.contains('/') => Choice::Path(path.into()),
            (other, None) => {
                return Err(OpenError::refused(
                    format!("'{other}' is no player that is known by its name ({})", names()),
                    "name a program that plays Matroska from its standard input by its path: player:/PATH/TO/PROGRAM",
                ));
            }
        };
        Ok(PlayerSpec { choice })
    }

    /// The program, as it is found now.
    pub(crate) fn program(&self) -> Result<Program, OpenError> {
        // Without a PATH there is no folder to look in: none is found, and the error names the remedy.
        self.program_in(&std::env::var_os("PATH").unwrap_or_default())
    }

    /// The same with the folders of `path`.
    pub(super) fn program_in(&self, path: &std::ffi::OsStr) -> Result<Program, OpenError> {
        let wanted = |name: &str| match self.choice {
            Choice::First => true,
            Choice::Known(known) => known == name,
            Choice::Path(_) => false,
        };
        if let Choice::Path(path) = &self.choice {
            return Program::at(path);
        }
        let found = KNOWN.iter().filter(|known| wanted(known.name)).find_map(|known| find(known, path));
        found.ok_or_else(|| {
            let what = match self.choice {
                Choice::Known(name) => format!("{name} is not found in the folders of PATH"),
                _ => format!("no player ({}) is found in the folders of PATH", names()),
            };
            OpenError::refused(
                what,
                "install one, such as mpv, or name a program by its path: player:/PATH/TO/PROGRAM",
            )
        })
    }
}

fn names() -> String {
    KNOWN.map(|known| known.name).join(", ")
}
