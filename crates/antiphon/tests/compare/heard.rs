//! The sound files of a report.

use super::*;

/// Every sample of a sound file, to the bit.
fn samples(path: &Path) -> Vec<u32> {
    let mut source = open_source(&path.display().to_string()).expect("a sound file").source;
    let channels = source.format().channels();
    let (mut all, mut block) = (Vec::new(), vec![0.0f32; 256 * channels]);
    loop {
        match source.pull(&mut block) {
            Pull::Frames(n) => all.extend(block[..n * channels].iter().map(|sample| sample.to_bits())),
            Pull::Starved => std::thread::yield_now(),
            Pull::End => return all,
        }
    }
}

/// A recording by `receive` has the samples that were sent, over a network without losses; so has what `compare` keeps.
#[test]
fn heard_files_have_the_samples_sent() {
    let options = CompareOptions {
        transports: ["rtp", "tcp"].map(String::from).to_vec(),
        // A busy machine must not make packets late.
        latency: Duration::from_secs(1),
        ..options("samples", "delay=2ms")
    };
    compare(&options, &Stop::new(), &mut |_| {}).expect("an embedded link of some kind");
    let mut source = open_source(&options.source).expect("the default source").source;
    let mut sent = vec![0.0f32; 72_000 * source.format().channels()];
    let mut filled = 0;
    while filled < sent.len() {
        match source.pull(&mut sent[filled..]) {
            Pull::Frames(n) => filled += n * source.format().channels(),
            Pull::Starved => std::thread::yield_now(),
            Pull::End => panic!("the source is longer"),
        }
    }
    let sent: Vec<u32> = sent.iter().map(|sample| sample.to_bits()).collect();
    let out = options.out.expect("asked for");
    for file in ["original.flac", "heard-rtp.flac", "heard-tcp.flac"] {
        let kept = samples(&out.join(file));
        assert_eq!((kept.len(), kept == sent), (sent.len(), true), "{file}");
    }
    assert!(!out.join("heard-rtp.wav").exists(), "nothing is kept twice");
    std::fs::remove_dir_all(out).expect("ours");
}

#[test]
fn what_flac_can_not_hold_stays_wav() {
    let options = CompareOptions {
        transports: vec!["rtp".into()],
        sample: Some(SampleFormat::F32),
        ..options("float", "delay=1ms")
    };
    let out = options.out.clone().expect("asked for");
    std::fs::create_dir_all(&out).expect("a temporary directory");
    std::fs::write(out.join("heard-rtp.flac"), "of an older report").expect("a file");
    compare(&options, &Stop::new(), &mut |_| {}).expect("an embedded link of some kind");
    for file in ["original.wav", "heard-rtp.wav"] {
        assert!(out.join(file).exists(), "{file}");
    }
    assert!(!out.join("heard-rtp.flac").exists(), "an older report's sound is gone");
    let page = std::fs::read_to_string(out.join("report.html")).expect("written");
    assert!(page.contains("src=\"heard-rtp.wav\"") && page.contains("src=\"original.wav\""));
    std::fs::remove_dir_all(out).expect("ours");
}

#[test]
fn a_sound_that_can_not_be_kept_costs_no_report() {
    let options = CompareOptions { transports: vec!["rtp".into()], ..options("unkept", "delay=1ms") };
    let out = options.out.clone().expect("asked for");
    std::fs::create_dir_all(out.join("original.flac")).expect("a directory in its place");
    compare(&options, &Stop::new(), &mut |_| {}).expect("a report");
    let page = std::fs::read_to_string(out.join("report.html")).expect("written");
    std::fs::remove_dir_all(out).expect("ours");
    assert!(
        page.contains("original: the sound could not be saved") && page.contains("src=\"heard-rtp.flac\"")
    );
}
