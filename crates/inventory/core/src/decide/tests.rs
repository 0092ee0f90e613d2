use serde_json::json;
use trustplane_api::inventory::CredentialsSecretRef;
use trustplane_plan::{Condition, Keep};

use super::*;

const START: &str = "2026-01-01T00:00:00Z";

fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = START.parse().unwrap();
    start + SignedDuration::from_secs(seconds)
}

fn main() -> ObjectRef {
    ObjectRef::new(Some("home"), "main")
}

fn agent() -> Agent {
    let meta =
        r#"{"metadata":{"name":"main","namespace":"home","uid":"u","resourceVersion":"1","generation":3}}"#;
    Agent {
        meta: Meta::decode(meta, &Keep::default()).unwrap(),
        spec: ObsykAgentSpec {
            platform_url: "https://hub".into(),
            cluster_name: "demo".into(),
            credentials_secret_ref: CredentialsSecretRef { name: "keys".into() },
            sync_interval: "5m".into(),
            rate_limit: None,
            ca_bundle: None,
            proxy_url: None,
            full_sync_interval: None,
            exclude_namespaces: Vec::new(),
        },
        status: json!({}),
        readiness: Readiness::Ready("1".into()),
        running: Some("1".into()),
        report: Some(Report {
            is_live: true,
            last_snapshot: Some(at(0)),
            last_sync: Some(at(0)),
            ..Report::default()
        }),
        cluster_uid: Some("c".into()),
        counts: [(InventoryKind::StatefulSet, 2), (InventoryKind::Job, 0)].into(),
        unreadable: BTreeMap::new(),
    }
}

fn plan(agent: Agent, now: Timestamp) -> Plan<Action> {
    decide(&Input::Agent(Box::new(agent)), now)
}

/// The status that a plan writes, if it writes one.
fn written(plan: &Plan<Action>) -> Option<ObsykAgentStatus> {
    plan.steps.iter().find_map(|step| match step {
        Step::Status(status) => Some(serde_json::from_value(status.status.clone()).unwrap()),
        _ => None,
    })
}

fn condition(agent: Agent, type_: &str) -> Condition {
    let status = written(&plan(agent, at(0))).unwrap();
    status.conditions.get(type_).unwrap().clone()
}

/// The agent after its status was written.
fn settled() -> Agent {
    let status = written(&plan(agent(), at(0))).unwrap();
    Agent {
        status: serde_json::to_value(status).unwrap(),
        ..agent()
    }
}

#[test]
fn a_good_agent_says_so_in_the_words_of_the_original() {
    let status = written(&plan(agent(), at(0))).unwrap();
    let told: Vec<_> = [condition::AVAILABLE, condition::SYNCING, condition::DEGRADED]
        .map(|type_| status.conditions.get(type_).unwrap())
        .iter()
        .map(|one| (one.status.as_str(), one.reason.as_str(), one.message.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (
                "True",
                "AgentRunning",
                "Agent is running and connected to platform"
            ),
            ("True", "SyncActive", "Agent is actively syncing data"),
            ("False", "AgentHealthy", "Agent is operating normally"),
        ]
    );
    assert_eq!(status.resource_counts, [("statefulSets".to_owned(), 2)].into());
    assert_eq!(status.cluster_uid.as_deref(), Some("c"));
    assert_eq!(status.observed_generation, Some(3));
}

#[test]
fn an_agent_at_rest_writes_nothing() {
    let heartbeat = Report {
        last_sync: Some(at(900)),
        ..agent().report.unwrap()
    };
    let resting = Agent {
        report: Some(heartbeat),
        ..settled()
    };
    let plan = plan(resting, at(901));
    assert!(plan.is_empty(), "{plan}");
    assert_eq!(plan.look_again, Some(Duration::from_secs(300)));
}

#[test]
fn counts_move_at_most_once_in_an_interval() {
    let more = |seconds| {
        let changed = Agent {
            counts: [(InventoryKind::StatefulSet, 3)].into(),
            ..settled()
        };
        written(&plan(changed, at(seconds)))
    };
    assert_eq!(more(299), None);
    assert_eq!(more(300).unwrap().resource_counts["statefulSets"], 3);
}

#[test]
fn a_change_of_settings_or_credentials_runs_the_stream_again() {
    let changed = Agent {
        readiness: Readiness::Ready("2".into()),
        ..settled()
    };
    assert!(
        plan(changed, at(1))
            .steps
            .contains(&Step::Call(Action::Run(main())))
    );
    assert_eq!(
        decide(&Input::Gone(main()), at(1)).steps,
        [Step::Call(Action::Stop(main()))]
    );
}

