//! Secret sync on a real node, kept to one namespace: what AWS has, a pod reads as a variable and as a file, also when it has
//! changed there. AWS is played by moto, which listens on the machine's side of the link to the cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test stops at the first surprise, and tells what it saw"
)]

use std::time::Duration;

use serde_json::{Value, json};
use trustplane_cluster::node::PROBE_IMAGE;
use trustplane_cluster::wait;
use trustplane_e2e::chart::Chart;
use trustplane_e2e::scenario::PATIENCE;
use trustplane_e2e::{Arena, Release, say, try_say};
use trustplane_testkit::Moto;
use trustplane_testkit::canary::{Canary, Search};

const REGION: &str = "eu-west-1";
/// The release, its namespace, and so the folder that its pods may read.
const NAME: &str = "keys";
const PATH: &str = "keys/db";
/// Kubelet may look at the volumes of a pod as seldom as every minute and a half.
const KUBELET: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_pod_reads_what_aws_has_and_sees_it_change() {
    let arena = Arena::enter().unwrap();
    let Some(machine) = arena.machine_address() else {
        eprintln!(
            "not run: the pods of a lent cluster would have to reach moto on this machine, and only the link to a \
             cluster of our own is known to lead there; run it without --kubeconfig"
        );
        return;
    };
    arena.load("manager").unwrap();
    let moto = Moto::start_on(machine.into()).await.unwrap();
    let [first, second] = ["first", "second"].map(Canary::new);
    let secret = json!({ "Name": PATH, "SecretString": content(&first) });
    moto.secrets_manager(REGION, "CreateSecret", &secret)
        .await
        .unwrap();

    let release = Release::named(&arena, NAME).unwrap();
    let values = values(&moto);
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    release
        .install(&Chart::of_the_product().unwrap(), &values)
        .unwrap();
    release.apply(&deployment()).unwrap();
    say(&mut release.kubectl(&["rollout", "status", "deployment/shop", "--timeout=60s"]))
        .inspect_err(|_| release.explain())
        .unwrap();
    assert_eq!(file(&release), first.value());
    assert_eq!(variable(&release).as_deref(), Some(first.value()));
    assert_eq!(
        [NAME, "kube-system"].map(|namespace| may_list_secrets(&release, namespace)),
        [true, false],
        "it is kept to one namespace"
    );

    let changed = json!({ "SecretId": PATH, "SecretString": content(&second) });
    moto.secrets_manager(REGION, "PutSecretValue", &changed)
        .await
        .unwrap();
    annotate(&release, "jasm.codnod.io/force-sync=1");
    wait::until("the Secret to follow", PATIENCE, || {
        let template = "--output=go-template={{.data.password | base64decode}}";
        let live = say(&mut release.kubectl(&["get", "secret", "db", template]))?;
        Ok((live == second.value()).then_some(()))
    })
    .inspect_err(|_| release.explain())
    .unwrap();
    // Kubelet also looks at the volumes of a pod that has changed, which saves the wait for its next round.
    annotate(&release, "test.trustplane.io/look=1");
    wait::until("the file to follow", KUBELET, || {
        Ok((file(&release) == second.value()).then_some(()))
    })
    .unwrap();
    assert_eq!(
        variable(&release).as_deref(),
        Some(first.value()),
        "variables stay as they were when the container started"
    );

    let mut search = Search::for_canaries([&first, &second]);
    let manager = "deployment/keys-trustplane-manager";
    search.text("the log", &say(&mut release.kubectl(&["logs", manager])).unwrap());
    let events = release.read(&["get", "events"]).unwrap();
    search.json("the events", &events).unwrap();
    search.assert_clean();
}

/// What AWS has.
fn content(password: &Canary) -> String {
    json!({ "password": password.value() }).to_string()
}

/// The chart's values by which the manager finds moto.
fn values(moto: &Moto) -> Vec<String> {
    let (_, port) = moto.endpoint().rsplit_once(':').unwrap();
    let mut values = vec![
        "deployment.replicas=1".to_owned(),
        format!("capabilities.sync.namespaces[0]={NAME}"),
        format!("hsm.secretNamespaces[0]={NAME}"),
        format!("networkPolicy.extraEgress[0].ports[0].port={port}"),
    ];
    let variables = [
        ("AWS_ENDPOINT_URL", moto.endpoint()),
        ("AWS_REGION", REGION),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "example"),
    ];
    for (index, (name, value)) in variables.into_iter().enumerate() {
        values.push(format!("deployment.extraEnv[{index}].name={name}"));
        values.push(format!("deployment.extraEnv[{index}].value={value}"));
    }
    values
}

fn may_list_secrets(release: &Release<'_>, namespace: &str) -> bool {
    let user = format!("--as=system:serviceaccount:{NAME}:{NAME}-trustplane-manager");
    let namespace = format!("--namespace={namespace}");
    let asked = try_say(&mut release.kubectl(&["auth", "can-i", "list", "secrets", &user, &namespace]));
    asked.unwrap().status.success()
}

/// A workload that cannot start before its Secret is there.
fn deployment() -> Value {
    let labels = json!({ "app": "shop" });
    let asks = format!("provider: aws-secretsmanager\npath: {PATH}\nsecretName: db\n");
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "shop", "namespace": NAME },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels, "annotations": { "jasm.codnod.io/secret-sync": asks } },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
                    "containers": [{
                        "name": "main",
                        "image": PROBE_IMAGE,
                        "imagePullPolicy": "IfNotPresent",
                        "args": ["pause"],
                        "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
                        "env": [{
                            "name": "PASSWORD",
                            "valueFrom": { "secretKeyRef": { "name": "db", "key": "password" } },
                        }],
                        "volumeMounts": [{ "name": "db", "mountPath": "/db", "readOnly": true }],
                    }],
                    "volumes": [{ "name": "db", "secret": { "secretName": "db" } }],
                },
            },
        },
    })
}

/// The mounted file, as the container sees it.
fn file(release: &Release<'_>) -> String {
    inside(release, "/db/password")
}

/// The variable that the container was started with.
fn variable(release: &Release<'_>) -> Option<String> {
    let variables = inside(release, "/proc/1/environ");
    variables
        .split('\0')
        .find_map(|variable| variable.strip_prefix("PASSWORD="))
        .map(str::to_owned)
}

fn inside(release: &Release<'_>, file: &str) -> String {
    say(&mut release.kubectl(&["exec", "deployment/shop", "--", "/probe", "cat", file])).unwrap()
}

fn annotate(release: &Release<'_>, annotation: &str) {
    say(&mut release.kubectl(&["annotate", "pods", "--selector=app=shop", annotation])).unwrap();
}
