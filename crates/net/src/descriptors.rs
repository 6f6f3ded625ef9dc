//! The limit on open files.

use crate::system;

/// Ensures that this process may have `wanted` files and sockets open: raises its own limit as far as the system lets it.
///
/// Returns the limit if that is not enough.
pub fn allow_open_files(wanted: u64) -> Result<(), u64> {
    system::allow_open_files(wanted)
}

#[cfg(all(test, unix))]
mod tests {
    use nix::sys::resource::{Resource, getrlimit};

    use super::*;

    #[test]
    fn what_the_system_allows_is_allowed_and_no_more() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(allow_open_files(soft), Ok(()));
        if hard < u64::MAX {
            assert_eq!(allow_open_files(hard + 1), Err(hard));
        }
    }
}
