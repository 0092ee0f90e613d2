//! A secret on the tokens becomes a Secret of another namespace, and a pod on another node reads it, also when it has changed.

mod shop;

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use serde_json::{Value, json};
use trustplane_api::hsm::delivery::{DEGRADED, DELIVERED};
use trustplane_api::hsm::names::{SECRET_FINALIZER, SYNCED_AT_ANNOTATION};
use trustplane_e2e::{Said, try_say};
use trustplane_testkit::canary::Canary;

use crate::devices::TOKENS;
use crate::policy::holds_nowhere;
use crate::stage::{Pod, Stage};

pub use shop::SHOP;
use shop::{Shop, values};

/// Where the secret is on the tokens.
const PATH: &str = "shop/db";
/// The device whose tokens have it: tokens of others come and go meanwhile.
const DEVICE: &str = "softhsm";
/// The HSMSecret whose Secret the pod reads.
const DB: &str = "db";
const SECRET: &str = "db-credentials";
/// Another HSMSecret for the same path, with a Secret of the same name.
const SPARE: &str = "spare";

/// Waits until every Secret is in line, and every token with a copy can be asked.
pub fn are_in_sync(stage: &Stage<'_>) {
    let holds = |object: &Value, name: &str| {
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.find(|found| found["type"] == name);
        found.is_some_and(|found| found["status"] == "True")
    };
    stage.until("every HSMSecret to be in sync", || {
        let all = Shop(stage).read(&["get", "hsmsecrets"]);
        let mut all = all["items"].as_array()?.iter();
        all.all(|object| holds(object, "Ready") && !holds(object, DEGRADED))
            .then_some(())
    });
}

/// A secret that was delivered.
pub struct Delivered<'a> {
    shop: Shop<'a>,
    user: Canary,
    passwords: [Canary; 2],
    /// The Secret and the pod, as they are to stay.
    secret: Value,
    pod: Pod,
}

impl<'a> Delivered<'a> {
    /// Puts a secret on the tokens, and follows it into a pod on this node: when it is new, when it has changed, and when the
    /// HSMSecret was deleted and made again.
    pub fn to_a_pod(stage: &'a Stage<'a>, node: &str) -> Self {
        let mut delivered = Self {
            shop: Shop(stage),
            user: Canary::new("user"),
            passwords: ["first password", "second password"].map(Canary::new),
            secret: Value::Null,
            pod: Pod::default(),
        };
        delivered.shop.open();
        delivered.begins();
        delivered.pod = delivered.shop.reader_on(node, SECRET);
        assert_eq!(delivered.shop.file("user"), delivered.user.value());
        assert_eq!(delivered.shop.file("password"), delivered.passwords[0].value());
        delivered.follows();
        delivered.goes_and_comes_back();
        delivered.secret = delivered.shop.secret(SECRET);
        // The manager that leads now gives way soon, and its log goes with it.
        holds_nowhere(stage, &delivered.canaries());
        delivered
    }

    /// The values that only Secrets and tokens may have.
    pub fn canaries(&self) -> Vec<&Canary> {
        std::iter::once(&self.user).chain(&self.passwords).collect()
    }

    /// Nobody has written the Secret since, whoever led, and the pod has it still.
    pub fn is_as_it_was(&self) {
        let Shop(stage) = &self.shop;
        assert!(self.shop.secret(SECRET) == self.secret, "the Secret was written");
        assert_eq!(stage.pod_in(SHOP, shop::READER), self.pod);
        assert_eq!(self.shop.file("password"), self.passwords[1].value());
    }

    /// Without a manager Secrets stay. A person takes the finalizer off an HSMSecret that hangs in its deletion, and its Secret goes;
    /// or deletes an HSMSecret without its Secret.
    pub fn outlives_the_manager(&self) {
        self.is_as_it_was();
        let shop = &self.shop;
        let bare = r#"--patch={"metadata":{"finalizers":null}}"#;
        let free = |name: &str| shop.run(&["patch", "hsmsecret", name, "--type=merge", bare]);
        shop.run(&["delete", "hsmsecret", SPARE, "--wait=false"]);
        let hangs = shop.read(&["get", "hsmsecret", SPARE]);
        assert_eq!(hangs["metadata"]["finalizers"], json!([SECRET_FINALIZER]));
        assert!(shop.has(SPARE));
        free(SPARE);
        free(DB);
        shop.run(&["delete", "hsmsecret", DB, "--cascade=orphan", "--timeout=30s"]);
        let left = shop.secret(SECRET);
        assert_eq!(left["metadata"]["ownerReferences"], Value::Null);
        assert!(
            left["data"] == self.secret["data"],
            "the Secret has another content"
        );
        let Shop(stage) = shop;
        stage.until("the garbage collector to delete the other Secret", || {
            (!shop.has(SPARE)).then_some(())
        });
        assert_eq!(shop.run(&["get", "hsmsecrets", "--output=name"]), "");
    }

