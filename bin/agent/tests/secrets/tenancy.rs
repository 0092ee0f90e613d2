//! A location on the tokens belongs to namespaces, and no other namespace gets data or checksums from there.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trustplane_api::hsm::names::LOCATIONS;
use trustplane_api::hsm::{HsmDevice, HsmSecretStatus};
use trustplane_hsm_controller::Tenancy;
use trustplane_testkit::proxy::{Fault, Gate, Match, Proxy, Rule};
use trustplane_testkit::{DEADLINE, Sandbox, wait_for};

use crate::delivery::seed;
use crate::stage::{DEVICE, PAIRS, Stage, apply, content, in_sync, owned, problem};
use crate::token::Token;

const SECOND: [(&str, &str); 1] = [("password", "second")];

/// A stage with one token that has `shop/db`, and another namespace. The capability does not run.
async fn two_namespaces(name: &str) -> Result<(Stage, Sandbox)> {
    let mut stage = Stage::new(name, vec![Token::new("a").await?]).await?;
    stage.token().write("shop/db", &PAIRS)?;
    let bank = stage.tenant("bank").await?;
    Ok((stage, bank))
}

/// The claims: a path on each line, by namespace.
fn claims(map: Option<&ConfigMap>) -> BTreeMap<String, String> {
    map.and_then(|map| map.data.clone()).unwrap_or_default()
}

/// The claims when exactly one namespace has claimed `shop/db`.
fn claimed_by(sandbox: &Sandbox) -> BTreeMap<String, String> {
    [(sandbox.namespace().to_owned(), "shop/db\n".to_owned())].into()
}

/// Waits until the claims are so.
async fn wait_for_claims(stage: &Stage, wanted: &BTreeMap<String, String>) -> Result<()> {
    let maps: Api<ConfigMap> = stage.sandbox.api();
    let found = wait_for(&maps, LOCATIONS, DEADLINE, |map| claims(map) == *wanted).await;
    found.with_context(|| format!("claims {wanted:?}")).map(drop)
}

/// Fails if a status tells anything of a location that another namespace has.
fn assert_tells_nothing(status: &HsmSecretStatus) {
    assert_eq!(status.sync_status.as_deref(), Some("Error"));
    let conflict = status.conditions.get("Conflict").unwrap();
    assert!(conflict.status == "True" && conflict.reason == "LocationTaken");
    assert_eq!((&status.hsm_checksum, &status.primary_device), (&None, &None));
    assert!(status.device_sync_status.is_empty(), "{status:?}");
}

/// Fails if a namespace has the Secret.
async fn assert_no_secret(sandbox: &Sandbox) -> Result<()> {
    let found = sandbox.api::<Secret>().get_opt("db-credentials").await?;
    assert!(found.is_none(), "{found:?}");
    Ok(())
}

