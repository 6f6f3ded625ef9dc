//! Data that are sent: read on a thread of their own, and cut into pieces.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, stdin};
use std::time::Duration;

use antiphon_session::{
    DataPiece, DataSource, DataTrack, DataTrackConfig, MOST_PIECE, MOST_TRACK, Session, SharedPath,
};
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use super::check_count;
use crate::run::spawn;
use crate::transport::unguessable;
use crate::trouble::ReadTrouble;
use crate::{Error, SendOptions};

/// Data that were opened.
pub(crate) struct DataInput {
    name: String,
    from: Box<dyn Read + Send>,
    /// As long as somebody writes them, and in lines.
    is_live: bool,
    trouble: ReadTrouble,
}

impl DataInput {
    /// Opens all that are asked for.
    pub fn open_all(options: &SendOptions) -> Result<Vec<Self>, Error> {
        check_count(options.data.len())?;
        let of_input = |name: &String| name == STANDARD;
        let takes_input = options.source == STANDARD || options.source.starts_with("-?");
        if options.data.iter().filter(|name| of_input(name)).count() + usize::from(takes_input) > 1 {
            return Err(Error::usage(
                "standard input is read once: --data - leaves it to no other data, and to no sound",
            ));
        }
        options.data.iter().map(|name| Self::open(name)).collect()
    }

    fn open(name: &str) -> Result<Self, Error> {
        let wrong = |error: std::io::Error| Error::usage(format!("--data {name}: {error}"));
        let (from, is_file, len): (Box<dyn Read + Send>, bool, u64) = if name == STANDARD {
            // A file that the shell has opened is one.
            // What has no name there is read as a pipe is.
            let data = std::fs::metadata("/dev/stdin").ok();
            let is_file = data.as_ref().is_some_and(Metadata::is_file);
            (Box::new(stdin()), is_file, data.map_or(0, |data| data.len()))
        } else {
            let file = File::open(name).map_err(wrong)?;
            let data = file.metadata().map_err(wrong)?;
            if data.is_dir() {
                return Err(Error::usage(format!(
                    "--data {name}: it is a directory: name a file, or - for lines"
                )));
            }
            (Box::new(file), data.is_file(), data.len())
        };
        if is_file && len > MOST_TRACK {
            return Err(Error::usage(format!(
                "--data {name}: {len} bytes, and data beside sound are {MOST_TRACK} bytes at most: copy it another way"
            )));
        }
        Ok(DataInput { name: name.into(), from, is_live: !is_file, trouble: ReadTrouble::default() })
    }

    /// Sends all of them beside the sound of a session.
    pub fn send_with(
        inputs: Vec<Self>,
        session: &mut Session,
        options: &SendOptions,
    ) -> Result<Vec<ReadTrouble>, Error> {
        let sound = session.send_track().map_or(0, |track| track.packetiser().ssrc());
        let seed = options.seed ^ unguessable();
        if !inputs.is_empty() {
            let sounds = session.send_track().map_or(0, |track| track.ssrcs().count());
            let streams = sounds + session.video_ssrcs().count() + inputs.len();
            session.set_congestion_manager(Box::new(SharedPath::new(streams)));
        }
        let mut troubles = Vec::new();
        for (track, input) in (0..).zip(inputs) {
            let config = DataTrackConfig {
                track,
                payload_type: PAYLOAD_TYPE,
                sound,
                seed,
                rate: options.data_rate,
                deadline: options.data_deadline,
            };
            troubles.push(input.trouble.clone());
            session.add_data_track(DataTrack::new(Box::new(input.start()?), config));
        }
        Ok(troubles)
    }

    /// Reads from now on.
    fn start(self) -> Result<Queue, Error> {
        let (pieces, ready) = RingBuffer::new(PIECES);
        let is_live = self.is_live;
        spawn("data-read", move || self.read(pieces))?;
        Ok(Queue { ready, is_live })
    }

    /// The reading thread.
    fn read(mut self, mut to: Producer<DataPiece>) {
        let mut cutter = Cutter { in_lines: self.is_live, ..Cutter::default() };
        let (mut buf, mut left) = (vec![0; READ], MOST_TRACK);
        loop {
            let len = match self.from.read(&mut buf) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.trouble.set(format!("--data {}: {error}; what was read before is sent", self.name));
                    0
                }
            };
            let is_too_long = len as u64 > left;
            let bytes = &buf[..len.min(left as usize)];
            left -= bytes.len() as u64;
            let goes_on = cutter.cut(bytes, len == 0 || is_too_long, &mut |piece| push(&mut to, piece));
            if is_too_long {
                let name = &self.name;
                self.trouble.set(format!(
                    "--data {name}: it is longer than {MOST_TRACK} bytes, and was cut off there"
                ));
            }
            if !goes_on || len == 0 || is_too_long {
                return;
            }
        }
    }
}

