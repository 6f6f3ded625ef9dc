//! Requests of HTTP/1.1 (RFC 9112), as far as a server of one page needs them.

/// What the bytes received so far are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// The beginning of a request: more must come.
    Incomplete,
    /// A whole request.
    Whole(Answer),
}

/// How to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// With the metrics; without them to HEAD.
    Metrics {
        /// Whether the body is wanted.
        body: bool,
    },
    /// With this status and sentence.
    Refusal(&'static str, &'static str),
}

/// The most bytes of a request.
pub(super) const MOST_REQUEST: usize = 8192;

/// Reads a request. Its body, if it has one, is not read.
pub(super) fn read(bytes: &[u8]) -> Request {
    let ends = |end: &[u8]| bytes.windows(end.len()).position(|window| window == end);
    // A sole LF ends a line, too (RFC 9112 §2.2).
    let end = [ends(b"\r\n\r\n"), ends(b"\n\n")].into_iter().flatten().min();
    match end {
        Some(end) if end <= MOST_REQUEST => Request::Whole(answer(&bytes[..end])),
        None if bytes.len() < MOST_REQUEST => Request::Incomplete,
        _ => Request::Whole(Answer::Refusal(
            "431 Request Header Fields Too Large",
            "a request may have 8192 bytes",
        )),
    }
}

fn answer(head: &[u8]) -> Answer {
    let line = head.iter().position(|byte| *byte == b'\n').map_or(head, |end| &head[..end]);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let malformed = Answer::Refusal("400 Bad Request", "write GET /metrics HTTP/1.1");
    let Ok(line) = std::str::from_utf8(line) else { return malformed };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return malformed;
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return malformed;
    }
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    match (method, path) {
        ("GET", "/metrics") => Answer::Metrics { body: true },
        ("HEAD", "/metrics") => Answer::Metrics { body: false },
        ("GET" | "HEAD", _) => Answer::Refusal("404 Not Found", "the metrics are at /metrics"),
        _ => Answer::Refusal("405 Method Not Allowed", "only GET and HEAD are answered"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(bytes: &[u8]) -> &'static str {
        match read(bytes) {
            Request::Whole(Answer::Refusal(status, _)) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_are_answered_by_method_and_path() {
        let metrics = |body| Request::Whole(Answer::Metrics { body });
        assert_eq!(read(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), metrics(true));
        assert_eq!(read(b"GET /metrics?x=1 HTTP/1.0\n\n"), metrics(true));
        assert_eq!(read(b"HEAD /metrics HTTP/1.1\r\n\r\n"), metrics(false));
        assert_eq!(read(b"GET /metrics HTTP/1.1\r\nHost: x\r\n"), Request::Incomplete);
        assert!(refused(b"GET / HTTP/1.1\r\n\r\n").starts_with("404"));
        assert!(refused(b"GET /metrics/x HTTP/1.1\r\n\r\n").starts_with("404"));
        assert!(refused(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("405"));
        for wrong in ["", "GET", "GET /metrics", "GET  /metrics HTTP/1.1", "GET /metrics HTTP/2", "\u{0}"] {
            assert!(refused(format!("{wrong}\r\n\r\n").as_bytes()).starts_with("400"), "{wrong}");
        }
        assert!(refused(b"GET /\xff HTTP/1.1\r\n\r\n").starts_with("400"));
    }

    #[test]
    fn a_request_without_an_end_is_refused_at_its_bound() {
        let long = [b"GET /metrics HTTP/1.1\r\nx: ".to_vec(), vec![b'a'; MOST_REQUEST]].concat();
        assert_eq!(read(&long[..MOST_REQUEST - 1]), Request::Incomplete);
        assert!(refused(&long[..MOST_REQUEST]).starts_with("431"));
        assert!(refused(&[&long[..], b"\r\n\r\n"].concat()).starts_with("431"));
    }

    proptest! {
        /// Whatever comes, and in whatever pieces, the answer to the whole is the answer to it at once.
        #[test]
        fn any_bytes_have_an_answer_that_does_not_depend_on_pieces(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b' ')], 0..400),
        ) {
            let first = (0..=bytes.len()).map(|len| read(&bytes[..len])).find(|request| *request != Request::Incomplete);
            prop_assert_eq!(first.unwrap_or(Request::Incomplete), read(&bytes));
        }

        /// Fields of a request change nothing.
        #[test]
        fn header_fields_are_not_looked_at(
            fields in prop::collection::vec("[A-Za-z-]{1,20}: [ -~]{0,40}", 0..20),
        ) {
            let text = format!("GET /metrics HTTP/1.1\r\n{}\r\n", fields.iter().map(|field| format!("{field}\r\n")).collect::<String>());
            prop_assert_eq!(read(text.as_bytes()), Request::Whole(Answer::Metrics { body: true }));
        }
    }
}
