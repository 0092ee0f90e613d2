//! Elections on a real API server.

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use trustplane_kit::clients::Clients;
use trustplane_kit::lease::{Election, ElectionError, Fence, Timing};
use trustplane_kit::rights::Place;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::proxy::{Fault, Match, Proxy, Rule};
use trustplane_testkit::{Account, DEADLINE, Instance, Rules, Sandbox, wait_for_some};

use crate::write_rig::clients;

const NAME: &str = "leader";

/// A candidate that runs.
struct Candidate {
    clients: Clients,
    leading: watch::Receiver<bool>,
    stop: CancellationToken,
    run: JoinHandle<Result<(), ElectionError>>,
}

impl Candidate {
    fn start(instance: &Instance, namespace: &str, timing: Timing) -> Result<Self> {
        let clients = clients(instance, Fence::closed())?;
        let election = Election::new(&clients, namespace, NAME, timing);
        let (leading, stop) = (election.leading(), CancellationToken::new());
        Ok(Self {
            run: tokio::spawn(election.run(stop.clone())),
            clients,
            leading,
            stop,
        })
    }

    async fn leads(&mut self, wanted: bool) -> Result<()> {
        timeout(DEADLINE, self.leading.wait_for(|leads| *leads == wanted)).await??;
        Ok(())
    }

    async fn leave(self) -> Result<()> {
        self.stop.cancel();
        Ok(self.run.await??)
    }
}

async fn account(sandbox: &Sandbox) -> Result<Account> {
    let rights = Election::rights(NAME);
    let rules = Rules {
        cluster: rights.wide(),
        namespaced: rights.of(Place::Home),
    };
    sandbox.apply_rbac("candidate", &rules).await
}

/// Whoever follows leadership looks at what it means to them each time that they are told.
#[tokio::test]
async fn leadership_is_told_when_it_changes_and_not_with_each_renewal() -> Result<()> {
    let sandbox = Sandbox::new("renewals").await?;
    let instance = account(&sandbox).await?.instance("first").await?;
    let mut first = Candidate::start(&instance, sandbox.namespace(), Timing::for_lease(5))?;
    first.leads(true).await?;
    let leases: Api<Lease> = sandbox.api();
    let mut renewed = None;
    for _ in 0..3 {
        let time = |lease: &Lease| lease.spec.as_ref()?.renew_time.clone();
        let later = wait_for_some(&leases, NAME, DEADLINE, |lease| time(lease) > renewed).await?;
        renewed = time(&later);
    }
    assert!(!first.leading.has_changed()?);
    first.leave().await
}

#[tokio::test]
async fn a_lease_that_is_given_back_is_taken_long_before_it_would_have_ended() -> Result<()> {
    let sandbox = Sandbox::new("handover").await?;
    let account = account(&sandbox).await?;
    let mark = Mark::now(sandbox.plane()).await?;
    let start =
        |instance: Instance| Candidate::start(&instance, sandbox.namespace(), Timing::for_lease(3600));
    let mut first = start(account.instance("first").await?)?;
    first.leads(true).await?;
    assert!(first.clients.fence.is_open());
    let leases: Api<Lease> = sandbox.api();
    let held = leases.get(NAME).await?.spec.unwrap_or_default();
    assert_eq!(
        held.holder_identity.as_deref(),
        Some(first.clients.identity.instance())
    );

    let fence = first.clients.fence.clone();
    first.leave().await?;
    assert!(!fence.is_open());
    let free = leases.get(NAME).await?.spec.unwrap_or_default();
    assert_eq!(
        free.holder_identity.as_deref(),
        Some(""),
        "given back before the election ended"
    );

    // The lease would have lasted for another hour.
    let mut second = start(account.instance("second").await?)?;
    second.leads(true).await?;
    let held = leases.get(NAME).await?.spec.unwrap_or_default();
    assert_eq!(held.lease_transitions, Some(1));
    second.leave().await?;
    mark.since()
        .await?
        .assert_rights_used_are_rights_granted(&account);
    Ok(())
}

#[tokio::test]
async fn a_leader_that_is_cut_off_stops_and_another_goes_on() -> Result<()> {
    let sandbox = Sandbox::new("cutoff").await?;
    let account = account(&sandbox).await?;
    let proxy = Proxy::start(sandbox.plane()).await?;
    let timing = Timing::for_lease(3);
    let behind = account.instance("first").await?.through(&proxy);
    let mut first = Candidate::start(&behind, sandbox.namespace(), timing)?;
    first.leads(true).await?;
    let mut second = Candidate::start(&account.instance("second").await?, sandbox.namespace(), timing)?;
    proxy.freeze();
    first.leads(false).await?;
    assert!(!first.clients.fence.is_open());
    assert!(matches!(
        timeout(DEADLINE, first.run).await??,
        Err(ElectionError::Lost { .. })
    ));
    second.leads(true).await?;
    assert!(second.clients.fence.is_open());
    second.leave().await
}

