//! From the text of the annotation to requests. Bad input is answered with the field, its index and the rule; a value is
//! never repeated, because it may be a secret that somebody put into the wrong place.

mod fields;

use std::collections::BTreeMap;

use crate::document::{self, Limits, Node};
use crate::name::SecretName;
use crate::reason::{Problem, Reason};
use crate::request::Request;

use fields::Fields;

/// The annotation with the requests.
pub const ANNOTATION: &str = "jasm.codnod.io/secret-sync";
/// The annotation whose new value forces a sync.
pub const FORCE: &str = "jasm.codnod.io/force-sync";
/// The most requests of one pod.
pub const MOST_REQUESTS: usize = 32;
/// The longest path, in characters.
pub const LONGEST_PATH: usize = 2048;

const LIMITS: Limits = Limits {
    bytes: 64 * 1024,
    depth: 8,
    nodes: 4096,
};
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
    pub requests: Vec<Result<Request, Problem>>,
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
    let top = match document {
        Node::Null => Vec::new(),
        Node::Map(fields) => fields,
        other => {
            return Err(invalid(format!(
                "the annotation must be a map, and is {}",
                other.kind()
            )));
        }
    };
    let mut unknown = Vec::new();
    let requests = match field(&top, "secrets") {
        None => {
            if field(&top, "defaults").is_some() {
                return Err(invalid("defaults: must stand beside secrets"));
            }
            note_unknown(&top, "", &mut unknown);
            vec![Fields::new(&top, String::new(), &[]).request(providers)]
        }
        Some(secrets) => many(&top, secrets, providers, &mut unknown)?,
    };
    let mut warnings = Vec::new();
    if !unknown.is_empty() {
        warnings.push(invalid(format!(
            "unknown fields are ignored: {}",
            unknown.join(", ")
        )));
    }
    if requests.iter().flatten().any(|request| request.restart) {
        warnings.push(invalid(
            "restart: has no effect yet; restart the workload yourself",
        ));
    }
    Ok(Annotation { requests, warnings })
}

/// The form with `secrets:`.
fn many(
    top: &[(String, Node)],
    secrets: &Node,
    providers: &[&str],
    unknown: &mut Vec<String>,
) -> Result<Vec<Result<Request, Problem>>, Problem> {
    if let Some((beside, _)) = top.iter().find(|(name, _)| is_field(name)) {
        return Err(invalid(format!(
            "{beside}: must not stand beside secrets; put it into defaults or into the items"
        )));
    }
    let Node::List(items) = secrets else {
        return Err(invalid(format!(
            "secrets: must be a list, and is {}",
            secrets.kind()
        )));
    };
    if items.is_empty() {
        return Err(invalid("secrets: must have at least one item"));
    }
    if items.len() > MOST_REQUESTS {
        return Err(invalid(format!(
            "secrets: must not have more than {MOST_REQUESTS} items"
        )));
    }
    let defaults: &[(String, Node)] = match field(top, "defaults") {
        None | Some(Node::Null) => &[],
        Some(Node::Map(fields)) => fields,
        Some(other) => {
            return Err(invalid(format!(
                "defaults: must be a map, and is {}",
                other.kind()
            )));
        }
    };
    let others: Vec<_> = top
        .iter()
        .filter(|(name, _)| name != "secrets" && name != "defaults")
        .cloned()
        .collect();
    note_unknown(&others, "", unknown);
    note_unknown(defaults, "defaults.", unknown);
    let mut first: BTreeMap<SecretName, (usize, bool)> = BTreeMap::new();
    let mut requests = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let prefix = format!("secrets[{index}].");
        let Node::Map(own) = item else {
            requests.push(Err(invalid(format!(
                "secrets[{index}]: must be a map, and is {}",
                item.kind()
            ))));
            continue;
        };
        note_unknown(own, &prefix, unknown);
        let request = Fields::new(own, prefix, defaults).request(providers).and_then(|request| {
            match first.get(&request.secret_name) {
                Some((other, merge)) if !(*merge && request.merge) => Err(invalid(format!(
                    "secrets[{index}].secretName: is also that of secrets[{other}]; merge: true on both puts them together"
                ))),
                Some(_) => Ok(request),
                None => {
                    first.insert(request.secret_name.clone(), (index, request.merge));
                    Ok(request)
                }
            }
        });
        requests.push(request);
    }
    Ok(requests)
}

fn invalid(text: impl Into<String>) -> Problem {
    Problem::lasting(Reason::AnnotationInvalid, text)
}

fn field<'a>(fields: &'a [(String, Node)], name: &str) -> Option<&'a Node> {
    fields.iter().find(|(key, _)| key == name).map(|(_, node)| node)
}

fn is_field(name: &str) -> bool {
    FIELDS.contains(&name)
}

fn note_unknown(fields: &[(String, Node)], prefix: &str, unknown: &mut Vec<String>) {
    for (name, _) in fields.iter().filter(|(name, _)| !is_field(name)) {
        unknown.push(format!("{prefix}{}", shown_name(name)));
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