    /// The secret is on two tokens, and two HSMSecrets ask for it.
    fn begins(&self) {
        let Shop(stage) = &self.shop;
        let user = tempfile::NamedTempFile::new().unwrap();
        fs::write(user.path(), self.user.value()).unwrap();
        let user = format!("--from-file=user={}", user.path().display());
        self.hsm(&["create", PATH, &self.password(0), &user]);
        let listed = self.hsm(&["list", "--output=json"]);
        assert!(listed.out.contains(PATH), "{listed:?}");
        self.shop.ask_for(PATH, DB, SECRET);
        self.shop.ask_for(PATH, SPARE, SPARE);
        let asked = Instant::now();
        are_in_sync(stage);
        eprintln!("delivered {:.1?} after it was asked for", asked.elapsed());
        let about = format!(
            "--field-selector=involvedObject.kind=HSMSecret,involvedObject.name={DB},reason={DELIVERED}"
        );
        let told = stage.until("the event of the delivery", || {
            let events = self.shop.read(&["get", "events", &about]);
            Some(events["items"].as_array()?.first()?["message"].clone())
        });
        let told = told.as_str().unwrap();
        assert!(told.contains(SECRET) && told.contains(PATH), "{told}");
        self.is_right(0);
    }

    /// The value changes on the tokens.
    fn follows(&self) {
        let Shop(stage) = &self.shop;
        self.hsm(&["update", PATH, &self.password(1)]);
        let changed = Instant::now();
        let now = self.passwords[1].value();
        stage.until("the Secret to follow", || {
            (values(&self.shop.secret(SECRET)).get("password")? == now).then_some(())
        });
        eprintln!("the Secret followed {:.1?} after the tokens", changed.elapsed());
        stage.until("the file in the pod to follow", || {
            (self.shop.file("password") == now).then_some(())
        });
        eprintln!(
            "the pod read it {:.1?} after the tokens had it",
            changed.elapsed()
        );
        assert_eq!(stage.pod_in(SHOP, shop::READER), self.pod);
    }

    /// An HSMSecret takes its Secret along, and not what is on the tokens.
    fn goes_and_comes_back(&self) {
        let Shop(stage) = &self.shop;
        let before = self.shop.secret(SECRET);
        self.shop.run(&["delete", "hsmsecret", DB, "--timeout=60s"]);
        assert!(!self.shop.has(SECRET), "the HSMSecret goes before its Secret");
        self.shop.ask_for(PATH, DB, SECRET);
        are_in_sync(stage);
        self.is_right(1);
        let after = self.shop.secret(SECRET);
        assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    }

    /// The Secret is exactly what it has to be, with this password, and the HSMSecret tells of it.
    fn is_right(&self, password: usize) {
        let secret = self.shop.secret(SECRET);
        let object = self.shop.read(&["get", "hsmsecret", DB]);
        let expected = [("password", &self.passwords[password]), ("user", &self.user)];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.value().to_owned()));
        let found = values(&secret);
        assert!(found == BTreeMap::from(expected), "the keys {:?}", found.keys());
        assert_eq!(secret["type"], "Opaque");
        let metadata = &secret["metadata"];
        let labels = json!({
            "app.kubernetes.io/managed-by": "hsm-secrets-operator",
            "managed-by": "hsm-secrets-operator",
            "hsm-path": "shop_db",
        });
        assert_eq!(metadata["labels"], labels);
        let owners = metadata["ownerReferences"].as_array().unwrap();
        assert_eq!(owners.len(), 1);
        assert_eq!(owners[0]["uid"], object["metadata"]["uid"]);
        assert_eq!(owners[0]["controller"], true);

        let status = &object["status"];
        assert_eq!(status["syncStatus"], "InSync");
        assert_eq!(
            status["lastSyncTime"],
            metadata["annotations"][SYNCED_AT_ANNOTATION]
        );
        assert_eq!(status["secretChecksum"], status["hsmChecksum"]);
        assert_eq!(status["secretRef"]["uid"], metadata["uid"]);
        let tokens = status["deviceSyncStatus"].as_array().unwrap();
        assert_eq!(tokens.len(), 2, "{status}");
        let names: Vec<_> = tokens.iter().map(|token| &token["deviceName"]).collect();
        assert!(names.contains(&&status["primaryDevice"]), "{status}");
        for token in tokens {
            assert_eq!(token["checksum"], status["hsmChecksum"]);
            assert_eq!(
                [&token["status"], &token["online"]],
                [&json!("InSync"), &json!(true)]
            );
        }
    }

    /// The flag with one of the passwords.
    fn password(&self, number: usize) -> String {
        format!("--from-literal=password={}", self.passwords[number].value())
    }

    /// `kubectl trustplane hsm` on the two tokens, which shows no value.
    fn hsm(&self, arguments: &[&str]) -> Said {
        let Shop(stage) = &self.shop;
        let tokens = ["--namespace", TOKENS, "--device", DEVICE];
        let said = try_say(&mut stage.arena.plugin(&[&["hsm"], arguments, &tokens].concat())).unwrap();
        for canary in self.canaries() {
            let is_told = said.out.contains(canary.value()) || said.err.contains(canary.value());
            assert!(!is_told, "the plugin shows the {}", canary.about());
        }
        assert!(said.status.success(), "{said:?}");
        said
    }
}
