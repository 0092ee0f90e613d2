//! Tests of delivery in a small world: tokens, the Secret as the API server has it after our writes, and the last status.

mod conflicts;
mod copies;
mod deletion;
mod delivery;
mod faults;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value as Json, json};
use trustplane_api::hsm::{HsmSecretSpec, HsmSecretStatus};
use trustplane_plan::{Keep, Manifest, Meta, ObjectRef, Plan, Step};

use super::copies::{CopyState, TokenCopy, TokenView};
use super::*;
use crate::checksum::{DataDigest, checksum};
use crate::decide::world::{Cluster, at, fingerprinter, meta};
use crate::model::data;
use crate::secret::{Data, Secret};
use crate::version::Stamp;

pub(super) const NAMESPACE: &str = "shop";

/// One HSMSecret, and everything that decisions about it depend on.
pub(super) struct Stage {
    pub situation: Situation,
    /// What the source token holds.
    pub data: Data,
    pub now: i64,
    /// The paths that plans have claimed.
    pub claimed: Vec<String>,
}

pub(super) fn object(namespace: &str, name: &str, created: &str) -> Meta {
    meta(json!({
        "name": name, "namespace": namespace, "uid": format!("uid-{namespace}-{name}"), "resourceVersion": "1",
        "generation": 1, "creationTimestamp": created,
    }))
}

pub(super) fn copy_of(data: &Data, version: u64) -> TokenCopy {
    let stamp = Stamp {
        version,
        ..Stamp::default()
    };
    TokenCopy {
        metadata: crate::metadata::Metadata {
            stamp,
            ..Default::default()
        },
        checksum: checksum(data),
        digest: DataDigest::of(data).to_hex(),
        keys: u32::try_from(data.len()).unwrap(),
    }
}

pub(super) fn token(name: &str, state: CopyState) -> TokenView {
    TokenView {
        name: name.to_owned(),
        device: ObjectRef::new(Some("tokens"), "pico"),
        agent: ObjectRef::new(Some("tokens"), name),
        state,
    }
}

pub(super) fn held(name: &str, value: &str, version: u64) -> TokenView {
    let copy = copy_of(&data(&[("password", value)]), version);
    token(name, CopyState::Held(Box::new(copy)))
}

pub(super) fn away(name: &str) -> TokenView {
    token(name, CopyState::Away("its agent has no running pod".to_owned()))
}

impl Stage {
    /// The HSMSecret of the guide, and a token that has its secret.
    pub fn new() -> Self {
        let object = object(NAMESPACE, "db", "2026-07-01T00:00:00Z");
        let spec = HsmSecretSpec {
            hsm_path: Some("shop/db".to_owned()),
            secret_name: Some("db-credentials".to_owned()),
            ..HsmSecretSpec::default()
        };
        let placement = Placement::of(&object.object, &spec, Tenancy::Flat);
        let situation = Situation {
            object,
            spec: Some(spec),
            status: HsmSecretStatus::default(),
            served: true,
            placement,
            rivals: Vec::new(),
            sharers: Vec::new(),
            live: LiveSecret::Absent,
            tokens: vec![held("pico/a", "s3cr3t", 1)],
            tenant: None,
            listed: None,
            tenancy: Tenancy::Flat,
            trouble: None,
            failures: 0,
        };
        Self {
            situation,
            data: data(&[("password", "s3cr3t")]),
            now: 0,
            claimed: Vec::new(),
        }
    }

    /// Puts this content on all tokens.
    pub fn hold(&mut self, pairs: &[(&str, &str)], version: u64) {
        self.data = data(pairs);
        let copy = copy_of(&self.data, version);
        for token in &mut self.situation.tokens {
            token.state = CopyState::Held(Box::new(copy.clone()));
        }
    }

    pub fn spec(&mut self) -> &mut HsmSecretSpec {
        self.situation.spec.as_mut().unwrap()
    }

    /// The plan of one look.
    pub fn decide(&self) -> Plan<DeliveryAction> {
        let assessment = assess(&self.situation, &fingerprinter());
        let reading = assessment.source().map(|_| {
            Ok(Secret {
                data: self.data.clone(),
                metadata: Default::default(),
            })
        });
        let managed_fields = assessment.takes_over().map(|_| vec![json!({})]);
        let input = DeliveryInput {
            situation: self.situation.clone(),
            assessment,
            reading,
            managed_fields,
        };
        decide_delivery(&input, self.time())
    }

