//! The shipped binary with the capability inventory, as the shipped account with the shipped rights.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and tells its figures"
)]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use anyhow::{Context, Result};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, CustomResourceExt, ResourceExt};
use serde_json::json;
use trustplane_api::inventory::ObsykAgent;
use trustplane_inventory_stream::CREDENTIALS;
use trustplane_kit::manager::process_rights;
use trustplane_kit::rights::Place;
use trustplane_testkit::canary::{Canary, Search};
use trustplane_testkit::platform::{Endpoint, Platform, Settings, State};
use trustplane_testkit::{
    Account, ControlPlane, DEADLINE, Process, Program, Rules, Sandbox, until, wait_for_some,
};

/// The name that the chart would give it.
const MANAGER: &str = "tp-trustplane-manager";
const SECRET: &str = "obsyk-credentials";
/// The memory limit of the chart.
const LIMIT_MIB: u64 = 128;
const MANY: usize = 10_000;

struct Stage {
    sandbox: Sandbox,
    account: Account,
    platform: Platform,
    /// A line of the private key.
    key: String,
}

impl Stage {
    async fn new(name: &str, settings: Settings) -> Result<Self> {
        let plane = ControlPlane::own().await?;
        plane.install(&[ObsykAgent::crd()]).await?;
        let sandbox = Sandbox::on(plane, name).await?;
        let rights = process_rights(MANAGER).and(trustplane_inventory_stream::rights());
        let mut namespaced = rights.of(Place::Home);
        for name in namespaced
            .iter_mut()
            .flat_map(|rule| rule.resource_names.iter_mut().flatten())
        {
            if name == CREDENTIALS {
                SECRET.clone_into(name);
            }
        }
        let rules = Rules {
            cluster: rights.wide(),
            namespaced,
        };
        let account = sandbox.apply_rbac("manager", &rules).await?;
        let platform = Platform::start(settings).await?;
        let mut stage = Self {
            sandbox,
            account,
            platform,
            key: String::new(),
        };
        stage.enrol().await?;
        Ok(stage)
    }

    /// A key pair, the Secret with it, and the object of the agent.
    async fn enrol(&mut self) -> Result<()> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
        let pem = |label: &str, der: &[u8]| {
            let body = BASE64_STANDARD.encode(der);
            format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
        };
        self.platform
            .register("client-1", &pem("PUBLIC KEY", public.as_ref()))?;
        let private = pem("PRIVATE KEY", pair.to_pkcs8v1().unwrap().as_ref());
        self.key = private.lines().nth(1).unwrap_or_default().to_owned();
        let secret = Patch::Merge(json!({"stringData": {"client_id": "client-1", "private_key": private}}));
        let secrets = self.sandbox.api::<Secret>();
        secrets.patch(SECRET, &PatchParams::default(), &secret).await?;
        let agent: ObsykAgent = serde_json::from_value(json!({
            "metadata": {"name": "main"},
            "spec": {
                "platformURL": self.platform.url(), "clusterName": "test", "credentialsSecretRef": {"name": SECRET},
                "rateLimit": {"eventsPerSecond": 1000, "burstSize": 1000},
            },
        }))?;
        self.sandbox.api().create(&PostParams::default(), &agent).await?;
        Ok(())
    }

    async fn start(&self, name: &str) -> Result<Process> {
        let program = Program::new(env!("CARGO_BIN_EXE_trustplane-manager"))
            .arg("--capabilities=inventory")
            .arg(format!("--name={MANAGER}"))
            .arg("--admin-bind-address=127.0.0.1:0")
            .arg("--webhook-bind-address=0")
            .arg("--log-format=json")
            .arg("--log=debug");
        program.start(&self.account.instance(name).await?)
    }

    fn pods(&self) -> Api<Pod> {
        self.sandbox.api()
    }

    /// Makes pods with a usual amount of fields.
    async fn furnish(&self, names: impl IntoIterator<Item = String>) -> Result<()> {
        wait_for_some(&self.sandbox.api::<ServiceAccount>(), "default", DEADLINE, |_| {
            true
        })
        .await?;
        let pods = Arc::new(self.pods());
        let made = names.into_iter().map(|name| {
            let pods = pods.clone();
            async move {
                let container = |name: &str| {
                    json!({
                        "name": name, "image": format!("registry.example/shop/{name}:1.2.3"),
                        "env": (0..8).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "x"})).collect::<Vec<_>>(),
                        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
                    })
                };
                let pod = serde_json::from_value(json!({
                    "metadata": {"name": name, "labels": {"app": "shop", "tier": "web"}, "annotations": {"team": "shop"}},
                    "spec": {"containers": [container("main"), container("sidecar")]},
                }))?;
                pods.create(&PostParams::default(), &pod).await.map(drop).context("create a pod")
            }
        });
        futures::stream::iter(made)
            .buffer_unordered(32)
            .try_collect::<()>()
            .await
    }

    /// Waits until the platform has exactly the pods of the cluster.
    async fn same_pods(&self) -> Result<()> {
        until("the platform to have the pods", DEADLINE, || async {
            let live = Api::<Pod>::all(self.sandbox.client())
                .list(&ListParams::default())
                .await?;
            let live: BTreeSet<_> = live.items.iter().filter_map(Pod::uid).collect();
            let told = self.platform.read(State::projections).into_keys();
            let told: BTreeSet<_> = told
                .filter(|(kind, _)| kind == "Pod")
                .map(|(_, uid)| uid)
                .collect();
            Ok((live == told).then_some(()))
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_manager_leaves_no_change_untold() -> Result<()> {
    let stage = Stage::new("killed", Settings::default()).await?;
    let canary = Canary::new("a value of a Secret and of an annotation");
    let manifest = json!({"kind": "Secret", "data": {"password": canary.value()}}).to_string();
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "db", "annotations": {"anything": manifest}}, "stringData": {"password": canary.value()},
    }))?;
    stage
        .sandbox
        .api()
        .create(&PostParams::default(), &secret)
        .await?;
    stage.furnish((0..50).map(|n| format!("pod-{n}"))).await?;
    let first = stage.start("first").await?;
    stage.same_pods().await?;
    // It neither leads nor sends while the first one does.
    let second = stage.start("second").await?;
    stage.furnish((50..60).map(|n| format!("pod-{n}"))).await?;
    stage.same_pods().await?;
    assert_eq!(stage.platform.read(|state| state.accepted(Endpoint::Snapshot)), 1);

    let mut logs = first.log()?;
    first.kill().await?;
    for n in 0..20 {
        let now = DeleteParams::default().grace_period(0);
        stage.pods().delete(&format!("pod-{n}"), &now).await?;
    }
    stage.furnish((60..65).map(|n| format!("pod-{n}"))).await?;
    stage.same_pods().await?;

    // What is pending goes out before an orderly end.
    let mut second = second;
    stage.furnish(["last".to_owned()]).await?;
    stage
        .platform
        .wait("the last pod", |state| {
            state
                .projections()
                .values()
                .any(|object| object["name"] == "last")
        })
        .await?;
    second.terminate()?;
    assert!(second.ended(DEADLINE).await?.success(), "{}", second.log()?);
    logs += &second.log()?;
    let mut search = Search::for_canaries([&canary]);
    search.text("the logs", &logs);
    search.assert_clean();
    assert!(!logs.contains(&stage.key), "the private key is in the logs");
    let tokens = stage.platform.tokens();
    assert!(
        !tokens.is_empty() && !tokens.iter().any(|token| logs.contains(token)),
        "a token is in the logs"
    );
    Ok(())
}

