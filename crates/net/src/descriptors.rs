//! The limit on open files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Ensures that this process may have `wanted` files and sockets open: raises its own limit as far as the system lets it.
///
/// Returns the limit if that is not enough.
pub fn allow_open_files(wanted: u64) -> Result<(), u64> {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    let raised = wanted.min(hard);
    if soft >= wanted || raised > soft && setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() {
        return if soft.max(raised) >= wanted { Ok(()) } else { Err(soft.max(raised)) };
    }
    Err(soft)
}

#[cfg(test)]
mod tests {
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