/// Waits for room; returns whether anybody takes them still.
fn push(to: &mut Producer<DataPiece>, mut piece: DataPiece) -> bool {
    while let Err(PushError::Full(full)) = to.push(piece) {
        if to.is_abandoned() {
            return false;
        }
        piece = full;
        std::thread::park_timeout(REST);
    }
    true
}

/// Cuts what is read into pieces: of a file as large as they may be, of lines each line for itself.
#[derive(Default)]
struct Cutter {
    in_lines: bool,
    kept: Vec<u8>,
    /// What is kept goes on with a line that has begun.
    goes_on: bool,
}

impl Cutter {
    /// Gives the pieces of further bytes; what is not complete is kept unless it `is_last`. Returns whether all were taken.
    fn cut(&mut self, bytes: &[u8], is_last: bool, give: &mut impl FnMut(DataPiece) -> bool) -> bool {
        let in_lines = self.in_lines;
        for part in bytes.split_inclusive(|byte| in_lines && *byte == b'\n') {
            let mut part = part;
            while !part.is_empty() {
                let (now, later) = part.split_at(part.len().min(MOST_PIECE - self.kept.len()));
                self.kept.extend_from_slice(now);
                part = later;
                let ends = self.in_lines && self.kept.ends_with(b"\n");
                if (ends || self.kept.len() == MOST_PIECE) && !self.give(ends, give) {
                    return false;
                }
            }
        }
        !is_last || self.kept.is_empty() || self.give(true, give)
    }

    fn give(&mut self, ends_line: bool, give: &mut impl FnMut(DataPiece) -> bool) -> bool {
        let piece = DataPiece::new(!self.goes_on, &self.kept);
        self.goes_on = self.in_lines && !ends_line;
        self.kept.clear();
        give(piece)
    }
}

/// The media thread's end.
struct Queue {
    ready: Consumer<DataPiece>,
    is_live: bool,
}

impl DataSource for Queue {
    fn pull(&mut self) -> Option<DataPiece> {
        self.ready.pop().ok()
    }

    fn is_ended(&mut self) -> bool {
        self.ready.is_abandoned() && self.ready.is_empty()
    }

    fn is_live(&self) -> bool {
        self.is_live
    }
}

/// Standard input.
const STANDARD: &str = "-";
/// RTP's number for data; pictures have the next one.
const PAYLOAD_TYPE: u8 = 126;
/// Pieces that wait for the media thread: a tenth of a second of 5 Mbit/s.
const PIECES: usize = 128;
/// Bytes that are read at once.
const READ: usize = 16 * 1024;
/// How long the reading thread waits for room.
const REST: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(in_lines: bool, reads: &[&[u8]]) -> Vec<(bool, Vec<u8>)> {
        let (mut cutter, mut pieces) = (Cutter { in_lines, ..Cutter::default() }, Vec::new());
        let mut give = |piece: DataPiece| {
            pieces.push((piece.begins, piece.bytes().to_vec()));
            true
        };
        reads.iter().for_each(|bytes| assert!(cutter.cut(bytes, false, &mut give)));
        assert!(cutter.cut(&[], true, &mut give));
        pieces
    }

    #[test]
    fn lines_are_pieces_and_long_ones_are_cut() {
        let long = [vec![b'x'; MOST_PIECE + 3], b"\n".to_vec()].concat();
        let got = pieces(true, &[b"one\ntw", b"o\n\n", &long, b"rest"]);
        let expected: [(bool, &[u8]); 6] = [
            (true, b"one\n"),
            (true, b"two\n"),
            (true, b"\n"),
            (true, &long[..MOST_PIECE]),
            (false, b"xxx\n"),
            (true, b"rest"),
        ];
        assert!(got.iter().zip(expected).all(|(got, expected)| (got.0, &got.1[..]) == expected), "{got:?}");
        assert_eq!(got.len(), 6);
        // A line of just a piece's length.
        let full = [vec![b'y'; MOST_PIECE - 1], b"\n".to_vec(), b"z\n".to_vec()].concat();
        let got: Vec<_> =
            pieces(true, &[&full]).iter().map(|(begins, bytes)| (*begins, bytes.len())).collect();
        assert_eq!(got, [(true, MOST_PIECE), (true, 2)]);
    }

    #[test]
    fn a_file_is_cut_into_whole_pieces_that_can_be_read_from_anywhere() {
        let bytes: Vec<u8> = (0..2 * MOST_PIECE as u32 + 5).map(|n| n as u8).collect();
        let got = pieces(false, &[&bytes[..700], &bytes[700..]]);
        assert_eq!(got.iter().map(|(_, piece)| piece.len()).collect::<Vec<_>>(), [MOST_PIECE, MOST_PIECE, 5]);
        assert!(got.iter().all(|(begins, _)| *begins));
        assert_eq!(got.into_iter().flat_map(|(_, piece)| piece).collect::<Vec<_>>(), bytes);
    }
}
