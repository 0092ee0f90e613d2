//! The scene of every interruption: a secret that is replaced or deleted among neighbours, and what may be left of that.

use trustplane_hsm_core::secret::Secret;
use trustplane_hsm_core::version::Expected;
use trustplane_hsm_token::{Module, Store, StoreError, TokenInfo};

use crate::raw::{Object, Raw};
use crate::secrets::{path, secret, stamp, store};
use crate::stage::Stage;

/// The token.
pub const TOKEN: &str = "scene";

const GENERATION: &str = ".trustplane/generation/_metadata";

/// What is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Replace,
    Delete,
}

impl Change {
    pub const BOTH: [Self; 2] = [Self::Replace, Self::Delete];

    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::BOTH
            .into_iter()
            .find(|change| format!("{change:?}") == name)
    }

    /// Makes it.
    pub fn make(self, store: &mut Store<'_>) -> Result<(), StoreError> {
        store.write(&path("db"), &self.result(), Expected::Version(1))
    }

    /// What is there after it. A replacement keeps a key, changes one, adds one and drops one.
    pub fn result(self) -> Secret {
        match self {
            Self::Replace => secret(
                2,
                &[("username", b"admin"), ("password", b"n3w"), ("token", b"t")],
            ),
            Self::Delete => Secret::tombstone(stamp(2)),
        }
    }
}

/// What is there before it.
pub fn old() -> Secret {
    secret(
        1,
        &[("username", b"admin"), ("password", b"s3cr3t"), ("data", b"d")],
    )
}

fn neighbours() -> Vec<(&'static str, Secret)> {
    ["db2", "db-prod", "db/sub"]
        .into_iter()
        .map(|name| (name, secret(4, &[("password", name.as_bytes())])))
        .collect()
}

/// How a change has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Old,
    New,
}

/// A token, and what may be on it.
pub struct Scene {
    token: TokenInfo,
    before: Vec<(String, Vec<u8>)>,
    after: Vec<(String, Vec<u8>)>,
}

impl Scene {
    /// Makes the token, keeps it as it is before the change, and learns how it is after.
    pub fn set(stage: &Stage, module: &mut Module, change: Change) -> Self {
        let token = stage.provision(module, TOKEN);
        let mut made = store(module, TOKEN);
        for (name, secret) in neighbours() {
            made.write(&path(name), &secret, Expected::Absent).unwrap();
        }
        made.write(&path("db"), &old(), Expected::Absent).unwrap();
        let raw = Raw::new(&token);
        raw.create(&Object::new("nobody's object", "x"));
        let before = objects(&raw);
        stage.keep();
        change.make(&mut made).unwrap();
        let after = objects(&raw);
        assert_ne!(before, after);
        drop((made, raw));
        let scene = Self { token, before, after };
        scene.reset(stage, module);
        scene
    }

    /// Has the token be as it was before the change.
    pub fn reset(&self, stage: &Stage, module: &mut Module) {
        stage.restore();
        module.initialise_again().unwrap();
    }

    /// Says how the change has ended. Everything else must be as it was, and nothing must be left of the change itself.
    pub fn outcome(&self, store: &mut Store<'_>, change: Change) -> Outcome {
        let db = store.read(&path("db")).unwrap();
        let listed = store.list().unwrap();
        assert!(
            listed.len() == 4 && listed.values().all(Result::is_ok),
            "{listed:?}"
        );
        let there = objects(&Raw::new(&self.token));
        match db == old() {
            true => {
                assert_eq!(there, self.before);
                Outcome::Old
            }
            false => {
                assert_eq!(db, change.result());
                assert_eq!(there, self.after);
                Outcome::New
            }
        }
    }
}

/// All objects. The generation may be ahead of its time, but there is one.
fn objects(raw: &Raw) -> Vec<(String, Vec<u8>)> {
    let mut all = raw.all();
    let generations: Vec<_> = all.extract_if(.., |(label, _)| label == GENERATION).collect();
    assert_eq!(generations.len(), 1);
    all
}
