use base64::Engine;
use jiff::SignedDuration;
use trustplane_plan::{FieldSet, Keep};
use trustplane_process::ca::Policy;
use trustplane_process::secret::Secret;
use trustplane_process::tls;

use super::*;

const AGENT: &str = "hsm-agent-pico-e66";

fn device() -> Meta {
    let body =
        json!({"metadata": {"name": "pico", "namespace": "vault", "uid": "d1", "resourceVersion": "3"}});
    Meta::decode(&body.to_string(), &Keep::default()).unwrap()
}

fn now() -> Timestamp {
    Timestamp::now()
}

fn authority() -> Authority {
    let policy = Policy {
        ca_life: SignedDuration::from_hours(24 * 1000),
        leaf_life: SignedDuration::from_hours(2160),
        propagation: SignedDuration::from_hours(1),
    };
    Authority::create("test", policy, now()).unwrap()
}

struct Desk {
    authority: Authority,
    fingerprinter: Fingerprinter,
    device: Meta,
    agent: ObjectRef,
}

impl Desk {
    fn new() -> Self {
        Self {
            authority: authority(),
            fingerprinter: Fingerprinter::new(&[7; 32]),
            device: device(),
            agent: ObjectRef::new(Some("vault"), AGENT),
        }
    }

    fn office(&self, now: Timestamp) -> Office<'_> {
        Office {
            authority: &self.authority,
            lives: Lives::default(),
            fingerprinter: &self.fingerprinter,
            now,
        }
    }

    fn holder(&self) -> Holder<'_> {
        Holder {
            agent: &self.agent,
            device: &self.device,
        }
    }

    /// What is written, and the live object after it.
    fn write(&self, live: Option<&Meta>, now: Timestamp) -> (Value, Meta) {
        let wish = self.office(now).certificate(&self.holder(), live).unwrap();
        let Convergence::Write(apply) = wish else {
            panic!("expected a write, got {wish:?}")
        };
        after(&apply)
    }

    fn good_for(&self, live: &Meta, now: Timestamp) -> Option<Duration> {
        self.office(now).good_for(&self.holder(), live)
    }
}

/// The live object as the API server would answer after a write.
fn after(apply: &Apply) -> (Value, Meta) {
    let mut body = apply.manifest.body();
    body["metadata"]["uid"] = "s1".into();
    body["metadata"]["resourceVersion"] = "9".into();
    let named = |map: &Value| -> Value {
        let keys = map.as_object().into_iter().flat_map(|map| map.keys());
        keys.map(|key| (format!("f:{key}"), json!({}))).collect()
    };
    let metadata = &body["metadata"];
    let mut owned = json!({
        "f:type": {}, "f:data": named(&body["data"]),
        "f:metadata": {"f:labels": named(&metadata["labels"]), "f:annotations": named(&metadata["annotations"])},
    });
    if metadata["ownerReferences"].is_array() {
        owned["f:metadata"]["f:ownerReferences"] = json!({});
    }
    body["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Apply", "fieldsV1": owned}]);
    let meta = Meta::decode(&body.to_string(), &Keep::owned_by("m")).unwrap();
    (body, meta)
}

fn entry(body: &Value, key: &str) -> Vec<u8> {
    STANDARD.decode(body["data"][key].as_str().unwrap()).unwrap()
}

#[test]
fn an_agent_gets_a_certificate_a_bundle_and_the_key_of_its_record() {
    let desk = Desk::new();
    let (body, live) = desk.write(None, now());
    assert_eq!(live.object.name(), "hsm-agent-pico-e66-tls");
    assert_eq!(body["type"], "kubernetes.io/tls");
    assert_eq!(
        body["metadata"]["labels"],
        json!({
            "app.kubernetes.io/managed-by": "hsm-secrets-operator",
            "app.kubernetes.io/component": "mtls", "hsm.j5t.io/device": "pico",
        })
    );
    assert_eq!(live.owners[0].uid, "d1");
    tls::certified_key(&entry(&body, "tls.crt"), &Secret::new(entry(&body, "tls.key"))).unwrap();
    assert_eq!(entry(&body, "ca.crt"), desk.authority.bundle_pem().into_bytes());
    assert_eq!(entry(&body, "record.key").len(), 32);
}

#[test]
fn what_is_good_stays_until_it_is_time() {
    let desk = Desk::new();
    let issued = now();
    let (_, live) = desk.write(None, issued);
    let left = desk.good_for(&live, issued).unwrap();
    assert_eq!(left.as_secs() / 3600, 2160 - 720);
    let settled = desk
        .office(issued)
        .certificate(&desk.holder(), Some(&live))
        .unwrap();
    assert_eq!(settled, Convergence::Settled);
    let due = issued + SignedDuration::from_hours(1440);
    assert_eq!(desk.good_for(&live, due), None);
    let (_, renewed) = desk.write(Some(&live), due);
    assert!(desk.good_for(&renewed, due).is_some());
}

#[test]
fn a_certificate_of_another_authority_is_replaced() {
    let mut desk = Desk::new();
    let (_, live) = desk.write(None, now());
    // The CA was lost, and another made: nobody trusts the old certificate any more.
    desk.authority = authority();
    assert_eq!(desk.good_for(&live, now()), None);
    let (body, live) = desk.write(Some(&live), now());
    assert_eq!(entry(&body, "ca.crt"), desk.authority.bundle_pem().into_bytes());
    // A successor is announced: agents have to know it before it signs.
    let later = now() + SignedDuration::from_hours(24 * 700);
    desk.authority = desk.authority.step(later).unwrap().next.unwrap();
    assert_eq!(desk.good_for(&live, now()), None);
}

#[test]
fn a_secret_that_somebody_has_touched_is_replaced() {
    let desk = Desk::new();
    let (_, live) = desk.write(None, now());
    let mut taken = live.clone();
    taken.fields = FieldSet::from_fields_v1(&json!({"f:type": {}, "f:data": {"f:tls.crt": {}}}));
    let mut endless = live.clone();
    endless.annotations.remove(ENDS);
    let mut nonsense = live.clone();
    nonsense.annotations.insert(ENDS.to_owned(), "soon".to_owned());
    for damaged in [taken, endless, nonsense] {
        assert_eq!(desk.good_for(&damaged, now()), None);
        desk.write(Some(&damaged), now());
    }
}

#[test]
fn the_key_of_a_record_belongs_to_the_agent_and_never_changes() {
    let mut desk = Desk::new();
    let (first, _) = desk.write(None, now());
    desk.authority = authority();
    let (second, _) = desk.write(None, now());
    assert_eq!(entry(&first, "record.key"), entry(&second, "record.key"));
    desk.agent = ObjectRef::new(Some("other"), AGENT);
    desk.device.object = ObjectRef::new(Some("other"), "pico");
    let (third, _) = desk.write(None, now());
    assert_ne!(entry(&first, "record.key"), entry(&third, "record.key"));
}

#[test]
fn an_so_pin_has_sixteen_digits_and_no_owner() {
    let desk = Desk::new();
    let (body, live) = after(&so_pin(&desk.holder()).unwrap());
    let pin = String::from_utf8(entry(&body, "so-pin")).unwrap();
    assert!(
        pin.len() == 16 && pin.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "{pin:?}"
    );
    assert!(live.owners.is_empty(), "it outlives its HSMDevice");
    let (other, _) = after(&so_pin(&desk.holder()).unwrap());
    assert_ne!(entry(&other, "so-pin"), pin.into_bytes());
}
