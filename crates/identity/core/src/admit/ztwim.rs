//! Rules 1 and 2: ZTWIM.

use serde_json::{Value, json};
use trustplane_api::identity::{ChangePolicy, OperandKind};

use super::{Admitted, Denial, Review, Rule};
use crate::Settings;
use crate::inherit::{Field, Holder, Unresolved, World, ZtwimView, default_namespace, resolve, text};

const BUNDLE_NAME: &str = "/spec/bundleConfig/name";
const BUNDLE_MIRROR: &str = "/spec/bundleConfigMap";

/// Rule 1: trust domain, name of the cluster and bundle are said and valid, and no operand has another value of its own.
pub(super) fn create(review: &Review<'_>) -> Result<Admitted, Denial> {
    let rule = Rule::ZtwimCreate;
    let object = mirror_bundle(review, rule)?;
    for field in Field::said_in(Holder::Ztwim) {
        check_value(field, value(field, &object), review.world, rule)?;
    }
    check_namespaces(review, rule)?;
    review.check_defects(rule)?;
    let warnings = warn_of_dots(&object).into_iter().collect();
    Ok(Admitted { object, warnings })
}

/// Rule 2: the same of each value that changes, and what the change itself asks for.
pub(super) fn update(review: &Review<'_>, old: &Value) -> Result<Admitted, Denial> {
    let rule = Rule::ZtwimUpdate;
    let object = mirror_bundle(review, rule)?;
    let mut warnings = Vec::new();
    for field in Field::said_in(Holder::Ztwim) {
        let (before, after) = (value(field, old), value(field, &object));
        if before == after {
            continue;
        }
        check_policy(field, old, before, after)?;
        check_value(field, after, review.world, rule)?;
        match field {
            Field::TrustDomain => warnings.extend(warn_of_running_server(review.world, before)),
            Field::ClusterName => warnings.extend(warn_of_dots(&object)),
            Field::BundleConfigMap => check_bundle_exists(review, old, &object)?,
            Field::JwtIssuer => {}
        }
    }
    check_namespaces(review, rule)?;
    review.check_defects(rule)?;
    Ok(Admitted { object, warnings })
}

fn value(field: Field, object: &Value) -> Option<&str> {
    field.of_home(object.get("spec")?)
}

fn check_value(field: Field, value: Option<&str>, world: &World, rule: Rule) -> Result<(), Denial> {
    let checked = match value {
        None => Err(Unresolved::Missing(field)),
        Some(value) => field
            .check(Holder::Ztwim, value)
            .and_then(|()| world.check_conflicts(field, value)),
    };
    checked.map_err(Denial::unresolved(rule, &field.home_path()))
}

/// The object with both names of the bundle. The one that changed wins; without any, it is what the operands agree on, or the default.
fn mirror_bundle(review: &Review<'_>, rule: Rule) -> Result<Value, Denial> {
    let mut object = review.new.clone();
    let name = match bundle_name(review.old, review.new) {
        Err((name, mirror)) => {
            let text = format!(
                "{mirror:?} differs from {name:?} of spec.bundleConfig.name, and both are new; say one of them, or: {}",
                Holder::Ztwim.patch_command(
                    &json!({"spec": {"bundleConfig": {"name": name}, "bundleConfigMap": name}})
                )
            );
            return Err(Denial::new(rule, "spec.bundleConfigMap", &text));
        }
        Ok(Some(name)) => name.to_owned(),
        Ok(None) => match effective_bundle(review.world, review.settings, review.new) {
            Ok(name) => name,
            // The operands do not agree: rule 1 says so, and rule 2 leaves what is stored.
            Err(_) if review.old.is_some() => return Ok(object),
            Err(_) => Field::BundleConfigMap.default().unwrap_or_default().to_owned(),
        },
    };
    // What is no object is for the schema to refuse.
    if object["spec"].is_null() {
        object["spec"] = json!({});
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.insert("bundleConfigMap".to_owned(), json!(name));
        let config = spec.entry("bundleConfig").or_insert_with(|| json!({}));
        if let Some(config) = config.as_object_mut() {
            config.insert("name".to_owned(), json!(name));
        }
    }
    Ok(object)
}

/// The name of the bundle that a request asks for; both names if they are new and differ.
fn bundle_name<'a>(old: Option<&Value>, new: &'a Value) -> Result<Option<&'a str>, (&'a str, &'a str)> {
    let is_new = |pointer, name| old.and_then(|old| text(old, pointer)) != Some(name);
    match (text(new, BUNDLE_NAME), text(new, BUNDLE_MIRROR)) {
        (Some(name), Some(mirror)) if name != mirror && is_new(BUNDLE_MIRROR, mirror) => {
            if is_new(BUNDLE_NAME, name) {
                return Err((name, mirror));
            }
            Ok(Some(mirror))
        }
        (name, mirror) => Ok(name.or(mirror)),
    }
}

