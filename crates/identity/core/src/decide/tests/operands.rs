//! Plans for operands.

use super::*;

#[test]
fn an_operand_gets_all_children_with_its_uid_and_then_rests() {
    for operand in OperandKind::ALL {
        let first = plan(&input(operand));
        let creations = first.steps.iter().filter_map(|step| match step {
            Step::Apply(apply) => Some(apply),
            _ => None,
        });
        for apply in creations {
            let body = apply.manifest.body();
            assert_eq!(apply.expect, Expect::Absent);
            assert_eq!(
                body["metadata"]["labels"][OWNER_UID],
                format!("uid-{}", operand.as_str())
            );
            assert!(body["metadata"]["ownerReferences"].is_null());
        }
        assert!(first.steps.len() > 3, "{operand}: {first}");
        let at_rest = plan(&settled(operand));
        assert!(at_rest.is_empty(), "{operand}: {at_rest}");
    }
}

#[test]
fn an_operand_is_ready_when_its_workload_is() {
    for operand in OperandKind::ALL {
        let mut input = settled(operand);
        let status_then = input.operands[&operand].status.clone();
        assert_eq!(
            condition(&status_then, conditions::READY).1,
            reason::READY,
            "{operand}"
        );
        input.workload = None;
        let (is, why, _) = condition(&status(&plan(&input)), conditions::READY);
        assert_eq!((is.as_str(), why.as_str()), ("False", reason::PROGRESSING));
    }
}

#[test]
fn an_agent_says_that_it_waits_for_the_bundle() {
    let mut input = settled(OperandKind::SpireAgent);
    (input.workload, input.bundle) = (None, None);
    let (_, _, message) = condition(&status(&plan(&input)), conditions::DAEMON_SET_AVAILABLE);
    assert!(
        message.contains("waiting for SpireServer to write bundle.crt"),
        "{message}"
    );
    input.operands.remove(&OperandKind::SpireServer);
    let (_, _, message) = condition(&status(&plan(&input)), conditions::DAEMON_SET_AVAILABLE);
    assert!(message.contains("waiting for a SpireServer"), "{message}");
}

#[test]
fn nothing_is_made_without_ztwim_or_with_a_conflict() {
    let mut alone = input(OperandKind::SpireAgent);
    alone.manager = None;
    let waiting = plan(&alone);
    assert!(
        !waiting.steps.iter().any(|step| matches!(step, Step::Apply(_))),
        "{waiting}"
    );
    assert_eq!(
        condition(&status(&waiting), conditions::READY).1,
        reason::PROGRESSING
    );

    let mut conflicting = settled(OperandKind::SpireAgent);
    let agent = conflicting.operands.get_mut(&OperandKind::SpireAgent).unwrap();
    agent.spec["trustDomain"] = "other.example".into();
    agent.meta.annotations.clear();
    let held = plan(&conflicting);
    assert!(
        !held
            .steps
            .iter()
            .any(|step| matches!(step, Step::Apply(_) | Step::Delete(_))),
        "{held}"
    );
    let (_, why, message) = condition(&status(&held), conditions::CONFIGURATION_VALID);
    assert_eq!(why, reason::CONFIGURATION_CONFLICT);
    assert!(message.contains("kubectl patch spireagents cluster"), "{message}");
    let (_, why, _) = condition(&status(&held), conditions::DAEMON_SET_AVAILABLE);
    assert_eq!(
        why,
        reason::DAEMON_SET_READY,
        "what is known of the children stays"
    );
}

#[test]
fn what_runs_keeps_its_trust_domain() {
    for operand in OperandKind::ALL {
        let mut input = settled(operand);
        input.server = settled(OperandKind::SpireServer).server;
        input.manager.as_mut().unwrap().spec["trustDomain"] = "new.example".into();
        let held = plan(&input);
        if operand == OperandKind::SpiffeCsiDriver {
            assert!(held.is_empty(), "it has no trust domain: {held}");
            continue;
        }
        assert!(
            !held.steps.iter().any(|step| matches!(step, Step::Apply(_))),
            "{operand}: {held}"
        );
        let (_, why, message) = condition(&status(&held), conditions::CONFIGURATION_VALID);
        assert_eq!(why, reason::TRUST_DOMAIN_CHANGE_PENDING);
        assert!(
            message.contains("example.org") && message.contains("new.example"),
            "{message}"
        );
    }
}

#[test]
fn a_foreign_object_is_left_alone_and_told() {
    let mut input = settled(OperandKind::SpireAgent);
    for (_, live) in &mut input.children {
        if live.object.name() == names::AGENT {
            live.labels = [("app.kubernetes.io/managed-by".to_owned(), "Helm".to_owned())].into();
        }
    }
    let told = plan(&input);
    assert!(
        !told
            .steps
            .iter()
            .any(|step| matches!(step, Step::Apply(_) | Step::Delete(_))),
        "{told}"
    );
    let (_, why, message) = condition(&status(&told), conditions::CONFIG_MAP_AVAILABLE);
    assert_eq!(why, reason::RESOURCE_CONFLICT);
    assert!(told.look_again.is_some(), "no watch tells when it goes");
    assert!(message.contains("belongs to Helm"), "{message}");
    assert_eq!(condition(&status(&told), conditions::READY).1, reason::FAILED);
}

