//! Calls of a real API server: verdicts, dry runs, and judges that do not behave.

use std::pin::Pin;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use trustplane_kit::admission::{Effect, Judge, Judges, Request, Verdict};
use trustplane_testkit::{DEADLINE, until};

use crate::admission_rig::{PROCESS, Replica, Rig, clock, entry, webhook};

/// Hangs, panics, refuses or allows, as the object asks for.
struct Moody;

impl Judge for Moody {
    fn judge<'a>(&'a self, request: &'a Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'a>> {
        Box::pin(async {
            match request.name.as_str() {
                "hangs" => std::future::pending().await,
                "panics" => panic!("as asked"),
                "blind" => Verdict::Undecided {
                    why: "the world is out of reach".to_owned(),
                },
                "wrong" | "exempt" => Verdict::deny("data.key", "must be right"),
                _ => Verdict::Allow {
                    warnings: vec!["look twice".to_owned()],
                },
            }
        })
    }
}

/// Adds a label, and says whether it was a dry run.
fn mark(request: &Request) -> Verdict {
    let labels = json!({ "dry-run": request.dry_run.to_string() });
    let patch = json!([{ "op": "add", "path": "/metadata/labels", "value": labels }]);
    Verdict::Change {
        patch: serde_json::from_value(patch).unwrap(),
        warnings: Vec::new(),
    }
}

/// As large as an object of its kind may be.
fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap {
        data: Some([("key".to_owned(), "x".repeat(1_000_000))].into()),
        ..ConfigMap::default()
    };
    map.metadata.name = Some(name.to_owned());
    map
}

struct Court {
    rig: Rig,
    _replica: Replica,
}

impl Court {
    async fn new(name: &str) -> Result<Self> {
        let rig = Rig::new(name).await?;
        let (check, change) = (
            webhook("check", Effect::Validating),
            webhook("change", Effect::Mutating),
        );
        let mut judges = Judges::default();
        judges.add(check.clone(), Moody);
        judges.add(change.clone(), mark);
        let replica = Replica::start(&rig, "replica", &clock(), judges).await?;
        let declared = [check.clone(), change.clone()];
        replica.keep_bundle(&rig, Effect::Validating, &declared);
        replica.keep_bundle(&rig, Effect::Mutating, &declared);
        rig.sandbox
            .register_validating(PROCESS, &[entry(&check, replica.at)])
            .await?;
        rig.sandbox
            .register_mutating(PROCESS, &[entry(&change, replica.at)])
            .await?;
        let court = Self {
            rig,
            _replica: replica,
        };
        // The API server learns of configurations and bundles by watches of its own.
        until("the webhooks to be in force", DEADLINE, || async {
            let refused = court.create("wrong", true).await;
            let labelled = court.create("fine", true).await;
            let in_force = refused.is_err_and(|told| told.contains("must be right"))
                && labelled.is_ok_and(|map| map.metadata.labels.is_some());
            Ok(in_force.then_some(()))
        })
        .await
        .context("start a court")?;
        Ok(court)
    }

    /// Makes a ConfigMap; else what the user is told.
    async fn create(&self, name: &str, dry_run: bool) -> Result<ConfigMap, String> {
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        let api: Api<ConfigMap> = self.rig.sandbox.api();
        let made = api.create(&params, &map(name)).await;
        made.map_err(|error| match error {
            kube::Error::Api(status) => format!("{} {}", status.code, status.message),
            other => other.to_string(),
        })
    }

    async fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.rig.sandbox.api::<ConfigMap>().get_opt(name).await?.is_some())
    }
}

#[tokio::test]
async fn verdicts_reach_the_user_and_a_dry_run_is_judged_the_same() -> Result<()> {
    let court = Court::new("verdicts").await?;
    let label = |map: ConfigMap| map.metadata.labels.unwrap_or_default()["dry-run"].clone();
    for dry_run in [true, false] {
        let told = court.create("wrong", dry_run).await.unwrap_err();
        assert_eq!(
            told,
            "422 admission webhook \"check.test.trustplane.io\" denied the request: data.key: must be right"
        );
        assert_eq!(
            label(court.create("fine", dry_run).await.unwrap()),
            dry_run.to_string()
        );
        assert_eq!(court.exists("fine").await?, !dry_run);
    }
    assert!(!court.exists("wrong").await?);
    Ok(())
}

#[tokio::test]
async fn a_request_that_no_match_condition_selects_is_not_judged() -> Result<()> {
    let court = Court::new("exempt").await?;
    let exempt = court.create("exempt", true).await.map_err(anyhow::Error::msg)?;
    assert_eq!(exempt.metadata.labels, None, "neither checked nor changed");
    court.create("wrong", true).await.unwrap_err();
    Ok(())
}

/// The user hears which webhook failed, and why.
fn assert_failed(told: &str, words: &str) {
    let which = "failed calling webhook \"check.test.trustplane.io\"";
    assert!(told.contains(which) && told.contains(words), "{told}");
}

#[tokio::test]
async fn a_judge_that_does_not_behave_costs_its_own_call_and_no_other() -> Result<()> {
    let court = Court::new("moods").await?;
    let hanging = court.create("hangs", true);
    let others = async {
        let cases = [
            ("panics", "the judge failed"),
            ("blind", "the world is out of reach"),
        ];
        for (name, words) in cases {
            assert_failed(&court.create(name, true).await.unwrap_err(), words);
            court.create("fine", true).await.map_err(anyhow::Error::msg)?;
        }
        anyhow::Ok(())
    };
    let (hung, others) = tokio::join!(hanging, others);
    others?;
    assert_failed(&hung.unwrap_err(), "the judge did not answer in time");
    court.create("fine", true).await.map_err(anyhow::Error::msg)?;
    Ok(())
}
