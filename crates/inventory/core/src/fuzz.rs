//! What must hold for any text that an API server or an agent sends. The fuzz targets in `fuzz/` and the property tests here call
//! the same functions; each panics if a promise is broken.

use serde_json::Value;

use crate::kind::InventoryKind;
use crate::{ProjectionError, canonical, project, redact};

/// An object of any kind that is asked for as a whole.
pub fn projection(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for kind in InventoryKind::ALL.into_iter().filter(|kind| !kind.is_table()) {
        holds(kind, text);
    }
}

/// A row of a table, read as a ConfigMap and as a Secret.
pub fn table_row(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for kind in InventoryKind::ALL.into_iter().filter(|kind| kind.is_table()) {
        holds(kind, text);
    }
}

/// An object that a foreign agent sent: to redact twice is to redact once.
pub fn redaction(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    for kind in ["Secret", "ConfigMap", "Pod", "Widget"] {
        let mut once = value.clone();
        redact::object(kind, &mut once);
        let mut twice = once.clone();
        redact::object(kind, &mut twice);
        assert_eq!(once, twice, "{kind}");
        if let Some(annotations) = once.get("annotations") {
            let all = annotations.as_object().into_iter().flatten();
            for (key, value) in all {
                assert!(redact::keeps_key(key) && value.as_str().is_some_and(redact::keeps_value));
            }
        }
    }
}

/// What is sent is canonical, the same each time, of the right identity, and passes the redaction of the hub unchanged.
fn holds(kind: InventoryKind, text: &str) {
    let first = project(kind, text);
    assert_eq!(first, project(kind, text));
    let sent = match first {
        Ok(sent) => sent,
        Err(error) => return is_presentable(&error),
    };
    let value: Value = serde_json::from_str(&sent.object).unwrap_or_default();
    assert_eq!(canonical(&value), sent.object, "{kind:?} is canonical");
    assert_eq!(value["uid"], *sent.uid);
    assert_eq!(value["name"], *sent.name);
    assert_eq!(value.get("namespace").is_some(), kind.is_namespaced());
    assert_eq!(
        value["namespace"].as_str().filter(|name| !name.is_empty()),
        sent.namespace.as_deref()
    );
    let mut redacted = value.clone();
    redact::object(kind.name(), &mut redacted);
    assert_eq!(redacted, value, "{kind:?} needs no redaction");
}

fn is_presentable(error: &ProjectionError) {
    let text = error.to_string();
    assert!(text.starts_with("failed to read ") && text.len() <= 128, "{text}");
}

#[cfg(test)]
mod tests;
