//! The text of scenarios of the laboratory: understood again, or refused with an error.
#![no_main]

use antiphon_lab::scenario::Scenario;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Scenario::parse("fuzzed", text) {
        assert!(!error.to_string().is_empty());
    }
});
