//! The demo, from an empty stage to an empty stage.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use trustplane_cluster::cache::Cache;
use trustplane_cluster::site::Site;
use trustplane_e2e::{borrowed, say, xtask};

#[test]
fn the_demo_tells_its_story_and_clears_up() {
    // Named like the other clusters of a test run, so that its end also ends this one, whatever happens.
    let run = std::env::var("TRUSTPLANE_TEST_CLUSTER").unwrap_or_else(|_| "test-shared".to_owned());
    let name = format!("{run}-demo");
    let mut demo = xtask();
    demo.args(["demo", "--exit"]);
    match borrowed() {
        Some(kubeconfig) => demo.arg("--kubeconfig").arg(kubeconfig),
        None => demo.args(["--name", &name]),
    };
    let told = say(&mut demo).unwrap();
    let titles: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    let mut expected = vec![
        "A cluster",
        "The admin installs Trustplane",
        "One replica works, the other is ready",
        "The manager can do little else",
        "The admin asks whether all is well",
        "A developer asks for a secret",
        "Another pod asks for too much",
    ];
    let mut lines = vec![
        "all is well",
        "Secret db synced from env path shop/db",
        "no policy allows this request",
        "registered as \"demo\" at the hub",
        "obsykagent.obsyk.io/inventory condition met",
        "http://127.0.0.1:",
        // What the browser saw.
        "the fleet has the cluster demo",
        "the namespace shop has the pods nosy, web",
        "the pod visitor appeared on the page, without a reload",
        "the pod visitor vanished from the page, without a reload",
    ];
    // The tokens are directories of our own nodes, and these have images of SPIRE.
    if borrowed().is_none() {
        expected.extend([
            "The admin adds two hardware tokens",
            "A person puts a secret on the tokens",
            "A developer gets it as a Secret",
            "The value changes on the tokens",
            "The admin switches workload identity on",
            "The admin says the trust domain once",
            "A pod reads its identity",
            "Another value is refused",
        ]);
        lines.extend([
            "pod/reader condition met",
            "SecretDelivered",
            // What the pod read.
            "/etc/db/password: correct-horse",
            "/etc/db/password: battery-staple",
            "zerotrustworkloadidentitymanager.operator.openshift.io/cluster condition met",
            "spiffe://example.org/ns/identity-shop/sa/web",
            "denied the request: spec.trustDomain",
        ]);
    }
    expected.extend([
        "The admin switches the inventory on",
        "The admin enrols the cluster",
        "A person looks at the cluster",
    ]);
    let numbered: Vec<String> = (1..)
        .zip(expected)
        .map(|(number, title)| format!("{number}. {title}"))
        .collect();
    assert_eq!(titles, numbered);
    for line in lines {
        assert!(told.contains(line), "{line} is not in:\n{told}");
    }
    let site = Site::new(&Cache::locate().unwrap(), name.parse().unwrap());
    assert!(site.state().unwrap().is_none(), "the demo left its cluster");
}
