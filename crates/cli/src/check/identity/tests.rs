use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;
use trustplane_process::ca::{Authority, LeafRequest, Policy};

use super::super::report::{Report, Verdict};
use super::*;
use crate::cluster::Obstacle;
use crate::style::Style;

mod cluster;

const NOW: &str = "2026-03-01T12:00:00Z";
const DAY: SignedDuration = SignedDuration::from_hours(24);

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// A certificate with this SPIFFE ID that was made so long ago.
fn certificate(id: &str, life: SignedDuration, age: SignedDuration) -> String {
    let policy = Policy {
        ca_life: DAY * 3650,
        leaf_life: DAY * 365,
        propagation: DAY,
    };
    let authority = Authority::create("test", policy, now() - DAY * 400).unwrap();
    let request = LeafRequest {
        uris: vec![id.to_owned()],
        life: Some(life),
        ..LeafRequest::default()
    };
    authority
        .issue(&request, now() - age)
        .unwrap()
        .certificate_pem()
        .to_owned()
}

fn ready(kind: OperandKind) -> (OperandKind, Seen<Option<Operand>>) {
    let operand = json!({
        "metadata": {"generation": 2, "ownerReferences": [{
            "apiVersion": "operator.openshift.io/v1alpha1", "kind": "ZeroTrustWorkloadIdentityManager", "name": "cluster",
            "uid": "u1", "controller": true, "blockOwnerDeletion": true,
        }]},
        "status": {"conditions": [condition("Ready", "True", "Ready", "", 2)]},
    });
    (kind, Ok(Some(serde_json::from_value(operand).unwrap())))
}

fn condition(type_: &str, status: &str, reason: &str, message: &str, generation: i64) -> serde_json::Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": generation,
        "lastTransitionTime": NOW,
    })
}

fn healthy() -> Identity {
    let manager = json!({
        "metadata": {"generation": 3, "uid": "u1"},
        "spec": {"trustDomain": "example.org", "clusterName": "test"},
        "status": {"conditions": [condition("ConfigurationValid", "True", "ConfigurationValid", "", 3)]},
    });
    let image = |part: Part| {
        let image = match part {
            Part::Server => "ghcr.io/spiffe/spire-server:1.15.3",
            Part::ControllerManager => "ghcr.io/spiffe/spire-controller-manager:0.6.4",
            Part::Agent => "localhost:5000/spire-agent:v1.15.2@sha256:0123",
            Part::OidcDiscoveryProvider => "oidc:1.15.3-ubi9",
        };
        (part, Ok(Some(image.to_owned())))
    };
    Identity {
        run_by: RunBy::Process {
            namespace: "tp".to_owned(),
            path: "deployment/trustplane-manager".to_owned(),
        },
        dry_run: Some(Ok(DryRun::Judged)),
        manager: Ok(Some(serde_json::from_value(manager).unwrap())),
        operands: OperandKind::ALL.map(ready).to_vec(),
        spire: Some(Spire {
            namespace: "spire".to_owned(),
            bundle: "spire-bundle".to_owned(),
            certificates: Ok(Some(certificate("spiffe://example.org", DAY, DAY / 4))),
            images: Part::ALL.map(image).to_vec(),
        }),
    }
}

