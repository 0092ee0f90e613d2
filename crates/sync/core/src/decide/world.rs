//! A world with one Secret, in which plans are carried out as the API server would.

use std::sync::Arc;

use serde_json::json;
use trustplane_plan::{Expect, Keep, Meta};

use super::*;
use crate::data::{Payload, Value};
use crate::fetch::Lease;
use crate::grammar;
use crate::pod::{Asks, Pod};
use crate::policy::Rules;
use crate::situation::{Nature, Stores, Stranger, assess};

pub(super) const MANAGER: &str = "trustplane-sync";

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

pub(super) fn settings() -> Settings {
    Settings::default()
}

pub(super) fn key() -> Fingerprinter {
    Fingerprinter::new(&[7; 32])
}

pub(super) fn asks(fields: &str, force: Option<&str>) -> Asks {
    let text = format!("{{provider: mock, path: shop/db, secretName: db, {fields}}}");
    Asks {
        annotation: Arc::new(grammar::parse(&text, &["mock"])),
        force: force.map(Into::into),
    }
}

pub(super) fn pod(name: &str, created: i64, fields: &str) -> Pod {
    Pod {
        object: ObjectRef::new(Some("shop"), name),
        uid: format!("uid-{name}").into(),
        created: at(created),
        workload: format!("Deployment/{name}").as_str().into(),
        service_account: None,
        asks: asks(fields, None),
    }
}

/// A world with one Secret, in which plans are carried out.
pub(super) struct World {
    pub pods: Vec<Pod>,
    pub live: Live,
    pub record: Record,
    /// How often in a row it has failed.
    pub failures: u32,
    pub answer: Result<&'static str, FetchError>,
    pub inherited: Option<Inherited>,
    pub settings: Settings,
    pub rules: Rules,
    pub stores: Stores,
    pub news: u64,
    pub contested: usize,
    /// What the API server holds, with the field sets of managers.
    body: Json,
    versions: u32,
    pub asked: u32,
    /// Whether there is no room for notes.
    pub deaf: bool,
    /// How long what the provider gives lasts.
    pub lease: Option<Duration>,
}

