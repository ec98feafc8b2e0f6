//! The served document, made into one that finds more: answers may hold nothing that is not described, and requests often name
//! what is really there. A random id would be refused each time, and what comes after that would never be tried.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

const SCHEMAS: &str = "#/components/schemas/";

/// What a call often names: by its operation and the name of the parameter or the field.
pub(crate) type Known<'a> = dyn Fn(&str, &str) -> Vec<Value> + 'a;

/// The document for a trial.
pub(crate) fn document(served: &Value, known: &Known<'_>) -> Value {
    let mut document = served.clone();
    let components = served["components"]["schemas"].as_object().expect("schemas").clone();
    let mut answered = BTreeSet::new();
    for operation in operations(&mut document) {
        let id = operation["operationId"].as_str().expect("an operationId").to_owned();
        for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
            let name = parameter["name"].as_str().expect("a name").to_owned();
            suggest(&mut parameter["schema"], &known(&id, &name));
            if let Some(first) = known(&id, &name).first() {
                parameter["example"] = first.clone();
            }
        }
        if let Some(body) = operation.pointer_mut("/requestBody/content/application~1json") {
            let mut schema = inlined(&body["schema"], &components);
            suggest_fields(&mut schema, &id, known);
            body["schema"] = schema;
            for (name, example) in
                body.get_mut("example").and_then(Value::as_object_mut).into_iter().flatten()
            {
                if let Some(first) = known(&id, name).first() {
                    *example = first.clone();
                }
            }
        }
        for response in operation["responses"].as_object_mut().expect("responses").values_mut() {
            let contents = response.get_mut("content").and_then(Value::as_object_mut);
            for content in contents.into_iter().flat_map(Map::values_mut) {
                close(&mut content["schema"]);
                gather(&content["schema"], &components, &mut answered);
            }
        }
    }
    // What is only ever a part of something larger is closed where the whole is.
    let parts: BTreeSet<String> = components.values().flat_map(|schema| referred(&schema["allOf"])).collect();
    for (name, schema) in document["components"]["schemas"].as_object_mut().expect("schemas") {
        if answered.contains(name) && !parts.contains(name) {
            close(schema);
        }
    }
    document
}

/// Every operation of a document.
fn operations(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let paths = document["paths"].as_object_mut().expect("paths");
    paths.values_mut().flat_map(|item| item.as_object_mut().expect("a path").values_mut())
}

/// Makes some values likelier.
fn suggest(schema: &mut Value, values: &[Value]) {
    if !values.is_empty() {
        *schema = json!({"anyOf": [{"enum": values}, schema.take()]});
    }
}

fn suggest_fields(schema: &mut Value, operation: &str, known: &Known<'_>) {
    for (name, field) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        suggest(field, &known(operation, name));
    }
    for item in schema.get_mut("allOf").and_then(Value::as_array_mut).into_iter().flatten() {
        suggest_fields(item, operation, known);
    }
}

/// A schema of its own in place of a reference, so that a suggestion for one call is none for another.
fn inlined(schema: &Value, components: &Map<String, Value>) -> Value {
    let named = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix(SCHEMAS));
    let mut schema = named.map_or_else(|| schema.clone(), |name| components[name].clone());
    for item in schema.get_mut("allOf").and_then(Value::as_array_mut).into_iter().flatten() {
        *item = inlined(item, components);
    }
    schema
}

/// Allows nothing beside what is described: on an object, on each of several alternatives, and on a whole that is put together.
fn close(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    for alternatives in ["anyOf", "oneOf"] {
        for item in fields.get_mut(alternatives).and_then(Value::as_array_mut).into_iter().flatten() {
            close(item);
        }
    }
    let is_put_together = fields.contains_key("allOf") || fields.contains_key("$ref");
    if is_put_together || fields.contains_key("properties") {
        fields.entry("unevaluatedProperties").or_insert(false.into());
    }
}

/// The schemas that an answer is made of.
fn gather(schema: &Value, components: &Map<String, Value>, found: &mut BTreeSet<String>) {
    for name in referred(schema) {
        if found.insert(name.clone()) {
            gather(&components[&name], components, found);
        }
    }
}

/// The names of all schemas that are referred to.
fn referred(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            let own = fields.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix(SCHEMAS));
            let own = own.map(str::to_owned);
            own.into_iter().chain(fields.values().flat_map(referred)).collect()
        }
        Value::Array(items) => items.iter().flat_map(referred).collect(),
        _ => vec![],
    }
}
