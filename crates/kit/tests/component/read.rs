//! Reads of objects that hold a value, when the answer is something else: nothing of it is told, and nothing of it is taken.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams, PostParams};
use serde::Deserialize;
use serde_json::json;
use trustplane_kit::apply::{INSTALLATION_KEY, WriteError, Writer, installation_key};
use trustplane_kit::lease::Fence;
use trustplane_kit::read::read_object;
use trustplane_plan::kinds::{CONFIG_MAP, SECRET};
use trustplane_plan::{Classified, Keep, ObjectRef};
use trustplane_testkit::canary::{Canary, Search};
use trustplane_testkit::proxy::{Fault, Match, Proxy, Rule, Script, Twist, Verb};
use trustplane_testkit::{Log, Rules, Sandbox};

use crate::admission_rig;
use crate::write_rig::{MANAGER, Rig, clients};

/// Takes any object, also a list.
#[derive(Debug, Deserialize)]
struct Content {
    #[serde(default)]
    data: BTreeMap<String, serde_json::Value>,
}

/// Puts a value into an object of each kind, and into others beside it.
async fn plant(sandbox: &Sandbox, canary: &Canary) -> Result<()> {
    let secrets = sandbox.api::<Secret>();
    for name in ["db", "other"] {
        let data = json!({ "password": canary.value() });
        let secret = serde_json::from_value(json!({ "metadata": { "name": name }, "stringData": data }))?;
        secrets.create(&PostParams::default(), &secret).await?;
        let map = serde_json::from_value(json!({ "metadata": { "name": name }, "data": data }))?;
        sandbox
            .api::<ConfigMap>()
            .create(&PostParams::default(), &map)
            .await?;
    }
    let (key, value) = (ByteString(vec![7; 32]), ByteString(canary.value().into()));
    let kept = json!({ "metadata": { "name": INSTALLATION_KEY }, "data": { "key": key, "password": value } });
    secrets
        .create(&PostParams::default(), &serde_json::from_value(kept)?)
        .await?;
    Ok(())
}

fn twist(proxy: &Proxy, resource: &str, twist: Twist) -> Script {
    let reads = Match::verb(Verb::Get).resource(resource);
    proxy.add(Rule::new(reads, Fault::Twist(twist)).once())
}

#[track_caller]
fn assert_wrong<T>(answer: Result<T, WriteError>, script: &Script, search: &mut Search) {
    assert_eq!(script.count(), 1);
    let Err(error) = answer else {
        panic!("an answer of another kind was taken for the object")
    };
    assert_eq!(error.reason(), "WrongAnswer", "{error}");
    search.text("the error", &format!("{error} {error:?}"));
}

#[tokio::test]
async fn a_wrong_answer_is_neither_told_nor_taken_for_an_object() -> Result<()> {
    let log = Log::collect()?;
    let canary = Canary::new("password");
    let verbs = &["get", "patch"];
    let rules = Rules::default()
        .allow("", "configmaps", verbs)
        .allow("", "secrets", verbs);
    let rig = Rig::with("wrong-answer", rules).await?;
    plant(&rig.sandbox, &canary).await?;
    let proxy = Proxy::start(rig.sandbox.plane()).await?;
    let client = clients(&rig.instance.through(&proxy), Fence::always())?.call;
    let writer = Writer::new(client.clone(), MANAGER, &rig.metrics);
    let (object, keep) = (rig.object("db"), Keep::owned_by(MANAGER));
    let mut search = Search::for_canaries([&canary]);
    for wrong in Twist::ALL {
        for kind in [SECRET, CONFIG_MAP] {
            let script = twist(&proxy, &kind.plural, wrong);
            let answer = read_object::<Content>(&client, &kind, &object).await;
            assert_wrong(answer, &script, &mut search);
            let script = twist(&proxy, &kind.plural, wrong);
            assert_wrong(writer.get_meta(&kind, &object, &keep).await, &script, &mut search);
        }
        let script = twist(&proxy, "secrets", wrong);
        let key = installation_key(&client, rig.sandbox.namespace()).await;
        assert_wrong(key, &script, &mut search);
    }
    search.text("the log", &log.text());
    search.assert_clean();
    let found: Option<Content> = read_object(&client, &SECRET, &object).await?;
    assert_eq!(found.map(|found| found.data.len()), Some(1));
    let none: Option<Content> = read_object(&client, &SECRET, &rig.object("none")).await?;
    assert!(none.is_none());
    Ok(())
}

#[tokio::test]
async fn a_wrong_answer_about_the_authority_is_not_told() -> Result<()> {
    let log = Log::collect()?;
    let canary = Canary::new("entry beside the CA");
    let rig = admission_rig::Rig::new("wrong-ca").await?;
    let shared = rig
        .open("one", Fence::closed(), &admission_rig::clock())
        .await??;
    let before = shared.subscribe().borrow().clone();
    let beside = json!({ "stringData": { "password": canary.value() } });
    rig.secrets()
        .patch(
            admission_rig::SECRET,
            &PatchParams::default(),
            &Patch::Merge(beside),
        )
        .await?;
    let mut search = Search::for_canaries([&canary]);
    for wrong in Twist::ALL {
        let script = twist(&rig.proxy, "secrets", wrong);
        let error = shared.refresh().await.unwrap_err();
        assert_eq!(script.count(), 1);
        assert!(error.to_string().contains("is not this object"), "{error}");
        search.text("the error", &format!("{error} {error:?}"));
    }
    search.text("the log", &log.text());
    search.assert_clean();
    assert_eq!(
        shared.refresh().await?.state(),
        before.state(),
        "the CA is as it was"
    );
    Ok(())
}

#[tokio::test]
async fn a_name_that_no_object_has_is_asked_of_nobody() -> Result<()> {
    let rules = Rules::default().allow("", "secrets", &["get", "list"]);
    let rig = Rig::with("no-name", rules).await?;
    let proxy = Proxy::start(rig.sandbox.plane()).await?;
    let client = clients(&rig.instance.through(&proxy), Fence::always())?.call;
    for odd in ["", "?", "db?watch=1", "db#", "a/b", "..", "a%2fb"] {
        for object in [rig.object(odd), ObjectRef::new(Some("a?"), "db")] {
            let answer = read_object::<Content>(&client, &SECRET, &object).await;
            assert!(matches!(answer, Err(WriteError::Invalid { .. })), "{odd:?}");
        }
    }
    assert_eq!(proxy.requests(&Match::any()).len(), 0);
    Ok(())
}
