//! Stands for `libfuzzer-sys` where the nightly toolchain and a C++ compiler are missing: the same targets (`fuzz/`), with
//! inputs that are random or damaged seeds. It learns nothing from what an input reaches, so it finds less; but it runs with
//! every test, and repeats exactly.

use antiphon_core::Rng;
pub use arbitrary;

/// What a target does with an input.
pub type Target = fn(&[u8]);

/// Defines a target as libFuzzer's macro of that name does: here as a function `run`.
#[macro_export]
macro_rules! fuzz_target {
    (init: $init:expr, |$data:ident: &[u8]| $body:block) => {
        pub fn run($data: &[u8]) {
            static ONCE: std::sync::Once = std::sync::Once::new();
            ONCE.call_once(|| $init);
            $body
        }
    };
    (|$data:ident: &[u8]| $body:block) => {
        pub fn run($data: &[u8]) {
            $body
        }
    };
    (|$input:ident: $kind:ty| $body:block) => {
        pub fn run(data: &[u8]) {
            fn on($input: $kind) {
                $body
            }
            let unstructured = $crate::arbitrary::Unstructured::new(data);
            if let Ok(input) = $crate::arbitrary::Arbitrary::arbitrary_take_rest(unstructured) {
                on(input);
            }
        }
    };
}

/// Runs `target` on so many inputs of at most 4 kB: `seeds`, damaged ones, and random ones.
pub fn run(name: &str, target: Target, seeds: &[Vec<u8>], inputs: u32) {
    let mut rng = Rng::fork(1, name);
    seeds.iter().for_each(|seed| target(seed));
    let mut input = Vec::new();
    for _ in 0..inputs {
        input.clear();
        match seeds.get(rng.below(seeds.len() as u32 + 1) as usize) {
            Some(seed) => damage(seed, &mut rng, &mut input),
            None => random(&mut rng, &mut input),
        }
        target(&input);
    }
}

/// A seed with some bytes changed, some left out, some twice.
fn damage(seed: &[u8], rng: &mut Rng, input: &mut Vec<u8>) {
    input.extend(&seed[..seed.len().min(LONGEST)]);
    for _ in 0..=rng.below(8) {
        let len = input.len() as u32;
        if len == 0 {
            return;
        }
        let (at, count) = (rng.below(len) as usize, rng.below(16) as usize + 1);
        let end = (at + count).min(input.len());
        match rng.below(4) {
            0 => input[at] = rng.next_u32() as u8,
            1 => input[at] ^= 1 << rng.below(8),
            2 => drop(input.drain(at..end)),
            _ => {
                let again = input[at..end].to_vec();
                input.splice(at..at, again);
            }
        }
    }
}

/// Random bytes; often small numbers, of which lengths and choices are made.
fn random(rng: &mut Rng, input: &mut Vec<u8>) {
    let len = if rng.below(4) == 0 { rng.below(LONGEST as u32) } else { rng.below(300) };
    let small = rng.below(2) == 0;
    for _ in 0..len {
        let byte = rng.next_u32() as u8;
        input.push(if small && byte & 0x80 == 0 { byte & 7 } else { byte });
    }
}

/// Bytes of the longest input.
const LONGEST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// A parser that trusts a length.
    fn faulty(data: &[u8]) {
        if let [b'L', len, rest @ ..] = data {
            assert!(usize::from(*len) <= rest.len(), "out of bounds");
        }
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn a_fault_behind_a_seed_is_found() {
        run("faulty", faulty, &[b"L\x03abc".to_vec()], 1_000);
    }

    #[test]
    fn inputs_are_bounded_and_repeat() {
        static SUMS: std::sync::Mutex<Vec<u64>> = std::sync::Mutex::new(Vec::new());
        fn note(data: &[u8]) {
            assert!(data.len() <= LONGEST + 8 * 16);
            let sum = data.iter().fold(0, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(*byte));
            SUMS.lock().unwrap().push(sum);
        }
        for _ in 0..2 {
            run("note", note, &[vec![7; 3_000]], 500);
        }
        let sums = SUMS.lock().unwrap();
        assert!(sums[..501] == sums[501..] && sums[1] != sums[2]);
    }
}
