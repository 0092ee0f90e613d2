//! The plugin on a real cluster: it sees what is well, and names what is not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::fs;

use serde_json::Value;
use trustplane_cluster::wait;
use trustplane_e2e::chart::Chart;
use trustplane_e2e::scenario::{DEFINITION, PATIENCE};
use trustplane_e2e::{Arena, Release, Said, say, try_say};

fn check(release: &Release<'_>) -> Said {
    try_say(&mut release.plugin(&["check"])).unwrap()
}

/// Waits until the check says this, well or not.
fn wait_for(release: &Release<'_>, well: bool, told: &str) {
    let mut last = String::new();
    wait::until(told, PATIENCE, || {
        let said = check(release);
        let matches = said.status.success() == well && said.out.contains(told);
        last = said.out;
        Ok(matches.then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}; the check said:\n{last}"));
}

#[test]
fn check_passes_on_what_is_well_and_names_what_is_not() {
    let arena = Arena::enter().unwrap();
    let release = Release::named(&arena, "look").unwrap();
    let empty = check(&release);
    assert!(
        !empty.status.success() && empty.out.contains("no Deployment of Trustplane was found"),
        "{}",
        empty.out
    );

    let chart = Chart::of_the_sample().unwrap();
    release.install(&chart, &["deployment.replicas=1"]).unwrap();
    wait_for(&release, true, "all is well");
    let well = check(&release).out;
    for line in [
        "✓ deployment/look-trustplane-manager",
        "✓ lease/look-trustplane-manager",
        &format!("✓ crd/{DEFINITION}"),
    ] {
        assert!(well.contains(line), "{line} is not in:\n{well}");
    }

    let versions = say(&mut release.plugin(&["version", "--output", "json"])).unwrap();
    let versions: Value = serde_json::from_str(&versions).unwrap();
    assert_eq!(versions["processes"][0]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        versions["processes"][0]["capabilities"],
        serde_json::json!(["mirror"])
    );

    say(&mut release.kubectl(&["scale", "deployment/look-trustplane-manager", "--replicas=0"])).unwrap();
    wait_for(&release, false, "is scaled to zero");
    wait_for(&release, false, "nobody leads");
    wait_for(&release, false, "no endpoints available");

    arena.remove_definitions().unwrap();
    wait_for(&release, false, &format!("✗ crd/{DEFINITION}"));

    // The advice is: helm upgrade. It mends all of it.
    release.install(&chart, &["deployment.replicas=1"]).unwrap();
    wait_for(&release, true, "all is well");
}

#[test]
fn who_may_not_look_is_told_so() {
    let arena = Arena::enter().unwrap();
    let release = Release::named(&arena, "blind").unwrap();
    let token = say(&mut release.kubectl(&["create", "token", "default"])).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    fs::copy(arena.kubeconfig(), &kubeconfig).unwrap();
    let path = kubeconfig.to_string_lossy().into_owned();
    let edit = |arguments: &[&str]| {
        say(arena
            .kubectl(&["config"])
            .args(arguments)
            .args(["--kubeconfig", &path]))
        .unwrap()
    };
    edit(&["set-credentials", "nobody", "--token", token.trim()]);
    edit(&["set-context", "--current", "--user=nobody"]);

    let said = try_say(&mut arena.plugin_as(&kubeconfig, &["check", "--namespace", release.name()])).unwrap();
    assert!(!said.status.success());
    assert!(
        said.out.contains("✗ installation") && said.out.contains("you may not look at it"),
        "{}{}",
        said.out,
        said.err
    );
}
