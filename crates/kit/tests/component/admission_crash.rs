//! Crashes at every write of the CA and of the bundle: the end is the same.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Config};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_kit::admission::{AuthorityOptions, Effect, SharedAuthority};
use trustplane_kit::clients::Clients;
use trustplane_kit::lease::{Fence, Identity};
use trustplane_kit::watch::{Tuning, Watches};
use trustplane_process::ca::{Authority, AuthorityState, Policy};
use trustplane_process::clock::ManualClock;
use trustplane_process::metrics::Metrics;
use trustplane_testkit::crash::{InProcess, Picture, Scenario};
use trustplane_testkit::proxy::Moment;
use trustplane_testkit::{DEADLINE, Rules, Sandbox, wait_for_some};

use crate::admission_rig::{ANNOUNCED, POLICY, PROCESS, SECRET, bundles, entry, keep_bundle, rules, webhook};

/// The Secret is looked at every few milliseconds, but the certificates live for minutes.
const QUICK: Policy = Policy {
    propagation: SignedDuration::from_millis(40),
    ..POLICY
};

/// The clock of each run, which outlives the process that is killed in it.
type Clocks = Arc<Mutex<BTreeMap<String, Arc<ManualClock>>>>;

fn clock(clocks: &Clocks, namespace: &str) -> Arc<ManualClock> {
    let mut clocks = clocks.lock().unwrap();
    let new = || Arc::new(ManualClock::new(Timestamp::now()));
    clocks.entry(namespace.to_owned()).or_insert_with(new).clone()
}

/// The keeper of the CA and of its bundle, as a leader runs them.
async fn lead(config: Config, clocks: Clocks) -> Result<()> {
    let namespace = config.default_namespace.clone();
    let options = AuthorityOptions {
        policy: QUICK,
        clock: clock(&clocks, &namespace),
    };
    let clients = Clients::new(config, Identity::new("test", "0.0.0", None), Fence::always())?;
    let home = (namespace.as_str(), SECRET);
    let authority = SharedAuthority::open(&clients, home, options, &Metrics::new()).await?;
    let watches = Watches::new(clients.watch.clone(), Tuning::default(), &Metrics::new());
    let webhooks = vec![webhook("one", Effect::Validating)];
    let name = format!("{namespace}-{PROCESS}");
    let keeping = keep_bundle(clients, Effect::Validating, name, webhooks, authority.clone());
    let leading = watch::Sender::new(true);
    tokio::select! {
        kept = keeping => kept,
        () = authority.run(&watches, leading.subscribe(), CancellationToken::new()) => Ok(()),
    }
}

/// Waits until the CA is as wanted, and the configuration has its bundle.
async fn settled(sandbox: &Sandbox, wanted: impl Fn(&AuthorityState) -> bool) -> Result<AuthorityState> {
    let secrets: Api<Secret> = sandbox.api();
    let state = |live: &Secret| {
        let data = live.data.clone().unwrap_or_default();
        let data = data.into_iter().map(|(key, value)| (key, value.0)).collect();
        AuthorityState::from_data::<Vec<u8>>(&data).ok()
    };
    let live = wait_for_some(&secrets, SECRET, DEADLINE, |live| {
        state(live).is_some_and(|state| wanted(&state))
    });
    let state = state(&live.await?).context("read the authority")?;
    let bundle = Authority::resume("test", QUICK, state.clone())?.bundle_pem();
    let api: Api<ValidatingWebhookConfiguration> = Api::all(sandbox.client());
    wait_for_some(&api, &sandbox.unique(PROCESS), DEADLINE, |live| {
        bundles(live)
            .iter()
            .all(|(_, found)| found.as_ref() == Some(&bundle))
    })
    .await?;
    Ok(state)
}

/// One rotation, from the first CA to its end.
async fn rotate(sandbox: &Sandbox, clock: &ManualClock) -> Result<()> {
    let nobody = "127.0.0.1:1".parse()?;
    let entries = [entry(&webhook("one", Effect::Validating), nobody)];
    sandbox.register_validating(PROCESS, &entries).await?;
    let first = settled(sandbox, |state| state.next.is_none()).await?;
    clock.advance(ANNOUNCED);
    let announced = settled(sandbox, |state| state.next.is_some()).await?;
    assert_eq!(announced.current, first.current);
    clock.advance(QUICK.propagation);
    let promoted = settled(sandbox, |state| state.previous.is_some()).await?;
    assert_eq!(Some(promoted.current), announced.next);
    clock.advance(QUICK.ca_life - ANNOUNCED);
    settled(sandbox, |state| state.previous.is_none()).await?;
    Ok(())
}

async fn crash(name: &'static str, moment: Moment) -> Result<()> {
    let clocks = Clocks::default();
    // Every run has a configuration of its own name, which rights cannot name beforehand.
    let group = "admissionregistration.k8s.io";
    let wide = Rules::default().allow_everywhere(
        group,
        "validatingwebhookconfigurations",
        &["list", "watch", "patch"],
    );
    let rules = Rules {
        cluster: wide.cluster,
        ..rules(SharedAuthority::rights(SECRET))
    };
    let mut picture = Picture::default().kind::<Secret>();
    for random in ["current.crt", "current.key", "times.json"] {
        picture = picture.without(random);
    }
    let subject = InProcess::new({
        let clocks = clocks.clone();
        move |config| lead(config, clocks.clone())
    });
    let scenario = Scenario::new(name, rules, picture).phase(move |sandbox| {
        let clock = clock(&clocks, sandbox.namespace());
        Box::pin(async move { rotate(sandbox, &clock).await })
    });
    let report = scenario.crash_at_every_write(&subject, moment).await?;
    // The first authority and three steps, and a bundle for each.
    assert!(report.crashes >= 8, "only {} writes were counted", report.crashes);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_every_write_of_a_rotation() -> Result<()> {
    crash("ca-crash-after", Moment::After).await
}

#[tokio::test(flavor = "multi_thread")]
async fn before_every_write_of_a_rotation() -> Result<()> {
    crash("ca-crash-before", Moment::Before).await
}
