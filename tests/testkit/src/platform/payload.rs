//! The payloads of the three agent paths, read as strictly as the contract is written.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The arrays of a snapshot and the kinds of their objects.
const ARRAYS: [(&str, &str); 20] = [
    ("namespaces", "Namespace"),
    ("pods", "Pod"),
    ("services", "Service"),
    ("nodes", "Node"),
    ("deployments", "Deployment"),
    ("statefulsets", "StatefulSet"),
    ("daemonsets", "DaemonSet"),
    ("jobs", "Job"),
    ("cronjobs", "CronJob"),
    ("ingresses", "Ingress"),
    ("network_policies", "NetworkPolicy"),
    ("configmaps", "ConfigMap"),
    ("secrets", "Secret"),
    ("pvcs", "PersistentVolumeClaim"),
    ("service_accounts", "ServiceAccount"),
    ("roles", "Role"),
    ("cluster_roles", "ClusterRole"),
    ("role_bindings", "RoleBinding"),
    ("cluster_role_bindings", "ClusterRoleBinding"),
    ("events", "Event"),
];
/// What a snapshot may say besides, as text.
const OPTIONAL: [&str; 4] = ["kubernetes_version", "platform", "region", "agent_version"];

/// What a snapshot says.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) cluster: String,
    /// The objects of each array that is there, by uid.
    pub(super) arrays: BTreeMap<&'static str, BTreeMap<String, Box<RawValue>>>,
}

/// What an event says.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) cluster: String,
    pub(super) kind: String,
    pub(super) uid: String,
    /// The object; none if it is gone.
    pub(super) object: Option<Box<RawValue>>,
}

/// What an event is about, as far as it can be read.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Subject {
    pub(super) uid: Option<String>,
    pub(super) kind: Option<String>,
    #[serde(rename = "type")]
    pub(super) type_: Option<String>,
}

/// The fields of an object, in their order and with their doubles.
struct Fields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Seen;

        impl<'de> Visitor<'de> for Seen {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Seen)
    }
}

impl Fields {
    fn read(json: &str) -> Result<BTreeMap<String, Box<RawValue>>, String> {
        let Self(fields) = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let mut map = BTreeMap::new();
        for (name, value) in fields {
            if map.insert(name.clone(), value).is_some() {
                return Err(format!("{name} is there twice"));
            }
        }
        Ok(map)
    }
}

/// Takes a field out that has to be a text with something in it.
fn take_text(fields: &mut BTreeMap<String, Box<RawValue>>, name: &str) -> Result<String, String> {
    let raw = fields.remove(name).ok_or_else(|| format!("{name} is missing"))?;
    let text: String = serde_json::from_str(raw.get()).map_err(|_| format!("{name} is no text"))?;
    match text.is_empty() {
        true => Err(format!("{name} is empty")),
        false => Ok(text),
    }
}

fn nothing_else(fields: &BTreeMap<String, Box<RawValue>>) -> Result<(), String> {
    match fields.keys().next() {
        Some(name) => Err(format!("{name} is no field of the contract")),
        None => Ok(()),
    }
}

/// The uid that an object itself names.
fn uid_of(object: &RawValue) -> Result<String, String> {
    let mut fields = Fields::read(object.get())?;
    take_text(&mut fields, "uid").map_err(|why| format!("an object: {why}"))
}

impl Snapshot {
    pub(super) fn read(json: &str) -> Result<Self, String> {
        let mut fields = Fields::read(json)?;
        let cluster = take_text(&mut fields, "cluster_uid")?;
        take_text(&mut fields, "cluster_name")?;
        for name in OPTIONAL {
            if fields.contains_key(name) {
                take_text(&mut fields, name)?;
            }
        }
        let mut arrays = BTreeMap::new();
        for (array, kind) in ARRAYS {
            let Some(raw) = fields.remove(array) else { continue };
            let objects: Vec<Box<RawValue>> =
                serde_json::from_str(raw.get()).map_err(|_| format!("{array} is no array"))?;
            let mut by_uid = BTreeMap::new();
            for object in objects {
                let uid = uid_of(&object).map_err(|why| format!("{array}: {why}"))?;
                if by_uid.insert(uid.clone(), object).is_some() {
                    return Err(format!("{array}: the uid {uid} is there twice"));
                }
            }
            arrays.insert(kind, by_uid);
        }
        nothing_else(&fields)?;
        Ok(Self { cluster, arrays })
    }
}

