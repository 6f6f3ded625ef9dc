//! Data that are received: written on a thread of their own, each piece in its place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write, stdout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::packet::DataPlace;
use antiphon_net::OsClock;
use antiphon_session::{DataSink, MOST_PIECE, Session};
use rtrb::{Consumer, Producer, RingBuffer};

use super::places::Places;
use super::{DataReceived, check_count};
use crate::run::spawn;
use crate::{Error, ReceiveOptions};

/// Where the data of each track go to, opened.
pub(crate) struct DataFiles(Vec<Output>);

/// What came of them so far, and the thread that writes them.
pub(crate) struct DataCounters {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    tracks: Mutex<Vec<DataReceived>>,
    /// Pieces that found no room.
    dropped: AtomicU64,
}

/// A piece on its way to the writing thread.
struct Piece {
    place: DataPlace,
    len: u16,
    bytes: [u8; MOST_PIECE],
}

/// The media thread's end.
struct In {
    ring: Producer<Piece>,
    shared: Arc<Shared>,
}

impl DataSink for In {
    fn on_piece(&mut self, place: DataPlace, bytes: &[u8]) {
        let mut piece = Piece { place, len: bytes.len() as u16, bytes: [0; MOST_PIECE] };
        // A longer one is not of a sender of ours.
        let Some(room) = piece.bytes.get_mut(..bytes.len()) else { return };
        room.copy_from_slice(bytes);
        if self.ring.push(piece).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl DataFiles {
    /// Opens all that are asked for.
    pub fn open(options: &ReceiveOptions) -> Result<Self, Error> {
        check_count(options.data.len())?;
        let takes_output = options.sink == STANDARD || options.sink.starts_with("-?");
        let outputs = options.data.iter().filter(|name| *name == STANDARD).count();
        if outputs + usize::from(takes_output) > 1 {
            return Err(Error::usage(
                "standard output takes one stream: --data - leaves it to no other data, and to no sound",
            ));
        }
        options.data.iter().map(|name| Output::open(name)).collect::<Result<_, _>>().map(DataFiles)
    }

    /// Has `session` receive into them.
    pub fn receive_with(self, session: &mut Session) -> Result<DataCounters, Error> {
        let (ring, from) = RingBuffer::new(PIECES);
        let shared = Arc::new(Shared::default());
        session.set_data_sink(Box::new(In { ring, shared: shared.clone() }));
        let told = shared.clone();
        let thread = spawn("data-write", move || write(self.0, from, &told))?;
        Ok(DataCounters { shared, thread: Some(thread) })
    }
}

impl DataCounters {
    /// What came so far.
    pub fn get(&self) -> Vec<DataReceived> {
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        let tracks = self.shared.tracks.lock().unwrap_or_else(PoisonError::into_inner);
        tracks.iter().map(|track| DataReceived { dropped, ..track.clone() }).collect()
    }

    /// The same once all is written. The session has ended.
    pub fn finish(mut self) -> Vec<DataReceived> {
        let Some(thread) = self.thread.take() else { return self.get() };
        // A reader that takes no more must not hold up the end.
        let (clock, began) = (OsClock::new(), Instant::ZERO);
        while !thread.is_finished() && clock.now().since(began) < LAST_PATIENCE {
            std::thread::park_timeout(REST);
        }
        let stuck = (!thread.is_finished()).then(|| "its reader takes no more".to_string());
        let told = |data: DataReceived| DataReceived { trouble: data.trouble.or(stuck.clone()), ..data };
        self.get().into_iter().map(told).collect()
    }
}

/// The writing thread.
fn write(mut outputs: Vec<Output>, mut from: Consumer<Piece>, shared: &Shared) {
    let (clock, mut told) = (OsClock::new(), None);
    loop {
        let is_over = from.is_abandoned();
        while let Ok(piece) = from.pop() {
            let bytes = &piece.bytes[..usize::from(piece.len)];
            if let Some(output) = outputs.get_mut(usize::from(piece.place.track)) {
                output.on_piece(clock.now(), piece.place, bytes);
            }
        }
        let now = clock.now();
        outputs.iter_mut().for_each(|output| if is_over { output.finish() } else { output.look(now) });
        if is_over || told.is_none_or(|told| now.since(told) >= TELL_EVERY) {
            told = Some(now);
            let states = outputs.iter().map(Output::received).collect();
            *shared.tracks.lock().unwrap_or_else(PoisonError::into_inner) = states;
        }
        if is_over {
            return;
        }
        std::thread::park_timeout(REST);
    }
}

/// A file, or what reads in order.
struct Output {
    name: String,
    to: To,
    places: Places,
    length: Option<u64>,
    trouble: Option<String>,
}

enum To {
    /// Each piece is written in its place; holes are zeros.
    File(File),
    /// Pieces wait for those before them.
    Ordered(Ordered<Box<dyn Write + Send>>),
}

impl Output {
    fn open(name: &str) -> Result<Self, Error> {
        let ordered = |to: Box<dyn Write + Send>| To::Ordered(Ordered::new(to));
        let to = if name == STANDARD {
            ordered(Box::new(stdout()))
        } else {
            let wrong = |error: std::io::Error| Error::usage(format!("--data {name}: {error}"));
            let file = File::create(name).map_err(wrong)?;
            match file.metadata().map_err(wrong)?.is_file() {
                true => To::File(file),
                false => ordered(Box::new(file)),
            }
        };
        Ok(Output { name: name.into(), to, places: Places::default(), length: None, trouble: None })
    }

    fn on_piece(&mut self, now: Instant, place: DataPlace, bytes: &[u8]) {
        if place.ends {
            self.length.get_or_insert(place.offset);
        }
        // What stands behind the end is not of these data.
        let end = place.offset + bytes.len() as u64;
        let fits = self.length.is_none_or(|length| end <= length);
        if self.trouble.is_some() || !fits || !self.places.note(place.offset, bytes.len() as u64) {
            return;
        }
        let written = match &mut self.to {
            To::File(file) => file.seek(SeekFrom::Start(place.offset)).and_then(|_| file.write_all(bytes)),
            To::Ordered(ordered) => ordered.on_piece(now, place, bytes),
        };
        self.note(written);
    }

    /// Gives up what has been waited for long enough.
    fn look(&mut self, now: Instant) {
        if let To::Ordered(ordered) = &mut self.to {
            let written = ordered.look(now);
            self.note(written);
        }
    }

    /// Nothing more comes.
    fn finish(&mut self) {
        let written = match &mut self.to {
            To::File(file) => self.length.map_or(Ok(()), |length| file.set_len(length)),
            To::Ordered(ordered) => ordered.finish(),
        };
        self.note(written);
    }

    fn note(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written {
            self.trouble.get_or_insert(error.to_string());
        }
    }

    fn received(&self) -> DataReceived {
        let length = self.length.unwrap_or(self.places.end());
        let (mut holes, mut missing, mut hole_count) = (Vec::new(), 0, 0);
        for hole in self.places.holes(length) {
            (missing, hole_count) = (missing + hole.bytes, hole_count + 1);
            if holes.len() < MOST_HOLES {
                holes.push(hole);
            }
        }
        DataReceived {
            file: self.name.clone(),
            bytes: self.places.bytes(),
            missing,
            holes,
            hole_count,
            ended: self.length.is_some(),
            dropped: 0,
            trouble: self.trouble.clone(),
        }
    }
}

/// Writes pieces in order. Where one does not come, it goes on with the next record.
struct Ordered<W> {
    to: W,
    /// The byte that is written next.
    next: u64,
    /// A hole is behind: only a record goes on.
    is_cut: bool,
    waiting: BTreeMap<u64, (bool, Vec<u8>)>,
    bytes: usize,
    /// Since when the next one is missing.
    since: Option<Instant>,
}

impl<W: Write> Ordered<W> {
    fn new(to: W) -> Self {
        Ordered { to, next: 0, is_cut: false, waiting: BTreeMap::new(), bytes: 0, since: None }
    }

    fn on_piece(&mut self, now: Instant, place: DataPlace, bytes: &[u8]) -> std::io::Result<()> {
        if place.offset < self.next {
            return Ok(());
        }
        self.bytes += bytes.len();
        if let Some((_, before)) = self.waiting.insert(place.offset, (place.begins, bytes.to_vec())) {
            self.bytes -= before.len();
        }
        self.drain()?;
        if self.waiting.is_empty() {
            self.since = None;
        } else {
            self.since.get_or_insert(now);
        }
        if self.bytes > MOST_WAITING { self.skip(now) } else { Ok(()) }
    }

    fn look(&mut self, now: Instant) -> std::io::Result<()> {
        match self.since {
            Some(since) if now.since(since) >= PATIENCE => self.skip(now),
            _ => Ok(()),
        }
    }

    fn finish(&mut self) -> std::io::Result<()> {
        while !self.waiting.is_empty() {
            self.skip(Instant::ZERO)?;
        }
        self.to.flush()
    }

    /// What comes next is not waited for any more.
    fn skip(&mut self, now: Instant) -> std::io::Result<()> {
        let Some((&offset, _)) = self.waiting.first_key_value() else { return Ok(()) };
        self.is_cut |= offset > self.next;
        self.next = offset;
        self.drain()?;
        self.since = (!self.waiting.is_empty()).then_some(now);
        Ok(())
    }

    fn drain(&mut self) -> std::io::Result<()> {
        let mut is_written = false;
        while let Some(first) = self.waiting.first_entry().filter(|first| *first.key() <= self.next) {
            let (offset, (begins, bytes)) = first.remove_entry();
            self.bytes -= bytes.len();
            if offset < self.next {
                continue;
            }
            self.next = offset + bytes.len() as u64;
            self.is_cut &= !begins;
            if !self.is_cut {
                self.to.write_all(&bytes)?;
                is_written = true;
            }
        }
        // A reader gets a line when it comes.
        if is_written { self.to.flush() } else { Ok(()) }
    }
}

/// Standard output.
const STANDARD: &str = "-";
/// Pieces that wait for the writing thread: 2.3 MB, a second of 18 Mbit/s.
const PIECES: usize = 4096;
/// How long the writing thread rests, and how often it tells what it has.
const REST: Duration = Duration::from_millis(5);
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How long what reads may take for the last of it.
const LAST_PATIENCE: Duration = Duration::from_secs(5);
/// Holes that are listed.
const MOST_HOLES: usize = 16;
/// What waits for a piece before it, at most, and for how long: a repair takes a round trip, and several if it is lost.
const MOST_WAITING: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64, begins: bool) -> DataPlace {
        DataPlace { offset, begins, ..DataPlace::default() }
    }

