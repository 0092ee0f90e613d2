//! From the text of the annotation to requests. Bad input is answered with the field, its index and the rule; a value is
//! never repeated, because it may be a secret that somebody put into the wrong place.

//!
//! # Memory
//!
//! **Guarantee.** The requests of an annotation of `n` bytes hold at most 4 × `n` + 512 KiB, beside their patterns. Texts are
//! capped one by one and in number, what `defaults` copies into the items is capped in bytes before it is copied, and a pattern that
//! stands in several places is compiled once. Patterns have a limit of their own: [`MOST_PATTERNS`], each of at most
//! [`PATTERN_SIZE`](crate::key_pattern::PATTERN_SIZE).

mod cache;
mod fields;
mod patterns;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::document::{self, Content, Items, Limits, Node, Pairs};
use crate::name::SecretName;
use crate::reason::{Problem, Reason};
use crate::request::Request;

pub use cache::{ParseCache, Parsed};
use fields::Fields;
use patterns::Patterns;

/// The annotation with the requests.
pub const ANNOTATION: &str = "jasm.codnod.io/secret-sync";
/// The annotation whose new value forces a sync.
pub const FORCE: &str = "jasm.codnod.io/force-sync";
/// The most requests of one pod.
pub const MOST_REQUESTS: usize = 32;
/// The longest path, in characters.
pub const LONGEST_PATH: usize = 2048;
/// The longest annotation, in bytes.
pub const LONGEST_ANNOTATION: usize = 64 * 1024;
/// The most different patterns of one annotation.
pub const MOST_PATTERNS: usize = 64;

/// A person who asks for secrets needs no anchors. Without them no text is larger than it looks.
const LIMITS: Limits = Limits {
    bytes: LONGEST_ANNOTATION,
    depth: 8,
    nodes: 4096,
    scalar: 16 * 1024,
    key: 512,
    anchors: 0,
};
/// The most bytes that `defaults` may come to when they are copied into the items.
const MOST_INHERITED: usize = 256 * 1024;
/// What a text of a request needs beside its bytes, at the most.
const TEXT_OVERHEAD: usize = 48;
/// So many unknown fields are named; the others are counted.
const NAMED_UNKNOWN: usize = 8;
/// All fields of a request.
const FIELDS: [&str; 20] = [
    "provider",
    "store",
    "path",
    "version",
    "secretName",
    "keys",
    "format",
    "key",
    "select",
    "include",
    "exclude",
    "rename",
    "type",
    "strict",
    "refreshInterval",
    "restart",
    "adopt",
    "merge",
    "onMissing",
    "optional",
];

/// What an annotation says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// The requests in their order, each good or not for itself.
    pub requests: Vec<Result<Arc<Request>, Problem>>,
    /// What to warn of although the requests are good: unknown fields, fields without effect.
    pub warnings: Vec<Problem>,
}

/// Reads an annotation. An error is about the whole of it.
pub fn parse(text: &str, providers: &[&str]) -> Result<Annotation, Problem> {
    if text.is_empty() {
        return Err(invalid("the annotation is empty"));
    }
    let document =
        document::read(text, &LIMITS).map_err(|error| invalid(format!("the annotation {error}")))?;
    let mut unknown = Unknown::default();
    let mut patterns = Patterns::default();
    let requests = match document.root().content() {
        Content::Null => vec![Fields::of_nothing().request(providers, &mut patterns)],
        Content::Map(top) => match top.get("secrets") {
            Some(secrets) => many(top, secrets, providers, &mut patterns, &mut unknown)?,
            None => vec![one(top, providers, &mut patterns, &mut unknown)?],
        },
        Content::Scalar { .. } | Content::List(_) => {
            let kind = document.root().kind();
            return Err(invalid(format!("the annotation must be a map, and is {kind}")));
        }
    };
    let mut warnings: Vec<Problem> = unknown.warning().into_iter().collect();
    if requests.iter().flatten().any(|request| request.restart) {
        warnings.push(invalid(
            "restart: has no effect yet; restart the workload yourself",
        ));
    }
    let requests = requests.into_iter().map(|request| request.map(Arc::new));
    Ok(Annotation {
        requests: requests.collect(),
        warnings,
    })
}

/// The form with one request.
fn one(
    top: Pairs<'_>,
    providers: &[&str],
    patterns: &mut Patterns,
    unknown: &mut Unknown,
) -> Result<Result<Request, Problem>, Problem> {
    if top.get("defaults").is_some() {
        return Err(invalid("defaults: must stand beside secrets"));
    }
    unknown.note(top, "");
    Ok(Fields::new(top, String::new(), None).request(providers, patterns))
}

