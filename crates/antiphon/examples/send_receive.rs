//! `send` or `receive` alone in a process, which prints its memory use at the end, for comparison with the budget of 12
//! MB.
//!
//! ```text
//! send_receive receive rtp://127.0.0.1:7710 out.wav &
//! send_receive send clip:demo rtp://127.0.0.1:7710
//! ```

use std::process::ExitCode;
use std::time::Duration;

use antiphon::{ReceiveOptions, SendOptions, Stop, receive, send};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut tell = |sentence: String| eprintln!("{sentence}");
    let result = match args[..] {
        ["send", source, target] => {
            let options =
                SendOptions { source: source.into(), target: target.into(), ..SendOptions::default() };
            send(&options, &Stop::new(), &mut tell, &mut |_| {}).map(|sent| sent.status.packets_sent)
        }
        ["receive", source, sink] => {
            let length = Some(Duration::from_secs(60));
            let options = ReceiveOptions {
                source: source.into(),
                sink: sink.into(),
                length,
                ..ReceiveOptions::default()
            };
            receive(&options, &Stop::new(), &mut tell, &mut |_| {}).map(|got| got.status.packets_received)
        }
        _ => {
            eprintln!("usage: send_receive send SOURCE TARGET | send_receive receive SOURCE SINK");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(frames) => println!("{{\"command\":\"{}\",\"frames\":{frames},{}}}", args[0], memory()),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Resident memory of this process in kB, according to Linux: the peak, and its present parts.
fn memory() -> String {
    // Without the file the figures are unknown: null, not zero.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    let fields =
        [("peak_kb", "VmHWM"), ("now_kb", "VmRSS"), ("anonymous_kb", "RssAnon"), ("file_kb", "RssFile")];
    let shown = fields
        .map(|(name, key)| format!("\"{name}\":{}", field(key).map_or("null".into(), |kb| kb.to_string())));
    shown.join(",")
}
