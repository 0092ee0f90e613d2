//! The audit log as a witness.

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::{Rules, Sandbox};

use crate::config_map;

#[tokio::test]
async fn the_log_tells_instances_apart_and_shows_each_write() -> Result<()> {
    let sandbox = Sandbox::new("audit").await?;
    let rules = Rules::default().allow("", "configmaps", &["create", "get"]);
    let account = sandbox.apply_rbac("manager", &rules).await?;
    let (busy, idle) = (account.instance("busy").await?, account.instance("idle").await?);
    let mark = Mark::now(sandbox.plane()).await?;
    let maps = |client| -> Api<ConfigMap> { Api::namespaced(client, sandbox.namespace()) };
    maps(busy.client()?)
        .create(&PostParams::default(), &config_map("a", "1"))
        .await?;
    maps(idle.client()?).get("a").await?;

    let audit = mark.since().await?;
    let writes = audit.by(&busy);
    assert_eq!(writes.writes().len(), 1, "{}", writes.story());
    assert_eq!(writes.writes()[0].name(), "a");
    assert!(writes.writes()[0].succeeded());
    assert_eq!(audit.by_agent(busy.agent()).writes().len(), 1);
    audit.by(&idle).assert_silent();
    assert_eq!(audit.by(&idle).of("configmaps").events().len(), 1);
    Mark::now(sandbox.plane())
        .await?
        .since()
        .await?
        .by_account(&account)
        .assert_silent();
    audit.by_account(&account).assert_nothing_denied();
    audit.assert_rights_used_are_rights_granted(&account);
    Ok(())
}

#[tokio::test]
#[should_panic(expected = "expected silence")]
async fn a_write_breaks_the_silence() {
    let sandbox = Sandbox::new("noise").await.unwrap();
    let rules = Rules::default().allow("", "configmaps", &["create"]);
    let instance = sandbox.instance("manager", &rules).await.unwrap();
    let mark = Mark::now(sandbox.plane()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(instance.client().unwrap(), sandbox.namespace());
    maps.create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    mark.since().await.unwrap().by(&instance).assert_silent();
}

#[tokio::test]
async fn rights_that_are_unused_or_lacking_are_told() -> Result<()> {
    let sandbox = Sandbox::new("rights-report").await?;
    let rules = Rules::default().allow("", "configmaps", &["create", "delete"]);
    let account = sandbox.apply_rbac("manager", &rules).await?;
    let maps: Api<ConfigMap> = Api::namespaced(sandbox.client_as(&account).await?, sandbox.namespace());
    let mark = Mark::now(sandbox.plane()).await?;
    maps.create(&PostParams::default(), &config_map("a", "1")).await?;
    maps.get("a").await.unwrap_err();
    let report = mark.since().await?.rights(&account);
    assert!(!report.is_exact());
    let told = report.to_string();
    assert!(
        told.contains("granted, but never used: delete configmaps (core) in the namespace"),
        "{told}"
    );
    assert!(
        told.contains("asked for without a right to it") && told.contains("get configmaps"),
        "{told}"
    );
    Ok(())
}