    fn time(&self) -> Timestamp {
        at(self.now)
    }

    /// Makes one look and carries its plan out. Answers the steps.
    pub fn look(&mut self) -> Vec<String> {
        let plan = self.decide();
        self.now += 1;
        let said = plan.steps.iter().map(ToString::to_string).collect();
        for step in plan.steps {
            self.carry_out(step);
        }
        said
    }

    /// Makes looks until there is nothing to do. Answers the steps of all looks.
    pub fn settle(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..5 {
            let steps = self.look();
            if steps.is_empty() {
                return all;
            }
            all.extend(steps);
        }
        panic!("it does not come to rest: {all:#?}");
    }

    fn carry_out(&mut self, step: Step<DeliveryAction>) {
        match step {
            Step::Finalizer(change) => {
                self.situation
                    .object
                    .finalizers
                    .retain(|name| name != change.name);
                if change.present {
                    self.situation.object.finalizers.push(change.name.to_owned());
                }
            }
            Step::Status(status) => {
                self.situation.status = serde_json::from_value(status.status).unwrap();
            }
            Step::Apply(apply) => self.situation.live = written(&apply.manifest),
            Step::Delete(_) => self.situation.live = LiveSecret::Absent,
            Step::Call(DeliveryAction::Claim { path, namespace }) => {
                self.claimed.push(path.to_string());
                self.situation.tenant = Some(namespace);
            }
            Step::Call(DeliveryAction::Release { .. }) => self.situation.tenant = None,
            _ => {}
        }
    }

    pub fn condition(&self, type_: &str) -> (String, String) {
        let condition = self.situation.status.conditions.get(type_).unwrap();
        (condition.status.to_string(), condition.reason.clone())
    }

    pub fn error(&self) -> String {
        self.situation.status.last_error.clone().unwrap_or_default()
    }

    pub fn sync_status(&self) -> &str {
        self.situation.status.sync_status.as_deref().unwrap_or_default()
    }

    /// Edits the Secret, as a person would.
    pub fn edit(&mut self, edit: impl FnOnce(&mut Meta, &mut SecretContent)) {
        let LiveSecret::Found {
            meta,
            content: Some(content),
        } = &mut self.situation.live
        else {
            panic!("there is no Secret")
        };
        edit(meta, content);
    }
}

/// The Secret as the watch shows it after a write.
pub(super) fn written(manifest: &Manifest) -> LiveSecret {
    let mut cluster = Cluster::default();
    cluster.put(manifest);
    let (meta, body) = cluster.objects.into_values().next().unwrap();
    LiveSecret::Found {
        meta: Box::new(meta),
        content: Some(content(&body)),
    }
}

fn content(body: &Json) -> SecretContent {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let pairs = body["data"].as_object().unwrap();
    let values: Vec<(String, String)> = pairs
        .iter()
        .map(|(key, value)| {
            let bytes = STANDARD.decode(value.as_str().unwrap()).unwrap();
            (key.clone(), String::from_utf8(bytes).unwrap())
        })
        .collect();
    let pairs: Vec<(&str, &str)> = values
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    content_of(body["type"].as_str().unwrap(), &data(&pairs))
}

pub(super) fn content_of(secret_type: &str, data: &Data) -> SecretContent {
    SecretContent {
        secret_type: secret_type.to_owned(),
        immutable: false,
        keys: data
            .keys()
            .map(|key| key.as_str().to_owned())
            .collect::<BTreeSet<_>>(),
        digest: Some(DataDigest::of(data).to_hex()),
        checksum: checksum(data),
    }
}

/// A Secret that our writes have not made, with these labels and owners.
pub(super) fn foreign(labels: Json, owners: Json) -> LiveSecret {
    let json = json!({ "metadata": {
        "name": "db-credentials", "namespace": NAMESPACE, "uid": "theirs", "resourceVersion": "9",
        "labels": labels, "ownerReferences": owners,
    } });
    LiveSecret::Found {
        meta: Box::new(Meta::decode(&json.to_string(), &Keep::owned_by("m")).unwrap()),
        content: None,
    }
}
