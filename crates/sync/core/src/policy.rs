//! Which requests are allowed. Default deny: the controller can read far more than any one pod should.
//!
//! Without any policy of the admin a namespace may have what lies in the folder of its name. As soon as there is one, only
//! what policies allow is allowed, and what one of them denies stays denied. Where something about the pod is not known,
//! what would allow does not speak of it, and what would deny does.

mod pattern;

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use trustplane_api::selector::LabelSelector;
use trustplane_api::sync::{Effect, Mode, PolicySpec, Quota, Rule as RuleSpec};

use crate::namespace::{Labels, chooses};
use crate::path::CanonicalPath;
use crate::reason::{Problem, Reason};
use crate::request::Request;
use pattern::{Filling, Glob, PathPattern};

/// There is one answer to everything that is not allowed: it must not tell what exists.
const DENIED: &str = "no policy allows this request";
/// What is told where nothing is denied.
pub(crate) const AUDITED: &str =
    "no policy allows this request; it is served, because its policies are in mode Audit";

/// A policy, ready to judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    mode: Mode,
    namespaces: Option<LabelSelector>,
    accounts: Vec<Glob>,
    rules: Vec<Rule>,
    floor: Option<Duration>,
    quota: Option<Quota>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    effect: Effect,
    providers: Vec<String>,
    stores: Vec<Glob>,
    /// Nothing if they cannot be read: then nobody knows what the rule speaks of.
    paths: Option<Vec<PathPattern>>,
    secret_names: Vec<Glob>,
    keys: Vec<Glob>,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Requester<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The service account; not known if nobody has looked.
    pub service_account: Option<&'a str>,
}

/// What decides about the requests of one namespace.
#[derive(Debug, Clone, Default)]
pub enum Rules {
    /// Everything that the provider gives is allowed, as in JASM.
    Off,
    /// There is no policy: a namespace may have what lies in the folder of its name.
    #[default]
    OwnFolder,
    /// The policies that are for the namespace, or may be: whether that is sure stands beside them.
    Policies(Vec<(Arc<Policy>, bool)>),
}

/// What comes with a request that is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowance {
    /// It would be denied, if its policies were not in mode Audit.
    pub audited: bool,
    /// The shortest time between two looks.
    pub refresh_floor: Option<Duration>,
    keys: KeyLimits,
}

/// The keys that a Secret may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KeyLimits {
    /// One of these has to cover all keys; any key is good if there is none.
    allowed: Vec<Vec<Glob>>,
    denied: Vec<Glob>,
}

impl Policy {
    /// Makes a policy ready to judge.
    pub fn new(spec: &PolicySpec) -> Self {
        let floor = spec
            .refresh_floor
            .as_deref()
            .and_then(|text| text.parse::<SignedDuration>().ok());
        Self {
            mode: spec.mode,
            namespaces: spec.namespace_selector.clone(),
            accounts: globs(&spec.service_accounts),
            rules: spec.rules.iter().map(Rule::new).collect(),
            floor: floor.and_then(|floor| Duration::try_from(floor).ok()),
            quota: spec.quota,
        }
    }

    /// A policy that cannot be read. It may be meant to deny, so it denies everything.
    pub fn unreadable() -> Self {
        let rule = Rule {
            effect: Effect::Deny,
            providers: Vec::new(),
            stores: Vec::new(),
            paths: None,
            secret_names: Vec::new(),
            keys: Vec::new(),
        };
        Self {
            mode: Mode::Enforce,
            namespaces: None,
            accounts: Vec::new(),
            rules: vec![rule],
            floor: None,
            quota: None,
        }
    }

    /// Whether it is for a service account.
    fn is_for_account(&self, account: Option<&str>, if_unsure: bool) -> bool {
        match account {
            _ if self.accounts.is_empty() => true,
            Some(account) => self.accounts.iter().any(|glob| glob.matches(account)),
            None => if_unsure,
        }
    }

