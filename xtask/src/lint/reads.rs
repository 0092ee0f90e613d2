//! How objects that can hold a value are read: by `trustplane_kit::read`, and by nothing else.
//!
//! kube's typed calls log an answer that they cannot parse. The compiler cannot forbid them for some kinds alone, and clippy
//! cannot tell what ships from what tests: so product code does not name the types at all.

use std::path::Path;

use anyhow::Result;

use super::texts::files;

/// The types of kinds whose objects can hold a value.
const TYPES: [&str; 2] = ["Secret", "ConfigMap"];

/// Calls of kube's client that decode an answer, or hand it out as text.
const CALLS: [&str; 4] = [
    ".request::<",
    ".request_text(",
    "Api<DynamicObject",
    "Api::<DynamicObject",
];

/// Who may name which type all the same: it only patches, and has metadata sent back.
const EXCEPTIONS: [(&str, &str); 1] = [("crates/hsm/agent/src/record/config_map.rs", "ConfigMap")];

/// Every place in product code where such an object could be read by kube's typed calls.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for file in files(root, &["*.rs"])? {
        if is_product(&file) {
            faults.extend(source(&file, &std::fs::read_to_string(root.join(&file))?));
        }
    }
    Ok(faults)
}

/// Whether a file ships, and is not the kit itself. The sample shows others how it is done, so it counts.
fn is_product(file: &str) -> bool {
    let ships = ["crates/", "bin/", "tests/sample/"];
    let is_test = |part: &str| part == "tests" || part == "tests.rs";
    ships.iter().any(|folder| file.starts_with(folder))
        && !file.starts_with("crates/kit/")
        && file
            .split_once("/src/")
            .is_some_and(|(_, inner)| !inner.split('/').any(is_test))
}

fn source(file: &str, text: &str) -> Vec<String> {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let line = |at: usize| product[..at].lines().count().max(1);
    let mut faults = Vec::new();
    for (at, name) in named(product) {
        if name == "*" || (TYPES.contains(&name) && !EXCEPTIONS.contains(&(file, name))) {
            faults.push(format!(
                "{file}:{}: names the type {name} of core::v1: read the object by trustplane_kit::read::read_object",
                line(at)
            ));
        }
    }
    for call in CALLS {
        for (at, _) in product.match_indices(call) {
            faults.push(format!(
                "{file}:{}: {call:?} can log an answer: read the object by trustplane_kit::read::read_object",
                line(at)
            ));
        }
    }
    faults
}

/// What is named of a module `v1`, by itself or in a group.
fn named(text: &str) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    for (at, start) in text.match_indices("v1::") {
        let rest = &text[at + start.len()..];
        let group = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
        for name in group
            .unwrap_or(rest)
            .split(',')
            .take(if group.is_some() { usize::MAX } else { 1 })
        {
            let name = name.trim_start();
            let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '*'));
            names.push((at, &name[..end.unwrap_or(name.len())]));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/sync/providers/src/kubernetes.rs";

    #[test]
    fn a_typed_read_of_a_secret_is_found_in_every_spelling() {
        for text in [
            "use k8s_openapi::api::core::v1::Secret;",
            "use k8s_openapi::api::core::v1::{Pod, Secret};",
            "use k8s_openapi::api::core::v1::{\n    ConfigMap as Map,\n};",
            "use k8s_openapi::api::core::v1::*;",
            "use k8s_openapi::api::core::v1;\nfn f(api: Api<v1::Secret>) {}",
            "let text: Whatever = client.request::<Whatever>(request).await?;",
            "client.request_text(request)",
            "let api: Api<DynamicObject> = make(client);",
        ] {
            assert_eq!(source(FILE, text).len(), 1, "{text}");
        }
        let second = source(FILE, "//! Doc.\nuse k8s_openapi::api::core::v1::Secret;\n");
        assert!(
            second[0].starts_with(&format!("{FILE}:2: names the type Secret")),
            "{second:?}"
        );
    }

    #[test]
    fn what_holds_no_value_and_what_only_tests_is_no_fault() {
        for text in [
            "use k8s_openapi::api::core::v1::{Pod, SecretReference};",
            "let api: Api<Lease> = Api::all(client);",
            "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use k8s_openapi::api::core::v1::Secret;\n}",
        ] {
            assert_eq!(source(FILE, text), [""; 0], "{text}");
        }
        let (file, name) = EXCEPTIONS[0];
        assert_eq!(source(file, &format!("use core::v1::{name};")), [""; 0]);
        for file in [
            "crates/kit/src/read.rs",
            "crates/a/tests/b.rs",
            "crates/a/src/b/tests.rs",
            "tests/e2e/src/lib.rs",
        ] {
            assert!(!is_product(file), "{file}");
        }
        for file in [FILE, "bin/manager/src/main.rs", "tests/sample/src/controller.rs"] {
            assert!(is_product(file), "{file}");
        }
    }
}
