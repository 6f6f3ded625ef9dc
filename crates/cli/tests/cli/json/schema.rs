//! Compares JSON values with `docs/json.schema.json`: the keywords of JSON Schema that the file uses, and no others.
//!
//! Stricter than the standard in one respect: a field that the schema does not list is an error, so that nothing is
//! printed that is not documented.

use serde_json::{Map, Value};

/// The schema file.
pub struct Schema {
    root: Value,
}

impl Schema {
    pub fn read() -> Self {
        let text = include_str!("../../../../../docs/json.schema.json");
        Schema { root: serde_json::from_str(text).expect("the schema is JSON") }
    }

    /// The definitions by name: commands (`compare`), their records (`compare.run`) and the objects within.
    pub fn definitions(&self) -> &Map<String, Value> {
        self.root["$defs"].as_object().expect("definitions")
    }

    /// What is wrong with a record of a command; empty if nothing is.
    pub fn faults(&self, command: &str, record: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        let Some(kind) = record["record"].as_str() else { return vec!["it is of no kind".into()] };
        let kind = format!("{command}.{kind}");
        match self.definitions().get(&kind) {
            Some(definition) => self.check(definition, record, &kind, &mut faults),
            None => faults.push(format!("the schema has no record {kind}")),
        }
        faults
    }

    /// Whether the record fits the whole schema, as a validator of others would see it.
    pub fn fits(&self, record: &Value) -> bool {
        let mut faults = Vec::new();
        self.check(&self.root, record, "", &mut faults);
        faults.is_empty()
    }

    fn check(&self, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        let keywords = schema.as_object().unwrap_or_else(|| panic!("{at}: not a schema: {schema}"));
        for (keyword, wanted) in keywords {
            let fits = match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" => true,
                "$ref" => {
                    self.check(self.definition(wanted), value, at, faults);
                    true
                }
                "const" => value == wanted,
                "enum" => wanted.as_array().expect("a list").contains(value),
                "type" => is_of(wanted, value),
                "minimum" => value.as_f64().is_none_or(|number| number >= wanted.as_f64().expect("a number")),
                "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= count(wanted)),
                "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= count(wanted)),
                "anyOf" => self.fits_one_of(wanted, value, at),
                "items" => {
                    for item in value.as_array().into_iter().flatten() {
                        self.check(wanted, item, &format!("{at}[]"), faults);
                    }
                    true
                }
                "required" | "properties" | "additionalProperties" => true,
                other => panic!("{at}: the schema uses '{other}', which this test does not know"),
            };
            if !fits {
                faults.push(format!("{at}: {value} does not fit {keyword} {wanted}"));
            }
        }
        if let Some(fields) = value.as_object() {
            self.check_fields(keywords, fields, at, faults);
        }
    }

    fn check_fields(
        &self,
        schema: &Map<String, Value>,
        fields: &Map<String, Value>,
        at: &str,
        faults: &mut Vec<String>,
    ) {
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                faults.push(format!("{at}: '{name}' is missing"));
            }
        }
        let (properties, others) = (schema.get("properties"), schema.get("additionalProperties"));
        for (name, value) in fields {
            match (properties.and_then(|listed| listed.get(name)), others) {
                (Some(one), _) | (None, Some(one)) => self.check(one, value, &format!("{at}.{name}"), faults),
                (None, None) if properties.is_some() => faults.push(format!("{at}.{name} is not listed")),
                (None, None) => {}
            }
        }
    }

    fn fits_one_of(&self, schemas: &Value, value: &Value, at: &str) -> bool {
        schemas.as_array().expect("a list").iter().any(|schema| {
            let mut faults = Vec::new();
            self.check(schema, value, at, &mut faults);
            faults.is_empty()
        })
    }

    fn definition(&self, reference: &Value) -> &Value {
        let name = reference.as_str().and_then(|text| text.strip_prefix("#/$defs/")).expect("a reference");
        self.definitions().get(name).unwrap_or_else(|| panic!("no definition {name}"))
    }
}

fn count(wanted: &Value) -> u64 {
    wanted.as_u64().expect("a count")
}

fn is_of(wanted: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().expect("the name of a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("'{other}' is no type"),
    };
    match wanted {
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    }
}

#[test]
fn the_check_finds_what_is_wrong() {
    let schema = Schema::read();
    let device = serde_json::json!({
        "record": "device", "schema": 1, "name": "x", "about": "y", "source": null, "sink": "null:",
        "available": true, "clocked": false, "rate_hz": null, "channels": null, "default": false,
    });
    assert_eq!(schema.faults("devices", &device), Vec::<String>::new());
    assert!(schema.fits(&device));
    for (field, value) in
        [("schema", 2.into()), ("about", Value::Null), ("more", 1.into()), ("record", "else".into())]
    {
        let mut wrong = device.clone();
        wrong[field] = value;
        assert!(!schema.faults("devices", &wrong).is_empty() && !schema.fits(&wrong), "{field}");
    }
    let mut short = device;
    short.as_object_mut().unwrap().remove("sink");
    assert_eq!(schema.faults("devices", &short), ["devices.device: 'sink' is missing"]);
}
