//! A file that takes lines one by one and loses none: not when the program is killed, not when the disk is full.
//!
//! Room for the runs under way is taken beforehand, as empty lines behind the last one, and written over. So a disk that
//! fills up is seen before a run begins, not when it has ended.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};

/// What a journal is written to.
pub(super) trait Storage: Read + Write + Seek {
    /// Cuts it off, or makes it longer.
    fn set_len(&mut self, length: u64) -> io::Result<()>;
}

impl Storage for std::fs::File {
    fn set_len(&mut self, length: u64) -> io::Result<()> {
        std::fs::File::set_len(self, length)
    }
}

/// A line that is longer is none of ours.
const MAX_LINE: u64 = 64 << 20;

/// Lines, of which the last may have been cut off.
#[derive(Debug)]
pub(super) struct Journal<S: Storage> {
    storage: S,
    /// Behind the last line.
    end: u64,
    /// Behind the room that was taken.
    taken: u64,
    longest: u64,
}

impl<S: Storage> Journal<S> {
    /// Reads what is there; `read` gets each line and says whether it is one. What stands behind the last good line is cut
    /// off. How many lines were none, a torn last one not counted.
    pub(super) fn open(storage: S, mut read: impl FnMut(&str) -> bool) -> io::Result<(Self, u64)> {
        let mut reader = BufReader::new(storage);
        let (mut at, mut end, mut bad, mut torn, mut longest) = (0, 0, 0u64, 0u64, 0);
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line)? as u64;
            if length == 0 {
                break;
            }
            at += length;
            if line == b"\n" {
                continue;
            }
            let whole =
                line.ends_with(b"\n") && str::from_utf8(&line).is_ok_and(|text| read(text.trim_end()));
            if whole {
                (end, longest, bad, torn) = (at, longest.max(length), bad + torn, 0);
            } else {
                torn += 1;
            }
        }
        // Only one line can have been under way; more of them were something else.
        let bad = bad + torn.saturating_sub(1);
        let mut storage = reader.into_inner();
        storage.set_len(end)?;
        Ok((Journal { storage, end, taken: end, longest }, bad))
    }

    /// Writes a line, over the room that was taken if there is some.
    pub(super) fn append(&mut self, line: &str) -> io::Result<()> {
        let whole = format!("{line}\n");
        self.storage.seek(SeekFrom::Start(self.end))?;
        let written = self.storage.write_all(whole.as_bytes()).and_then(|()| self.storage.flush());
        if let Err(error) = written {
            // Half a line must not stand before the next; where even that fails it is passed over when read, and the
            // error that is told is the first one.
            let _ = self.storage.set_len(self.end);
            self.taken = self.end;
            return Err(error);
        }
        let length = whole.len() as u64;
        self.end += length;
        self.taken = self.taken.max(self.end);
        self.longest = self.longest.max(length);
        Ok(())
    }

    /// Takes room for so many lines; an error if there is none.
    pub(super) fn reserve(&mut self, lines: u64) -> io::Result<()> {
        // Lines of one experiment differ in their digits only; before the first one a guess.
        let wanted = self.end + lines * (2 * self.longest).max(FIRST_GUESS);
        if self.taken >= wanted {
            return Ok(());
        }
        self.storage.seek(SeekFrom::Start(self.taken))?;
        let empty = vec![b'\n'; (wanted - self.taken) as usize];
        let taken = self.storage.write_all(&empty).and_then(|()| self.storage.flush());
        if taken.is_ok() {
            self.taken = wanted;
        }
        taken
    }

    /// Gives room back that was taken.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.taken = self.end;
        self.storage.set_len(self.end)
    }
}

/// A run with ten streams and a dozen media.
const FIRST_GUESS: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A disk of limited size.
    #[derive(Debug, Default)]
    struct Disk {
        file: Cursor<Vec<u8>>,
        size: u64,
    }

    impl Disk {
        fn of(size: u64, content: &str) -> Self {
            Disk { file: Cursor::new(content.as_bytes().to_vec()), size }
        }

        fn text(&self) -> String {
            String::from_utf8(self.file.get_ref().clone()).unwrap()
        }
    }

    impl Read for Disk {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.file.read(bytes)
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = self.size.saturating_sub(self.file.position()) as usize;
            if room == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.file.write(&bytes[..bytes.len().min(room)])
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Disk {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.file.seek(to)
        }
    }

    impl Storage for Disk {
        fn set_len(&mut self, length: u64) -> io::Result<()> {
            self.file.get_mut().resize(length as usize, 0);
            Ok(())
        }
    }

    fn open(content: &str, size: u64) -> (Journal<Disk>, Vec<String>, u64) {
        let mut lines = Vec::new();
        let (journal, bad) = Journal::open(Disk::of(size, content), |line| {
            let good = line.starts_with("ok");
            lines.extend(good.then(|| line.to_string()));
            good
        })
        .unwrap();
        (journal, lines, bad)
    }

    #[test]
    fn a_torn_last_line_is_cut_off() {
        for (content, kept, bad) in [
            ("", "", 0),
            ("ok 1\nok 2\n", "ok 1\nok 2\n", 0),
            ("ok 1\nok 2", "ok 1\n", 0),
            ("ok 1\nhal", "ok 1\n", 0),
            ("ok 1\nhal\n\n\n\n", "ok 1\n", 0),
            ("ok 1\n\n\n", "ok 1\n", 0),
            ("ok 1\n??\nok 2\n", "ok 1\n??\nok 2\n", 1),
            ("ok 1\n??\n??\n", "ok 1\n", 1),
        ] {
            let (mut journal, _, counted) = open(content, 1 << 20);
            assert_eq!((journal.storage.text().as_str(), counted), (kept, bad), "{content:?}");
            journal.append("ok 3").unwrap();
            assert_eq!(journal.storage.text(), format!("{kept}ok 3\n"));
        }
    }

    #[test]
    fn room_that_was_taken_holds_the_lines_that_follow() {
        let (mut journal, _, _) = open("ok 1\n", 5 + 3 * FIRST_GUESS);
        journal.reserve(3).unwrap();
        assert!(journal.reserve(4).is_err());
        // The disk is full now, and yet three lines find their place.
        let long = format!("ok {}", "x".repeat(FIRST_GUESS as usize - 4));
        for _ in 0..3 {
            journal.append(&long).unwrap();
        }
        assert!(journal.append("ok 5").is_err());
        assert_eq!(open(&journal.storage.text(), 1 << 20).1.len(), 4);
    }

    #[test]
    fn a_line_that_did_not_fit_leaves_no_trace() {
        let (mut journal, _, _) = open("ok 1\n", 12);
        assert!(journal.append("ok is too long").is_err());
        assert_eq!(journal.storage.text(), "ok 1\n");
        journal.append("ok 2").unwrap();
        journal.close().unwrap();
        assert_eq!(journal.storage.text(), "ok 1\nok 2\n");
    }
}