    fn names_account(&self) -> bool {
        let mut paths = self.rules.iter().flat_map(|rule| rule.paths.iter().flatten());
        !self.accounts.is_empty() || paths.any(PathPattern::names_account)
    }
}

impl Rule {
    fn new(spec: &RuleSpec) -> Self {
        Self {
            effect: spec.effect,
            providers: spec.providers.clone(),
            stores: globs(&spec.stores),
            paths: spec.paths.iter().map(|path| PathPattern::parse(path)).collect(),
            secret_names: globs(&spec.secret_names),
            keys: globs(&spec.keys),
        }
    }

    /// Whether it speaks of a request, its keys apart.
    fn covers(&self, request: &Request, path: &CanonicalPath, filling: Filling<'_>, if_unsure: bool) -> bool {
        let any_source = self.providers.is_empty() && self.stores.is_empty();
        let source = &request.source;
        let from = match (&source.store, &source.provider) {
            (Some(store), _) => self.stores.iter().any(|glob| glob.matches(store)),
            (None, provider) => provider
                .as_ref()
                .is_some_and(|name| self.providers.contains(name)),
        };
        let name = request.secret_name.as_str();
        let named = self.secret_names.is_empty() || self.secret_names.iter().any(|glob| glob.matches(name));
        let matches = |pattern: &PathPattern| pattern.matches(path, filling).unwrap_or(if_unsure);
        (any_source || from)
            && named
            && self
                .paths
                .as_ref()
                .map_or(if_unsure, |paths| paths.iter().any(matches))
    }
}

impl Rules {
    /// What decides in a namespace. Its labels may not be known.
    pub fn of(policies: &[Arc<Policy>], namespace: &str, labels: Option<&Labels>) -> Self {
        if policies.is_empty() {
            return Self::OwnFolder;
        }
        let for_it = policies.iter().filter_map(|policy| {
            let sure = chooses(policy.namespaces.as_ref(), namespace, labels);
            (sure != Some(false)).then(|| (policy.clone(), sure.is_some()))
        });
        Self::Policies(for_it.collect())
    }

    /// Whether the service account of a pod has to be known.
    pub fn name_accounts(&self) -> bool {
        match self {
            Self::Off | Self::OwnFolder => false,
            Self::Policies(policies) => policies.iter().any(|(policy, _)| policy.names_account()),
        }
    }

    /// How often the namespace may make us ask: the tightest counts.
    pub fn quota(&self) -> Option<Quota> {
        match self {
            Self::Off | Self::OwnFolder => None,
            Self::Policies(policies) => policies
                .iter()
                .filter_map(|(policy, _)| policy.quota)
                .min_by_key(|quota| (quota.per_minute, quota.burst)),
        }
    }

    /// Judges a request.
    pub fn judge(&self, requester: Requester<'_>, request: &Request) -> Result<Allowance, Problem> {
        let policies = match self {
            Self::Off => return Ok(Allowance::default()),
            Self::OwnFolder => {
                let allowed = canonical(request)?.belongs_to(requester.namespace);
                return allowed.then(Allowance::default).ok_or_else(denied);
            }
            Self::Policies(policies) => policies,
        };
        let path = canonical(request)?;
        let case = Case {
            policies,
            requester,
            request,
            path: &path,
        };
        let allowance = case.judge()?;
        match request.shape.known_keys() {
            Some(keys) => allowance.permit(keys.into_iter()),
            None => Ok(allowance),
        }
    }
}

impl Allowance {
    /// Judges the keys that a Secret would have.
    pub fn permit<'k>(self, keys: impl Iterator<Item = &'k str> + Clone) -> Result<Self, Problem> {
        let covers = |globs: &[Glob], key: &str| globs.iter().any(|glob| glob.matches(key));
        let KeyLimits {
            allowed,
            denied: never,
        } = &self.keys;
        let is_allowed = allowed.is_empty()
            || allowed
                .iter()
                .any(|globs| keys.clone().all(|key| covers(globs, key)));
        let is_denied = keys.clone().any(|key| covers(never, key));
        match is_allowed && !is_denied {
            true => Ok(self),
            false => Err(denied()),
        }
    }
}

