//! The fields of one request, read and checked.

use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use regex::RegexBuilder;
use strum::VariantNames;

use super::{LONGEST_PATH, field, invalid, shown_name};
use crate::document::Node;
use crate::name::{KEY_RULE, SUBDOMAIN_RULE, SecretName, is_data_key};
use crate::reason::{Problem, Reason};
use crate::request::{Format, Keys, OnMissing, Request, Shape, Source};
use crate::types;

/// The most patterns or keys of one field.
const MOST_ENTRIES: usize = 256;
/// A compiled pattern must not need more memory than this.
const PATTERN_SIZE: usize = 64 * 1024;
const SHORTEST_REFRESH: Duration = Duration::from_secs(5);
const LONGEST_REFRESH: Duration = Duration::from_secs(366 * 24 * 3600);

/// The fields of one request: its own, and what it inherits.
pub(super) struct Fields<'a> {
    own: &'a [(String, Node)],
    prefix: String,
    defaults: &'a [(String, Node)],
}

/// A field that is there, with the name by which its writer knows it.
struct Given<'a> {
    name: String,
    node: &'a Node,
}

impl<'a> Fields<'a> {
    pub fn new(own: &'a [(String, Node)], prefix: String, defaults: &'a [(String, Node)]) -> Self {
        Self {
            own,
            prefix,
            defaults,
        }
    }

    pub fn request(&self, providers: &[&str]) -> Result<Request, Problem> {
        let source = self.source(providers)?;
        let secret_name = self.required("secretName")?;
        let secret_name =
            SecretName::parse(&secret_name).ok_or_else(|| self.wrong("secretName", SUBDOMAIN_RULE))?;
        Ok(Request {
            source,
            secret_name,
            shape: self.shape()?,
            secret_type: self.secret_type()?,
            adopt: self.truth("adopt")?,
            merge: self.truth("merge")?,
            optional: self.truth("optional")?,
            on_missing: self.choice::<OnMissing>("onMissing")?,
            refresh: self.refresh()?,
            restart: self.truth("restart")?,
        })
    }

    fn source(&self, providers: &[&str]) -> Result<Source, Problem> {
        let store = self.text("store")?;
        // A store says itself which provider it is.
        let provider = match &store {
            Some(_) => self.text("provider")?,
            None => Some(self.required("provider")?),
        };
        if let Some(provider) = &provider
            && !providers.contains(&provider.as_str())
        {
            let text = format!(
                "{}provider: {} is not supported; supported are {}",
                self.prefix,
                shown_name(provider),
                providers.join(", ")
            );
            return Err(Problem::lasting(Reason::ProviderUnsupported, text));
        }
        if let Some(store) = &store
            && SecretName::parse(store).is_none()
        {
            return Err(self.wrong("store", SUBDOMAIN_RULE));
        }
        let path = self.required("path")?;
        if path.chars().count() > LONGEST_PATH {
            return Err(self.wrong(
                "path",
                &format!("must not be longer than {LONGEST_PATH} characters"),
            ));
        }
        let version = self.text("version")?;
        if version.as_ref().is_some_and(|version| version.len() > 256) {
            return Err(self.wrong("version", "must not be longer than 256 bytes"));
        }
        Ok(Source {
            provider,
            store,
            path,
            version,
        })
    }

    fn shape(&self) -> Result<Shape, Problem> {
        let format = self.choice::<Format>("format")?;
        let key = self.text("key")?;
        if key.is_some() && format != Format::Raw {
            return Err(self.wrong("key", "needs format: raw"));
        }
        let key = key.unwrap_or_else(|| "value".to_owned());
        if !is_data_key(&key) {
            return Err(self.wrong("key", KEY_RULE));
        }
        let select = self.text("select")?;
        if select.is_some() && matches!(format, Format::Raw | Format::Dotenv) {
            return Err(self.wrong("select", "needs format: json or yaml"));
        }
        Ok(Shape {
            format,
            key,
            select: select.map(|select| steps(&select)).unwrap_or_default(),
            keys: self.keys()?,
            include: self.patterns("include")?,
            exclude: self.patterns("exclude")?,
            rename: self.rename()?,
            strict: self.truth("strict")?,
        })
    }

