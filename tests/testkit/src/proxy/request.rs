//! What a request asks for, in the words of Kubernetes, and the patterns that choose requests.

use std::fmt;

use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, USER_AGENT};

use crate::Instance;
use crate::account::Token;

/// What a request wants done, in the words of roles and of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many objects.
    List,
    /// Follow changes.
    Watch,
    /// Make an object.
    Create,
    /// Replace an object.
    Update,
    /// Change an object; every apply is one.
    Patch,
    /// Remove an object.
    Delete,
    /// Remove many objects.
    DeleteCollection,
}

impl Verb {
    /// Every verb that changes something.
    pub const WRITES: [Self; 5] = [
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];

    /// Whether it changes something.
    pub fn is_write(self) -> bool {
        Self::WRITES.contains(&self)
    }

    /// As it stands in roles.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    fn of(method: &Method, named: bool, watch: bool) -> Self {
        match (method.as_str(), named) {
            ("POST", _) => Self::Create,
            ("PUT", _) => Self::Update,
            ("PATCH", _) => Self::Patch,
            ("DELETE", true) => Self::Delete,
            ("DELETE", false) => Self::DeleteCollection,
            _ if watch => Self::Watch,
            (_, true) => Self::Get,
            (_, false) => Self::List,
        }
    }
}

/// A request as the proxy saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What it wants done.
    pub verb: Verb,
    /// The API group; empty for the core group and for paths that are no resource.
    pub group: String,
    /// The plural of the kind; empty for paths that are no resource.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: String,
    /// The namespace, for objects that live in one.
    pub namespace: String,
    /// The name of the object, where one was named.
    pub name: String,
    /// The path.
    pub path: String,
    /// The query.
    pub query: String,
    /// Who asked, by user agent.
    pub agent: String,
    /// In which form the answer is wanted, such as metadata alone.
    pub accept: String,
    token: Token,
}

impl Request {
    pub(crate) fn new(method: &Method, uri: &http::Uri, headers: &HeaderMap) -> Self {
        let text = |name| {
            headers
                .get(name)
                .and_then(|v| v.to_str().ok())
                .unwrap_or_default()
        };
        let query = uri.query().unwrap_or_default();
        let watch = query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1"));
        let place = Place::parse(uri.path());
        Self {
            verb: Verb::of(method, !place.name.is_empty(), watch),
            group: place.group.to_owned(),
            resource: place.resource.to_owned(),
            subresource: place.subresource.to_owned(),
            namespace: place.namespace.to_owned(),
            name: place.name.to_owned(),
            path: uri.path().to_owned(),
            query: query.to_owned(),
            agent: text(USER_AGENT).to_owned(),
            accept: text(ACCEPT).to_owned(),
            token: Token(
                text(AUTHORIZATION)
                    .strip_prefix("Bearer ")
                    .unwrap_or_default()
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb.as_str(), self.path)?;
        if !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        write!(f, " by {}", self.agent)
    }
}

#[derive(Debug, Default, PartialEq)]
struct Place<'a> {
    group: &'a str,
    namespace: &'a str,
    resource: &'a str,
    name: &'a str,
    subresource: &'a str,
}

impl<'a> Place<'a> {
    fn parse(path: &'a str) -> Self {
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return Self::default(),
        };
        // A namespace is an object too, and `status` and `finalize` are its subresources, not kinds that live in it.
        let (namespace, rest) = match rest {
            ["namespaces", name, sub @ ("status" | "finalize")] => {
                return Self {
                    group,
                    namespace: name,
                    resource: "namespaces",
                    name,
                    subresource: sub,
                };
            }
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let at = |index: usize| rest.get(index).copied().unwrap_or_default();
        Self {
            group,
            namespace,
            resource: at(0),
            name: at(1),
            subresource: at(2),
        }
    }
}

/// Chooses requests. What is not set is not looked at.
///
/// ```
/// use trustplane_testkit::proxy::{Match, Verb};
/// let writes = Match::writes().resource("configmaps").namespace("shop");
/// let watches = Match::verb(Verb::Watch).resource("mirrors");
/// # let _ = (writes, watches);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Match {
    verbs: Vec<Verb>,
    resource: Option<String>,
    not_resources: Vec<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    agent: Option<String>,
    token: Option<Token>,
    streamed: bool,
}

impl Match {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests of one verb.
    pub fn verb(verb: Verb) -> Self {
        Self {
            verbs: vec![verb],
            ..Self::default()
        }
    }

