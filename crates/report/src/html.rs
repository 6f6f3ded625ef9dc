//! Text into HTML and XML without letting any of it become markup.

/// `text` as HTML or XML character data, safe in an element and in a quoted attribute.
///
/// Control characters other than tab and line feed are dropped: XML 1.0 §2.2 does not allow them.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

/// Escaped text in which `` `words` `` become code, and `[[words]]` a link to the heading of these words.
pub(crate) fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut pieces = text.split('`').peekable();
    let mut code = false;
    while let Some(piece) = pieces.next() {
        // An unpaired back-quote is an ordinary character.
        match (code, pieces.peek().is_some()) {
            (true, true) => out.push_str(&format!("<code>{}</code>", escape(piece))),
            (true, false) => out.push_str(&format!("`{}", escape(piece))),
            (false, _) => linked(piece, &mut out),
        }
        code = !code;
    }
    out
}

fn linked(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some((before, link, after)) = link(rest) {
        out.push_str(&escape(before));
        out.push_str(&format!("<a href=\"#{}\">{}</a>", heading_id(link), escape(link)));
        rest = after;
    }
    out.push_str(&escape(rest));
}

/// What stands before, in and behind the first link.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("[[")?;
    let (link, after) = rest.split_once("]]")?;
    Some((before, link, after))
}

/// What `html` makes of a text, and nothing of none.
pub(crate) fn unless_empty(text: &str, html: impl FnOnce(&str) -> String) -> String {
    if text.is_empty() { String::new() } else { html(text) }
}

/// The anchor of a heading.
pub(crate) fn heading_id(heading: &str) -> String {
    format!("h-{}", slug(heading))
}

/// JSON that is safe inside a `<script>` element: no `<` can begin an end tag or a comment.
pub(crate) fn script_json(value: &serde_json::Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// A file beside the report as a URL reference, or `None` if `name` would lead elsewhere.
///
/// Refused: absolute paths, `..`, back-slashes, and anything that a browser could read as a scheme or a host. Every
/// character that is not unreserved (RFC 3986 §2.3) or a slash is percent-encoded, so a colon can't make a scheme.
pub(crate) fn beside(name: &str) -> Option<String> {
    let whole = !name.is_empty() && name.len() <= 1024 && !name.contains(['\\', '\0']);
    if !whole || name.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return None;
    }
    let mut out = String::new();
    for b in name.bytes() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(b))
            }
            b => out.push_str(&format!("%{b:02X}")),
        }
    }
    Some(out)
}

/// A name reduced to characters that are valid in every `id`: letters, digits and hyphens.
pub(crate) fn slug(name: &str) -> String {
    let kept = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let joined: String = kept.collect();
    joined.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// A number with `decimals` places and a thin space between thousands, the format of all numbers on the page.
pub fn number(value: f64, decimals: usize) -> String {
    let plain = format!("{:.*}", decimals.min(12), value.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    // "-0.00" is shown as "0.00".
    let zero = plain.chars().all(|c| matches!(c, '0' | '.'));
    let mut out = String::from(if value < 0.0 && !zero { "\u{2212}" } else { "" });
    for (i, digit) in whole.chars().enumerate() {
        // Four digits are readable without a space (ISO 80000-1 §7.3.1 leaves the choice).
        if i > 0 && whole.len() > 4 && (whole.len() - i) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_elsewhere_are_refused() {
        for bad in ["", "/etc/x.wav", "../x.wav", "a//b", "//host/x", "C:\\x", "a/../b", "a/./b"] {
            assert_eq!(beside(bad), None, "{bad}");
        }
        assert_eq!(beside("heard-rtp.wav").as_deref(), Some("heard-rtp.wav"));
        assert_eq!(beside("javascript:x").as_deref(), Some("javascript%3Ax"));
        assert_eq!(beside("https://a").as_deref(), None);
        assert_eq!(beside("a b\".wav").as_deref(), Some("a%20b%22.wav"));
    }

    #[test]
    fn back_quotes_make_code_only_in_pairs() {
        assert_eq!(inline("run `a<b` now"), "run <code>a&lt;b</code> now");
        assert_eq!(inline("5` of"), "5` of");
        assert_eq!(inline("`a` and `b"), "<code>a</code> and `b");
    }

    #[test]
    fn numbers_are_grouped_and_rounded() {
        assert_eq!(number(1234.5, 1), "1234.5");
        assert_eq!(number(-12345.678, 2), "\u{2212}12\u{202f}345.68");
        assert_eq!(number(1_000_000.0, 0), "1\u{202f}000\u{202f}000");
        assert_eq!(number(-0.001, 2), "0.00");
    }

    #[test]
    fn slugs_are_plain() {
        assert_eq!(slug("Latency over time!"), "latency-over-time");
        assert_eq!(slug("<\u{e9}>"), "");
    }

    #[test]
    fn links_lead_to_headings() {
        assert_eq!(
            inline("see [[Table 6.3]], `a[[b]]` & [[<x>]] [[open"),
            "see <a href=\"#h-table-6-3\">Table 6.3</a>, <code>a[[b]]</code> &amp; <a href=\"#h-x\">&lt;x&gt;</a> [[open"
        );
    }

    proptest! {
        #[test]
        fn escaped_text_holds_no_markup(text in ".*") {
            let safe = escape(&text);
            prop_assert!(!safe.contains(['<', '>', '"', '\'']));
            // Every remaining ampersand begins one of our own references.
            for part in safe.split('&').skip(1) {
                prop_assert!(["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|r| part.starts_with(r)));
            }
        }

        #[test]
        fn json_in_a_script_reads_back(text in ".*") {
            let json = script_json(&serde_json::json!({ "t": text }));
            prop_assert!(!json.contains('<'));
            let back: serde_json::Value = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(back["t"].as_str().unwrap(), text);
        }

        #[test]
        fn references_stay_beside_the_report(name in ".*") {
            if let Some(url) = beside(&name) {
                prop_assert!(!url.starts_with('/') && !url.contains(':') && !url.contains("//"));
                prop_assert!(url.split('/').all(|part| part != ".."));
            }
        }
    }
}
