//! Writes the claims: which namespace has which location on the tokens.

use std::sync::{Mutex, PoisonError};

use serde_json::json;
use tokio::sync::Mutex as Turn;
use trustplane_api::hsm::names::LOCATIONS;
use trustplane_hsm_core::delivery::MANAGER;
use trustplane_hsm_core::delivery::locations::{Full, Locations};
use trustplane_hsm_core::objects::mark;
use trustplane_hsm_core::path::SecretPath;
use trustplane_kit::apply::{WriteError, Writer};
use trustplane_kit::watch::Store;
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{Apply, Conflicts, Expect, Keep, Manifest, Meta, ObjectRef};

use super::seen::RawClaims;

/// How often one look tries to write the claims while other writers change the ConfigMap in between.
const TRIES: usize = 5;

/// Why a change of the claims was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocationError {
    /// Another namespace has it.
    #[error("failed to claim the location {path}: namespace {tenant} has it")]
    Taken {
        /// The location.
        path: SecretPath,
        /// The namespace that has it.
        tenant: String,
    },
    /// The ConfigMap has no room.
    #[error("failed to claim a location: {0}")]
    Full(#[from] Full),
    /// Other writers have changed the ConfigMap before each try.
    #[error("failed to claim a location: the ConfigMap {0} has changed each time before it was written")]
    Busy(ObjectRef),
    /// The API server has refused the write.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// One change of the claims.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wish {
    path: SecretPath,
    namespace: String,
    releases: bool,
}

/// Keeps the ConfigMap with the claims.
///
/// **Guarantees.** When [`LocationKeeper::claim`] succeeds, the claim is on the API server, and no other namespace has the
/// location: a write takes effect only on the version of the ConfigMap that it was made from. Changes that are asked for while a
/// write is under way are written together by the next write.
pub(crate) struct LocationKeeper {
    store: Store<Locations>,
    writer: Writer,
    object: ObjectRef,
    wishes: Mutex<Vec<Wish>>,
    turn: Turn<Option<Known>>,
}

/// The ConfigMap, as we last wrote or read it.
struct Known {
    meta: Option<Meta>,
    locations: Locations,
}

impl LocationKeeper {
    pub fn new(store: Store<Locations>, writer: Writer, home: &str) -> Self {
        Self {
            store,
            writer,
            object: ObjectRef::new(Some(home), LOCATIONS),
            wishes: Mutex::default(),
            turn: Turn::default(),
        }
    }

    /// The namespace that has claimed a location, as far as the watch knows.
    pub fn tenant(&self, path: &SecretPath) -> Option<String> {
        let seen = self.store.get(&self.object)?;
        seen.value.tenant(path).map(str::to_owned)
    }

    /// Claims a location for a namespace.
    pub async fn claim(&self, path: &SecretPath, namespace: &str) -> Result<(), LocationError> {
        let locations = self.change(path, namespace, false).await?;
        match locations.tenant(path) {
            Some(tenant) if tenant == namespace => Ok(()),
            Some(tenant) => Err(LocationError::Taken {
                path: path.clone(),
                tenant: tenant.to_owned(),
            }),
            None => Err(Full.into()),
        }
    }

    /// Ends the claim of a namespace.
    pub async fn release(&self, path: &SecretPath, namespace: &str) -> Result<(), LocationError> {
        self.change(path, namespace, true).await.map(drop)
    }

    /// Makes a change. Answers the claims as they are on the API server after it.
    async fn change(
        &self,
        path: &SecretPath,
        namespace: &str,
        releases: bool,
    ) -> Result<Locations, LocationError> {
        let wish = Wish {
            path: path.clone(),
            namespace: namespace.to_owned(),
            releases,
        };
        self.wishes().push(wish.clone());
        let mut turn = self.turn.lock().await;
        // The changes of other looks go along. This change is added again if another look took it along, perhaps in vain.
        let mut wishes = std::mem::take(&mut *self.wishes());
        if !wishes.contains(&wish) {
            wishes.push(wish);
        }
        let mut is_read = false;
        for _ in 0..TRIES {
            let known = match turn.take() {
                Some(known) => known,
                None => {
                    is_read = true;
                    self.read().await?
                }
            };
            let next = wanted(&known.locations, &wishes);
            if next == known.locations {
                // A write would show whether this is the current version. Without a write, the watch or a read has to.
                if is_read || self.is_current(&known) {
                    return Ok(turn.insert(known).locations.clone());
                }
                continue;
            }
            match self.writer.apply(&self.write(&known, &next)).await {
                Ok(meta) => {
                    let written = Known {
                        meta: Some(meta),
                        locations: next,
                    };
                    return Ok(turn.insert(written).locations.clone());
                }
                // Another replica or a person has written the ConfigMap.
                Err(WriteError::Stale(_) | WriteError::Foreign { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(LocationError::Busy(self.object.clone()))
    }

    /// Whether the watch shows no other version of the ConfigMap.
    fn is_current(&self, known: &Known) -> bool {
        let seen = self.store.get(&self.object);
        let seen = seen.map(|seen| seen.meta.resource_version.clone());
        let ours = known.meta.as_ref().map(|meta| meta.resource_version.clone());
        seen.is_none() || seen == ours
    }

    async fn read(&self) -> Result<Known, WriteError> {
        let keep = Keep::owned_by(MANAGER);
        // The metadata first: if the ConfigMap is changed in between, the write fails.
        let meta = self.writer.get_meta(&CONFIG_MAP, &self.object, &keep).await?;
        let raw: Option<RawClaims> = match meta {
            Some(_) => self.writer.get_slim(&CONFIG_MAP, &self.object).await?,
            None => None,
        };
        Ok(Known {
            meta,
            locations: raw.map(Locations::from).unwrap_or_default(),
        })
    }

    fn write(&self, known: &Known, locations: &Locations) -> Apply {
        let mark = mark();
        let manifest = Manifest::new(CONFIG_MAP, self.object.namespace(), self.object.name())
            .label(&mark.key, &mark.value)
            .with("data", json!(locations.data()));
        match &known.meta {
            None => Apply::create(manifest),
            Some(meta) => Apply {
                manifest,
                expect: Expect::Seen {
                    uid: meta.uid.clone(),
                    resource_version: meta.resource_version.clone(),
                },
                conflicts: Conflicts::Force,
            },
        }
    }

    fn wishes(&self) -> std::sync::MutexGuard<'_, Vec<Wish>> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The claims after the changes. The first claim of a location counts, and a claim for which there is no room is left out.
fn wanted(locations: &Locations, wishes: &[Wish]) -> Locations {
    let mut next = locations.clone();
    for wish in wishes {
        if wish.releases {
            next.release(&wish.path, &wish.namespace);
        } else if let Err(full) = next.claim(&wish.path, &wish.namespace) {
            tracing::warn!(%full, "a location is not claimed");
        }
    }
    next
}
