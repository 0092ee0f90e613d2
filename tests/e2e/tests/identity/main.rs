//! Workload identity on a real node: the chart, five objects, and a pod that reads its SVID. SPIRE is built from its sources; the CSI driver
//! is a stand-in.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test stops at the first surprise, and tells what it saw"
)]

mod discovery;
mod stage;
mod workload;

use std::time::Instant;

use serde_json::{Value, json};
use trustplane_cluster::cache::Cache;
use trustplane_e2e::chart::Chart;
use trustplane_e2e::{Arena, Release, say, try_say};

use stage::{SPIRE, Stage};

/// The release and its namespace.
const NAME: &str = "ident";
/// The name of the cluster after the change.
const RENAMED: &str = "renamed";

#[test]
fn a_pod_reads_its_svid_and_follows_a_change_of_the_cluster_name() {
    let arena = Arena::enter().unwrap();
    let Some(cluster) = arena.cluster() else {
        eprintln!(
            "not run: it needs images of SPIRE and a volume on a node of our own; run it without --kubeconfig"
        );
        return;
    };
    arena.load("manager").unwrap();
    let images = cluster.load_spire(&Cache::locate().unwrap()).unwrap();
    // The manager of an interrupted test goes first: it would make its objects again.
    let release = Release::named(&arena, NAME).unwrap();
    let stage = Stage::set(&arena, cluster);
    let mut values = vec![
        "capabilities.sync.enabled=false".to_owned(),
        "capabilities.hsm.enabled=false".to_owned(),
        "capabilities.identity.enabled=true".to_owned(),
        format!("capabilities.identity.namespaces={{{SPIRE}}}"),
    ];
    for image in &images {
        values.push(format!("identity.images.{}.registry=trustplane.local", image.key));
        values.push(format!(
            "identity.images.{}.repository={}",
            image.key, image.repository
        ));
        values.push(format!("identity.images.{}.tag={}", image.key, image.tag));
    }
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    release
        .install(&Chart::of_the_product().unwrap(), &values)
        .unwrap();

    let begun = Instant::now();
    stage.apply_example("quickstart.yaml");
    stage.is_ready();
    eprintln!("SPIRE runs {:.1?} after its five objects", begun.elapsed());
    stage.apply_example("workload.yaml");
    let first = stage.workload().svid();
    eprintln!("a pod has its SVID {:.1?} after them", begun.elapsed());
    assert_eq!(first.id, "spiffe://example.org/ns/identity-shop/sa/web");

    contradictions_are_refused(&stage);
    discovery::names_the_issuer_and_has_keys(&stage);
    let well = try_say(&mut release.plugin(&["check"])).unwrap();
    assert!(
        well.status.success() && well.out.contains("all is well"),
        "{}{}",
        well.out,
        well.err
    );

    cluster_name_changes(&stage);
    let second = stage.workload().svid_after(&first);
    assert_eq!(second.id, first.id);

    everything_goes_but_the_volume(&stage);
    release.uninstall().unwrap();
    stage.clear();
}

/// A second opinion about a shared value is refused, with the way out, and leaves no trace; a dry run is judged alike.
fn contradictions_are_refused(stage: &Stage<'_>) {
    let before = stage.versions();
    let other = r#"--patch={"spec": {"trustDomain": "other.example"}}"#;
    let patch = ["patch", "spireagent", "cluster", "--type=merge", other];
    for dry in [&[][..], &["--dry-run=server"]] {
        let said = try_say(stage.kubectl(&patch).args(dry)).unwrap();
        assert!(!said.status.success(), "{}", said.out);
        for word in [
            "spec.trustDomain",
            "other.example",
            "example.org",
            "ZeroTrustWorkloadIdentityManager",
            "rule 4",
            "kubectl patch",
        ] {
            assert!(said.err.contains(word), "{word} is not in: {}", said.err);
        }
    }
    let rename = format!(r#"--patch={{"spec": {{"clusterName": "{RENAMED}"}}}}"#);
    let dry = [
        "patch",
        "ztwim",
        "cluster",
        "--type=merge",
        &rename,
        "--dry-run=server",
    ];
    say(&mut stage.kubectl(&dry)).unwrap();
    assert_eq!(stage.versions(), before, "somebody wrote");
}

/// One change of the ZeroTrustWorkloadIdentityManager reaches the operands, and the pods that have it in their configuration roll.
fn cluster_name_changes(stage: &Stage<'_>) {
    let before = stage.pods_of_spire();
    let changed = Instant::now();
    let rename = format!(r#"--patch={{"spec": {{"clusterName": "{RENAMED}"}}}}"#);
    say(&mut stage.kubectl(&["patch", "ztwim", "cluster", "--type=merge", &rename])).unwrap();
    let has_it = format!("--for=jsonpath={{.spec.clusterName}}={RENAMED}");
    let operands = [
        "wait",
        "spireserver/cluster",
        "spireagent/cluster",
        "--timeout=5s",
        &has_it,
    ];
    say(&mut stage.kubectl(&operands)).unwrap();
    eprintln!("the operands have it after {:.1?}", changed.elapsed());
    // Ready speaks of what was said last: whoever waits for it finds the new pods.
    stage.is_ready();
    eprintln!("SPIRE runs with it after {:.1?}", changed.elapsed());
    let now = stage.pods_of_spire();
    for (part, rolls) in [
        ("spire-server", true),
        ("spire-agent", true),
        // Its configuration does not name the cluster, and pods keep its mounts.
        ("spiffe-csi-driver", false),
    ] {
        let pod = now.iter().find(|pod| pod.part == part).expect(part);
        let is_new = !before.iter().any(|old| old.uid == pod.uid);
        assert_eq!((is_new, pod.ready), (rolls, true), "{part}");
    }
}

/// The deletion of the one object ends everything that came of it; what the server has stored outlives it.
fn everything_goes_but_the_volume(stage: &Stage<'_>) {
    // Nobody unmounts a volume once the driver is gone, so people's pods go first. The driver waits for those of the OIDC discovery provider.
    stage.workload().end();
    say(&mut stage.kubectl(&["delete", "ztwim", "cluster", "--timeout=60s"])).unwrap();
    stage.until("the operands, their children and their pods to go", || {
        let left = stage.children();
        stage.note(&left);
        (left.is_empty() && stage.pods_of_spire().is_empty()).then_some(())
    });
    let claim = stage.read(&["get", "pvc", "spire-data-spire-server-0"]);
    assert_eq!(claim["status"]["phase"], json!("Bound"));
    assert_eq!(claim["metadata"]["deletionTimestamp"], Value::Null);
}