impl World {
    pub fn new(pods: Vec<Pod>) -> Self {
        Self {
            pods,
            live: Live::Absent,
            record: Record::new(at(0)),
            failures: 0,
            answer: Ok(r#"{"user":"u","password":"p"}"#),
            inherited: None,
            settings: settings(),
            rules: Rules::off(),
            stores: Stores::new(),
            news: 0,
            contested: 1,
            body: Json::Null,
            versions: 1,
            asked: 0,
            deaf: false,
            lease: None,
        }
    }

    /// Looks once; gives the steps other than what is only remembered.
    pub fn look(&mut self, second: i64) -> Vec<String> {
        let plan = self.plan(second);
        self.failures = match plan.ending {
            Ending::Done => 0,
            Ending::Failed(_) => self.failures + 1,
            Ending::StillFailing => self.failures,
        };
        let mut shown = Vec::new();
        for step in plan.steps {
            let text = step.to_string();
            match step {
                Step::Remember(Action::Remember(_, record)) => self.record = *record,
                Step::Call(Action::Inherit(_, _)) => shown.push("inherit".to_owned()),
                Step::Call(Action::Placed(_)) => self.record.placed = true,
                Step::Remember(Action::Owe(_, owed)) => self.record.owed.extend(owed),
                Step::TellOnce(_, _) if self.deaf => shown.push(format!("refused: {text}")),
                Step::TellOnce(_, Action::Told { id, at, .. }) => {
                    self.record.note_told(id, at);
                    shown.push(text);
                }
                Step::Remember(Action::Forget(_)) => self.record = Record::new(at(second)),
                Step::Apply(apply) => {
                    self.apply(&apply);
                    shown.push(text);
                }
                Step::Delete(_) => {
                    self.live = Live::Absent;
                    shown.push(text);
                }
                _ => shown.push(text),
            }
        }
        shown
    }

    pub fn plan(&mut self, second: i64) -> Plan<Action> {
        let situation = Situation {
            secret: ObjectRef::new(Some("shop"), "db"),
            pods: self.pods.iter().cloned().map(Arc::new).collect(),
            live: self.live.clone(),
            record: self.record.clone(),
            failures: self.failures,
            rules: self.rules.clone(),
            stores: self.stores.clone(),
            news: self.news,
            contested: self.contested,
            looked: at(second),
        };
        let assessment = assess(&situation, &self.settings);
        let cause = assessment.cause(&situation, &self.settings);
        let mut answers = BTreeMap::new();
        if cause.is_some() {
            self.asked += 1;
            for claim in &assessment.shares.winners {
                let answer = self.answer.clone().map(|text| {
                    Arc::new(Fetched {
                        provider: "mock",
                        payload: Payload::Bytes(Value::new(text)),
                        version: Some("v1".to_owned()),
                        lease: self.lease.map(|lasts| Lease {
                            id: format!("lease-{}", self.asked),
                            lasts,
                        }),
                    })
                });
                answers.insert(claim.asked(), answer);
            }
        }
        let input = Input {
            situation,
            assessment,
            cause,
            answers,
            inherited: self.inherited.clone(),
        };
        decide(&input, &self.settings, &key())
    }

    /// What the API server makes of an apply.
    fn apply(&mut self, apply: &trustplane_plan::Apply) {
        match (&self.live, &apply.expect) {
            (Live::Absent, Expect::Absent) => {}
            (
                Live::Ours(meta) | Live::Foreign(Stranger { meta, .. }),
                Expect::Seen { resource_version, .. },
            ) => {
                assert_eq!(&meta.resource_version, resource_version);
            }
            (live, expect) => panic!("{live:?} {expect:?}"),
        }
        let mut body = apply.manifest.body();
        body["metadata"]["uid"] = "uid-db".into();
        body["metadata"]["managedFields"] = json!([{
            "manager": MANAGER, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields(&apply.manifest.body()),
        }]);
        self.body = body;
        self.touch(|_| {});
    }

    pub fn meta(&self) -> &Meta {
        match &self.live {
            Live::Ours(meta) => meta,
            other => panic!("{other:?}"),
        }
    }

    /// Changes the live object behind our back.
    pub fn touch(&mut self, change: impl FnOnce(&mut Json)) {
        change(&mut self.body);
        self.versions += 1;
        self.body["metadata"]["resourceVersion"] = self.versions.to_string().into();
        self.live = Live::Ours(Meta::decode(&self.body.to_string(), &Keep::owned_by(MANAGER)).unwrap());
    }
}

/// The fields of an apply as the API server records them.
fn fields(body: &Json) -> Json {
    fn tree(value: &Json) -> Json {
        match value {
            Json::Object(map) => map
                .iter()
                .map(|(key, value)| (format!("f:{key}"), tree(value)))
                .collect(),
            _ => json!({}),
        }
    }
    let mut body = body.clone();
    for part in ["apiVersion", "kind"] {
        body.as_object_mut().unwrap().remove(part);
    }
    for part in ["name", "namespace"] {
        body["metadata"].as_object_mut().unwrap().remove(part);
    }
    tree(&body)
}

/// Takes a field from our set, as the API server does when somebody else changes it.
pub(super) fn lose(body: &mut Json, parent: &str, name: &str) {
    let pointer = format!("/metadata/managedFields/0/fieldsV1{parent}");
    body.pointer_mut(&pointer)
        .and_then(Json::as_object_mut)
        .unwrap()
        .remove(name)
        .unwrap();
}

pub(super) fn stranger(metadata: Json, secret_type: &str, immutable: bool) -> Stranger {
    let mut body =
        json!({"metadata": {"name": "db", "namespace": "shop", "uid": "u", "resourceVersion": "5"}});
    for (key, value) in metadata.as_object().unwrap() {
        body["metadata"][key] = value.clone();
    }
    Stranger {
        meta: Meta::decode(&body.to_string(), &Keep::owned_by(MANAGER)).unwrap(),
        nature: Some(Nature {
            secret_type: secret_type.to_owned(),
            immutable,
        }),
    }
}
