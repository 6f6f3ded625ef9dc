//! Plays a sound as a receiver hears it that loses packets at random, each with the same probability, and conceals them; writes WAV.
//! The packets lost are the same for every kind of concealment. `scripts/rate-concealment` rates what comes out.
//!
//! `cargo run --release -p antiphon --example conceal -- SOURCE KIND PACKET_FRAMES LOSS_PERCENT SEED OUT.wav`;
//! KIND `none` loses nothing. Prints the microseconds of processor time that the longest call of the concealer took.

use std::process::ExitCode;
use std::time::Duration;

use antiphon::core::Rng;
use antiphon::media::SampleFormat;
use antiphon::media::conceal::{Concealment, Gap};
use antiphon::net::thread_cpu_time;
use antiphon::sound::{each_block, open_sink, open_source};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(longest) => {
            println!("{}", longest.as_micros());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<Duration, String> {
    let [source, kind, packet, loss, seed, out] = args else {
        return Err("usage: conceal SOURCE KIND PACKET_FRAMES LOSS_PERCENT SEED OUT.wav".into());
    };
    let number = |text: &String| text.parse::<f64>().map_err(|_| format!("'{text}' is no number"));
    let (packet, loss, seed) = (number(packet)? as usize, number(loss)? / 100.0, number(seed)? as u64);
    if packet == 0 {
        return Err("a packet has one sample frame at least".into());
    }
    let mut opened = open_source(source).map_err(|error| error.to_string())?;
    let format = opened.source.format();
    let mut sound = Vec::new();
    each_block(&mut *opened.source, 4800, &mut |block| {
        sound.extend_from_slice(block);
        Ok(())
    })
    .map_err(|error| error.to_string())?;
    let mut longest = Duration::ZERO;
    if kind != "none" {
        let kind: Concealment = kind.parse().map_err(|error| format!("{error}"))?;
        let mut conceal = kind.open(format);
        let mut rng = Rng::new(seed);
        // The first half second comes whole, so that there is something to draw on.
        let whole = format.rate() as usize / 2 / packet;
        for (n, block) in sound.chunks_mut(packet * format.channels()).enumerate() {
            let lost = rng.chance(loss) && n > whole;
            let began = thread_cpu_time();
            match lost {
                true => conceal.lost(Gap { remaining: None, ahead: &[] }, block),
                false => conceal.good(block),
            }
            longest = longest.max(thread_cpu_time() - began);
        }
    }
    let text = format!("file:{out}?overwrite=yes");
    let mut sink = open_sink(&text, format, SampleFormat::F32).map_err(|error| error.to_string())?;
    for block in sound.chunks(4800 * format.channels()) {
        while sink.sink.room() < block.len() / format.channels() {
            // The disk's thread has not written the last ones.
            std::thread::park_timeout(Duration::from_millis(1));
        }
        sink.sink.push(block).map_err(|error| error.to_string())?;
    }
    sink.sink.finish().map_err(|error| error.to_string())?;
    Ok(longest)
}