/// The form with `secrets:`.
fn many(
    top: Pairs<'_>,
    secrets: Node<'_>,
    providers: &[&str],
    patterns: &mut Patterns,
    unknown: &mut Unknown,
) -> Result<Vec<Result<Request, Problem>>, Problem> {
    if let Some(beside) = top.map(|(name, _)| name).find(|name| is_field(name)) {
        return Err(invalid(format!(
            "{beside}: must not stand beside secrets; put it into defaults or into the items"
        )));
    }
    let Content::List(items) = secrets.content() else {
        return Err(invalid(format!(
            "secrets: must be a list, and is {}",
            secrets.kind()
        )));
    };
    match items.count() {
        0 => return Err(invalid("secrets: must have at least one item")),
        1..=MOST_REQUESTS => {}
        _ => {
            return Err(invalid(format!(
                "secrets: must not have more than {MOST_REQUESTS} items"
            )));
        }
    }
    let defaults = match top.get("defaults").map(|node| (node, node.content())) {
        None | Some((_, Content::Null)) => None,
        Some((_, Content::Map(fields))) => Some(fields),
        Some((other, _)) => {
            return Err(invalid(format!(
                "defaults: must be a map, and is {}",
                other.kind()
            )));
        }
    };
    unknown.note(top, "");
    if let Some(defaults) = defaults {
        unknown.note(defaults, "defaults.");
        check_inherited(defaults, items)?;
    }
    let mut names = Names::default();
    let requests = items.enumerate().map(|(index, item)| {
        let prefix = format!("secrets[{index}].");
        let Content::Map(own) = item.content() else {
            return Err(invalid(format!(
                "secrets[{index}]: must be a map, and is {}",
                item.kind()
            )));
        };
        unknown.note(own, &prefix);
        let request = Fields::new(own, prefix, defaults).request(providers, patterns)?;
        names.take(index, &request)?;
        Ok(request)
    });
    Ok(requests.collect())
}

/// The Secrets that were named, each with the first item that did, and whether that merges.
#[derive(Default)]
struct Names(BTreeMap<SecretName, (usize, bool)>);

impl Names {
    fn take(&mut self, index: usize, request: &Request) -> Result<(), Problem> {
        match self.0.get(&request.secret_name) {
            Some((other, merge)) if !(*merge && request.merge) => Err(invalid(format!(
                "secrets[{index}].secretName: is also that of secrets[{other}]; merge: true on both puts them together"
            ))),
            Some(_) => Ok(()),
            None => {
                self.0.insert(request.secret_name.clone(), (index, request.merge));
                Ok(())
            }
        }
    }
}

/// Refuses defaults that would become too large in the items, before any of them is copied.
fn check_inherited(defaults: Pairs<'_>, items: Items<'_>) -> Result<(), Problem> {
    let mut inherited: usize = 0;
    for (name, node) in defaults.filter(|(name, _)| is_field(name)) {
        let is_heir = |item: &Node<'_>| match item.content() {
            Content::Map(own) => own.get(name).is_none_or(Node::is_absent),
            _ => false,
        };
        let heirs = items.filter(is_heir).count();
        inherited = inherited.saturating_add(heirs.saturating_mul(needs(node)));
        if inherited > MOST_INHERITED {
            return Err(invalid(format!(
                "defaults.{name}: is too large for {heirs} items; all defaults together must not need more than \
                 {MOST_INHERITED} bytes in all items"
            )));
        }
    }
    Ok(())
}

/// How many bytes a request needs to hold a value.
fn needs(node: Node<'_>) -> usize {
    match node.content() {
        Content::Null => 0,
        Content::Scalar { text, .. } => text.len() + TEXT_OVERHEAD,
        Content::List(items) => items.map(needs).sum(),
        Content::Map(fields) => fields
            .map(|(key, node)| key.len() + TEXT_OVERHEAD + needs(node))
            .sum(),
    }
}

fn invalid(text: impl Into<String>) -> Problem {
    Problem::lasting(Reason::AnnotationInvalid, text)
}

fn is_field(name: &str) -> bool {
    FIELDS.contains(&name)
}

/// Fields that mean nothing.
#[derive(Default)]
struct Unknown {
    names: Vec<String>,
    others: usize,
}

impl Unknown {
    fn note(&mut self, fields: Pairs<'_>, prefix: &str) {
        let is_known =
            |name: &str| is_field(name) || (prefix.is_empty() && matches!(name, "secrets" | "defaults"));
        for (name, _) in fields.filter(|(name, _)| !is_known(name)) {
            if self.names.len() >= NAMED_UNKNOWN {
                self.others += 1;
                continue;
            }
            self.names.push(format!("{prefix}{}", shown_name(name)));
        }
    }

    fn warning(self) -> Option<Problem> {
        let names = self.names.join(", ");
        match self.others {
            _ if self.names.is_empty() => None,
            0 => Some(invalid(format!("unknown fields are ignored: {names}"))),
            others => Some(invalid(format!(
                "unknown fields are ignored: {names}, and {others} more"
            ))),
        }
    }
}

/// A name that nobody knows is shown if it looks like a name; anything else may be a value in the wrong place.
fn shown_name(name: &str) -> &str {
    let is_name = name.len() <= 32
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_name { name } else { "(a name that is none)" }
}

#[cfg(test)]
mod tests;
