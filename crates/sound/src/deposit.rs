//! Destination of a recording: a WAV file whose header is correct at any time, or a pipe.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use antiphon_media::StreamFormat;

use crate::raw::RawFormat;
use crate::wav::Header;

/// The blocking end of a recording: called on a thread of its own.
pub trait Deposit: Send {
    /// Writes samples; an error means that no more can be written.
    fn store(&mut self, samples: &[f32]) -> io::Result<()>;

    /// So many sample frames are left out before what is stored next, as a listener could not be given them in time. Of a live
    /// sink alone.
    fn skip(&mut self, frames: u64) -> io::Result<()>;

    /// Makes everything stored so far readable by others.
    fn checkpoint(&mut self) -> io::Result<()>;

    /// The same at the end. Also called after an error; then does what is still possible.
    fn close(&mut self) -> io::Result<()>;

    /// Bytes of sound that arrived, without a header.
    fn bytes(&self) -> u64;

    /// Bytes of a sample frame.
    fn frame_bytes(&self) -> u64;
}

/// The file operations that a recording needs: few, so that a test can run out of space after any byte.
pub(crate) trait Medium: Write + Send {
    /// Overwrites the beginning, which exists already.
    fn rewrite_start(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Truncates to `length` bytes; further writes append.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Waits until the data is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl Medium for File {
    fn rewrite_start(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.rewind()?;
        self.write_all(bytes)?;
        self.seek(SeekFrom::End(0)).map(drop)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.seek(SeekFrom::End(0)).map(drop)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// A WAV file being written.
pub(crate) struct WavDeposit<M> {
    medium: M,
    header: Header,
    raw: RawFormat,
    header_bytes: u64,
    data: u64,
    /// Bytes of sound according to the header.
    told: u64,
    encoded: Vec<u8>,
}

impl<M: Medium> WavDeposit<M> {
    /// Writes the header of an empty file.
    pub fn create(mut medium: M, header: Header) -> io::Result<Self> {
        let bytes = header.emit(0);
        medium.write_all(&bytes)?;
        Ok(WavDeposit {
            medium,
            header,
            raw: RawFormat::from(header.sample),
            header_bytes: bytes.len() as u64,
            data: 0,
            told: 0,
            encoded: Vec::new(),
        })
    }

    /// The header is updated after this many bytes: half a second of sound, so that a crash costs less than the
    /// promised second even with a slow disk.
    fn checkpoint_bytes(&self) -> u64 {
        u64::from(self.header.stream.rate()) / 2 * self.header.frame_bytes()
    }
}

impl<M: Medium> Deposit for WavDeposit<M> {
    fn store(&mut self, samples: &[f32]) -> io::Result<()> {
        self.encoded.clear();
        self.raw.encode(samples, &mut self.encoded);
        let mut sent = 0;
        while sent < self.encoded.len() {
            match self.medium.write(&self.encoded[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    sent += written;
                    self.data += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match self.data - self.told >= self.checkpoint_bytes() {
            true => self.checkpoint(),
            false => Ok(()),
        }
    }

    fn skip(&mut self, _frames: u64) -> io::Result<()> {
        Err(io::Error::other("a file misses nothing"))
    }

    /// Sound first, header second: the header never claims more than the file holds.
    fn checkpoint(&mut self) -> io::Result<()> {
        if self.told == self.data {
            return Ok(());
        }
        let whole = self.data / self.header.frame_bytes() * self.header.frame_bytes();
        self.medium.rewrite_start(&self.header.emit(whole))?;
        self.told = self.data;
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        let whole = self.data / self.header.frame_bytes() * self.header.frame_bytes();
        // The header first: on a full disk it can still be written, since its bytes already exist.
        let header = self.medium.rewrite_start(&self.header.emit(whole));
        let cut = match whole < self.data {
            true => self.medium.cut(self.header_bytes + whole),
            false => Ok(()),
        };
        self.data = whole;
        let pad = self.medium.write_all(&[0][..(whole % 2) as usize]);
        header.and(cut).and(pad).and(self.medium.sync())
    }

    fn bytes(&self) -> u64 {
        self.data
    }

    fn frame_bytes(&self) -> u64 {
        self.header.frame_bytes()
    }
}

/// Bare samples into a pipe.
pub(crate) struct PipeDeposit<W> {
    pipe: W,
    raw: RawFormat,
    frame_bytes: u64,
    bytes: u64,
    encoded: Vec<u8>,
}

impl<W: Write + Send> PipeDeposit<W> {
    pub fn new(pipe: W, raw: RawFormat, stream: StreamFormat) -> Self {
        PipeDeposit {
            pipe,
            raw,
            frame_bytes: (raw.bytes() * stream.channels()) as u64,
            bytes: 0,
            encoded: Vec::new(),
        }
    }
}

impl<W: Write + Send> Deposit for PipeDeposit<W> {
    fn store(&mut self, samples: &[f32]) -> io::Result<()> {
        self.encoded.clear();
        self.raw.encode(samples, &mut self.encoded);
        self.pipe.write_all(&self.encoded)?;
        self.pipe.flush()?;
        self.bytes += self.encoded.len() as u64;
        Ok(())
    }

    fn skip(&mut self, _frames: u64) -> io::Result<()> {
        Ok(())
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        self.pipe.flush()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn frame_bytes(&self) -> u64 {
        self.frame_bytes
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::wav::WavInfo;
    use antiphon_media::SampleFormat;
    use std::sync::{Arc, Mutex};

    /// A disk with room for `room` bytes.
    #[derive(Clone, Default)]
    pub struct Small {
        pub bytes: Arc<Mutex<Vec<u8>>>,
        pub room: usize,
    }

    impl Write for Small {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let mut bytes = self.bytes.lock().unwrap();
            let fits = (self.room - bytes.len()).min(buf.len());
            bytes.extend(&buf[..fits]);
            match fits {
                0 if !buf.is_empty() => Err(io::ErrorKind::StorageFull.into()),
                fits => Ok(fits),
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Medium for Small {
        fn rewrite_start(&mut self, new: &[u8]) -> io::Result<()> {
            self.bytes.lock().unwrap()[..new.len()].copy_from_slice(new);
            Ok(())
        }
        fn cut(&mut self, length: u64) -> io::Result<()> {
            self.bytes.lock().unwrap().truncate(length as usize);
            Ok(())
        }
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn header(sample: SampleFormat, channels: u32) -> Header {
        Header { stream: StreamFormat::new(8_000, channels).unwrap(), sample }
    }

    #[test]
    fn a_disk_that_fills_at_any_byte_leaves_a_true_header() {
        for (sample, channels) in [(SampleFormat::L24, 1), (SampleFormat::L16, 2), (SampleFormat::MuLaw, 3)] {
            let header = header(sample, channels);
            let start = header.emit(0).len();
            for room in start..start + 60 {
                let disk = Small { room, ..Small::default() };
                let mut deposit = WavDeposit::create(disk.clone(), header).unwrap();
                let block = vec![0.25; 4 * channels as usize];
                let mut blocks = (0..20).map(|_| deposit.store(&block));
                assert!(blocks.any(|stored| stored.is_err_and(|e| e.kind() == io::ErrorKind::StorageFull)));
                let _ = deposit.close();
                let bytes = disk.bytes.lock().unwrap();
                let info = WavInfo::parse(&mut &bytes[..]).unwrap();
                // Every whole sample frame that fitted, and no more.
                let fitted = (room - start) as u64 / header.frame_bytes() * header.frame_bytes();
                assert_eq!((info.claimed, deposit.bytes()), (Some(fitted), fitted), "room for {room}");
                assert!(bytes.len() as u64 - info.data_start - fitted <= 1);
            }
        }
    }

    #[test]
    fn no_moment_lacks_more_than_half_a_second() {
        let disk = Small { room: 1 << 20, ..Small::default() };
        let mut deposit = WavDeposit::create(disk.clone(), header(SampleFormat::L16, 2)).unwrap();
        for block in 1..1_000u64 {
            deposit.store(&[0.5; 2 * 64]).unwrap();
            // The file as a reader finds it if the program is killed now.
            let bytes = disk.bytes.lock().unwrap();
            let told = WavInfo::parse(&mut &bytes[..]).unwrap().claimed.unwrap() / 4;
            let stored = 64 * block;
            // 4 000 sample frames are half a second; one block more would show a late checkpoint.
            assert!(told <= stored && stored - told < 4_000, "{told} of {stored}");
        }
    }
}