fn shown(seen: &Identity) -> String {
    let mut out = Vec::new();
    let report = Report::new(judge(seen, &Ok(now())));
    report.people(Style::plain(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The one finding that differs from those of a healthy installation.
fn only_difference(damage: impl FnOnce(&mut Identity)) -> Finding {
    let mut seen = healthy();
    damage(&mut seen);
    let good = judge(&healthy(), &Ok(now()));
    let found = judge(&seen, &Ok(now()));
    let mut differing = found.into_iter().filter(|finding| !good.contains(finding));
    let finding = differing.next().unwrap();
    assert_eq!(differing.next(), None, "one fault, one finding");
    finding
}

fn manager(seen: &mut Identity) -> &mut Manager {
    seen.manager.as_mut().unwrap().as_mut().unwrap()
}

fn agent(seen: &mut Identity) -> &mut Operand {
    seen.operands[1].1.as_mut().unwrap().as_mut().unwrap()
}

fn spire_of(seen: &mut Identity) -> &mut Spire {
    seen.spire.as_mut().unwrap()
}

fn bundle_of(seen: &mut Identity, text: String) {
    spire_of(seen).certificates = Ok(Some(text));
}

fn image_of(seen: &mut Identity, part: Part, image: &str) {
    let mut images = spire_of(seen).images.iter_mut();
    images.find(|(other, _)| *other == part).unwrap().1 = Ok(Some(image.to_owned()));
}

fn conditions(conditions: &[serde_json::Value]) -> trustplane_plan::Conditions {
    serde_json::from_value(json!(conditions)).unwrap()
}

#[test]
fn healthy_identity_is_well() {
    insta::assert_snapshot!(shown(&healthy()), @r"
    ✓ dry-run/ztwim/cluster                                  the API server asks fill.identity.trustplane.io
    ✓ ztwim/cluster                                          trust domain example.org, namespace spire
    ✓ spireserver/cluster                                    is ready
    ✓ spireagent/cluster                                     is ready
    ✓ spiffecsidriver/cluster                                is ready
    ✓ spireoidcdiscoveryprovider/cluster                     is ready
    ✓ configmap/spire/spire-bundle                           has a certificate of spiffe://example.org, which expires in 18 hours
    ✓ statefulset/spire/spire-server                         spire-server is 1.15.3
    ✓ statefulset/spire/spire-server                         spire-controller-manager is 0.6.4
    ✓ daemonset/spire/spire-agent                            spire-agent is v1.15.2
    ✓ deployment/spire/spire-spiffe-oidc-discovery-provider  spiffe-oidc-discovery-provider is 1.15.3-ubi9

    all is well
    ");
}

#[test]
fn several_faults_of_identity_are_listed_with_what_to_do() {
    let mut seen = healthy();
    let x509 = "tls: failed to verify certificate: x509: certificate has expired";
    let told = format!(
        "Internal error occurred: failed calling webhook {:?}: failed to call webhook: {x509}",
        admission::FILL
    );
    seen.dry_run = Some(Ok(DryRun::NotCalled(told)));
    seen.operands[0]
        .1
        .as_mut()
        .unwrap()
        .as_mut()
        .unwrap()
        .status
        .conditions = conditions(&[condition(
        "Ready",
        "False",
        "Progressing",
        "StatefulSetAvailable: 0 of 1 pods are ready, 1 up to date",
        2,
    )]);
    agent(&mut seen).metadata.owner_references = None;
    seen.operands[3].1 = Ok(None);
    bundle_of(&mut seen, String::new());
    image_of(&mut seen, Part::Agent, "ghcr.io/spiffe/spire-agent:1.16.0");
    image_of(&mut seen, Part::ControllerManager, "scm@sha256:0123");
    insta::assert_snapshot!(shown(&seen), @r#"
    ✗ dry-run/ztwim/cluster                                  the API server cannot ask: Internal error occurred: failed calling webhook "fill.identity.trustplane.io": failed to call webhook: tls: failed to verify certificate: x509: certificate has expired
        → kubectl logs --namespace tp deployment/trustplane-manager --all-pods
    ✓ ztwim/cluster                                          trust domain example.org, namespace spire
    ✗ spireserver/cluster                                    is not ready: Progressing: StatefulSetAvailable: 0 of 1 pods are ready, 1 up to date
        → kubectl describe spireserver/cluster
    ✓ spireagent/cluster                                     is ready
    ! spireagent/cluster                                     has no owner reference to ztwim/cluster with controller and blockOwnerDeletion
        → kubectl logs --namespace tp deployment/trustplane-manager --all-pods
    ✓ spiffecsidriver/cluster                                is ready
    ✗ spireoidcdiscoveryprovider/cluster                     does not exist
        → apply a SpireOIDCDiscoveryProvider named cluster, or leave it out of spec.expectedOperands of ztwim/cluster
    ✗ configmap/spire/spire-bundle                           has no bundle.crt: the server has not written its trust bundle
        → kubectl logs --namespace spire statefulset/spire-server --container spire-server
    ✓ statefulset/spire/spire-server                         spire-server is 1.15.3
    ! statefulset/spire/spire-server                         spire-controller-manager has an unknown version: the image scm@sha256:0123 has a digest and no tag
        → compare by hand, or name the version: identity.images.spireControllerManager.tag
    ✗ daemonset/spire/spire-agent                            spire-agent is 1.16.0: newer than the server, which is 1.15.3, and its configuration is written for 1.15
        → choose another image: helm upgrade with identity.images.spireAgent.tag
    ✓ deployment/spire/spire-spiffe-oidc-discovery-provider  spiffe-oidc-discovery-provider is 1.15.3-ubi9

    not well; to be mended: 5
    "#);
}

#[test]
fn each_fault_of_identity_is_found_by_itself() {
    type Damage = fn(&mut Identity);
    let cases: [(&str, Damage); 19] = [
        ("does not ask fill.identity.trustplane.io", |seen| {
            seen.dry_run = Some(Ok(DryRun::Passed));
        }),
        ("is not valid: spec.trustDomain: it is wrong", |seen| {
            let wrong = condition(
                "ConfigurationValid",
                "False",
                "Conflict",
                "spec.trustDomain: it is wrong",
                3,
            );
            manager(seen).status.conditions = conditions(&[wrong]);
        }),
        ("its last change has no effect yet", |seen| {
            manager(seen).metadata.generation = Some(4);
        }),
        ("has no status", |seen| {
            manager(seen).status = ZtwimStatus::default();
        }),
        ("has no status", |seen| {
            agent(seen).status = OperandCrStatus::default();
        }),
        ("its last change has no effect yet", |seen| {
            agent(seen).metadata.generation = Some(3);
        }),
        ("is not ready: Failed: it is broken", |seen| {
            let failed = condition("Ready", "False", "Failed", "it is broken", 2);
            agent(seen).status.conditions = conditions(&[failed]);
        }),
        ("does not exist", |seen| seen.operands[1].1 = Ok(None)),
        ("could not be seen: you may not look at it", |seen| {
            seen.operands[1].1 = Err(Obstacle::Forbidden);
        }),
        ("does not exist, so no agent starts", |seen| {
            spire_of(seen).certificates = Ok(None);
        }),
        ("could not be seen: you may not look at it", |seen| {
            spire_of(seen).certificates = Err(Obstacle::Forbidden);
        }),
        ("has no bundle.crt", |seen| bundle_of(seen, "\n".to_owned())),
        ("bundle.crt holds no certificate", |seen| {
            bundle_of(seen, "garbage".to_owned());
        }),
        (
            "bundle.crt holds something else than certificates: entry 2",
            |seen| {
                let good = certificate("spiffe://example.org", DAY, DAY / 4);
                bundle_of(
                    seen,
                    format!("{good}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
                );
            },
        ),
        (
            "has no certificate of spiffe://example.org, but of spiffe://old.org",
            |seen| {
                bundle_of(seen, certificate("spiffe://old.org", DAY, DAY / 4));
            },
        ),
        (
            "no certificate of spiffe://example.org is valid: the newest one is from 2026-02-27T11:55:00Z to 2026-02-28T12:00:00Z",
            |seen| {
                bundle_of(seen, certificate("spiffe://example.org", DAY, DAY * 2));
            },
        ),
        (
            "spire-agent is 1.15.4: newer than the server, which is 1.15.3",
            |seen| image_of(seen, Part::Agent, "agent:1.15.4"),
        ),
        (
            "spire-agent is 1.14.0: its configuration is written for 1.15",
            |seen| image_of(seen, Part::Agent, "agent:1.14.0"),
        ),
        (
            "spire-controller-manager is 0.7.0: its configuration is written for 0.6",
            |seen| {
                image_of(seen, Part::ControllerManager, "scm:0.7.0");
            },
        ),
    ];
    for (told, damage) in cases {
        let finding = only_difference(damage);
        assert!(finding.told.contains(told), "{finding:?} should tell: {told}");
        assert!(
            finding.verdict == Verdict::Bad && finding.advice.is_some(),
            "{finding:?}"
        );
    }
}

#[test]
fn what_breaks_nothing_of_identity_is_a_warning() {
    type Damage = fn(&mut Identity);
    let cases: [(&str, Damage); 8] = [
        (
            "cannot tell whether the API server asks the webhooks: you may not try",
            |seen| {
                seen.dry_run = Some(Err(Obstacle::Forbidden));
            },
        ),
        (
            "cannot tell whether the API server asks the webhooks: odd",
            |seen| {
                seen.dry_run = Some(Err(Obstacle::Failed("odd".to_owned())));
            },
        ),
        ("has no owner reference to ztwim/cluster", |seen| {
            owner(seen).uid = "u0".to_owned();
        }),
        ("has no owner reference to ztwim/cluster", |seen| {
            owner(seen).block_owner_deletion = None;
        }),
        (
            "expires in 7 hours, and the server has made no successor",
            |seen| {
                bundle_of(seen, certificate("spiffe://example.org", DAY, DAY * 17 / 24));
            },
        ),
        (
            "expires in 6 days, and the server has made no successor",
            |seen| {
                bundle_of(seen, certificate("spiffe://example.org", DAY * 300, DAY * 294));
            },
        ),
        (
            "spire-agent has an unknown version: the image agent@sha256:0123 has a digest and no tag",
            |seen| {
                image_of(seen, Part::Agent, "agent@sha256:0123");
            },
        ),
        (
            "spire-agent has an unknown version: the tag latest names none",
            |seen| {
                image_of(seen, Part::Agent, "agent:latest");
            },
        ),
    ];
    for (told, damage) in cases {
        let finding = only_difference(damage);
        assert!(finding.told.contains(told), "{finding:?} should tell: {told}");
        assert!(
            finding.verdict == Verdict::Warning && finding.advice.is_some(),
            "{finding:?}"
        );
    }
}

fn owner(seen: &mut Identity) -> &mut OwnerReference {
    &mut agent(seen).metadata.owner_references.as_mut().unwrap()[0]
}

#[test]
fn bundle_with_an_old_and_a_new_certificate_is_well() {
    let old = certificate("spiffe://example.org", DAY, DAY * 2);
    let new = certificate("spiffe://example.org", DAY * 30, DAY);
    let finding = only_difference(|seen| bundle_of(seen, format!("{old}\n{new}")));
    assert_eq!(finding.verdict, Verdict::Good, "{finding:?}");
    assert_eq!(
        finding.told,
        "has a certificate of spiffe://example.org, which expires in 29 days"
    );
}

#[test]
fn operand_that_is_not_expected_may_be_absent() {
    let mut seen = healthy();
    manager(&mut seen).spec.expected_operands = Some(vec![OperandKind::SpireServer]);
    seen.operands[3].1 = Ok(None);
    assert!(Report::new(judge(&seen, &Ok(now()))).well);
    agent(&mut seen).status = OperandCrStatus::default();
    assert!(
        !Report::new(judge(&seen, &Ok(now()))).well,
        "what exists should work"
    );
}

#[test]
fn absent_ztwim_is_a_warning_unless_its_operands_exist() {
    let mut seen = Identity {
        manager: Ok(None),
        operands: OperandKind::ALL.map(|kind| (kind, Ok(None))).to_vec(),
        spire: None,
        ..healthy()
    };
    insta::assert_snapshot!(shown(&seen), @r"
    ✓ dry-run/ztwim/cluster  the API server asks fill.identity.trustplane.io
    ! ztwim/cluster          does not exist, so SPIRE does not run
        → apply a ZeroTrustWorkloadIdentityManager named cluster with spec.trustDomain and spec.clusterName

    works; worth a look: 1
    ");
    seen.operands[0] = ready(OperandKind::SpireServer);
    assert!(shown(&seen).contains("does not exist, so nothing keeps its operands"));
    assert!(!Report::new(judge(&seen, &Ok(now()))).well);
}

#[test]
fn ztwim_that_cannot_be_seen_is_told_with_the_rights() {
    let seen = Identity {
        manager: Err(Obstacle::Forbidden),
        operands: Vec::new(),
        spire: None,
        dry_run: Some(Err(Obstacle::Forbidden)),
        ..healthy()
    };
    insta::assert_snapshot!(shown(&seen), @r"
    ! dry-run/ztwim/cluster  cannot tell whether the API server asks the webhooks: you may not try
        → ask for the right to create zerotrustworkloadidentitymanagers, which is used for a dry run only
    ✗ ztwim/cluster          could not be seen: you may not look at it
        → ask for the right to get zerotrustworkloadidentitymanagers, spireservers, spireagents, spiffecsidrivers and spireoidcdiscoveryproviders

    not well; to be mended: 1
    ");
}

#[test]
fn ztwim_of_another_operator_is_one_warning() {
    let seen = Identity {
        run_by: RunBy::Nobody,
        ..healthy()
    };
    insta::assert_snapshot!(shown(&seen), @r"
    ! ztwim/cluster  no process of Trustplane looks after it
        → unless another operator does: helm upgrade with capabilities.identity.enabled=true

    works; worth a look: 1
    ");
}

#[test]
fn workloads_that_do_not_exist_are_told_by_their_operands_alone() {
    let mut seen = healthy();
    for (_, image) in &mut spire_of(&mut seen).images {
        *image = Ok(None);
    }
    assert!(!shown(&seen).contains("statefulset/"), "{}", shown(&seen));
    for (_, image) in &mut spire_of(&mut seen).images {
        *image = Err(Obstacle::Forbidden);
    }
    let forbidden = shown(&seen);
    assert_eq!(
        forbidden.matches("statefulset/spire/spire-server").count(),
        1,
        "{forbidden}"
    );
    assert!(
        forbidden.contains("ask for the right to get daemonsets in spire"),
        "{forbidden}"
    );
}

#[test]
fn namespace_of_the_operands_is_ztwims_or_the_first_that_is_served() {
    let process = |arguments: &[&str]| Process {
        namespace: "home".to_owned(),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        ..Process::default()
    };
    let mut manager = Manager::default();
    let served = process(&["--identity-namespaces=a,b"]);
    assert_eq!(namespace(&manager, Some(&served)), "a");
    assert_eq!(namespace(&manager, Some(&process(&[]))), "home");
    assert_eq!(
        namespace(&manager, Some(&process(&["--identity-namespaces="]))),
        "home"
    );
    assert_eq!(namespace(&manager, None), DEFAULT_NAMESPACE);
    manager.spec.namespace = Some("said".to_owned());
    assert_eq!(namespace(&manager, Some(&served)), "said");
}

#[test]
fn bundle_is_named_by_either_field_of_ztwim() {
    let bundle = |spec: serde_json::Value| {
        let manager: Manager = serde_json::from_value(json!({ "spec": spec })).unwrap();
        manager.bundle().to_owned()
    };
    assert_eq!(bundle(json!({})), "spire-bundle");
    assert_eq!(bundle(json!({"bundleConfigMap": "short"})), "short");
    assert_eq!(
        bundle(json!({"bundleConfig": {"name": "long"}, "bundleConfigMap": "short"})),
        "long"
    );
}

#[test]
fn process_of_identity_must_have_both_webhooks() {
    let mut process = Process {
        webhooks: vec!["other".to_owned(), admission::FILL.to_owned()],
        ..Process::default()
    };
    assert_eq!(with_webhooks(&process), process.webhooks);
    process.capabilities = vec![CAPABILITY.to_owned()];
    assert_eq!(
        with_webhooks(&process),
        [admission::FILL, admission::JUDGE, "other"]
    );
}
