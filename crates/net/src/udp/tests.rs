use super::*;

#[test]
fn errors_of_the_path_end_nothing_and_errors_of_ours_do() {
    let class = |code| classify(&io::Error::from_raw_os_error(code));
    assert!(matches!(class(libc::ECONNREFUSED), Trouble::Refused(BrokenReason::Refused)));
    assert!(matches!(class(libc::ENETUNREACH), Trouble::Refused(BrokenReason::Unreachable)));
    for code in [libc::EMSGSIZE, libc::EAGAIN, libc::ENOBUFS, libc::EPERM] {
        assert!(matches!(class(code), Trouble::Passing), "{code}");
    }
    assert!(matches!(class(libc::EBADF), Trouble::Fatal));
}
