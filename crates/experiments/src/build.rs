//! Identifies the build of this program.

use std::io::Read;
use std::sync::OnceLock;

/// Sixteen hexadecimal digits, a hash of the program's own file: another build may compute other figures. `unknown` if
/// the file cannot be read.
pub(super) fn id() -> String {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| of_program().unwrap_or_else(|| "unknown".into())).clone()
}

fn of_program() -> Option<String> {
    let mut file = std::fs::File::open(std::env::current_exe().ok()?).ok()?;
    let (mut hash, mut block) = (0xcbf2_9ce4_8422_2325u64, vec![0; 1 << 16]);
    loop {
        let length = file.read(&mut block).ok()?;
        if length == 0 {
            return Some(format!("{hash:016x}"));
        }
        // FNV-1a over eight bytes at a time: a debug build has hundreds of megabytes.
        for chunk in block[..length].chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
    }
}
