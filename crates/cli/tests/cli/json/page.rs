//! The tables of `docs/json.md`.

use std::collections::BTreeMap;

use serde_json::Value;

/// Fields and their types by record (`lab-run.point`) or object (`distribution`).
pub fn tables() -> BTreeMap<String, BTreeMap<String, String>> {
    let page = include_str!("../../../../../docs/json.md");
    let mut tables = BTreeMap::<String, BTreeMap<String, String>>::new();
    let (mut section, mut current) = (String::new(), None);
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.replace(' ', "-");
            current = None;
        } else if let Some(title) = line.strip_prefix("### ") {
            let name = quoted(title).expect("a name in a title");
            let name = if section == "Objects" { name.to_string() } else { format!("{section}.{name}") };
            tables.entry(name.clone()).or_default();
            current = Some(name);
        } else if let (Some(name), Some(row)) = (&current, line.strip_prefix("| `")) {
            let (field, others) = row.split_once("` | ").expect("a field");
            let kind = others.split(" | ").next().expect("a type");
            let listed = tables.entry(name.clone()).or_default().insert(field.into(), kind.into());
            assert_eq!(listed, None, "{name}: {field} is listed twice");
        }
    }
    tables
}

fn quoted(title: &str) -> Option<&str> {
    title.split('`').nth(1)
}

/// How the page writes the type of a property of the schema: `integer or null`, ``array of [`flow`](#flow)``.
pub fn kind(property: &Value) -> String {
    let simple = ["number", "integer", "string", "boolean"];
    if let Some(name) = property["$ref"].as_str().and_then(|text| text.strip_prefix("#/$defs/")) {
        return format!("[`{name}`](#{name})");
    }
    if let Some(values) = property["enum"].as_array() {
        return values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" or ");
    }
    let (name, or_null) = match &property["type"] {
        Value::Array(names) if names.len() == 2 && names[1] == "null" => (&names[0], " or null"),
        name => (name, ""),
    };
    match name.as_str().unwrap_or_else(|| panic!("no type: {property}")) {
        "array" => {
            assert_eq!(property["minItems"], property["maxItems"]);
            let items = several(&property["items"]);
            match property["minItems"].as_u64() {
                Some(length) => format!("array of {length} {items}{or_null}"),
                None => format!("array of {items}{or_null}"),
            }
        }
        "object" => format!("object of {}{or_null}", several(&property["additionalProperties"])),
        name if simple.contains(&name) => format!("{name}{or_null}"),
        other => panic!("the page has no word for {other}"),
    }
}

/// The type in the plural: `numbers or nulls`.
fn several(property: &Value) -> String {
    let one = kind(property);
    if one.starts_with('[') {
        one
    } else {
        one.split(" or ").map(|name| format!("{name}s")).collect::<Vec<_>>().join(" or ")
    }
}
