//! The fields of one request, read and checked.

use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use strum::VariantNames;
use trustplane_plan::secret_type;

use super::patterns::Patterns;
use super::{LONGEST_PATH, invalid, shown_name};
use crate::document::{Content, Items, Node, Pairs};
use crate::key_pattern::KeyPattern;
use crate::name::{KEY_RULE, SUBDOMAIN_RULE, SecretName, is_data_key};
use crate::reason::{Problem, Reason};
use crate::request::{Format, Keys, OnMissing, Request, Shape, Source};

/// The most patterns or keys of one field.
const MOST_ENTRIES: usize = 256;
/// The most steps of a selector.
const MOST_STEPS: usize = 64;
const SHORTEST_REFRESH: Duration = Duration::from_secs(5);
const LONGEST_REFRESH: Duration = Duration::from_secs(366 * 24 * 3600);

/// The fields of one request: its own, and what it inherits.
pub(super) struct Fields<'a> {
    own: Option<Pairs<'a>>,
    prefix: String,
    defaults: Option<Pairs<'a>>,
}

/// A field that is there, with the name by which its writer knows it.
struct Given<'a> {
    name: String,
    node: Node<'a>,
}

impl<'a> Fields<'a> {
    pub fn new(own: Pairs<'a>, prefix: String, defaults: Option<Pairs<'a>>) -> Self {
        Self {
            own: Some(own),
            prefix,
            defaults,
        }
    }

    /// The fields of an annotation that says nothing.
    pub fn of_nothing() -> Self {
        Self {
            own: None,
            prefix: String::new(),
            defaults: None,
        }
    }

    pub fn request(&self, providers: &[&str], patterns: &mut Patterns) -> Result<Request, Problem> {
        let source = self.source(providers)?;
        let secret_name = self.required("secretName")?;
        let secret_name =
            SecretName::parse(&secret_name).ok_or_else(|| self.wrong("secretName", SUBDOMAIN_RULE))?;
        Ok(Request {
            source,
            secret_name,
            shape: self.shape(patterns)?,
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

    fn shape(&self, patterns: &mut Patterns) -> Result<Shape, Problem> {
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
        let select = select.map(|select| steps(&select)).unwrap_or_default();
        if select.len() > MOST_STEPS {
            return Err(self.wrong("select", &format!("must not have more than {MOST_STEPS} steps")));
        }
        Ok(Shape {
            format,
            key,
            select,
            keys: self.keys()?,
            include: self.patterns("include", patterns)?,
            exclude: self.patterns("exclude", patterns)?,
            rename: self.rename(patterns)?,
            strict: self.truth("strict")?,
        })
    }

    fn keys(&self) -> Result<Keys, Problem> {
        let Some(Given { name, node }) = self.given("keys") else {
            return Ok(Keys::All);
        };
        match node.content() {
            Content::Map(fields) => {
                few(&name, fields.count())?;
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
                    keys.push((target.to_owned(), source.to_owned()));
                }
                Ok(Keys::Map(keys))
            }
            Content::List(items) => {
                let keys = strings(&name, items)?;
                Ok(Keys::List(keys.into_iter().map(str::to_owned).collect()))
            }
            _ => Err(invalid(format!(
                "{name}: must be a map (new name: old name) or a list of names"
            ))),
        }
    }

    fn patterns(&self, field: &str, patterns: &mut Patterns) -> Result<Vec<KeyPattern>, Problem> {
        let Some(Given { name, node }) = self.given(field) else {
            return Ok(Vec::new());
        };
        let texts = match node.content() {
            Content::List(items) => strings(&name, items)?,
            _ => match scalar(node) {
                Some(one) => vec![one],
                None => return Err(invalid(format!("{name}: must be a list of patterns"))),
            },
        };
        let compiled = texts.into_iter().map(|text| patterns.compile(&name, text));
        compiled.collect()
    }

    fn rename(&self, patterns: &mut Patterns) -> Result<Vec<(KeyPattern, String)>, Problem> {
        let Some(Given { name, node }) = self.given("rename") else {
            return Ok(Vec::new());
        };
        let Content::Map(fields) = node.content() else {
            return Err(invalid(format!("{name}: must be a map (pattern: new name)")));
        };
        few(&name, fields.count())?;
        let mut rules = Vec::new();
        for (pattern, target) in fields {
            let pattern = patterns.compile(&name, pattern)?;
            let Some(target) = scalar(target) else {
                return Err(invalid(format!("{name}: each new name must be a string")));
            };
            rules.push((pattern, target.to_owned()));
        }
        Ok(rules)
    }

    fn secret_type(&self) -> Result<String, Problem> {
        let Some(text) = self.text("type")? else {
            return Ok("Opaque".to_owned());
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        if text.len() > 253 || !text.chars().all(allowed) {
            return Err(self.wrong("type", "must be the type of a Secret, such as kubernetes.io/tls"));
        }
        if secret_type::is_reserved(&text) {
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
        let present = |fields: Option<Pairs<'a>>| {
            fields
                .and_then(|fields| fields.get(name))
                .filter(|node| !node.is_absent())
        };
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
        match given.node.content() {
            Content::Scalar { text, .. } if text.trim().is_empty() => {
                Err(self.wrong(name, "must not be empty"))
            }
            Content::Scalar { text, .. } if text.chars().any(char::is_control) => {
                Err(self.wrong(name, "must not hold control characters"))
            }
            Content::Scalar { text, .. } => Ok(Some(text.to_owned())),
            _ => {
                let kind = given.node.kind();
                Err(self.wrong(name, &format!("must be a string, and is {kind}")))
            }
        }
    }

    fn truth(&self, name: &str) -> Result<bool, Problem> {
        match self.given(name).map(|given| given.node.content()) {
            None => Ok(false),
            Some(Content::Scalar {
                text: "true" | "True" | "TRUE",
                plain: true,
            }) => Ok(true),
            Some(Content::Scalar {
                text: "false" | "False" | "FALSE",
                plain: true,
            }) => Ok(false),
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

fn scalar(node: Node<'_>) -> Option<&str> {
    let text = node.text()?;
    (!text.is_empty() && !text.chars().any(char::is_control)).then_some(text)
}

fn strings<'a>(name: &str, items: Items<'a>) -> Result<Vec<&'a str>, Problem> {
    few(name, items.count())?;
    let strings = items.enumerate().map(|(index, item)| {
        scalar(item).ok_or_else(|| invalid(format!("{name}[{index}]: must be a non-empty string")))
    });
    strings.collect()
}

fn few(name: &str, count: usize) -> Result<(), Problem> {
    if count > MOST_ENTRIES {
        return Err(invalid(format!(
            "{name}: must not have more than {MOST_ENTRIES} entries"
        )));
    }
    Ok(())
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
