use std::collections::BTreeMap;

use super::*;
use crate::installation::Process;
use crate::style::Style;

const NOW: &str = "2026-01-01T00:00:10Z";

fn healthy() -> Observation {
    let process = Process {
        namespace: "tp".into(),
        name: "trustplane-manager".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        image: "localhost/trustplane/manager:0.1.0".into(),
        ready: 2,
        desired: 2,
        current: true,
        selector: "app.kubernetes.io/component=manager".into(),
        lease: Some("trustplane-manager".into()),
        ..Process::default()
    };
    let lease = LeaseView {
        holder: "trustplane-manager-7d9-x2x-0a1b2c3d".into(),
        renewed: Some("2026-01-01T00:00:08Z".parse().unwrap()),
        seconds: 15,
    };
    let webhook = Webhook {
        has_authority: true,
        answer: Ok(Answer::Answered),
    };
    let view = ProcessView {
        process,
        pods: Ok(vec![]),
        lease: Some(Ok(Some(lease))),
        webhooks: BTreeMap::from([("mirrors.sample.trustplane.io".to_owned(), Ok(Some(webhook)))]),
    };
    let crd = CrdView {
        established: Ok(Some(true)),
        may_read: Ok(true),
        may_write: Ok(true),
    };
    Observation {
        server: Ok("v1.36.4".into()),
        now: Ok(NOW.parse().unwrap()),
        processes: Ok(vec![view]),
        crds: BTreeMap::from([("mirrors.sample.trustplane.io".to_owned(), crd)]),
        tokens: None,
        identity: None,
    }
}

