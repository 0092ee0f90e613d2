//! Which requests are allowed. Default deny: the controller can read far more than any one pod should.
//!
//! Without a policy in force a namespace may have what lies in the folder of its name. As soon as there is one, only what
//! policies allow is allowed, and what one of them denies stays denied. A policy in mode Audit allows and denies nothing: it
//! only says what would be denied if it were in force. Where something about the pod or the place is not known, what would
//! allow does not speak of it, and what would deny does. Policies that cannot be read deny everything.

mod bench;
mod keys;
mod pattern;

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use trustplane_api::selector::LabelSelector;
use trustplane_api::sync::{Effect, Mode, PolicySpec, Quota, Rule as RuleSpec};

use crate::namespace::{Labels, chooses};
use crate::path::{CanonicalPath, Home};
use crate::reason::{Problem, Reason};
use crate::request::{Request, SourceKeys};
use crate::situation::StoreView;
use bench::{Bench, Case};
use keys::KeyLimits;
use pattern::{Glob, PathPattern};

/// There is one answer to everything that is not allowed: it must not tell what exists.
const DENIED: &str = "no policy allows this request";
/// What is told while nobody knows what policies there are.
const UNREADABLE: &str = "the policies of the cluster cannot be read, so no request is allowed; the log of the manager tells its \
                          admin why";
/// What is told where a policy would deny.
pub(crate) const AUDITED: &str = "this request is served, and would be denied if all policies were in force";

/// A policy, ready to judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    mode: Mode,
    namespaces: Option<LabelSelector>,
    accounts: Vec<Glob>,
    rules: Vec<Rule>,
    floor: Option<Duration>,
    quota: Option<Quota>,
    adopts: Vec<Glob>,
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
#[derive(Debug, Clone)]
pub struct Rules {
    basis: Basis,
    /// What would decide if all policies were in force.
    trial: Option<Basis>,
}

#[derive(Debug, Clone)]
enum Basis {
    Off,
    Unreadable,
    OwnFolder,
    Policies(Bench),
}

/// What comes with a request that is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowance {
    /// It would be denied, if the policies in mode Audit were in force.
    pub audited: bool,
    /// The shortest time between two looks.
    pub refresh_floor: Option<Duration>,
    /// A policy lets it take over a Secret whose owner has not consented.
    pub may_adopt: bool,
    keys: KeyLimits,
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
            adopts: globs(&spec.adopt_secrets),
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
            adopts: Vec::new(),
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
}

impl Rules {
    /// Everything that the provider gives is allowed, as in JASM.
    pub fn off() -> Self {
        Self::on(Basis::Off)
    }

    /// Everything is allowed, and what would be denied if all policies were in force is told.
    pub fn tried(policies: &[Arc<Policy>], namespace: &str, labels: Option<&Labels>) -> Self {
        Self {
            basis: Basis::Off,
            trial: Some(Basis::of(policies.iter(), namespace, labels)),
        }
    }

    /// Nobody knows which policies there are, so nothing is allowed: one of them may be meant to deny.
    pub fn unreadable() -> Self {
        Self::on(Basis::Unreadable)
    }

    fn on(basis: Basis) -> Self {
        Self { basis, trial: None }
    }

    /// What decides in a namespace. Its labels may not be known. Without a policy in force a namespace may have what lies in
    /// the folder of its name.
    pub fn of(policies: &[Arc<Policy>], namespace: &str, labels: Option<&Labels>) -> Self {
        let in_force = policies.iter().filter(|policy| policy.mode == Mode::Enforce);
        let has_trial = policies.iter().any(|policy| policy.mode == Mode::Audit);
        Self {
            basis: Basis::of(in_force, namespace, labels),
            trial: has_trial.then(|| Basis::of(policies.iter(), namespace, labels)),
        }
    }

    /// Whether the service account of a pod has to be known.
    pub fn name_accounts(&self) -> bool {
        let mut all = std::iter::once(&self.basis).chain(&self.trial);
        all.any(|basis| match basis {
            Basis::Off | Basis::Unreadable | Basis::OwnFolder => false,
            Basis::Policies(Bench(policies)) => policies.iter().any(|(policy, _)| policy.names_account()),
        })
    }

    /// How often the namespace may make us ask: the tightest counts.
    pub fn quota(&self) -> Option<Quota> {
        match &self.basis {
            Basis::Off | Basis::Unreadable | Basis::OwnFolder => None,
            Basis::Policies(Bench(policies)) => policies
                .iter()
                .filter_map(|(policy, _)| policy.quota)
                .min_by_key(|quota| (quota.per_minute, quota.burst)),
        }
    }

    /// Judges a request. `store` is the store that it names, if that is there for its namespace.
    pub fn judge(
        &self,
        requester: Requester<'_>,
        request: &Request,
        store: Option<&StoreView>,
    ) -> Result<Allowance, Problem> {
        let path = match (CanonicalPath::parse(&request.source.path), &self.basis) {
            (_, Basis::Unreadable) => return Err(Problem::lasting(Reason::PolicyDenied, UNREADABLE)),
            (Ok(path), _) => path,
            (Err(_), Basis::Off) => {
                return Ok(Allowance {
                    audited: self.trial.is_some(),
                    ..Allowance::default()
                });
            }
            (Err(rule), _) => {
                return Err(Problem::lasting(
                    Reason::AnnotationInvalid,
                    format!("path: {rule}"),
                ));
            }
        };
        let case = Case {
            requester,
            request,
            store,
            path: &path,
            home: store.map_or_else(Home::default, |store| store.home.clone()),
        };
        let allowance = self.basis.judge(&case).ok_or_else(denied)?;
        let would_allow = |trial: &Basis| trial.judge(&case).is_some();
        Ok(Allowance {
            audited: self.trial.as_ref().is_some_and(|trial| !would_allow(trial)),
            ..allowance
        })
    }
}

impl Basis {
    /// What decides in a namespace if these policies are in force.
    fn of<'p>(
        policies: impl Iterator<Item = &'p Arc<Policy>>,
        namespace: &str,
        labels: Option<&Labels>,
    ) -> Self {
        let mut policies = policies.peekable();
        if policies.peek().is_none() {
            return Self::OwnFolder;
        }
        let for_it = policies.filter_map(|policy| {
            let sure = chooses(policy.namespaces.as_ref(), namespace, labels);
            (sure != Some(false)).then(|| (policy.clone(), sure.is_some()))
        });
        Self::Policies(Bench(for_it.collect()))
    }

    fn judge(&self, case: &Case<'_>) -> Option<Allowance> {
        let is_allowed = match self {
            Self::Policies(bench) => return case.judge(bench),
            Self::Off => true,
            Self::Unreadable => false,
            Self::OwnFolder => case.path.belongs_to(case.requester.namespace, &case.home),
        };
        is_allowed.then(Allowance::default)
    }
}

impl Allowance {
    /// Judges the keys of the secret that would be delivered.
    pub fn permit(self, keys: &SourceKeys<'_>) -> Result<Self, Problem> {
        match self.keys.permit(keys) {
            true => Ok(self),
            false => Err(denied()),
        }
    }
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
