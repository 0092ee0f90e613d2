//! The scene of every interruption: a secret that is written, replaced or deleted among neighbours, and what may be left of that.

use trustplane_hsm_core::change::{self as core, Terms};
use trustplane_hsm_core::layout::{Description, ReadError};
use trustplane_hsm_core::path::KeyName;
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
    /// With a version that the writer gives.
    Replace,
    /// With the version that comes next.
    Count,
    Delete,
    DeleteKey,
    /// There was nothing before.
    First,
    /// What was deleted before goes.
    Purge,
}

impl Change {
    pub const ALL: [Self; 6] = [
        Self::Replace,
        Self::Count,
        Self::Delete,
        Self::DeleteKey,
        Self::First,
        Self::Purge,
    ];

    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|change| format!("{change:?}") == name)
    }

    /// Makes it.
    pub fn make(self, store: &mut Store<'_>) -> Result<(), StoreError> {
        let db = path("db");
        let counted = Terms::next(Expected::Version(1));
        let left = match self {
            Self::Replace => store.write(&db, &replaced(), Expected::Version(1)),
            Self::Count => {
                let mut secret = replaced();
                secret.metadata.stamp = stamp(0);
                store.write(&db, &secret, counted)
            }
            Self::Delete => store.delete(&db, stamp(2), Expected::Version(1)),
            Self::DeleteKey => {
                let key = KeyName::parse("password").unwrap();
                store.change(&db, &core::Change::DeleteKey(&key, stamp(0)), counted)
            }
            Self::First => store.write(&db, &old(), Expected::Absent),
            Self::Purge => return store.purge(&db, 1, None),
        }?;
        assert_eq!(Some(left), self.result().as_ref().map(Description::of));
        Ok(())
    }

    /// What is there before it.
    pub fn before(self) -> Option<Secret> {
        match self {
            Self::First => None,
            Self::Purge => Some(Secret::tombstone(stamp(1))),
            _ => Some(old()),
        }
    }

    /// What is there after it.
    pub fn result(self) -> Option<Secret> {
        match self {
            Self::Replace | Self::Count => Some(replaced()),
            Self::Delete => Some(Secret::tombstone(stamp(2))),
            Self::DeleteKey => Some(secret(2, &[("username", b"admin"), ("data", b"d")])),
            Self::First => Some(old()),
            Self::Purge => None,
        }
    }
}

fn old() -> Secret {
    secret(
        1,
        &[("username", b"admin"), ("password", b"s3cr3t"), ("data", b"d")],
    )
}

/// A replacement keeps a key, changes one, adds one and drops one.
fn replaced() -> Secret {
    secret(
        2,
        &[("username", b"admin"), ("password", b"n3w"), ("token", b"t")],
    )
}

pub fn neighbours() -> Vec<(&'static str, Secret)> {
    ["db2", "db-prod", "db/sub"]
        .into_iter()
        .map(|name| (name, secret(4, &[("password", name.as_bytes())])))
        .collect()
}

/// Writes neighbours, and what is there before a change.
pub fn prepare(store: &mut Store<'_>, change: Change) {
    for (name, secret) in neighbours() {
        store.write(&path(name), &secret, Expected::Absent).unwrap();
    }
    if let Some(before) = change.before() {
        store.write(&path("db"), &before, Expected::Any).unwrap();
    }
}

/// What is at the path of the change, where everything else is served as it was.
pub fn served(store: &mut Store<'_>) -> Option<Secret> {
    let db = match store.read(&path("db")) {
        Ok(secret) => Some(secret),
        Err(StoreError::Read(ReadError::NotFound { .. })) => None,
        Err(error) => panic!("{error}"),
    };
    let listed = store.list().unwrap();
    assert_eq!(listed.len(), neighbours().len() + usize::from(db.is_some()));
    assert!(listed.values().all(Result::is_ok), "{listed:?}");
    for (name, secret) in neighbours() {
        assert_eq!(store.read(&path(name)).unwrap(), secret);
    }
    db
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
        prepare(&mut made, change);
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
        let db = served(store);
        let there = objects(&Raw::new(&self.token));
        match db == change.before() {
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
