//! Reports on a real API server, by an account that may only patch pods.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

#[path = "../../src/fake.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod fake;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};
use trustplane_api::hsm::names::REPORT_ANNOTATION;
use trustplane_api::hsm::{DeviceReport, DiscoveryStatus};
use trustplane_hsm_core::usb::Tracker;
use trustplane_hsm_core::usb::report::{Cadence, Reporter};
use trustplane_hsm_discovery::Counts;
use trustplane_hsm_discovery::eye::Eye;
use trustplane_hsm_discovery::pod::OwnPod;
use trustplane_hsm_discovery::report::{Herald, Sink};
use trustplane_hsm_discovery::uevent::Kernel;
use trustplane_hsm_discovery::watch::Watcher;
use trustplane_kit::clients::Clients;
use trustplane_kit::lease::{Fence, Identity};
use trustplane_process::backoff::Backoff;
use trustplane_process::clock::SystemClock;
use trustplane_testkit::proxy::{Answer, Fault, Match, Proxy, Rule};
use trustplane_testkit::{DEADLINE, Instance, Rules, Sandbox, wait_for, wait_for_some};

use fake::{PICO, Plug, Tree};

/// Everything that calls itself a smart card.
const SMART_CARDS: &str = r#"{"auto":{"ccid":true}}"#;

const YUBI: Plug<'_> = Plug {
    port: "1-4",
    numbers: ("1050", "0030"),
    serial: "0007550054",
    number: 9,
    class: "ff",
};

struct Stage {
    sandbox: Sandbox,
    instance: Instance,
    tree: Tree,
}

impl Stage {
    async fn new(name: &str) -> Result<Self> {
        let sandbox = Sandbox::new(name).await?;
        let rules = Rules::default().allow("", "pods", &["patch"]);
        let instance = sandbox.instance("discovery", &rules).await?;
        let tree = Tree::new();
        Ok(Self {
            sandbox,
            instance,
            tree,
        })
    }

    /// A pod as the DaemonSet makes it. Nobody runs it; the test does.
    async fn pod(&self, name: &str) -> Result<Pod> {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {
                "serviceAccountName": "discovery",
                "containers": [{"name": "discovery", "image": "none"}],
            },
        });
        let pods = self.sandbox.api::<Pod>();
        let made = pods
            .create(&PostParams::default(), &serde_json::from_value(pod)?)
            .await;
        made.with_context(|| format!("create the pod {name}"))
    }

    fn own(&self, pod: &Pod, instance: &Instance) -> Result<OwnPod> {
        let name = pod.metadata.name.as_deref().unwrap();
        let identity = Identity::new("discovery", "0.0.0", Some(name));
        let clients = Clients::new(instance.config()?, identity, Fence::always())?;
        let uid = pod.metadata.uid.as_deref().unwrap();
        Ok(OwnPod::new(clients.call, self.sandbox.namespace(), name, uid))
    }

    /// Runs what a pod of this HSMDevice would run.
    fn run(&self, device: &str, selection: &str, own: OwnPod) -> Result<DropGuard> {
        let selection = serde_json::from_str(selection)?;
        let eye = Eye::new(vec![self.tree.sysfs()], vec![self.tree.dev()], selection)?;
        let tracker = Tracker::new(None, SignedDuration::from_secs(300));
        let watcher = Watcher::new(eye, tracker, Arc::new(SystemClock), Counts::default());
        let herald = Herald {
            reporter: Reporter {
                device: device.to_owned(),
                node: "n1".to_owned(),
            },
            sink: own,
            cadence: Cadence::new(Duration::from_secs(300)),
            backoff: Backoff {
                first: Duration::from_millis(50),
                max: Duration::from_millis(50),
            },
            clock: Arc::new(SystemClock),
            counts: Counts::default(),
        };
        let stop = CancellationToken::new();
        tokio::spawn(herald.run(watcher.picture(), None, stop.clone()));
        tokio::spawn(watcher.run(Kernel, stop.clone()));
        Ok(stop.drop_guard())
    }

    /// Waits until the report of a pod holds exactly these serial numbers as available, and gives it.
    async fn reported(&self, pod: &str, serials: &[&str]) -> Result<DeviceReport> {
        let available = |pod: &Pod| {
            let report = report(pod)?;
            let devices = report.discovered_devices.iter();
            let devices = devices.filter(|device| device.available == Some(true));
            let found: Vec<_> = devices
                .filter_map(|device| device.serial_number.clone())
                .collect();
            (found == serials && report.discovery_status == DiscoveryStatus::Completed).then_some(report)
        };
        let pods = self.sandbox.api::<Pod>();
        let live = wait_for_some(&pods, pod, DEADLINE, |pod| available(pod).is_some()).await?;
        available(&live).context("read the report")
    }
}

fn report(pod: &Pod) -> Option<DeviceReport> {
    let annotations = pod.metadata.annotations.as_ref()?;
    serde_json::from_str(annotations.get(REPORT_ANNOTATION)?).ok()
}

