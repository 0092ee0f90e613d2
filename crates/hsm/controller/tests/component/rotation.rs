//! The CA is replaced by its successor: agents and manager follow, and the old one is trusted while anything that it has signed may
//! live.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use trustplane_api::hsm::v1::MANAGER;
use trustplane_hsm_controller::{Agents, run_alone};
use trustplane_kit::controller::Options;
use trustplane_kit::watch::Tuning;
use trustplane_plan::ObjectRef;
use trustplane_process::clock::{Clock, ManualClock};
use trustplane_process::secret;
use trustplane_process::tls::{self, CertifiedKeys, ClientTrust, Material, Reload, ServerTls};
use trustplane_testkit::audit::Mark;
use trustplane_testkit::crash::{InProcess, Subject, Thread};
use trustplane_testkit::{DEADLINE, Instance, Select, eventually, until, wait_for_some};

use crate::stage::{Stage, device, entry, fixed};

const CA: &str = "hsm-mtls-ca";
const AGENTS: [&str; 2] = ["hsm-agent-soft-one", "hsm-agent-soft-two"];
/// How long a bundle may take. The Secret with the CA is read four times as often.
const PROPAGATION: SignedDuration = SignedDuration::from_secs(4);

/// A clock that is set by hand, and counts how often it is read.
#[derive(Debug)]
struct Set {
    clock: ManualClock,
    reads: AtomicUsize,
}

impl Clock for Set {
    fn now(&self) -> Timestamp {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.clock.now()
    }
}

/// The capability, with the means to call agents. It looks at everything so often, and otherwise when something happens.
fn play(
    stage: &Stage,
    clock: Arc<Set>,
    resync: Duration,
) -> (InProcess, watch::Receiver<Option<Arc<Agents>>>) {
    let (callers, called) = watch::channel(None);
    let mut setup = stage.setup.clone();
    let home = stage.sandbox.namespace().to_owned();
    setup.rules.namespaces.insert(home.clone());
    setup.delivery.namespaces.insert(home);
    let options = Options {
        clock,
        resync: Some(resync),
        ..Options::default()
    };
    let subject = InProcess::new(move |config| {
        let run = run_alone(
            config,
            setup.clone(),
            options.clone(),
            Tuning::default(),
            Some(callers.clone()),
        );
        async move { run.await.map_err(|error| anyhow::anyhow!("{error}")) }
    });
    (subject, called)
}

async fn start(stage: &Stage, subject: &InProcess, name: &str) -> Result<(Instance, Thread)> {
    let instance = stage.account.instance(name).await?;
    let running = subject.start(&instance).await?;
    Ok((instance, running))
}

/// Waits until the Secret with the CA has these entries, which are certificates, and no others.
async fn authority(stage: &Stage, wanted: &[&str]) -> Result<Secret> {
    let secrets = stage.api::<Secret>();
    let found = wait_for_some(&secrets, CA, DEADLINE, |live| {
        let all = ["current.crt", "next.crt", "previous.crt"];
        all.iter()
            .all(|key| wanted.contains(key) != entry(live, key).is_empty())
    });
    found.await.with_context(|| format!("a CA with {wanted:?}"))
}

/// Waits until every agent trusts these, in this order.
async fn trusted(stage: &Stage, wanted: &[Vec<u8>]) -> Result<Vec<Secret>> {
    let (api, mut secrets, wanted) = (stage.api::<Secret>(), Vec::new(), wanted.concat());
    for agent in AGENTS {
        let name = format!("{agent}-tls");
        let found = wait_for_some(&api, &name, DEADLINE, |live| entry(live, "ca.crt") == wanted);
        secrets.push(found.await.with_context(|| format!("the bundle of {agent}"))?);
    }
    Ok(secrets)
}

/// Where the agent of this test listens. Its port is given, so it takes an address of the loopback that nobody has it on.
async fn listen() -> Result<TcpListener> {
    let mut taken = None;
    for last in 1..=254 {
        match TcpListener::bind((Ipv4Addr::new(127, 77, 0, last), 9090)).await {
            Ok(listener) => return Ok(listener),
            Err(error) => taken = Some(error),
        }
    }
    Err(taken.context("an address")?).context("no address is free")
}

