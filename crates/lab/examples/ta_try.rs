use antiphon_lab::scenario::Scenario;
fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().unwrap();
    let reps: u32 = args.next().map_or(1, |r| r.parse().unwrap());
    let text = std::fs::read_to_string(&file).unwrap();
    let scenario =
        Scenario::parse(&file, &text).unwrap_or_else(|e| panic!("{e}")).with_repetitions(reps).unwrap();
    for run in scenario.plan() {
        let begin = std::time::Instant::now();
        let setup = scenario.setup(&run.point).unwrap();
        let figures = antiphon_lab::world::run(&setup, run.seed).unwrap_or_else(|e| panic!("{e}"));
        let f = &figures.streams[0].1;
        let point: Vec<&str> = run.point.iter().map(|(_, v)| v.split('&').next().unwrap()).collect();
        println!(
            "{:40} rtt {:8.3} mad {:8.3} sd {:8.3} lost {:6.3}% exp {:5} rec {:6} retr {:5} ooo {:4} mac {:4} qd {:4} p99 {:8.2} broken {} [{:.2}s {}]",
            point[..2].join(" "),
            f.rtt_mean_ms.unwrap_or(-1.0),
            f.jitter_mad_ms.unwrap_or(-1.0),
            f.jitter_sd_ms.unwrap_or(-1.0),
            f.lost_percent.unwrap_or(-1.0),
            f.expired.unwrap_or(-1.0),
            f.received.unwrap_or(-1.0),
            f.retransmissions.unwrap_or(-1.0),
            f.reordered.unwrap_or(-1.0),
            f.mac_exhausted.unwrap_or(-1.0),
            f.queue_dropped.unwrap_or(-1.0),
            f.rtt_p99_ms.unwrap_or(-1.0),
            f.broken.unwrap_or(-1.0),
            begin.elapsed().as_secs_f64(),
            figures.events
        );
    }
}
