//! The server, and its controller-manager.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::process::Command;
use trustplane_api::identity::{CLUSTER_SPIFFE_ID, names};
use trustplane_plan::kinds::{CONFIG_MAP, SERVICE, STATEFUL_SET, VALIDATING_WEBHOOKS};

use crate::container;
use crate::http;
use crate::network::Target;
use crate::node::Node;
use crate::pod::Pod;
use crate::program::Program;
use crate::stage::{Stage, pod_of};

const SERVER: &str = "spire-server";
const MANAGER: &str = "spire-controller-manager";

/// The pod of SpireServer.
pub struct Server {
    // It ends before its pod does.
    program: Program,
    pub pod: Pod,
}

impl Server {
    /// Starts the server; the controller-manager does not run yet.
    pub async fn start(stage: &Stage, node: &Arc<Node>) -> Result<Self> {
        let objects = stage.server();
        stage.apply(objects.clone()).await?;
        let pod = node.admit(pod_of(&objects, &STATEFUL_SET)?).await?;
        let program = container::start(&pod, SERVER).await?;
        let mut server = Self { program, pod };
        server.program.ready().await?;
        Ok(server)
    }

    /// Starts it again, with what is in its ConfigMap now.
    pub async fn restart(&mut self) -> Result<()> {
        // Two servers would want the same ports.
        self.program.end().await?;
        self.program = container::start(&self.pod, SERVER).await?;
        self.program.ready().await
    }

    /// What it says on its own console, as JSON.
    pub async fn says(&self, words: &[&str]) -> Result<Value> {
        let socket = self.pod.volume("spire-server-socket").join("api.sock");
        let program = self.pod.node.images.program(SERVER);
        let mut command = Command::new(program);
        command
            .args(words)
            .arg("-socketPath")
            .arg(socket)
            .args(["-output", "json"]);
        let said = command.output().await?;
        ensure!(
            said.status.success(),
            "{words:?}: {}\n{}",
            String::from_utf8_lossy(&said.stderr),
            self.program.log()
        );
        serde_json::from_slice(&said.stdout).with_context(|| format!("{words:?}"))
    }

    /// Waits until the bundle of the server is in the ConfigMap that agents mount.
    pub async fn has_written(&mut self, stage: &Stage) -> Result<()> {
        let bundle = &stage.shared.bundle;
        let read = async || -> Result<Option<String>> {
            let map = stage.read(&CONFIG_MAP, bundle).await?;
            Ok(map["data"][names::BUNDLE_KEY].as_str().map(str::to_owned))
        };
        let written = self.program.until(&format!("a bundle in {bundle}"), read).await?;
        let own = self.says(&["bundle", "show"]).await?;
        let own = own["x509_authorities"][0]["asn1"].as_str().context("a CA")?;
        let lines: String = written
            .lines()
            .filter(|line| !line.starts_with("-----"))
            .collect();
        ensure!(lines == own, "another CA than {own}: {written}");
        Ok(())
    }

    /// Where a port of one of its Services leads, by the rules of Kubernetes.
    pub async fn behind(&self, stage: &Stage, service: &str, port: u16) -> Result<Target> {
        let service = stage.read(&SERVICE, service).await?;
        let selector = service["spec"]["selector"].as_object().context("a selector")?;
        for (label, value) in selector {
            let own = &self.pod.metadata()["labels"][label];
            ensure!(
                own == value,
                "the Service selects {label}={value}, but the pod has {own}"
            );
        }
        let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let found = ports
            .find(|it| it["port"] == port)
            .context("a port of the Service")?;
        let target = self.pod.port(&found["targetPort"])?;
        Ok(Target::Port(self.pod.network.clone(), target))
    }

    /// Starts the controller-manager.
    pub async fn start_manager(&self) -> Result<Program> {
        let mut manager = container::start(&self.pod, MANAGER).await?;
        manager.ready().await?;
        Ok(manager)
    }

    /// Fails unless the webhook of the controller-manager answers where the API server asks for it, with a certificate that the API server
    /// trusts, and refuses what makes no sense.
    pub async fn webhook_judges(&self, stage: &Stage, manager: &mut Program) -> Result<()> {
        let name = names::CONTROLLER_MANAGER_WEBHOOK;
        let own = async || -> Result<Option<Vec<Value>>> {
            let configuration = stage.read(&VALIDATING_WEBHOOKS, name).await?;
            let webhooks = configuration["webhooks"].as_array().context("webhooks")?.clone();
            let have_ca = webhooks
                .iter()
                .all(|webhook| webhook["clientConfig"]["caBundle"].is_string());
            Ok(have_ca.then_some(webhooks))
        };
        let webhooks = manager.until("all webhooks to have a CA", own).await?;
        let client = webhooks
            .iter()
            .find(|it| it["rules"][0]["resources"][0] == "clusterspiffeids");
        let client = &client.context("a webhook for ClusterSPIFFEIDs")?["clientConfig"];
        let authority = client["caBundle"].as_str().unwrap_or_default();
        let authority = String::from_utf8(STANDARD.decode(authority)?)?;
        let port = client["service"]["port"]
            .as_u64()
            .and_then(|port| port.try_into().ok());
        let host = format!("{name}.{}.svc", stage.shared.namespace);
        let stream = self
            .behind(stage, name, port.context("a port")?)
            .await?
            .connect()
            .await?;
        let stream = http::tls(stream, &host, &authority).await?;
        let path = client["service"]["path"].as_str().unwrap_or_default();
        let answer = http::post(stream, &host, path, &senseless().to_string()).await?;
        let told: Value = serde_json::from_str(&answer.body)?;
        ensure!(told["response"]["allowed"] == false, "{} {told:#}", answer.status);
        Ok(())
    }
}

/// A review of a ClusterSPIFFEID whose template is none.
fn senseless() -> Value {
    let kind = &CLUSTER_SPIFFE_ID;
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "name": "senseless",
            "kind": { "group": &*kind.group, "version": &*kind.version, "kind": &*kind.kind },
            "resource": { "group": &*kind.group, "version": &*kind.version, "resource": &*kind.plural },
            "userInfo": {},
            "object": {
                "apiVersion": kind.api_version(), "kind": &*kind.kind, "metadata": { "name": "senseless" },
                "spec": { "className": names::CLASS_NAME, "spiffeIDTemplate": "{{" },
            },
        },
    })
}