#[test]
fn bad_credentials_end_the_stream_and_name_the_rule() {
    let bad = || Agent {
        readiness: Readiness::BadCredentials(
            "Secret keys: private_key must be a key on the curve P-256".into(),
        ),
        ..agent()
    };
    let degraded = condition(bad(), condition::DEGRADED);
    assert_eq!(degraded.reason, "AuthenticationError");
    assert!(degraded.message.contains("P-256"), "{degraded:?}");
    assert_eq!(condition(bad(), condition::AVAILABLE).status, "False");
    assert!(
        plan(bad(), at(0))
            .steps
            .contains(&Step::Call(Action::Stop(main())))
    );
    let never_ran = Agent {
        running: None,
        ..bad()
    };
    assert!(
        !plan(never_ran, at(0))
            .steps
            .contains(&Step::Call(Action::Stop(main())))
    );
}

#[test]
fn an_unusable_interval_is_told_and_hurts_nothing_else() {
    for interval in ["abc", "4s", "3000000000000000h"] {
        let mut odd = agent();
        odd.spec.sync_interval = interval.into();
        let degraded = condition(odd, condition::DEGRADED);
        assert_eq!(degraded.reason, "InvalidSpec", "{interval}");
        assert!(degraded.message.starts_with("spec.syncInterval"), "{degraded:?}");
    }
}

#[test]
fn kinds_and_objects_that_are_not_sent_are_named() {
    let partial = Agent {
        unreadable: [(
            InventoryKind::Secret,
            "the object shop/odd cannot be read".to_owned(),
        )]
        .into(),
        report: Some(Report {
            left_out: [InventoryKind::Secret, InventoryKind::Pod].into(),
            ..agent().report.unwrap()
        }),
        ..agent()
    };
    let degraded = condition(partial, condition::DEGRADED);
    assert_eq!(degraded.reason, "KindsUnreadable");
    assert_eq!(
        degraded.message,
        "kinds that are not sent, or not completely: Pod: its list is not complete yet; Secret: the object shop/odd cannot be read"
    );
}

#[test]
fn an_unreachable_platform_shows_in_available_and_syncing() {
    let with = |trouble: Trouble, is_live: bool| {
        let report = Report {
            trouble: Some(trouble),
            is_live,
            ..Report::default()
        };
        Agent {
            report: Some(report),
            ..agent()
        }
    };
    let away = |is_live| with(Trouble::Unreachable("no answer in time".into()), is_live);
    assert_eq!(
        condition(away(true), condition::AVAILABLE).reason,
        "PlatformUnreachable"
    );
    assert_eq!(
        condition(away(true), condition::SYNCING).reason,
        "HeartbeatFailed"
    );
    assert_eq!(
        condition(away(false), condition::SYNCING).reason,
        "SnapshotFailed"
    );
    assert_eq!(condition(away(true), condition::DEGRADED).status, "False");
    let refused = with(Trouble::Forbidden("403".into()), true);
    assert_eq!(condition(refused, condition::DEGRADED).reason, "PlatformRefused");
}

#[test]
fn refused_objects_and_unreadable_kinds_are_named() {
    let mut agent = agent();
    agent.unreadable = [(InventoryKind::Secret, "forbidden".to_owned())].into();
    agent.report = Some(Report {
        refused: 5,
        refused_names: vec!["Pod shop/odd (422)".into()],
        ..agent.report.unwrap()
    });
    let degraded = condition(agent, condition::DEGRADED);
    assert_eq!(degraded.reason, "KindsUnreadable");
    for word in ["Secret: forbidden", "5 object(s)", "Pod shop/odd (422), …"] {
        assert!(degraded.message.contains(word), "{word}: {degraded:?}");
    }
}

#[test]
fn plain_http_is_warned_of_once_for_each_generation() {
    let mut plain = agent();
    plain.spec.platform_url = "http://hub".into();
    let notes = |plan: &Plan<Action>| {
        plan.steps
            .iter()
            .filter(|step| matches!(step, Step::Tell(_)))
            .count()
    };
    let first = plan(plain, at(0));
    assert_eq!(notes(&first), 1);
    let mut plain = agent();
    plain.spec.platform_url = "http://hub".into();
    plain.status = serde_json::to_value(written(&first).unwrap()).unwrap();
    assert_eq!(notes(&plan(plain, at(1))), 0);
}
