use trustplane_plan::kinds::SECRET;
use trustplane_plan::{Expect, Manifest};
use trustplane_process::ca::Policy;
use trustplane_process::secret::Secret;
use trustplane_process::tls;

use super::*;

const AGENT: &str = "hsm-agent-pico-e66";

fn authority() -> Authority {
    let policy = Policy {
        ca_life: SignedDuration::from_hours(24 * 1000),
        leaf_life: SignedDuration::from_hours(2160),
        propagation: SignedDuration::from_hours(1),
    };
    Authority::create("test", policy, Timestamp::now()).unwrap()
}

struct Desk {
    authority: Authority,
    agent: ObjectRef,
}

impl Desk {
    fn new() -> Self {
        Self {
            authority: authority(),
            agent: ObjectRef::new(Some("vault"), AGENT),
        }
    }

    /// A write as it is decided.
    fn recipe(&self) -> Apply {
        let made_of = json!({ "tls.crt": "x", "tls.key": "", "ca.crt": self.authority.bundle_pem() });
        Apply::create(Manifest::new(SECRET, Some("vault"), "s").with("data", made_of))
    }

    fn issue(&self, needed: Apply, now: Timestamp) -> Option<Apply> {
        let office = Office {
            authority: &self.authority,
            life: SignedDuration::from_hours(48),
            now,
        };
        office.issue(&self.agent, needed).unwrap()
    }
}

fn entry(body: &Value, key: &str) -> Vec<u8> {
    STANDARD.decode(body["data"][key].as_str().unwrap()).unwrap()
}

#[test]
fn an_agent_gets_a_certificate_and_a_bundle() {
    let (desk, now) = (Desk::new(), Timestamp::now());
    let mut needed = desk.recipe();
    needed.expect = Expect::Seen {
        uid: "u".into(),
        resource_version: "7".into(),
    };
    let issued = desk.issue(needed.clone(), now).unwrap();
    assert_eq!(
        (issued.expect, issued.conflicts),
        (needed.expect, needed.conflicts)
    );
    let body = issued.manifest.body();
    tls::certified_key(&entry(&body, "tls.crt"), &Secret::new(entry(&body, "tls.key"))).unwrap();
    assert_eq!(entry(&body, "ca.crt"), desk.authority.bundle_pem().into_bytes());
    let ends: Timestamp = body["metadata"]["annotations"][ENDS]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let left = ends.duration_since(now);
    assert!(
        left > SignedDuration::from_hours(47) && left <= SignedDuration::from_hours(48),
        "{left}"
    );
}

#[test]
fn a_recipe_of_another_authority_gets_no_certificate() {
    let mut desk = Desk::new();
    let needed = desk.recipe();
    desk.authority = authority();
    assert_eq!(desk.issue(needed, Timestamp::now()), None);
}

#[test]
fn a_key_of_a_record_has_32_bytes_and_each_is_another() {
    let made = || {
        let bare = Apply::create(Manifest::new(SECRET, Some("vault"), "s"));
        let made = record_key(bare).unwrap();
        assert_eq!(made.expect, Expect::Absent);
        entry(&made.manifest.body(), "record.key")
    };
    let key = made();
    assert_eq!(key.len(), 32);
    assert_ne!(made(), key);
}

#[test]
fn an_so_pin_has_sixteen_digits_and_each_is_another() {
    let made = || {
        let bare = Apply::create(Manifest::new(SECRET, Some("vault"), "s"));
        let body = so_pin(bare).unwrap().manifest.body();
        String::from_utf8(entry(&body, "so-pin")).unwrap()
    };
    let pin = made();
    assert!(
        pin.len() == 16 && pin.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "{} characters",
        pin.len()
    );
    assert_ne!(made(), pin);
}
