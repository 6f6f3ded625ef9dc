//! The tables of `docs/json.md`.

use std::collections::{BTreeMap, BTreeSet};

/// Field names by record (`lab-run.point`) or object (`distribution`).
pub fn tables() -> BTreeMap<String, BTreeSet<String>> {
    let page = include_str!("../../../../../docs/json.md");
    let mut tables = BTreeMap::<String, BTreeSet<String>>::new();
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
            let field = row.split('`').next().expect("a field");
            let new = tables.entry(name.clone()).or_default().insert(field.into());
            assert!(new, "{name}: {field} is listed twice");
        }
    }
    tables
}

fn quoted(title: &str) -> Option<&str> {
    title.split('`').nth(1)
}