    fn keys(&self) -> Result<Keys, Problem> {
        let Some(Given { name, node }) = self.given("keys") else {
            return Ok(Keys::All);
        };
        match node {
            Node::Map(fields) => {
                let mut keys = Vec::new();
                for (target, source) in fields {
                    if !is_data_key(target) {
                        return Err(invalid(format!("{name}: each name on the left {KEY_RULE}")));
                    }
                    let Some(source) = scalar(source) else {
                        return Err(invalid(format!(
                            "{name}: each name on the right must be a string"
                        )));
                    };
                    keys.push((target.clone(), source.to_owned()));
                }
                few(&name, keys.len())?;
                Ok(Keys::Map(keys))
            }
            Node::List(items) => {
                few(&name, items.len())?;
                Ok(Keys::List(self.strings(&name, items)?))
            }
            _ => Err(invalid(format!(
                "{name}: must be a map (new name: old name) or a list of names"
            ))),
        }
    }

    fn patterns(&self, field: &str) -> Result<Vec<String>, Problem> {
        let Some(Given { name, node }) = self.given(field) else {
            return Ok(Vec::new());
        };
        let patterns = match node {
            Node::List(items) => {
                few(&name, items.len())?;
                self.strings(&name, items)?
            }
            other => match scalar(other) {
                Some(one) => vec![one.to_owned()],
                None => return Err(invalid(format!("{name}: must be a list of patterns"))),
            },
        };
        patterns
            .iter()
            .try_for_each(|pattern| check_pattern(&name, pattern))?;
        Ok(patterns)
    }

    fn rename(&self) -> Result<Vec<(String, String)>, Problem> {
        let Some(Given { name, node }) = self.given("rename") else {
            return Ok(Vec::new());
        };
        let Node::Map(fields) = node else {
            return Err(invalid(format!("{name}: must be a map (pattern: new name)")));
        };
        few(&name, fields.len())?;
        let mut rules = Vec::new();
        for (pattern, target) in fields {
            check_pattern(&name, pattern)?;
            let Some(target) = scalar(target) else {
                return Err(invalid(format!("{name}: each new name must be a string")));
            };
            rules.push((pattern.clone(), target.to_owned()));
        }
        Ok(rules)
    }

    fn strings(&self, name: &str, items: &[Node]) -> Result<Vec<String>, Problem> {
        let strings = items.iter().enumerate().map(|(index, item)| {
            scalar(item)
                .map(str::to_owned)
                .ok_or_else(|| invalid(format!("{name}[{index}]: must be a non-empty string")))
        });
        strings.collect()
    }

    fn secret_type(&self) -> Result<String, Problem> {
        let Some(text) = self.text("type")? else {
            return Ok("Opaque".to_owned());
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        if text.len() > 253 || !text.chars().all(allowed) {
            return Err(self.wrong("type", "must be the type of a Secret, such as kubernetes.io/tls"));
        }
        if types::is_reserved(&text) {
            return Err(self.wrong(
                "type",
                "must not be a type that is a credential of the cluster or a release of Helm",
            ));
        }
        Ok(text)
    }

    fn refresh(&self) -> Result<Option<Duration>, Problem> {
        let Some(text) = self.text("refreshInterval")? else {
            return Ok(None);
        };
        if text == "0" {
            return Ok(None);
        }
        let parsed = SignedDuration::from_str(&text)
            .ok()
            .and_then(|span| Duration::try_from(span).ok());
        match parsed {
            Some(Duration::ZERO) => Ok(None),
            Some(span) if (SHORTEST_REFRESH..=LONGEST_REFRESH).contains(&span) => Ok(Some(span)),
            _ => Err(self.wrong(
                "refreshInterval",
                "must be a duration such as 1h30m, at least 5s and at most 366 days",
            )),
        }
    }

    /// The field, unless it is absent or empty.
    fn given(&self, name: &str) -> Option<Given<'a>> {
        let present = |fields: &'a [(String, Node)]| field(fields, name).filter(|node| !node.is_absent());
        match present(self.own) {
            Some(node) => Some(Given {
                name: format!("{}{name}", self.prefix),
                node,
            }),
            None => present(self.defaults).map(|node| Given {
                name: format!("defaults.{name}"),
                node,
            }),
        }
    }

