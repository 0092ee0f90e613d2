//! Rules about `docs/reference/metrics.md`: it lists every metric that the code registers, and no other.
//!
//! A metric is known by the literal of its name: the first argument of `register`, or, in a file with a collector, a literal that
//! opens an argument list or a tuple. Types and labels are compared where processes run, by the tests that scrape them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use super::texts::files;

const PAGE: &str = "docs/reference/metrics.md";
const PREFIX: &str = "trustplane_";

/// Every metric that is registered and not listed, or listed and not registered.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let mut registered = BTreeMap::new();
    for file in files(root, &["crates/*.rs", "bin/*.rs"])? {
        if is_test(&file) {
            continue;
        }
        let text = std::fs::read_to_string(root.join(&file))?;
        for name in names(&text) {
            registered.insert(name, file.clone());
        }
    }
    Ok(faults(&registered, &listed(&page)))
}

fn is_test(file: &str) -> bool {
    file.split('/')
        .any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
}

fn faults(registered: &BTreeMap<String, String>, listed: &BTreeSet<String>) -> Vec<String> {
    let missing = registered.iter().filter(|(name, _)| !listed.contains(*name));
    let missing = missing.map(|(name, file)| format!("{PAGE}: {name} of {file} is not listed"));
    let gone = listed.iter().filter(|name| !registered.contains_key(*name));
    let gone = gone.map(|name| format!("{PAGE}: {name} is listed, and nothing registers it"));
    missing.chain(gone).collect()
}

/// The metrics of the page, without the suffix that a counter has on the wire.
fn listed(page: &str) -> BTreeSet<String> {
    let names = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    names
        .map(|(name, _)| name.strip_suffix("_total").unwrap_or(name).to_owned())
        .collect()
}

/// The metrics that a file registers, with their prefixes.
fn names(text: &str) -> BTreeSet<String> {
    let code: String = text
        .split("#[cfg(test)]")
        .next()
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect();
    if !code.contains("prometheus_client") {
        return BTreeSet::new();
    }
    let sub = after(&code, "sub_registry_with_prefix(")
        .next()
        .map(|prefix| format!("{prefix}_"));
    let prefix = format!("{PREFIX}{}", sub.unwrap_or_default());
    let mut names: BTreeSet<String> = after(&code, ".register(")
        .map(|name| format!("{prefix}{name}"))
        .collect();
    if code.contains("impl Collector for") {
        let metric =
            |name: &&str| name.contains('_') && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let collected = after(&code, "(")
            .filter(metric)
            .map(|name| match name.starts_with("process_") {
                true => name.to_owned(),
                false => format!("{prefix}{name}"),
            });
        names.extend(collected);
    }
    names
}

/// The literals that come right after these words.
fn after<'a>(code: &'a str, words: &'a str) -> impl Iterator<Item = &'a str> {
    code.match_indices(words).filter_map(move |(at, _)| {
        let rest = code[at + words.len()..].trim_start().strip_prefix('"')?;
        rest.split_once('"').map(|(literal, _)| literal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
//! registry.register("example", "in a comment", x);
use prometheus_client::registry::Registry;
fn new(registry: &mut Registry) {
    let registry = registry.sub_registry_with_prefix("hsm_agent");
    registry.register("requests", "requests by code", calls.clone());
    registry.register(
        "queue_depth",
        "what waits",
        waiting.clone(),
    );
    state.register(name, describe);
}
#[cfg(test)]
mod tests { fn x() { registry.register("test_only", "", y); } }
"#;

    #[test]
    fn registered_names_have_their_prefixes() {
        let wanted = [
            "trustplane_hsm_agent_queue_depth",
            "trustplane_hsm_agent_requests",
        ];
        assert_eq!(names(SOURCE).into_iter().collect::<Vec<_>>(), wanted);
        assert!(names("state.register(\"lease\", describe);").is_empty());
    }

    #[test]
    fn a_collector_names_its_metrics_in_calls_and_tuples() {
        let source = "use prometheus_client::collector::Collector;\nimpl Collector for X {\n  emit(\n    \"process_open_fds\", \"open files\");\n  \
                      encode_descriptor(\"queue_depth\", \"keys\");\n  [(\"queue_keys\", \"known\")]; f(\"Text\", \"other_text\")\n}";
        let wanted = [
            "process_open_fds",
            "trustplane_queue_depth",
            "trustplane_queue_keys",
        ];
        assert_eq!(names(source).into_iter().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn a_metric_that_only_one_side_knows_is_a_fault() {
        let registered = [("trustplane_a", "a.rs"), ("trustplane_b", "b.rs")];
        let registered = registered
            .map(|(name, file)| (name.to_owned(), file.to_owned()))
            .into();
        let page =
            "| metric | type |\n|---|---|\n| `trustplane_a_total` | counter |\n| `trustplane_c` | gauge |\n";
        assert_eq!(
            faults(&registered, &listed(page)),
            [
                "docs/reference/metrics.md: trustplane_b of b.rs is not listed",
                "docs/reference/metrics.md: trustplane_c is listed, and nothing registers it",
            ]
        );
    }
}
