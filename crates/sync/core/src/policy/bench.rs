//! A request before the policies of its namespace.

use std::sync::Arc;

use trustplane_api::sync::Effect;

use super::keys::KeyLimits;
use super::pattern::{Filling, PathPattern};
use super::{Allowance, Policy, Requester, Rule};
use crate::path::{ARN_PROVIDER, CanonicalPath, Home};
use crate::request::Request;
use crate::situation::StoreView;

/// The policies that are for a namespace, or may be: whether that is sure stands beside them.
#[derive(Debug, Clone)]
pub(super) struct Bench(pub Vec<(Arc<Policy>, bool)>);

/// A request, and what is known of it.
pub(super) struct Case<'a> {
    pub requester: Requester<'a>,
    pub request: &'a Request,
    /// The store that it names, if that is there for its namespace.
    pub store: Option<&'a StoreView>,
    pub path: &'a CanonicalPath,
    /// Where its plain names lie.
    pub home: Home,
}

impl Case<'_> {
    /// What policies allow of the request, all of them in force; nothing if they deny it.
    pub fn judge(&self, bench: &Bench) -> Option<Allowance> {
        let allowing: Vec<&Rule> = self.speaking(bench, Effect::Allow).collect();
        let denying: Vec<&Rule> = self.speaking(bench, Effect::Deny).collect();
        if allowing.is_empty() || denying.iter().any(|rule| rule.keys.is_empty()) {
            return None;
        }
        let is_free = allowing.iter().any(|rule| rule.keys.is_empty());
        let allowed = allowing.iter().filter(|_| !is_free).map(|rule| rule.keys.clone());
        let keys = KeyLimits {
            allowed: allowed.collect(),
            denied: denying.iter().flat_map(|rule| rule.keys.clone()).collect(),
        };
        let known = self.request.shape.source_keys();
        if known.is_some_and(|known| !keys.permit(&known)) {
            return None;
        }
        let name = self.request.secret_name.as_str();
        Some(Allowance {
            audited: false,
            refresh_floor: self
                .for_requester(bench, true)
                .filter_map(|policy| policy.floor)
                .max(),
            may_adopt: self
                .for_requester(bench, false)
                .any(|policy| policy.adopts.iter().any(|glob| glob.matches(name))),
            keys,
        })
    }

    /// The rules of an effect that speak of the request.
    fn speaking<'b>(&self, bench: &'b Bench, effect: Effect) -> impl Iterator<Item = &'b Rule> {
        self.for_requester(bench, effect == Effect::Deny)
            .flat_map(|policy| &policy.rules)
            .filter(move |rule| rule.effect == effect && self.is_covered_by(rule))
    }

    /// The policies that are for the requester.
    fn for_requester<'b>(&self, bench: &'b Bench, if_unsure: bool) -> impl Iterator<Item = &'b Policy> {
        let account = self.requester.service_account;
        bench
            .0
            .iter()
            .filter(move |(policy, sure)| (*sure || if_unsure) && policy.is_for_account(account, if_unsure))
            .map(|(policy, _)| policy.as_ref())
    }

    /// Whether a rule speaks of the request, its keys apart.
    fn is_covered_by(&self, rule: &Rule) -> bool {
        let name = self.request.secret_name.as_str();
        let named = rule.secret_names.is_empty() || rule.secret_names.iter().any(|glob| glob.matches(name));
        let filling = Filling {
            namespace: self.requester.namespace,
            service_account: self.requester.service_account,
        };
        let denies = rule.effect == Effect::Deny;
        let has_arns = self.may_have_arns();
        let matches = |pattern: &PathPattern| {
            let covers = match denies && has_arns {
                true => pattern.may_cover(self.path, &self.home, filling),
                false => pattern.covers(self.path, &self.home, filling),
            };
            covers.unwrap_or(denies)
        };
        let on_path = |paths: &Vec<PathPattern>| paths.iter().any(matches);
        self.is_source_of(rule) && named && rule.paths.as_ref().map_or(denies, on_path)
    }

    /// Whether one secret may have two spellings there.
    fn may_have_arns(&self) -> bool {
        let source = &self.request.source;
        let provider = match &source.store {
            Some(_) => self.store.map(|store| store.provider),
            None => source.provider.as_deref(),
        };
        provider.is_none_or(|provider| provider == ARN_PROVIDER)
    }

    /// Whether the request asks where a rule says. What allows a provider allows no store of it: a store has rules of its own.
    /// What denies a provider denies its stores too, and a store of which nobody knows the provider.
    fn is_source_of(&self, rule: &Rule) -> bool {
        let source = &self.request.source;
        let of_provider = |name: &str| rule.providers.iter().any(|provider| provider == name);
        match &source.store {
            _ if rule.providers.is_empty() && rule.stores.is_empty() => true,
            Some(store) => {
                let denies_provider = rule.effect == Effect::Deny && !rule.providers.is_empty();
                let is_of_it = || self.store.is_none_or(|store| of_provider(store.provider));
                rule.stores.iter().any(|glob| glob.matches(store)) || (denies_provider && is_of_it())
            }
            None => source.provider.as_deref().is_some_and(of_provider),
        }
    }
}