fn effective_bundle(world: &World, settings: &Settings, ztwim: &Value) -> Result<String, Unresolved> {
    let world = world.clone().with_ztwim(ZtwimView::read(ztwim));
    let resolution = resolve(&world, settings);
    resolution.value(Field::BundleConfigMap).map(str::to_owned)
}

/// The ConfigMap whose existence decides an update of ZTWIM: namespace and name. `None` if the bundle stays, or if the namespace is not
/// served: this process has no right to look there.
pub fn bundle_to_look_up(
    old: &Value,
    new: &Value,
    world: &World,
    settings: &Settings,
) -> Option<(String, String)> {
    let name = match bundle_name(Some(old), new).ok()? {
        Some(name) => name.to_owned(),
        None => effective_bundle(world, settings, new).ok()?,
    };
    let is_same = effective_bundle(world, settings, old).is_ok_and(|before| before == name);
    let namespace = namespace(new, settings);
    let is_served = settings.namespaces.iter().any(|served| served == namespace);
    (!is_same && is_served).then(|| (namespace.to_owned(), name))
}

fn check_bundle_exists(review: &Review<'_>, old: &Value, object: &Value) -> Result<(), Denial> {
    let wanted = bundle_to_look_up(old, object, review.world, review.settings);
    let Some((namespace, name)) = wanted.filter(|_| review.bundle_exists != Some(true)) else {
        return Ok(());
    };
    let text = format!(
        "there is no ConfigMap {name:?} in the namespace {namespace:?}; make it first: \
         kubectl create configmap {name} --namespace {namespace}"
    );
    let path = Field::BundleConfigMap.home_path();
    Err(Denial::new(Rule::ZtwimUpdate, &path, &text))
}

fn check_policy(field: Field, old: &Value, before: Option<&str>, after: Option<&str>) -> Result<(), Denial> {
    let is_immutable = text(old, "/spec/changePolicy") == Some(ChangePolicy::Immutable.as_str());
    let (Some(before), true) = (before, is_immutable) else {
        return Ok(());
    };
    let text = format!(
        "must stay {before:?} and not become {:?}: spec.changePolicy of {} is Immutable; to allow it: {}",
        after.unwrap_or_default(),
        Holder::Ztwim,
        Holder::Ztwim.patch_command(&json!({"spec": {"changePolicy": ChangePolicy::Allow}}))
    );
    Err(Denial::new(Rule::ZtwimUpdate, &field.home_path(), &text))
}

/// The namespace of the operands, if ZTWIM is this object.
fn namespace<'a>(ztwim: &'a Value, settings: &'a Settings) -> &'a str {
    text(ztwim, "/spec/namespace").unwrap_or_else(|| default_namespace(settings))
}

fn check_namespaces(review: &Review<'_>, rule: Rule) -> Result<(), Denial> {
    let now = namespace(review.new, review.settings);
    let is_changed = review.changes("/spec/namespace");
    let served = &review.settings.namespaces;
    if is_changed
        && text(review.new, "/spec/namespace").is_some()
        && !served.iter().any(|served| served == now)
    {
        let reason = Unresolved::NotServed {
            wanted: now.to_owned(),
            served: served.clone(),
        };
        return Err(Denial::unresolved(rule, "spec.namespace")(reason));
    }
    let before = review.old.map(|old| namespace(old, review.settings));
    let operands: Vec<_> = review
        .world
        .operands
        .iter()
        .map(|operand| Holder::Operand(operand.kind).to_string())
        .collect();
    if let Some(before) = before.filter(|before| *before != now && !operands.is_empty()) {
        let text = format!(
            "must stay {before:?} and not become {now:?} while {} exist there: delete them first",
            operands.join(", ")
        );
        return Err(Denial::new(rule, "spec.namespace", &text));
    }
    let bundle = text(review.new, "/spec/bundleConfig/namespace").filter(|namespace| *namespace != now);
    match bundle {
        Some(bundle) if is_changed || review.changes("/spec/bundleConfig/namespace") => {
            let text = format!(
                "{bundle:?} differs from {now:?}, the namespace of the operands: pods mount only ConfigMaps of their own namespace; \
                 leave it out, or: {}",
                Holder::Ztwim.patch_command(&json!({"spec": {"bundleConfig": {"namespace": null}}}))
            );
            Err(Denial::new(rule, "spec.bundleConfig.namespace", &text))
        }
        _ => Ok(()),
    }
}

fn warn_of_dots(object: &Value) -> Option<String> {
    let name = value(Field::ClusterName, object)?;
    name.contains('.')
        .then(|| format!("spec.clusterName {name:?} has dots: a name without is understood by more tools"))
}

/// This version does not move the data of a server to another trust domain.
fn warn_of_running_server(world: &World, before: Option<&str>) -> Option<String> {
    world.operand(OperandKind::SpireServer)?;
    Some(format!(
        "spec.trustDomain changes while {} exists: this version does not move the data of a server to another trust domain, \
         so what runs keeps its trust domain {before:?} until the safe change is available",
        Holder::Operand(OperandKind::SpireServer),
        before = before.unwrap_or_default(),
    ))
}