async fn list_places(stage: &Stage, places: Value) -> Result<()> {
    let devices: Api<HsmDevice> = stage.sandbox.api();
    let change = json!({ "spec": { "places": places } });
    let hand = PatchParams::default();
    devices.patch(DEVICE, &hand, &Patch::Merge(&change)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn w11_claim_stands_before_the_secret_exists() -> Result<()> {
    let (stage, bank) = two_namespaces("claims").await?;
    let (proxy, gate) = (Proxy::start(stage.sandbox.plane()).await?, Gate::default());
    let writes = Match::writes().resource("secrets").name("db-credentials");
    let held = proxy.add(Rule::new(writes, Fault::Hold(gate.clone())));
    let (_, running) = stage.start_through("first", &proxy).await?;
    stage.apply("db", seed()).await?;
    held.fired(1, DEADLINE).await?;
    let map = stage.sandbox.api::<ConfigMap>().get(LOCATIONS).await?;
    assert_eq!(claims(Some(&map)), claimed_by(&stage.sandbox));
    assert_no_secret(&stage.sandbox).await?;
    // The other namespace is refused also if the process dies here, and the claim is all that is left of it.
    stage.kill(running).await?;
    let (_, running) = stage.start("second").await?;
    apply(&bank, "db", seed()).await?;
    let refused = problem(&bank, "db", "LocationTaken").await?;
    assert_tells_nothing(&refused);
    stage.in_sync("db", &PAIRS).await?;
    assert_no_secret(&bank).await?;
    drop(gate);
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn w11_location_belongs_to_the_namespace_that_was_first() -> Result<()> {
    let (mut stage, bank) = two_namespaces("tenancy").await?;
    let looks = stage.count_looks();
    let (_, running) = stage.start("first").await?;
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;
    apply(&bank, "db", seed()).await?;
    let refused = problem(&bank, "db", "LocationTaken").await?;
    assert_tells_nothing(&refused);
    let told = refused.last_error.clone().unwrap();
    assert!(told.contains(stage.sandbox.namespace()), "{told}");
    let whole = serde_json::to_string(&refused)?;
    assert!(!whole.contains("sha256") && !whole.contains("soft/a"), "{whole}");
    assert_no_secret(&bank).await?;

    // The claim outlives the HSMSecret.
    stage.delete("db").await?;
    // Four objects are looked at each second, and this one is among them.
    looks.more(15).await?;
    assert_tells_nothing(&problem(&bank, "db", "LocationTaken").await?);
    assert_no_secret(&bank).await?;
    wait_for_claims(&stage, &claimed_by(&stage.sandbox)).await?;
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;

    // The claim ends with the secret on the tokens. Now the other HSMSecret is the older one, and gets what is written next.
    stage.token().delete("shop/db")?;
    wait_for_claims(&stage, &BTreeMap::new()).await?;
    stage.token().write("shop/db", &SECOND)?;
    in_sync(&bank, "db", &SECOND).await?;
    wait_for_claims(&stage, &claimed_by(&bank)).await?;
    assert_tells_nothing(&stage.problem("db", "LocationTaken").await?);
    let kept = stage.secrets().get("db-credentials").await?;
    assert_eq!(content(&kept), owned(&PAIRS));
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn w11_places_beat_first_come() -> Result<()> {
    let (stage, bank) = two_namespaces("places").await?;
    let (_, running) = stage.start("first").await?;
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;
    apply(&bank, "db", seed()).await?;
    problem(&bank, "db", "LocationTaken").await?;

    let home = stage.sandbox.namespace();
    let both = [home, bank.namespace()];
    let place = |namespaces: &[&str]| json!([{ "path": "shop/**", "namespaces": namespaces }]);
    list_places(&stage, place(&both[1..])).await?;
    in_sync(&bank, "db", &PAIRS).await?;
    let refused = stage.problem("db", "LocationTaken").await?;
    assert_tells_nothing(&refused);
    let told = refused.last_error.as_deref().unwrap();
    assert!(told.contains("spec.places"), "{told}");
    // What was delivered stays, and is not refreshed.
    stage.token().write("shop/db", &SECOND)?;
    in_sync(&bank, "db", &SECOND).await?;
    let kept = stage.secrets().get("db-credentials").await?;
    assert_eq!(content(&kept), owned(&PAIRS));

    list_places(&stage, place(&both)).await?;
    stage.in_sync("db", &SECOND).await?;
    in_sync(&bank, "db", &SECOND).await?;
    // Nobody claims what is listed: without places the first claim counts again.
    wait_for_claims(&stage, &claimed_by(&stage.sandbox)).await?;
    list_places(&stage, Value::Null).await?;
    assert_tells_nothing(&problem(&bank, "db", "LocationTaken").await?);
    stage.in_sync("db", &SECOND).await?;
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn w11_namespace_is_part_of_the_path_when_tenancy_is_namespaced() -> Result<()> {
    let (mut stage, bank) = two_namespaces("namespaced").await?;
    stage.setup.delivery.tenancy = Tenancy::Namespaced;
    let below = |namespace: &str| format!("{namespace}/shop/db");
    stage
        .token()
        .write(&below(stage.sandbox.namespace()), &[("of", "home")])?;
    let (_, running) = stage.start("first").await?;
    stage.apply("db", seed()).await?;
    apply(&bank, "db", seed()).await?;
    stage.in_sync("db", &[("of", "home")]).await?;
    let missing = problem(&bank, "db", "NotOnToken").await?;
    assert_eq!(missing.sync_status.as_deref(), Some("Pending"));
    let told = missing.last_error.as_deref().unwrap();
    assert!(told.contains(&below(bank.namespace())), "{told}");
    assert_no_secret(&bank).await?;
    stage
        .token()
        .write(&below(bank.namespace()), &[("of", "the bank")])?;
    in_sync(&bank, "db", &[("of", "the bank")]).await?;
    let maps: Api<ConfigMap> = stage.sandbox.api();
    assert!(maps.get_opt(LOCATIONS).await?.is_none(), "nothing is claimed");
    stage.kill(running).await
}