#[test]
fn children_of_the_original_are_left_alone_though_they_bear_our_mark() {
    for operand in [OperandKind::SpireAgent, OperandKind::SpireOidcDiscoveryProvider] {
        let mut input = settled(operand);
        for (_, live) in &mut input.children {
            live.labels.remove(OWNER_UID);
            live.fields = FieldSet::default();
        }
        let told = plan(&input);
        let writes =
            |step: &&Step<OperandAction>| matches!(step, Step::Apply(_) | Step::Delete(_) | Step::Call(_));
        assert_eq!(told.steps.iter().filter(writes).count(), 0, "{told}");
        assert_eq!(
            condition(&status(&told), conditions::CONFIG_MAP_AVAILABLE).1,
            reason::RESOURCE_CONFLICT
        );
    }
}

#[test]
fn a_mark_that_somebody_took_off_comes_back() {
    let mut input = settled(OperandKind::SpireAgent);
    for (kind, live) in &mut input.children {
        if *kind == CONFIG_MAP {
            live.labels.remove("app.kubernetes.io/managed-by");
        }
    }
    let writes = lines(&plan(&input));
    assert!(
        writes[0].contains("update ConfigMap") && writes[0].ends_with("/spire-agent"),
        "{writes:?}"
    );
}

#[test]
fn a_bundle_that_is_there_is_used_as_it_is() {
    let mut input = input(OperandKind::SpireServer);
    let theirs = json!({"metadata": {"name": "spire-bundle", "namespace": NAMESPACE, "uid": "b", "resourceVersion": "1"}});
    input.bundle = Some((meta(&theirs), false));
    let writes = lines(&plan(&input));
    assert!(
        !writes
            .iter()
            .any(|line| line.ends_with("/spire-bundle") && line.contains("ConfigMap")),
        "{writes:?}"
    );
}

#[test]
fn children_of_a_deleted_operand_are_deleted() {
    for operand in OperandKind::ALL {
        let mut input = settled(operand);
        let children = input.children.len();
        input.operands.remove(&operand);
        let removal = plan(&input);
        let deletions = removal
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Delete(_)));
        assert_eq!(deletions.count(), children, "{removal}");
        input.complete = false;
        assert!(
            plan(&input).is_empty(),
            "nothing is removed while a list may have a hole"
        );
    }
}

#[test]
fn csi_driver_stays_until_the_pods_of_the_discovery_provider_have_ended() {
    let mut input = settled(OperandKind::SpiffeCsiDriver);
    input.operands.clear();
    input.has_discovery = true;
    assert!(plan(&input).is_empty());
    input.has_discovery = false;
    assert!(plan(&input).removes());

    // The garbage collector has not come to the provider yet.
    let mut input = settled(OperandKind::SpiffeCsiDriver);
    input.operands.remove(&OperandKind::SpiffeCsiDriver);
    input.has_discovery = true;
    assert!(plan(&input).removes(), "nobody wants the provider to go");
    input.manager = None;
    assert!(plan(&input).is_empty());

    let mut provider = settled(OperandKind::SpireOidcDiscoveryProvider);
    provider.operands.clear();
    let foreground = plan(&provider).steps.into_iter().any(|step| {
        matches!(step, Step::Delete(delete) if delete.target.kind == DEPLOYMENT && delete.propagation == Propagation::Foreground)
    });
    assert!(foreground);
}

#[test]
fn children_of_an_earlier_operand_make_room() {
    let mut input = settled(OperandKind::SpiffeCsiDriver);
    let operand = input.operands.get_mut(&OperandKind::SpiffeCsiDriver).unwrap();
    operand.meta.uid = "new".into();
    let plan = plan(&input);
    let deletions = plan
        .steps
        .iter()
        .filter(|step| matches!(step, Step::Delete(_)))
        .count();
    assert_eq!(deletions, input.children.len(), "{plan}");
    assert!(
        !plan.steps.iter().any(|step| matches!(step, Step::Apply(_))),
        "{plan}"
    );
}

#[test]
fn an_operand_on_its_way_out_makes_nothing_anew() {
    let mut input = input(OperandKind::SpireServer);
    let operand = input.operands.get_mut(&OperandKind::SpireServer).unwrap();
    operand.meta.deleted = Some(NOW);
    assert!(plan(&input).is_empty());
    assert_eq!(needs(&input, &settings()), None);
}

