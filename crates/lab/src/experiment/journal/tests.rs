use super::super::tests::finished;
use super::*;
use proptest::prelude::*;
use std::io::Cursor;

#[test]
fn a_header_comes_back() {
    let header = Header {
        version: "0.1.0".into(),
        build: "abc".into(),
        title: "A \"title\"\nand more".into(),
        digest: digest("text"),
        command: "antiphon lab run x.toml".into(),
        setting: "real, 60s".into(),
    };
    assert_eq!(Header::parse(&header.to_line()), Ok(header.clone()));
    assert!(Header::parse(&finished(0, 1.0).to_line("")).is_err());
}

#[test]
fn digests_tell_texts_apart() {
    // FNV-1a's own test vectors: the empty text and "a".
    assert_eq!((&*digest(""), &*digest("a")), ("cbf29ce484222325", "af63dc4c8601ec8c"));
}

#[test]
fn a_line_that_was_cut_off_is_none() {
    let line = finished(7, 1.5).to_line("antiphon lab run x --run 7");
    for length in 0..line.len() {
        assert!(Finished::parse(&line[..length]).is_err(), "{length}");
    }
    for (right, wrong) in [
        ("\"seed\":281474976710655", "\"seed\":-1"),
        ("\"run\":7", "\"run\":4294967296"),
        ("\"sent\":100", "\"snet\":100"),
        ("[\"sent\",7.0]", "[\"sent\"]"),
        ("\"schema\":2", "\"schema\":3"),
    ] {
        assert!(line.contains(right), "{right}: {line}");
        assert!(Finished::parse(&line.replacen(right, wrong, 1)).is_err(), "{wrong}");
    }
}

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

/// The lines of a sketch in which a digit represents a run.
fn lines(sketch: &str) -> String {
    let line = |part: &str| match part.parse() {
        Ok(run) => finished(run, 1.5).to_line(""),
        Err(_) => part.to_string(),
    };
    sketch.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn open(content: &str, size: u64) -> (Journal<Disk>, Kept) {
    let disk = Disk::of(size, content);
    let kept = Kept::read(disk.file.clone()).unwrap();
    (Journal::open(disk, &kept).unwrap(), kept)
}

#[test]
fn a_torn_last_line_is_cut_off() {
    for (content, left, damaged) in [
        ("", "", 0),
        ("1\n2\n", "1\n2\n", 0),
        ("1\n{\"record\":\"run\",", "1\n", 0),
        ("1\nhal", "1\n", 0),
        ("1\nhal\n\n\n\n", "1\n", 0),
        ("1\n\n\n", "1\n", 0),
        ("1\n??\n2\n", "1\n??\n2\n", 1),
        ("1\n??\n??\n", "1\n", 1),
    ] {
        let (mut journal, kept) = open(&lines(content), 1 << 20);
        assert_eq!((journal.storage.text(), kept.damaged), (lines(left), damaged), "{content:?}");
        journal.append(&lines("3")).unwrap();
        assert_eq!(journal.storage.text(), lines(left) + &lines("3\n"));
    }
    let cut = lines("1\n2");
    assert_eq!(open(&cut, 1 << 20).0.storage.text(), lines("1\n"));
}

#[test]
fn another_first_line_is_not_a_journal() {
    for (content, is_foreign) in [("??\n1\n", true), ("1\n??\n", false), ("??", false), ("\n??\n", false)] {
        assert_eq!(open(&lines(content), 1 << 20).1.is_foreign, is_foreign, "{content:?}");
    }
}

#[test]
fn room_that_was_taken_holds_the_lines_that_follow() {
    let first = lines("1\n");
    let (mut journal, _) = open(&first, first.len() as u64 + 3 * FIRST_GUESS);
    journal.reserve(3).unwrap();
    assert!(journal.reserve(4).is_err());
    // The disk is full now, and yet three more lines fit.
    let padded = |length: usize| finished(2, 1.5).to_line(&"x".repeat(length));
    let long = padded(1 + FIRST_GUESS as usize - 1 - padded(1).len());
    for _ in 0..3 {
        journal.append(&long).unwrap();
    }
    assert!(journal.append(&lines("5")).is_err());
    assert_eq!(open(&journal.storage.text(), 1 << 20).1.finished.len(), 4);
}

#[test]
fn a_line_that_did_not_fit_leaves_no_trace() {
    let first = lines("1\n");
    let (mut journal, _) = open(&first, 2 * first.len() as u64);
    let long = finished(2, 1.5).to_line("is too long");
    assert!(journal.append(&long).is_err());
    assert_eq!(journal.storage.text(), first);
    journal.append(&lines("2")).unwrap();
    journal.close().unwrap();
    assert_eq!(journal.storage.text(), lines("1\n2\n"));
}

proptest! {
    #[test]
    fn every_number_comes_back_bit_for_bit(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        let kept = finished(3, value);
        let back = Finished::parse(&kept.to_line("")).unwrap();
        prop_assert_eq!(back.media[0].counters[1].1.to_bits(), value.to_bits());
        prop_assert_eq!(back, kept);
    }

    #[test]
    fn no_line_panics(line in ".{0,200}", value in "[\\[\\]{}\",:a-z0-9]{0,60}") {
        let _only_panics_count = (Header::parse(&line), Finished::parse(&line));
        let whole = finished(1, 2.0).to_line("");
        let _only_panics_count = Finished::parse(&whole.replacen("[[", &value, 1));
    }
}
