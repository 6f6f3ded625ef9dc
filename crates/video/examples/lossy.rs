//! A video file through packets of which some are lost, into another file: `lossy IN OUT.mkv [LOSS%] [SEED]`.
//!
//! Says what was whole. Frames that lack a packet are left out, and so are those up to the next key frame that would
//! refer to them, unless nobody needs the lost one.

use std::fs::File;
use std::io::{BufReader, BufWriter};

use antiphon_core::Rng;
use antiphon_video::{
    Depacketiser, DepacketiserConfig, FrameRate, MatroskaWriter, OpenOptions, ReceivedFrame,
    VideoPacketConfig, VideoPacketiser, VideoReader,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, rest @ ..] = &arguments[..] else {
        return Err("give a video file, a file to write, and if you like per cent of loss and a seed".into());
    };
    let loss: f64 = rest.first().map_or("5", |text| text.trim_end_matches('%')).parse()?;
    let seed = rest.get(1).map_or(Ok(1), |text| text.parse())?;
    let options = OpenOptions { rate: Some(FrameRate { frames: 25, seconds: 1 }) };
    let mut reader = VideoReader::open(BufReader::new(File::open(input)?), options)?;
    let info = reader.info().clone();
    println!("{}: {}, {:?}", input, info.codec, info.size);
    let config = VideoPacketConfig::new(info.codec);
    let mut packetiser = VideoPacketiser::new(config, seed)?;
    let mut depacketiser = Depacketiser::new(DepacketiserConfig::new(info.codec));
    let mut writer = MatroskaWriter::new(BufWriter::new(File::create(output)?), info, None);
    let mut rng = Rng::fork(seed, "loss");
    let mut buf = vec![0; config.max_packet];
    let mut counted = Counted::default();
    while let Some(frame) = reader.next_frame()? {
        counted.sent += 1;
        counted.bytes += frame.data.len();
        counted.keys += u64::from(frame.picture.key);
        counted.droppable += u64::from(frame.picture.droppable);
        packetiser.packetise(&frame, &mut buf, |_, packet| {
            counted.packets += 1;
            if rng.below(1_000_000) as f64 >= loss * 10_000.0 {
                depacketiser.handle_packet(packet).expect("our own packets");
            }
        })?;
        while let Some(received) = depacketiser.poll_frame() {
            counted.take(&received, &mut writer)?;
        }
    }
    while let Some(received) = depacketiser.finish() {
        counted.take(&received, &mut writer)?;
    }
    writer.finish()?;
    println!("{counted:?}\n{:?}", depacketiser.counters());
    Ok(())
}

#[derive(Debug, Default)]
struct Counted {
    sent: u64,
    bytes: usize,
    keys: u64,
    droppable: u64,
    packets: u64,
    whole: u64,
    written: u64,
    is_lacking: bool,
}

impl Counted {
    fn take(
        &mut self,
        received: &ReceivedFrame,
        writer: &mut MatroskaWriter<BufWriter<File>>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        self.is_lacking |= received.base_lost.is_some_and(|lost| lost > 0);
        self.is_lacking |= !received.is_whole() && !received.picture.droppable;
        let Some(frame) = &received.frame else { return Ok(()) };
        self.whole += 1;
        self.is_lacking &= !frame.picture.key;
        if !self.is_lacking {
            self.written += 1;
            writer.write_frame(frame)?;
        }
        Ok(())
    }
}
