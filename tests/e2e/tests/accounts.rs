//! One Deployment for each capability, each with an account of its own, on a real node.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use trustplane_cluster::wait;
use trustplane_e2e::chart::Chart;
use trustplane_e2e::scenario::PATIENCE;
use trustplane_e2e::{Arena, Release, say, try_say};

fn may(release: &Release<'_>, account: &str, verb: &str, resource: &str) -> bool {
    let user = format!("--as=system:serviceaccount:{}:{account}", release.name());
    try_say(&mut release.kubectl(&["auth", "can-i", verb, resource, &user]))
        .unwrap()
        .status
        .success()
}

#[test]
fn a_capability_runs_in_a_process_of_its_own_with_its_own_rights() {
    let arena = Arena::enter().unwrap();
    let release = Release::named(&arena, "split").unwrap();
    let chart = Chart::of_the_sample().unwrap();
    release
        .install(
            &chart,
            &["deployment.perCapability=true", "deployment.replicas=1"],
        )
        .unwrap();
    release.mirrors_work("one").unwrap();

    let account = "split-trustplane-mirror";
    assert!(may(&release, account, "watch", "mirrors.test.trustplane.io"));
    assert!(may(
        &release,
        account,
        "update",
        "leases.coordination.k8s.io/split-trustplane-mirror"
    ));
    for (verb, resource) in [
        ("update", "leases.coordination.k8s.io/somebody-elses"),
        ("delete", "pods"),
        ("create", "clusterroles.rbac.authorization.k8s.io"),
        ("get", "nodes"),
    ] {
        assert!(
            !may(&release, account, verb, resource),
            "{account} may {verb} {resource}"
        );
    }
    let well = try_say(&mut release.plugin(&["check"])).unwrap();
    assert!(well.status.success(), "{}", well.out);

    // Back to one process for all: nothing of the other stays, and the work goes on.
    release.install(&chart, &["deployment.replicas=1"]).unwrap();
    release.mirrors_work("two").unwrap();
    wait::until("the old process to go", PATIENCE, || {
        let ours = "--selector=app.kubernetes.io/component=manager-mirror";
        let left =
            say(&mut release.kubectl(&["get", "deployments,pods,serviceaccounts,leases,roles", ours]))?;
        Ok(left.is_empty().then_some(()))
    })
    .unwrap();
    for name in ["one", "two"] {
        release.mirrors_clean_up(name).unwrap();
    }
}