#[tokio::test]
async fn a_pod_reports_the_tokens_of_its_node_and_changes_follow() -> Result<()> {
    let stage = Stage::new("report").await?;
    let pod = stage.pod("pico-x").await?;
    stage.tree.plug(PICO);
    let _running = stage.run("pico", SMART_CARDS, stage.own(&pod, &stage.instance)?)?;
    let report = stage.reported("pico-x", &[PICO.serial]).await?;
    assert_eq!(report.hsm_device_name, "pico");
    assert_eq!(report.reporting_node.as_deref(), Some("n1"));
    let device = &report.discovered_devices[0];
    assert_eq!(device.device_path, "/dev/bus/usb/001/015");
    assert_eq!(
        device.resource_name.as_deref(),
        Some("hsm.j5t.io/token-e6614c311b7e6f35")
    );
    // And changes follow.
    stage.tree.unplug(PICO);
    let report = stage.reported("pico-x", &[]).await?;
    assert_eq!(report.discovered_devices[0].available, Some(false));
    stage.tree.plug(Plug { number: 16, ..PICO });
    let report = stage.reported("pico-x", &[PICO.serial]).await?;
    assert_eq!(report.discovered_devices[0].device_path, "/dev/bus/usb/001/016");
    Ok(())
}

/// In the original every pod reports all HSMDevices under one key, and the last one wins.
#[tokio::test]
async fn w12_two_devices_on_one_node_report_apart() -> Result<()> {
    let stage = Stage::new("report-two").await?;
    let (pico, yubi) = (stage.pod("pico-x").await?, stage.pod("yubi-x").await?);
    stage.tree.plug(PICO);
    stage.tree.plug(YUBI);
    let of_yubi = r#"{"usb":[{"vendor":"1050","product":"0030"}]}"#;
    let _running = [
        stage.run("pico", SMART_CARDS, stage.own(&pico, &stage.instance)?)?,
        stage.run("yubi", of_yubi, stage.own(&yubi, &stage.instance)?)?,
    ];
    let report = stage.reported("pico-x", &[PICO.serial]).await?;
    assert_eq!(report.hsm_device_name, "pico");
    let report = stage.reported("yubi-x", &[YUBI.serial]).await?;
    assert_eq!(report.hsm_device_name, "yubi");
    Ok(())
}

#[tokio::test]
async fn another_pod_of_the_same_name_is_left_alone() -> Result<()> {
    let stage = Stage::new("report-uid").await?;
    let pods = stage.sandbox.api::<Pod>();
    let old = stage.pod("pico-x").await?;
    let own = stage.own(&old, &stage.instance)?;
    pods.delete("pico-x", &DeleteParams::default().grace_period(0))
        .await?;
    wait_for(&pods, "pico-x", DEADLINE, |live| live.is_none()).await?;
    let new = stage.pod("pico-x").await?;
    let told = own.write("{}".to_owned()).await.unwrap_err().to_string();
    assert!(told.starts_with("patch the pod pico-x: "), "{told}");
    let live = pods.get("pico-x").await?;
    assert_eq!(live.metadata.annotations, new.metadata.annotations);
    Ok(())
}

#[tokio::test]
async fn nothing_but_the_annotation_is_written() -> Result<()> {
    let stage = Stage::new("report-only").await?;
    let before = stage.pod("pico-x").await?;
    let own = stage.own(&before, &stage.instance)?;
    own.write(r#"{"hsmDeviceName":"pico"}"#.to_owned()).await?;
    let live = stage.sandbox.api::<Pod>().get("pico-x").await?;
    let annotations = BTreeMap::from([(
        REPORT_ANNOTATION.to_owned(),
        r#"{"hsmDeviceName":"pico"}"#.to_owned(),
    )]);
    assert_eq!(live.metadata.annotations, Some(annotations));
    assert_eq!(live.spec, before.spec);
    assert_eq!(live.metadata.labels, before.metadata.labels);
    Ok(())
}

#[tokio::test]
async fn a_new_process_of_a_pod_learns_what_the_last_one_said() -> Result<()> {
    let stage = Stage::new("report-earlier").await?;
    let pod = stage.pod("pico-x").await?;
    let own = stage.own(&pod, &stage.instance)?;
    let [pico, yubi] = ["pico", "yubi"].map(|device| Reporter {
        device: device.to_owned(),
        node: "n1".to_owned(),
    });
    assert_eq!(own.earlier(&pico).await?, None);
    let devices = json!([{"devicePath": "/dev/1", "serialNumber": "a"}]);
    let said = json!({"hsmDeviceName": "pico", "reportingNode": "n1", "discoveredDevices": devices});
    own.write(said.to_string()).await?;
    let earlier = own.earlier(&pico).await?.context("it has said something")?;
    assert_eq!(earlier[0].serial_number.as_deref(), Some("a"));
    assert_eq!(own.earlier(&yubi).await?, None, "that was for another device");
    Ok(())
}

#[tokio::test]
async fn while_the_api_server_is_away_it_goes_on_trying_and_the_newest_wins() -> Result<()> {
    let stage = Stage::new("report-outage").await?;
    let pod = stage.pod("pico-x").await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let away = proxy.add(Rule::new(Match::writes(), Fault::Answer(Answer::unavailable())));
    let own = stage.own(&pod, &stage.instance.through(&proxy))?;
    let _running = stage.run("pico", r#"{"auto":{"ccid":true}}"#, own)?;
    away.fired(3, DEADLINE).await?;
    stage.tree.plug(PICO);
    let seen = away.count();
    away.fired(seen + 2, DEADLINE).await?;
    away.end();
    stage.reported("pico-x", &[PICO.serial]).await?;
    Ok(())
}
