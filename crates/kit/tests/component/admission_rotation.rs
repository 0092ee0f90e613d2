//! A rotation under a stream of admission calls that must not fail.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, ResourceQuota};
use kube::Api;
use kube::api::PostParams;
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_kit::admission::{Effect, Judges, Request, Verdict};
use trustplane_process::clock::ManualClock;
use trustplane_testkit::{DEADLINE, Sandbox, on_writes_of, until, wait_for_some};

use crate::admission_rig::{ANNOUNCED, POLICY, PROCESS, Replica, Rig, bundles, entry, webhook};

const STEP: SignedDuration = SignedDuration::from_secs(5);

fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

fn court(webhooks: &[trustplane_kit::admission::Webhook]) -> Judges {
    let mut judges = Judges::default();
    for webhook in webhooks {
        judges.add(webhook.clone(), |_: &Request| Verdict::allow());
    }
    judges
}

/// Writes again and again, until told to stop or until a write fails.
async fn stream(api: Api<ConfigMap>, calls: watch::Sender<usize>, stop: CancellationToken) -> Result<()> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("subject".to_owned());
    while !stop.is_cancelled() {
        let made = api.create(&dry_run(), &map).await;
        made.inspect_err(|_| stop.cancel())
            .with_context(|| format!("after {} calls", *calls.borrow()))?;
        calls.send_modify(|calls| *calls += 1);
    }
    Ok(())
}

/// Tells when the API server has seen everything that was written to webhook configurations so far. It watches them in
/// order, so it has once it obeys a change that is made now: a webhook where nobody answers, on this kind or that.
struct Probe<'a> {
    sandbox: &'a Sandbox,
    turns: usize,
}

impl Probe<'_> {
    async fn caught_up(&mut self) -> Result<()> {
        self.turns += 1;
        if self.turns.is_multiple_of(2) {
            self.refused::<LimitRange>("limitranges").await
        } else {
            self.refused::<ResourceQuota>("resourcequotas").await
        }
    }

    async fn refused<K>(&self, plural: &str) -> Result<()>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Default + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let nobody = trustplane_testkit::Webhook {
            name: "probe.test.trustplane.io".to_owned(),
            url: "https://127.0.0.1:1/".to_owned(),
            ca_bundle: None,
            rule: on_writes_of("", "v1", plural),
            match_conditions: serde_json::json!([]),
        };
        self.sandbox.register_validating("probe", &[nobody]).await?;
        let mut object = K::default();
        object.meta_mut().name = Some("probe".to_owned());
        let (begun, answered) = (Cell::new(0), Cell::new(0));
        until("the API server to obey a configuration", DEADLINE, || async {
            begun.update(|calls| calls + 1);
            let made = self.sandbox.api::<K>().create(&dry_run(), &object).await;
            answered.update(|calls| calls + 1);
            Ok(made.is_err().then_some(()))
        })
        .await
        .with_context(|| {
            format!(
                "of {} writes of {plural} it let {} through",
                begun.get(),
                answered.get()
            )
        })
    }
}

/// Two replicas with a clock of the test, each asked about every write.
struct World {
    rig: Rig,
    clock: Arc<ManualClock>,
    replicas: [Replica; 2],
}

impl World {
    /// Begins shortly before the CA is due to be replaced.
    async fn new() -> Result<Self> {
        let rig = Rig::new("rotation").await?;
        let clock = Arc::new(ManualClock::new(Timestamp::now() - ANNOUNCED));
        let webhooks = ["first", "second"].map(|name| webhook(name, Effect::Validating));
        let first = Replica::start(&rig, "first", &clock, court(&webhooks)).await?;
        let second = Replica::start(&rig, "second", &clock, court(&webhooks)).await?;
        first.keep_bundle(&rig, Effect::Validating, &webhooks);
        let entries = [entry(&webhooks[0], first.at), entry(&webhooks[1], second.at)];
        rig.sandbox.register_validating(PROCESS, &entries).await?;
        clock.advance(ANNOUNCED - STEP * 2);
        let replicas = [first, second];
        Ok(Self { rig, clock, replicas })
    }

    /// Everybody does what is due now, the standby always after the leader.
    async fn settle(&mut self, probe: &mut Probe<'_>) -> Result<()> {
        let before = self.replicas[0].bundle();
        self.replicas[0].authority.rotate().await?;
        self.replicas[1].authority.refresh().await?;
        let bundle = self.replicas[0].bundle();
        let api: Api<ValidatingWebhookConfiguration> = Api::all(self.rig.sandbox.client());
        wait_for_some(&api, &self.rig.sandbox.unique(PROCESS), DEADLINE, |live| {
            bundles(live)
                .iter()
                .all(|(_, found)| found.as_ref() == Some(&bundle))
        })
        .await?;
        if bundle != before || probe.turns == 0 {
            probe.caught_up().await?;
        }
        for replica in &mut self.replicas {
            replica.leaf.tick()?;
        }
        Ok(())
    }

    fn certificates(&self) -> BTreeSet<Vec<u8>> {
        let shown = self.replicas.iter().filter_map(|replica| replica.keys.current());
        shown.map(|key| key.cert[0].to_vec()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_the_authority_and_all_certificates_are_replaced() -> Result<()> {
    let mut world = World::new().await?;
    let sandbox = Sandbox::new("probe").await?;
    let mut probe = Probe {
        sandbox: &sandbox,
        turns: 0,
    };
    world.settle(&mut probe).await?;
    let old = world.replicas[0].bundle();
    let (calls, stop) = (watch::Sender::new(0), CancellationToken::new());
    let streams: Vec<_> = (0..3)
        .map(|_| tokio::spawn(stream(world.rig.sandbox.api(), calls.clone(), stop.clone())))
        .collect();

    let (mut made, mut seen, mut sizes) = (calls.subscribe(), BTreeSet::new(), BTreeSet::new());
    for _ in 0..=(POLICY.ca_life - ANNOUNCED + STEP * 4).as_secs() / STEP.as_secs() {
        world.clock.advance(STEP);
        world.settle(&mut probe).await?;
        seen.extend(world.certificates());
        sizes.insert(world.replicas[0].bundle().matches("BEGIN").count());
        let done = *made.borrow();
        tokio::select! {
            _ = made.wait_for(|calls| *calls >= done + 6) => {}
            () = stop.cancelled() => break,
        }
    }
    stop.cancel();
    for stream in streams {
        stream.await??;
    }
    let new = world.replicas[1].bundle();
    assert!(
        sizes == BTreeSet::from([1, 2]) && !new.contains(&old),
        "the rotation came to its end"
    );
    assert!(
        seen.len() >= 4,
        "each replica has renewed its certificate, but {} were seen",
        seen.len()
    );
    println!(
        "{} calls while {} certificates were shown",
        *calls.borrow(),
        seen.len()
    );
    Ok(())
}