#[tokio::test]
async fn a_renewal_whose_answer_is_lost_does_not_end_the_term() -> Result<()> {
    let sandbox = Sandbox::new("lost-answer").await?;
    let account = account(&sandbox).await?;
    let proxy = Proxy::start(sandbox.plane()).await?;
    let behind = account.instance("first").await?.through(&proxy);
    // Two losses in a row cost two polls, far below the renew deadline.
    let mut first = Candidate::start(&behind, sandbox.namespace(), Timing::for_lease(30))?;
    first.leads(true).await?;
    let lost = proxy.add(Rule::new(Match::writes().resource("leases"), Fault::CutAnswer).times(2));
    lost.fired(2, DEADLINE).await?;
    // The claim, two renewals without an answer, one with, and the next: that one comes only from a leader.
    proxy
        .wait_for(&Match::writes().resource("leases"), 5, DEADLINE)
        .await?;
    assert!(*first.leading.borrow() && first.clients.fence.is_open());
    first.leave().await
}

#[tokio::test]
async fn somebody_else_in_the_lease_ends_the_term_at_once() -> Result<()> {
    let sandbox = Sandbox::new("robbed").await?;
    let account = account(&sandbox).await?;
    let first = Candidate::start(
        &account.instance("first").await?,
        sandbox.namespace(),
        Timing::for_lease(15),
    )?;
    let leases: Api<Lease> = sandbox.api();
    let mut leading = first.leading.clone();
    timeout(DEADLINE, leading.wait_for(|leads| *leads)).await??;
    let thief = json!({ "spec": { "holderIdentity": "thief" } });
    leases
        .patch(NAME, &Default::default(), &kube::api::Patch::Merge(thief))
        .await?;
    assert!(matches!(
        timeout(DEADLINE, first.run).await??,
        Err(ElectionError::Lost { .. })
    ));
    assert!(!first.clients.fence.is_open());
    let held = leases.get(NAME).await?.spec.unwrap_or_default();
    assert_eq!(
        held.holder_identity.as_deref(),
        Some("thief"),
        "what is not ours is not given back"
    );
    Ok(())
}

#[tokio::test]
async fn what_others_wrote_on_the_lease_stays() -> Result<()> {
    let sandbox = Sandbox::new("annotated").await?;
    let account = account(&sandbox).await?;
    let mut first = Candidate::start(
        &account.instance("first").await?,
        sandbox.namespace(),
        Timing::for_lease(3),
    )?;
    first.leads(true).await?;
    let leases: Api<Lease> = sandbox.api();
    let note = json!({ "metadata": { "annotations": { "note": "by hand" } } });
    leases
        .patch(NAME, &Default::default(), &kube::api::Patch::Merge(note))
        .await?;
    let before = leases.get(NAME).await?.spec.unwrap_or_default().renew_time;
    let later = wait_for_some(&leases, NAME, DEADLINE, |lease| {
        lease.spec.as_ref().is_some_and(|spec| spec.renew_time > before)
    })
    .await?;
    assert_eq!(
        later
            .metadata
            .annotations
            .unwrap_or_default()
            .get("note")
            .map(String::as_str),
        Some("by hand")
    );
    assert!(*first.leading.borrow());
    first.leave().await
}

#[tokio::test]
async fn an_aborted_election_closes_the_fence() -> Result<()> {
    let sandbox = Sandbox::new("aborted").await?;
    let account = account(&sandbox).await?;
    let mut first = Candidate::start(
        &account.instance("first").await?,
        sandbox.namespace(),
        Timing::default(),
    )?;
    first.leads(true).await?;
    first.run.abort();
    first.leads(false).await?;
    assert!(!first.clients.fence.is_open());
    assert!(first.run.await.is_err_and(|error| error.is_cancelled()));
    // Nothing gave the lease back: a successor has to wait for its end.
    let held = sandbox.api::<Lease>().get(NAME).await?.spec.unwrap_or_default();
    assert!(held.holder_identity.is_some_and(|holder| !holder.is_empty()));
    Ok(())
}