fn shown(observation: &Observation) -> String {
    let mut out = Vec::new();
    judge(observation).people(Style::plain(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn broken(damage: impl FnOnce(&mut Observation)) -> Report {
    let mut observation = healthy();
    damage(&mut observation);
    judge(&observation)
}

fn first(observation: &mut Observation) -> &mut ProcessView {
    &mut observation.processes.as_mut().unwrap()[0]
}

/// The one finding that differs from a healthy installation's.
fn only_difference(report: &Report) -> Finding {
    let good = judge(&healthy()).findings;
    let mut differing = report.findings.iter().filter(|finding| !good.contains(finding));
    let finding = differing.next().cloned().unwrap();
    assert_eq!(differing.next(), None, "one fault, one finding");
    finding
}

#[test]
fn a_healthy_installation_is_well() {
    assert!(judge(&healthy()).well);
    insta::assert_snapshot!(shown(&healthy()), @r"
    ✓ cluster                               answers, Kubernetes v1.36.4
    ✓ deployment/trustplane-manager         2 of 2 replicas are available
    ✓ lease/trustplane-manager              trustplane-manager-7d9-x2x-0a1b2c3d leads
    ✓ webhook/mirrors.sample.trustplane.io  has a caBundle and answers
    ✓ crd/mirrors.sample.trustplane.io      is established
    ✓ rights/mirrors.sample.trustplane.io   you may read and write it

    all is well
    ");
}

#[test]
fn nothing_installed_says_how_to_install() {
    let observation = Observation {
        processes: Ok(vec![]),
        crds: BTreeMap::new(),
        ..healthy()
    };
    insta::assert_snapshot!(shown(&observation), @r"
    ✓ cluster       answers, Kubernetes v1.36.4
    ✗ installation  no Deployment of Trustplane was found
        → install it: helm install trustplane charts/trustplane --namespace trustplane --create-namespace

    not well; to be mended: 1
    ");
}

#[test]
fn a_cluster_that_does_not_answer_is_one_story() {
    let gone = || Obstacle::Failed("connection refused".into());
    let observation = Observation {
        server: Err(gone()),
        now: Err(gone()),
        processes: Err(gone()),
        crds: BTreeMap::new(),
        tokens: None,
        identity: None,
    };
    insta::assert_snapshot!(shown(&observation), @r"
    ✗ cluster       could not be seen: connection refused
        → look at --kubeconfig and --context: kubectl version
    ✗ installation  could not be seen: connection refused
        → name a namespace that you may look at: --namespace

    not well; to be mended: 2
    ");
}

#[test]
fn several_faults_are_listed_with_what_to_do() {
    let mut observation = healthy();
    let view = first(&mut observation);
    view.process.ready = 0;
    view.pods = Ok(vec![PodView {
        name: "trustplane-manager-7d9-x2x".into(),
        waiting: Some(("ErrImagePull".into(), "failed to pull".into())),
    }]);
    view.lease = Some(Ok(Some(LeaseView {
        holder: String::new(),
        renewed: None,
        seconds: 0,
    })));
    view.webhooks.insert("x.trustplane.io".into(), Ok(None));
    observation
        .crds
        .get_mut("mirrors.sample.trustplane.io")
        .unwrap()
        .established = Ok(None);
    insta::assert_snapshot!(shown(&observation), @r"
    ✓ cluster                               answers, Kubernetes v1.36.4
    ✗ deployment/trustplane-manager         0 of 2 replicas are available; pod trustplane-manager-7d9-x2x waits: ErrImagePull
        → make the image localhost/trustplane/manager:0.1.0 available to the node, or set image.registry
    ✗ lease/trustplane-manager              nobody leads, so nothing is reconciled
        → kubectl logs --namespace tp deployment/trustplane-manager --all-pods
    ✓ webhook/mirrors.sample.trustplane.io  has a caBundle and answers
    ✗ webhook/x.trustplane.io               is configured nowhere
        → install the chart again: helm upgrade
    ✗ crd/mirrors.sample.trustplane.io      does not exist
        → install it: helm upgrade with crds.install=true
    ✓ rights/mirrors.sample.trustplane.io   you may read and write it

    not well; to be mended: 4
    ");
}

#[test]
fn each_fault_is_found_by_itself() {
    type Damage = fn(&mut Observation);
    let cases: [(&str, Damage); 10] = [
        ("is scaled to zero", |o| first(o).process.desired = 0),
        ("1 of 2 replicas are available", |o| first(o).process.ready = 1),
        ("newest version is not rolled out", |o| {
            first(o).process.current = false;
        }),
        ("does not exist", |o| first(o).lease = Some(Ok(None))),
        ("was last heard of 16 s ago", |o| {
            first(o)
                .lease
                .as_mut()
                .unwrap()
                .as_mut()
                .unwrap()
                .as_mut()
                .unwrap()
                .renewed = Some("2025-12-31T23:59:54Z".parse().unwrap());
        }),
        ("has no caBundle", |o| webhook_of(o).has_authority = false),
        ("does not serve its path", |o| {
            webhook_of(o).answer = Ok(Answer::UnknownPath);
        }),
        ("nobody answers: no endpoints", |o| {
            webhook_of(o).answer = Ok(Answer::Nobody("no endpoints".into()));
        }),
        ("is not established", |o| crd_of(o).established = Ok(Some(false))),
        ("you may not look at it", |o| {
            crd_of(o).established = Err(Obstacle::Forbidden);
        }),
    ];
    for (told, damage) in cases {
        let report = broken(damage);
        let finding = only_difference(&report);
        assert!(finding.told.contains(told), "{finding:?} should tell: {told}");
        assert!(!report.well && finding.advice.is_some(), "{finding:?}");
    }
}

#[test]
fn what_only_limits_the_user_is_a_warning() {
    type Damage = fn(&mut Observation);
    let cases: [(&str, Damage); 4] = [
        ("may not try whether it answers", |o| {
            webhook_of(o).answer = Err(Obstacle::Forbidden);
        }),
        ("you may not read it", |o| crd_of(o).may_read = Ok(false)),
        ("you may read it, but not write it", |o| {
            crd_of(o).may_write = Ok(false);
        }),
        ("runs version \"9.9.9\"", |o| {
            first(o).process.version = "9.9.9".into();
        }),
    ];
    for (told, damage) in cases {
        let report = broken(damage);
        let finding = only_difference(&report);
        assert!(finding.told.contains(told), "{finding:?} should tell: {told}");
        assert!(report.well, "{finding:?} breaks nothing");
    }
}

#[test]
fn programs_read_the_same_findings() {
    let report = broken(|o| crd_of(o).may_write = Ok(false));
    insta::assert_yaml_snapshot!(report, @r#"
    well: true
    findings:
      - subject: cluster
        verdict: good
        told: "answers, Kubernetes v1.36.4"
      - subject: deployment/trustplane-manager
        verdict: good
        told: 2 of 2 replicas are available
      - subject: lease/trustplane-manager
        verdict: good
        told: trustplane-manager-7d9-x2x-0a1b2c3d leads
      - subject: webhook/mirrors.sample.trustplane.io
        verdict: good
        told: has a caBundle and answers
      - subject: crd/mirrors.sample.trustplane.io
        verdict: good
        told: is established
      - subject: rights/mirrors.sample.trustplane.io
        verdict: warning
        told: "you may read it, but not write it"
        advice: "ask for the right to create, update and delete mirrors.sample.trustplane.io"
    "#);
}

fn webhook_of(observation: &mut Observation) -> &mut Webhook {
    let webhooks = &mut first(observation).webhooks;
    webhooks
        .get_mut("mirrors.sample.trustplane.io")
        .unwrap()
        .as_mut()
        .unwrap()
        .as_mut()
        .unwrap()
}

fn crd_of(observation: &mut Observation) -> &mut CrdView {
    observation.crds.get_mut("mirrors.sample.trustplane.io").unwrap()
}
