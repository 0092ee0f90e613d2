//! What must hold for any bytes that anybody writes. The fuzz targets in `fuzz/` and the property tests here call the same
//! functions; each panics if a promise is broken.

use std::sync::Arc;

use strum::IntoEnumIterator;
use trustplane_api::sync::{Effect, PolicySpec, Rule};

use crate::data::{Payload, Value};
use crate::formats::MOST_FIELDS;
use crate::grammar::{self, LONGEST_PATH, MOST_REQUESTS};
use crate::name::SecretName;
use crate::path::CanonicalPath;
use crate::policy::{Policy, Requester, Rules};
use crate::reason::Problem;
use crate::request::{Format, Request};
use crate::shape::shape;

const PROVIDERS: [&str; 2] = ["aws-secretsmanager", "mock"];

/// An annotation: good requests are within all limits, and what is told fits into an event.
pub fn annotation(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let annotation = match grammar::parse(text, &PROVIDERS) {
        Ok(annotation) => annotation,
        Err(problem) => return is_presentable(&problem),
    };
    assert!(annotation.requests.len() <= MOST_REQUESTS);
    annotation.warnings.iter().for_each(is_presentable);
    for request in &annotation.requests {
        match request {
            Ok(request) => is_within_limits(request),
            Err(problem) => is_presentable(problem),
        }
    }
}

/// The content of a secret: whatever it is, what comes of it is within all limits, or what is told fits into an event.
pub fn content(bytes: &[u8]) {
    let payload = Payload::Bytes(Value::new(bytes));
    for format in Format::iter() {
        let fields = serde_json::json!({"provider": "mock", "path": "a", "secretName": "s", "format": <&str>::from(format)});
        let request = only_request(&fields.to_string());
        assert!(request.is_some(), "{format:?} is a format");
        let Some(request) = request else {
            return;
        };
        match shape(&payload, &request.shape, &request.secret_type) {
            Ok(shaped) => assert!(shaped.data.len() <= MOST_FIELDS, "{} keys", shaped.data.len()),
            Err(problem) => is_presentable(&problem),
        }
    }
}

/// A path: what is canonical has one form only.
pub fn path(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(path) = CanonicalPath::parse(text) else {
        return;
    };
    for segment in &path.segments {
        let bad = segment.is_empty() || segment == "." || segment == "..";
        assert!(!bad && !segment.contains(['/', '%', '\\']), "{path:?}");
        assert!(!segment.chars().any(char::is_control), "{path:?}");
    }
    if path.authority.is_none() && !path.segments.iter().any(|segment| segment.starts_with("arn:")) {
        assert_eq!(CanonicalPath::parse(&path.segments.join("/")), Ok(path));
    }
}

/// A pattern, a path and a namespace, line by line: a policy that denies what another allows wins, and no namespace sees the
/// folder of another without being told so.
pub fn policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let mut lines = text.lines();
    let (pattern, path, namespace) = (lines.next(), lines.next(), lines.next());
    let (Some(pattern), Some(path), Some(namespace)) = (pattern, path, namespace) else {
        return;
    };
    let Some(request) = request(path) else {
        return;
    };
    let requester = Requester {
        namespace,
        service_account: None,
    };
    let policies = |effects: &[Effect]| {
        let of = |effect: &Effect| Arc::new(Policy::new(&spec(*effect, pattern)));
        let all: Vec<_> = effects.iter().map(of).collect();
        Rules::of(&all, namespace, None)
    };
    let allowed = policies(&[Effect::Allow]).judge(requester, &request, None);
    assert!(
        policies(&[Effect::Deny])
            .judge(requester, &request, None)
            .is_err()
    );
    let both = policies(&[Effect::Allow, Effect::Deny]).judge(requester, &request, None);
    assert!(allowed.is_err() || both.is_err(), "a denial must win");
    if let Err(problem) = &allowed {
        is_presentable(problem);
    }
}

fn spec(effect: Effect, pattern: &str) -> PolicySpec {
    let rule = Rule {
        effect,
        paths: vec![pattern.to_owned()],
        ..Rule::default()
    };
    PolicySpec {
        rules: vec![rule],
        ..PolicySpec::default()
    }
}

fn request(path: &str) -> Option<Arc<Request>> {
    let fields = serde_json::json!({"provider": "mock", "path": path, "secretName": "s"});
    only_request(&fields.to_string())
}

fn only_request(text: &str) -> Option<Arc<Request>> {
    let annotation = grammar::parse(text, &PROVIDERS).ok()?;
    annotation.requests.into_iter().next()?.ok()
}

fn is_within_limits(request: &Request) {
    assert!(request.source.path.chars().count() <= LONGEST_PATH);
    assert!(SecretName::parse(request.secret_name.as_str()).is_some());
}

fn is_presentable(problem: &Problem) {
    let text = &problem.text;
    assert!(!text.is_empty() && text.len() <= 1024, "{} bytes", text.len());
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Texts that are nearly right reach further than noise.
    fn nearly_an_annotation() -> impl Strategy<Value = String> {
        let token = prop::sample::select(vec![
            "provider: ",
            "mock",
            "path: ",
            "secretName: ",
            "secrets:",
            "\n",
            "  ",
            "- ",
            "keys: ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "a",
            "db",
            "defaults: ",
            "&a ",
            "*a",
            "!!int ",
            "\"",
            "'",
            "refreshInterval: ",
            "10s",
            "~",
            "\u{85}",
            "é",
            ": ",
        ]);
        prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn annotations_hold(bytes in prop::collection::vec(any::<u8>(), 0..200), text in nearly_an_annotation()) {
            annotation(&bytes);
            annotation(text.as_bytes());
        }

        #[test]
        fn contents_hold(bytes in prop::collection::vec(any::<u8>(), 0..200), text in nearly_an_annotation()) {
            content(&bytes);
            content(text.as_bytes());
        }

        #[test]
        fn paths_hold(bytes in prop::collection::vec(any::<u8>(), 0..60), text in "(arn:)?[a-b./%:\\\\\u{80}-\u{a0} ]{0,30}") {
            path(&bytes);
            path(text.as_bytes());
        }

        #[test]
        fn policies_hold(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            pattern in "(arn:)?[ab*/{}:.]{0,16}", asked in "[ab/.:]{0,12}", namespace in "[ab]{1,3}",
        ) {
            policy(&bytes);
            policy(format!("{pattern}\n{asked}\n{namespace}").as_bytes());
        }
    }
}