    #[test]
    fn a_reader_in_order_goes_on_with_a_record_behind_a_hole() {
        let (mut to, now) = (Ordered::new(Vec::new()), Instant::from_millis(1_000));
        to.on_piece(now, at(0, true), b"one\n").unwrap();
        to.on_piece(now, at(10, false), b"rest\n").unwrap();
        to.on_piece(now, at(15, true), b"three\n").unwrap();
        to.look(now + PATIENCE / 2).unwrap();
        assert_eq!(to.to, b"one\n");
        to.on_piece(now, at(4, true), b"two, a").unwrap();
        assert_eq!(to.to, b"one\ntwo, arest\nthree\n", "what came in time is waited for");
        to.on_piece(now, at(30, false), b"half\n").unwrap();
        to.on_piece(now, at(35, true), b"five\n").unwrap();
        to.look(now + PATIENCE).unwrap();
        assert!(to.to.ends_with(b"three\nfive\n"), "half a line is none");
        to.on_piece(now, at(21, true), b"late\n").unwrap();
        to.on_piece(now, at(50, true), b"end\n").unwrap();
        to.finish().unwrap();
        assert!(to.to.ends_with(b"five\nend\n"));
    }

    #[test]
    fn what_waits_is_bounded() {
        let (mut to, now) = (Ordered::new(Vec::new()), Instant::ZERO);
        for n in 1..10_000 {
            to.on_piece(now, at(1_000 * n, true), &[7; 500]).unwrap();
            assert!(to.bytes <= MOST_WAITING);
        }
        assert!(to.to.len() > 3_000_000);
    }

    #[test]
    fn a_file_has_each_piece_in_its_place_and_its_holes_are_listed() {
        let path = std::env::temp_dir().join(format!("antiphon-data-{}", std::process::id()));
        let mut output = Output::open(path.to_str().unwrap()).unwrap();
        let now = Instant::ZERO;
        for (offset, bytes) in [(6, &b"ghi"[..]), (0, b"abc"), (6, b"ghi"), (20, b"behind the end")] {
            if offset == 20 {
                output.on_piece(now, DataPlace { ends: true, ..at(12, false) }, b"");
            }
            output.on_piece(now, at(offset, true), bytes);
        }
        output.finish();
        let received = output.received();
        assert_eq!(std::fs::read(&path).unwrap(), b"abc\0\0\0ghi\0\0\0");
        std::fs::remove_file(&path).unwrap();
        let holes: Vec<_> = received.holes.iter().map(|hole| (hole.at, hole.bytes)).collect();
        assert_eq!((received.bytes, received.missing, received.hole_count), (6, 6, 2));
        assert_eq!(holes, [(3, 3), (9, 3)]);
        assert!(
            received.ended
                && received
                    .shortfall()
                    .unwrap()
                    .contains("6 bytes are missing, 2 holes, the first at byte 3")
        );
    }
}