#[test]
fn create_only_mode_makes_what_is_missing_and_changes_nothing() {
    let mut input = settled(OperandKind::SpireAgent);
    input.manager.as_mut().unwrap().spec["clusterName"] = "two".into();
    input.children.retain(|(kind, _)| *kind != DAEMON_SET);
    let operand = input.operands.get_mut(&OperandKind::SpireAgent).unwrap();
    operand
        .meta
        .annotations
        .insert(names::CREATE_ONLY.to_owned(), "true".to_owned());
    let on = plan(&input);
    let writes: Vec<_> = lines(&on)
        .into_iter()
        .filter(|line| line.starts_with("create") || line.starts_with("update"))
        .collect();
    assert_eq!(writes.len(), 1, "{on}");
    assert!(writes[0].starts_with("create DaemonSet"), "{on}");
    let (is, why, _) = condition(&status(&on), conditions::CREATE_ONLY_MODE);
    assert_eq!(
        (is.as_str(), why.as_str()),
        ("True", reason::CREATE_ONLY_MODE_ENABLED)
    );

    let operand = input.operands.get_mut(&OperandKind::SpireAgent).unwrap();
    operand.status = status(&on);
    operand.meta.annotations.clear();
    let (is, why, _) = condition(&status(&plan(&input)), conditions::CREATE_ONLY_MODE);
    assert_eq!(
        (is.as_str(), why.as_str()),
        ("False", reason::CREATE_ONLY_MODE_DISABLED)
    );
}

#[test]
fn a_change_of_the_configuration_rolls_the_workload_and_is_counted() {
    let mut input = settled(OperandKind::SpireAgent);
    input.manager.as_mut().unwrap().spec["clusterName"] = "two".into();
    let told = lines(&plan(&input));
    assert!(
        told.iter().any(|line| line.starts_with("update DaemonSet")),
        "{told:?}"
    );
    assert!(
        told.iter()
            .any(|line| line.contains("RolledOut") && line.contains("configuration")),
        "{told:?}"
    );
}

#[test]
fn a_namespace_that_is_missing_or_too_strict_is_told_with_the_command() {
    let mut missing = input(OperandKind::SpireServer);
    missing.namespace = NamespaceState::Missing;
    let told = plan(&missing);
    assert!(
        !told.steps.iter().any(|step| matches!(step, Step::Apply(_))),
        "{told}"
    );
    let (_, why, message) = condition(&status(&told), conditions::NAMESPACE_READY);
    assert_eq!(why, reason::NAMESPACE_MISSING);
    assert!(
        message.ends_with(&format!("kubectl create namespace {NAMESPACE}")),
        "{message}"
    );
    assert!(told.look_again.is_some());

    for (operand, refused) in [(OperandKind::SpireAgent, true), (OperandKind::SpireServer, false)] {
        let mut strict = input(operand);
        strict.namespace = NamespaceState::Enforces("restricted".to_owned());
        let status = status(&plan(&strict));
        let types = status["conditions"].to_string();
        assert_eq!(
            types.contains(reason::POD_SECURITY_TOO_STRICT),
            refused,
            "{operand}"
        );
    }
}

#[test]
fn a_certificate_is_renewed_before_it_ends_and_when_the_ca_changes() {
    let is_due = |input: &OperandInput| {
        let steps = plan(input).steps;
        steps
            .iter()
            .any(|step| matches!(step, Step::Call(OperandAction::Certificate(_))))
    };
    let mut input = settled(OperandKind::SpireOidcDiscoveryProvider);
    assert!(!is_due(&input));
    let secret = input
        .children
        .iter_mut()
        .find(|(kind, _)| *kind == SECRET)
        .unwrap();
    secret
        .1
        .annotations
        .insert(ENDS.to_owned(), "1970-01-01T12:00:00Z".to_owned());
    assert!(is_due(&input), "twelve hours are left, and a day is wanted");
    let mut input = settled(OperandKind::SpireOidcDiscoveryProvider);
    input.issuing.bundle = "another CA".to_owned();
    assert!(is_due(&input));
}

#[test]
fn no_plan_shows_a_password_of_the_database() {
    let mut input = input(OperandKind::SpireServer);
    let server = input.operands.get_mut(&OperandKind::SpireServer).unwrap();
    server.spec["datastore"] =
        json!({"databaseType": "postgres", "connectionString": "password=hunter2 host=db"});
    let plan = plan(&input);
    assert!(!plan.to_string().contains("hunter2"));
    assert!(!status(&plan).to_string().contains("hunter2"));
}

#[test]
fn validities_that_do_not_come_out_are_told_once() {
    let mut input = settled(OperandKind::SpireServer);
    let server = input.operands.get_mut(&OperandKind::SpireServer).unwrap();
    server.spec["defaultX509Validity"] = "20h".into();
    let first = plan(&input);
    let told = |plan: &Plan<OperandAction>| {
        lines(plan)
            .iter()
            .any(|line| line.contains("TTLConfigurationWarning"))
    };
    assert!(told(&first), "{first}");
    input.operands.get_mut(&OperandKind::SpireServer).unwrap().status = status(&first);
    let second = plan(&input);
    assert!(!told(&second), "{second}");
}
