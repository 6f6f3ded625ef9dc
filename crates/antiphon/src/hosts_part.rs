//! How much of a round trip to a peer is the two hosts': what the same transport takes over loopback, where there is no network.

use antiphon_net::{OsClock, Stop};

use crate::doctor::over_loopback;
use crate::near_end::NearResult;
use crate::transport::TransportChoice;

/// Adds to the facts of each result which part of its round trip is the hosts', by a stream of the same blocks. Takes a second
/// for each.
pub(crate) fn tell(
    results: &mut [(TransportChoice, NearResult)],
    block_frames: u32,
    clock: OsClock,
    stop: &Stop,
) {
    for (choice, result) in results {
        if stop.is_asked() {
            return;
        }
        let mut trips: Vec<f64> =
            result.log.rows().filter_map(|row| row.rtt()).map(|rtt| rtt.as_secs_f64() * 1e3).collect();
        trips.sort_by(f64::total_cmp);
        let path = trips.get(trips.len() / 2);
        // A transport that fails here has failed there, or is a case for 'antiphon doctor'.
        let here = over_loopback(choice, block_frames, clock, stop)
            .ok()
            .and_then(|tried| tried.figures.rtt_ms.p50_ms);
        result.facts.extend(path.zip(here).map(|(path, here)| sentence(*path, here)));
    }
}

fn sentence(path_ms: f64, loopback_ms: f64) -> String {
    // A path cannot be shorter than its hosts; two streams differ a little.
    let part = (100.0 * loopback_ms / path_ms).min(100.0);
    format!(
        "of its round trip of {path_ms:.2} ms (median) about {loopback_ms:.2} ms, {part:.0} %, are the two hosts', if the other is \
         like this one: so long a stream takes over loopback here, with no other beside it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_is_told_and_never_more_than_all() {
        assert!(
            sentence(10.0, 0.2).contains("of 10.00 ms (median) about 0.20 ms, 2 %"),
            "{}",
            sentence(10.0, 0.2)
        );
        assert!(sentence(0.1, 0.2).contains("0.20 ms, 100 %"), "{}", sentence(0.1, 0.2));
    }
}
