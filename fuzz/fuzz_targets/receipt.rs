//! Receipts of recordings: one that is understood is the same after being written.
#![no_main]

use antiphon_media::rtcp::Receipt;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(receipt) = Receipt::parse(bytes) else { return };
    let mut written = [0; Receipt::MOST];
    let len = receipt.write(&mut written);
    assert_eq!(Receipt::parse(&written[..len]).as_ref(), Some(&receipt));
});