/// The address of the admin port, as the log names it.
async fn admin(manager: &Process) -> Result<String> {
    until("the admin port", DEADLINE, || async {
        let log = manager.log()?;
        let address = log
            .split("\"admin\":\"[")
            .nth(1)
            .and_then(|rest| rest.split(']').next());
        Ok(address.map(str::to_owned))
    })
    .await
}

/// The whole answer to a GET.
fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_answer_ok_while_the_platform_is_unreachable() -> Result<()> {
    let stage = Stage::new("unreachable", Settings::default()).await?;
    stage.platform.close().await;
    let manager = stage.start("first").await?;
    let is_told = |agent: &ObsykAgent| {
        let status = agent.status.clone().unwrap_or_default();
        let available = status.conditions.get("Available").cloned();
        available.is_some_and(|one| one.status == "False" && one.reason == "PlatformUnreachable")
    };
    wait_for_some(&stage.sandbox.api::<ObsykAgent>(), "main", DEADLINE, is_told).await?;
    let admin = admin(&manager).await?;
    for path in ["/livez", "/healthz", "/readyz"] {
        let answer = get(&admin, path)?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    manager.kill().await
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_pods_fit_into_the_limit_of_the_chart() -> Result<()> {
    let settings = Settings {
        keep_bodies: false,
        ..Settings::default()
    };
    let stage = Stage::new("many", settings).await?;
    stage.furnish((0..MANY).map(|n| format!("pod-{n}"))).await?;
    let manager = stage.start("first").await?;
    stage
        .platform
        .wait("all pods", |state| state.count("Pod") >= MANY)
        .await?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", manager.id()?))?;
    let figure = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
            .map(|kib| kib / 1024)
    };
    let (peak, now) = (figure("VmHWM:").unwrap(), figure("VmRSS:").unwrap());
    println!(
        "manager with the inventory of {MANY} pods: {now} MiB, {peak} MiB at its peak; the limit is {LIMIT_MIB} MiB"
    );
    assert!(peak < LIMIT_MIB, "{peak} MiB");
    manager.kill().await
}
