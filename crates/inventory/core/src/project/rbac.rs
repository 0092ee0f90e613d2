//! ServiceAccounts, roles and their bindings, in a namespace and in the cluster.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::input::{Named, Text, names};
use super::output::{Object, each};
use super::{Metadata, Projection, ProjectionError};
use crate::kind::InventoryKind;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServiceAccount<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    secrets: Option<Vec<Named<'a>>>,
    image_pull_secrets: Option<Vec<Named<'a>>>,
    automount_service_account_token: Option<bool>,
}

/// What is sent of a ServiceAccount.
pub(super) fn service_account(json: &str) -> Result<Projection, ProjectionError> {
    let account: ServiceAccount<'_> = serde_json::from_str(json)?;
    let fields = Object::default()
        .optional("secrets", names(account.secrets))
        .optional("image_pull_secrets", names(account.image_pull_secrets))
        .given(
            "automount_service_account_token",
            account.automount_service_account_token,
        );
    account.metadata.finish(InventoryKind::ServiceAccount, fields)
}

#[derive(Deserialize)]
struct Role<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    rules: Option<Vec<Rule<'a>>>,
}

#[derive(Deserialize)]
struct Rule<'a> {
    #[serde(borrow)]
    resources: Option<Vec<Text<'a>>>,
}

/// What is sent of a Role or ClusterRole.
pub(super) fn role(kind: InventoryKind, json: &str) -> Result<Projection, ProjectionError> {
    let Role { metadata, rules } = serde_json::from_str(json)?;
    let rules = rules.unwrap_or_default();
    let count = rules.len();
    let resources: BTreeSet<Text<'_>> = rules
        .into_iter()
        .filter_map(|rule| rule.resources)
        .flatten()
        .collect();
    let fields = Object::default()
        .always("is_cluster", !kind.is_namespaced())
        .always("rule_count", count)
        .always("resources", resources);
    metadata.finish(kind, fields)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    role_ref: Option<RoleRef<'a>>,
    subjects: Option<Vec<Subject<'a>>>,
}

#[derive(Default, Deserialize)]
struct RoleRef<'a> {
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    name: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Subject<'a> {
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    name: Option<Text<'a>>,
    namespace: Option<Text<'a>>,
}

/// What is sent of a RoleBinding or ClusterRoleBinding.
pub(super) fn binding(kind: InventoryKind, json: &str) -> Result<Projection, ProjectionError> {
    let Binding {
        metadata,
        role_ref,
        subjects,
    } = serde_json::from_str(json)?;
    let role_ref = role_ref.unwrap_or_default();
    let role = Object::default()
        .always("kind", role_ref.kind.unwrap_or_default())
        .always("name", role_ref.name.unwrap_or_default());
    let fields = Object::default()
        .always("is_cluster", !kind.is_namespaced())
        .always("role_ref", role)
        .optional("subjects", each(subjects, subject));
    metadata.finish(kind, fields)
}

fn subject(subject: Subject<'_>) -> Object<'_> {
    Object::default()
        .always("kind", subject.kind.unwrap_or_default())
        .always("name", subject.name.unwrap_or_default())
        .optional("namespace", subject.namespace)
}
