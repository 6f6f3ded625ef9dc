//! Path passports: one that is understood becomes paths or is refused with an error.
#![no_main]

use antiphon_trace::passport::Passport;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(passport) = Passport::read(bytes) else { return };
    let _refused = passport.paths(None);
});
