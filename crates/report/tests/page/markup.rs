//! What is well formed.

/// Every start tag of `markup` outside scripts and styles, as name and the rest.
pub fn tags(markup: &str) -> Vec<(String, String)> {
    let mut tags = Vec::new();
    let mut rest = markup;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find('>').unwrap_or(rest.len());
        let (inside, after) = rest.split_at(end);
        rest = after;
        if inside.starts_with(['/', '!', '?']) {
            continue;
        }
        let (name, attributes) = inside.split_once([' ', '\n']).unwrap_or((inside, ""));
        tags.push((name.trim_end_matches('/').to_lowercase(), attributes.to_string()));
        if name == "script" || name == "style" {
            rest = &rest[rest.find(&format!("</{name}")).expect("closed")..];
        }
    }
    tags
}

/// A small check by XML 1.0's rules: tags nest, attributes are quoted and unique, `&` begins a reference.
pub fn well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        text_is_clean(&rest[..start]);
        rest = &rest[start + 1..];
        let end = rest.find('>').expect("every tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "tags nest");
            continue;
        }
        let body = tag.strip_suffix('/').unwrap_or(tag);
        let (name, attributes) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
        assert!(name.bytes().all(|b| b.is_ascii_lowercase()), "name {name}");
        attributes_are_sound(attributes);
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert_eq!(rest.trim(), "");
}

fn attributes_are_sound(attributes: &str) {
    let mut seen = Vec::new();
    let mut rest = attributes.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").expect("attributes are quoted");
        let (value, after) = after.split_once('"').expect("quotes close");
        assert!(!seen.contains(&name), "attribute {name} twice");
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "attribute {name}");
        assert!(!value.contains('<'));
        text_is_clean(value);
        seen.push(name);
        rest = after.trim_start();
    }
}

fn text_is_clean(text: &str) {
    assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
    for part in text.split('&').skip(1) {
        let (name, _) = part.split_once(';').expect("references end");
        assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "&{name};");
    }
}