/// A request before the policies of its namespace.
struct Case<'a> {
    policies: &'a [(Arc<Policy>, bool)],
    requester: Requester<'a>,
    request: &'a Request,
    path: &'a CanonicalPath,
}

impl Case<'_> {
    fn judge(&self) -> Result<Allowance, Problem> {
        let enforced = self.for_requester(Mode::Enforce, true).next().is_some();
        let audited = self.for_requester(Mode::Audit, false).next().is_some();
        let floor = self
            .policies
            .iter()
            .filter(|(policy, _)| policy.is_for_account(self.requester.service_account, true))
            .filter_map(|(policy, _)| policy.floor)
            .max();
        let limits = match (enforced, audited) {
            (true, _) => self.limits(Mode::Enforce).ok_or_else(denied)?,
            (false, true) => match self.limits(Mode::Audit) {
                Some(limits) => limits,
                None => {
                    return Ok(Allowance {
                        audited: true,
                        refresh_floor: floor,
                        keys: KeyLimits::default(),
                    });
                }
            },
            (false, false) => return Err(denied()),
        };
        Ok(Allowance {
            audited: enforced && self.denies(Mode::Audit),
            refresh_floor: floor,
            // Where nothing is denied, keys are not either.
            keys: if enforced { limits } else { KeyLimits::default() },
        })
    }

    /// What the policies of a mode allow of the request; nothing if they do not allow it.
    fn limits(&self, mode: Mode) -> Option<KeyLimits> {
        let allowing: Vec<&Rule> = self.speaking(mode, Effect::Allow).collect();
        if allowing.is_empty() || self.denies(mode) {
            return None;
        }
        let is_free = allowing.iter().any(|rule| rule.keys.is_empty());
        let allowed = allowing.iter().filter(|_| !is_free).map(|rule| rule.keys.clone());
        let denying = self.speaking(mode, Effect::Deny);
        Some(KeyLimits {
            allowed: allowed.collect(),
            denied: denying.flat_map(|rule| rule.keys.clone()).collect(),
        })
    }

    /// Whether the whole request is denied, whatever its keys.
    fn denies(&self, mode: Mode) -> bool {
        self.speaking(mode, Effect::Deny).any(|rule| rule.keys.is_empty())
    }

    /// The rules of an effect that speak of the request.
    fn speaking(&self, mode: Mode, effect: Effect) -> impl Iterator<Item = &Rule> {
        let if_unsure = effect == Effect::Deny;
        let filling = Filling {
            namespace: self.requester.namespace,
            service_account: self.requester.service_account,
        };
        self.for_requester(mode, if_unsure)
            .flat_map(|policy| &policy.rules)
            .filter(move |rule| {
                rule.effect == effect && rule.covers(self.request, self.path, filling, if_unsure)
            })
    }

    /// The policies of a mode that are for the requester.
    fn for_requester(&self, mode: Mode, if_unsure: bool) -> impl Iterator<Item = &Policy> {
        let account = self.requester.service_account;
        self.policies
            .iter()
            .filter(move |(policy, sure)| {
                policy.mode == mode && (*sure || if_unsure) && policy.is_for_account(account, if_unsure)
            })
            .map(|(policy, _)| policy.as_ref())
    }
}

fn canonical(request: &Request) -> Result<CanonicalPath, Problem> {
    CanonicalPath::parse(&request.source.path)
        .map_err(|rule| Problem::lasting(Reason::AnnotationInvalid, format!("path: {rule}")))
}

fn denied() -> Problem {
    Problem::lasting(Reason::PolicyDenied, DENIED)
}

/// Whether a text with `*` for any part of it is about the whole of another text.
pub fn is_glob_match(pattern: &str, text: &str) -> bool {
    Glob::new(pattern).matches(text)
}

fn globs(texts: &[String]) -> Vec<Glob> {
    texts.iter().map(|text| Glob::new(text)).collect()
}

#[cfg(test)]
mod tests;
