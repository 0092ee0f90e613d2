//! The record, when the API server's answer is something else.

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trustplane_hsm_agent::record::{ConfigMapLedger, Ledger, LedgerError};
use trustplane_testkit::Log;
use trustplane_testkit::canary::{Canary, Search};
use trustplane_testkit::proxy::{Fault, Match, Proxy, Rule, Twist, Verb};

use crate::stage::{PIN, RECORD, Stage};

#[tokio::test]
async fn a_wrong_answer_is_no_record_and_nothing_of_it_is_told() -> Result<()> {
    let log = Log::collect()?;
    let canary = Canary::new("entry of the record");
    let stage = Stage::blank(PIN).await?;
    let entry = Patch::Merge(json!({ "data": { "stranger": canary.value() } }));
    stage
        .sandbox
        .api::<ConfigMap>()
        .patch(RECORD, &PatchParams::default(), &entry)
        .await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let instance = stage.account.instance("agent").await?.through(&proxy);
    let ledger = ConfigMapLedger::new(instance.client()?, stage.sandbox.namespace(), RECORD);
    let mut search = Search::for_canaries([&canary]);
    for twist in Twist::ALL {
        let reads = Match::verb(Verb::Get).resource("configmaps");
        let script = proxy.add(Rule::new(reads, Fault::Twist(twist)).once());
        let error = ledger.load().await.unwrap_err();
        assert_eq!(script.count(), 1);
        assert!(matches!(error, LedgerError::Unreachable(_)), "{error}");
        search.text("the error", &format!("{error} {error:?}"));
    }
    search.text("the log", &log.text());
    search.assert_clean();
    ledger.load().await?;
    Ok(())
}
