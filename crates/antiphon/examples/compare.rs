//! The comparison from a Rust program: prints one line per transport.

use std::time::Duration;

fn main() -> Result<(), antiphon::Error> {
    let options = antiphon::CompareOptions { length: Some(Duration::from_secs(5)), ..Default::default() };
    let result = antiphon::compare(&options, &antiphon::Stop::new(), &mut |_| {})?;
    for figures in &result.figures {
        println!(
            "{}: {} sent, {} lost, {} late, round trip p50 {:?} ms, p99 {:?} ms",
            figures.transport,
            figures.packets_sent,
            figures.lost,
            figures.late,
            figures.rtt_ms.p50_ms,
            figures.rtt_ms.p99_ms
        );
    }
    for advice in &result.advice {
        println!("{}: {} ({})", advice.purpose.title(), advice.transport, advice.because);
    }
    println!("{} {:?} {:?}", result.link.method, result.notes, result.failures);
    Ok(())
}