    fn wrong(&self, field: &str, rule: &str) -> Problem {
        let name = self
            .given(field)
            .map_or_else(|| format!("{}{field}", self.prefix), |given| given.name);
        invalid(format!("{name}: {rule}"))
    }

    fn required(&self, name: &str) -> Result<String, Problem> {
        self.text(name)?.ok_or_else(|| self.wrong(name, "is required"))
    }

    /// A string. Numbers and the like are taken by their text, as JASM does.
    fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        let Some(given) = self.given(name) else {
            return Ok(None);
        };
        match given.node {
            Node::Scalar { text, .. } if text.trim().is_empty() => Err(self.wrong(name, "must not be empty")),
            Node::Scalar { text, .. } if text.chars().any(char::is_control) => {
                Err(self.wrong(name, "must not hold control characters"))
            }
            Node::Scalar { text, .. } => Ok(Some(text.clone())),
            other => Err(self.wrong(name, &format!("must be a string, and is {}", other.kind()))),
        }
    }

    fn truth(&self, name: &str) -> Result<bool, Problem> {
        match self.given(name).map(|given| given.node) {
            None => Ok(false),
            Some(Node::Scalar { text, plain: true }) if matches!(text.as_str(), "true" | "True" | "TRUE") => {
                Ok(true)
            }
            Some(Node::Scalar { text, plain: true })
                if matches!(text.as_str(), "false" | "False" | "FALSE") =>
            {
                Ok(false)
            }
            Some(_) => Err(self.wrong(name, "must be true or false")),
        }
    }

    fn choice<T: FromStr + Default + VariantNames>(&self, name: &str) -> Result<T, Problem> {
        match self.text(name)? {
            None => Ok(T::default()),
            Some(text) => T::from_str(&text)
                .map_err(|_| self.wrong(name, &format!("must be one of {}", T::VARIANTS.join(", ")))),
        }
    }
}

fn scalar(node: &Node) -> Option<&str> {
    match node {
        Node::Scalar { text, .. } if !text.is_empty() && !text.chars().any(char::is_control) => Some(text),
        _ => None,
    }
}

fn few(name: &str, count: usize) -> Result<(), Problem> {
    if count > MOST_ENTRIES {
        return Err(invalid(format!(
            "{name}: must not have more than {MOST_ENTRIES} entries"
        )));
    }
    Ok(())
}

fn check_pattern(name: &str, pattern: &str) -> Result<(), Problem> {
    let fits = RegexBuilder::new(pattern)
        .size_limit(PATTERN_SIZE)
        .dfa_size_limit(PATTERN_SIZE)
        .build()
        .is_ok();
    if fits {
        return Ok(());
    }
    Err(invalid(format!(
        "{name}: each pattern must be a regular expression that is not too large"
    )))
}

/// The steps of a selector: a JSON pointer if it begins with a slash, else names with dots between them.
fn steps(select: &str) -> Vec<String> {
    match select.strip_prefix('/') {
        Some(pointer) => pointer
            .split('/')
            .map(|step| step.replace("~1", "/").replace("~0", "~"))
            .collect(),
        None => select.split('.').map(str::to_owned).collect(),
    }
}