impl Change {
    pub(super) fn read(json: &str) -> Result<Self, String> {
        let mut fields = Fields::read(json)?;
        let cluster = take_text(&mut fields, "cluster_uid")?;
        let type_ = take_text(&mut fields, "type")?;
        let kind = take_text(&mut fields, "kind")?;
        let uid = take_text(&mut fields, "uid")?;
        take_text(&mut fields, "name")?;
        if fields.contains_key("namespace") {
            take_text(&mut fields, "namespace")?;
        }
        let object = fields.remove("object");
        nothing_else(&fields)?;
        if !ARRAYS.iter().any(|(_, known)| *known == kind) {
            return Err(format!("{kind} is no kind of the contract"));
        }
        // Both generations of agents are understood.
        match (type_.to_ascii_lowercase().as_str(), &object) {
            ("added" | "modified" | "updated", Some(object)) => match uid_of(object)? == uid {
                true => {}
                false => return Err("the object has another uid than the event".to_owned()),
            },
            ("deleted", None) => {}
            ("added" | "modified" | "updated", None) => return Err("object is missing".to_owned()),
            ("deleted", Some(_)) => return Err("object is there, of a deletion".to_owned()),
            _ => return Err(format!("{type_} is no type of the contract")),
        }
        Ok(Self {
            cluster,
            kind,
            uid,
            object,
        })
    }
}

/// Reads a heartbeat; gives the uid of the cluster.
pub(super) fn heartbeat(json: &str) -> Result<String, String> {
    let mut fields = Fields::read(json)?;
    let cluster = take_text(&mut fields, "cluster_uid")?;
    if fields.contains_key("agent_version") {
        take_text(&mut fields, "agent_version")?;
    }
    nothing_else(&fields)?;
    Ok(cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_array_is_not_an_empty_one() {
        let json = r#"{"cluster_uid":"c","cluster_name":"n","pods":[],"events":[{"uid":"e"}]}"#;
        let snapshot = Snapshot::read(json).unwrap();
        let kinds: Vec<_> = snapshot
            .arrays
            .iter()
            .map(|(kind, of)| (*kind, of.len()))
            .collect();
        assert_eq!(kinds, [("Event", 1), ("Pod", 0)]);
    }

    #[test]
    fn what_is_not_in_the_contract_is_named() {
        for (json, why) in [
            (r#"{"cluster_name":"n"}"#, "cluster_uid is missing"),
            (
                r#"{"cluster_uid":"c","cluster_name":"n","pods":[],"pods":[]}"#,
                "pods is there twice",
            ),
            (
                r#"{"cluster_uid":"c","cluster_name":"n","vpcs":[]}"#,
                "vpcs is no field of the contract",
            ),
            (
                r#"{"cluster_uid":"c","cluster_name":"n","pods":[{}]}"#,
                "pods: an object: uid is missing",
            ),
            (
                r#"{"cluster_uid":"c","cluster_name":"n","pods":[{"uid":"p"},{"uid":"p"}]}"#,
                "pods: the uid p is there twice",
            ),
        ] {
            assert_eq!(Snapshot::read(json).unwrap_err(), why);
        }
        let event = |more: &str| {
            let json = format!(r#"{{"cluster_uid":"c","kind":"Pod","uid":"p","name":"n",{more}}}"#);
            Change::read(&json).map(|change| change.object.is_some())
        };
        assert_eq!(event(r#""type":"UPDATED","object":{"uid":"p"}"#), Ok(true));
        assert_eq!(event(r#""type":"deleted""#), Ok(false));
        for (more, why) in [
            (r#""type":"added""#, "object is missing"),
            (
                r#""type":"deleted","object":{"uid":"p"}"#,
                "object is there, of a deletion",
            ),
            (
                r#""type":"added","object":{"uid":"q"}"#,
                "the object has another uid than the event",
            ),
            (r#""type":"moved""#, "moved is no type of the contract"),
        ] {
            assert_eq!(event(more).unwrap_err(), why);
        }
    }
}