    /// Lists that are asked for as the first part of a watch.
    pub fn streamed_lists() -> Self {
        Self {
            streamed: true,
            ..Self::verb(Verb::Watch)
        }
    }

    /// Requests that change something.
    pub fn writes() -> Self {
        Self {
            verbs: Verb::WRITES.to_vec(),
            ..Self::default()
        }
    }

    /// Writes that speak of the work of a controller: renewals of its lease come by the clock, and questions about rights
    /// change nothing.
    pub fn work() -> Self {
        Self::writes().except(&["leases", "selfsubjectaccessreviews", "selfsubjectrulesreviews"])
    }

    /// Only of this kind, by its plural.
    #[must_use]
    pub fn resource(mut self, plural: &str) -> Self {
        self.resource = Some(plural.to_owned());
        self
    }

    /// Not of these kinds.
    #[must_use]
    pub fn except(mut self, plurals: &[&str]) -> Self {
        self.not_resources
            .extend(plurals.iter().map(|plural| (*plural).to_owned()));
        self
    }

    /// Only this subresource; an empty text means the object itself.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Only in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only the object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only from this user agent.
    #[must_use]
    pub fn agent(mut self, agent: &str) -> Self {
        self.agent = Some(agent.to_owned());
        self
    }

    /// Only from this instance, by its token.
    #[must_use]
    pub fn by(mut self, instance: &Instance) -> Self {
        self.token = Some(Token(instance.token().to_owned()));
        self
    }

    /// The same requester, whatever it asks.
    pub(crate) fn anything_of_it(&self) -> Self {
        Self {
            agent: self.agent.clone(),
            token: self.token.clone(),
            ..Self::default()
        }
    }

    /// Whether a request is chosen.
    pub fn matches(&self, request: &Request) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && same(&self.resource, &request.resource)
            && !self.not_resources.contains(&request.resource)
            && same(&self.subresource, &request.subresource)
            && same(&self.namespace, &request.namespace)
            && same(&self.name, &request.name)
            && same(&self.agent, &request.agent)
            && self.token.as_ref().is_none_or(|token| *token == request.token)
            && (!self.streamed
                || request
                    .query
                    .split('&')
                    .any(|pair| pair == "sendInitialEvents=true"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, target: &str) -> Request {
        Request::new(&method, &target.parse().unwrap(), &HeaderMap::new())
    }

    #[test]
    fn verbs_and_places_are_those_of_the_audit_log() {
        let seen = request(
            Method::GET,
            "/api/v1/namespaces/a/configmaps?watch=true&resourceVersion=5",
        );
        assert_eq!(
            (seen.verb, seen.resource.as_str(), seen.namespace.as_str()),
            (Verb::Watch, "configmaps", "a")
        );
        let seen = request(
            Method::PATCH,
            "/apis/test.trustplane.io/v1/namespaces/a/mirrors/m/status?force=true",
        );
        assert_eq!(
            (seen.verb, seen.subresource.as_str(), seen.name.as_str()),
            (Verb::Patch, "status", "m")
        );
        assert_eq!(seen.group, "test.trustplane.io");
        let seen = request(Method::GET, "/api/v1/namespaces/a");
        assert_eq!(
            (seen.verb, seen.resource.as_str(), seen.name.as_str()),
            (Verb::Get, "namespaces", "a")
        );
        let seen = request(Method::PUT, "/api/v1/namespaces/a/finalize");
        assert_eq!(
            (seen.resource.as_str(), seen.subresource.as_str()),
            ("namespaces", "finalize")
        );
        assert_eq!(
            request(Method::DELETE, "/api/v1/namespaces/a/pods").verb,
            Verb::DeleteCollection
        );
        assert_eq!(request(Method::GET, "/version").resource, "");
    }

    #[test]
    fn a_match_looks_at_what_is_set() {
        let status = request(Method::PATCH, "/apis/g/v1/namespaces/a/mirrors/m/status");
        assert!(Match::any().matches(&status));
        assert!(
            Match::writes()
                .resource("mirrors")
                .subresource("status")
                .matches(&status)
        );
        assert!(
            !Match::writes()
                .resource("mirrors")
                .subresource("")
                .matches(&status)
        );
        assert!(!Match::verb(Verb::Create).matches(&status));
        assert!(!Match::writes().namespace("b").matches(&status));
        let renewal = request(Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/a/leases/l");
        assert!(Match::writes().matches(&renewal) && !Match::work().matches(&renewal));
    }
}