/// Serves as the agent would, with what is in its Secret, and lets the manager call. Each shows a certificate that the bundle of
/// the other vouches for, or it fails.
async fn call(stage: &Stage, files: &Secret, agents: &Agents, clock: Arc<Set>) -> Result<()> {
    let key = secret::Secret::new(entry(files, "tls.key"));
    let trust = tls::roots(&entry(files, "ca.crt"))?;
    let keys = CertifiedKeys::new();
    keys.reload(&Material {
        identity: Some(tls::certified_key(&entry(files, "tls.crt"), &key)?),
        trust: trust.clone(),
    })?;
    let config = ServerTls::new(keys)
        .require_clients(ClientTrust::named(trust, MANAGER)?)
        .only_tls13()
        .alpn(&["h2"])
        .clock(clock)
        .build()?;
    let acceptor = TlsAcceptor::from(config);
    let listener = listen().await?;
    let address = listener.local_addr()?.ip();
    let pods = stage.api::<Pod>();
    let own = Select::default().labels(&format!("app={}", AGENTS[0]));
    let own = eventually(&pods, &own, DEADLINE, |found| found.keys().next().cloned()).await?;
    let status = Patch::Merge(json!({ "status": { "phase": "Running", "podIP": address } }));
    pods.patch_status(&own, &PatchParams::default(), &status).await?;
    let agent = ObjectRef::new(Some(stage.sandbox.namespace()), AGENTS[0]);
    // The manager takes up its new certificate at about the same time, and then calls anew.
    let served = async {
        loop {
            let (stream, _) = listener.accept().await?;
            if let Ok(line) = acceptor.accept(stream).await {
                return anyhow::Ok(line);
            }
        }
    };
    let last = Mutex::new(None);
    let called = until("the manager to be trusted", DEADLINE, || async {
        let failed = agents.connect(&agent).await.err();
        *last.lock().unwrap() = failed.map(|error| format!("{error:?}"));
        Ok(None::<()>)
    });
    tokio::select! {
        served = served => served.map(drop),
        called = called => called.with_context(|| format!("the last call: {:?}", last.lock().unwrap())),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_authority_rotates_agents_and_manager_follow_and_then_rest() -> Result<()> {
    let mut stage = Stage::new("rotation").await?;
    stage.setup.lives.propagation = PROPAGATION;
    let clock = Arc::new(Set {
        clock: ManualClock::new(Timestamp::now()),
        reads: AtomicUsize::new(0),
    });
    // So seldom that whatever follows the CA does so because the CA has changed.
    let (subject, called) = play(&stage, clock.clone(), Duration::from_secs(3600));
    let (_, running) = start(&stage, &subject, "first").await?;
    let tokens = json!([{ "name": "one", "tokenLabel": "one" }, { "name": "two", "tokenLabel": "two" }]);
    device(&stage.sandbox, "soft", fixed(tokens)).await?;
    let first = authority(&stage, &["current.crt"]).await?;
    let old = entry(&first, "current.crt");
    trusted(&stage, std::slice::from_ref(&old)).await?;

    // Two thirds of its life are over: a successor is announced, and does not sign yet.
    clock.clock.advance(SignedDuration::from_hours(24 * 731));
    let announced = authority(&stage, &["current.crt", "next.crt"]).await?;
    let new = entry(&announced, "next.crt");
    assert_eq!(entry(&announced, "current.crt"), old);
    trusted(&stage, &[old.clone(), new.clone()]).await?;

    // It signs, and what the old one has signed is still good.
    clock.clock.advance(PROPAGATION);
    let promoted = authority(&stage, &["current.crt", "previous.crt"]).await?;
    assert_eq!(entry(&promoted, "current.crt"), new);
    let secrets = trusted(&stage, &[new.clone(), old.clone()]).await?;
    let agents = called.borrow().clone().context("the means to call")?;
    call(&stage, &secrets[0], &agents, clock.clone()).await?;

    // Nothing that the old one has signed lives any more: nobody trusts it, and all get on with the new one alone.
    clock
        .clock
        .advance(stage.setup.lives.leaf + SignedDuration::from_hours(24));
    authority(&stage, &["current.crt"]).await?;
    let secrets = trusted(&stage, &[new]).await?;
    call(&stage, &secrets[0], &agents, clock.clone()).await?;
    subject.kill(running).await?;

    let mark = Mark::now(stage.sandbox.plane()).await?;
    let (subject, _called) = play(&stage, clock.clone(), Duration::from_secs(1));
    let (second, running) = start(&stage, &subject, "second").await?;
    let before = clock.reads.load(Ordering::SeqCst);
    until("everything to be looked at", DEADLINE, || async {
        Ok((clock.reads.load(Ordering::SeqCst) > before + 60).then_some(()))
    })
    .await?;
    subject.kill(running).await?;
    mark.since().await?.by(&second).assert_silent();
    Ok(())
}
