//! What can be done without looking at every object of a token.

use std::collections::{BTreeSet, HashMap};

use trustplane_hsm_core::label::Label;
use trustplane_hsm_core::layout::Contents;
use trustplane_hsm_core::object::Found;
use trustplane_hsm_core::path::SecretPath;
use trustplane_hsm_core::secret::Secret;

use super::{Store, StoreError};
use crate::token::Handle;

/// The objects of each path, by their places among all.
pub(super) type Index = HashMap<SecretPath, Vec<usize>>;

impl Store<'_> {
    /// Reads the objects of a secret from the token, if it is known which they are; nothing if all have to be looked at.
    pub(super) fn read_known(&mut self, path: &SecretPath) -> Result<Option<Secret>, StoreError> {
        if self.doubtful {
            return Ok(None);
        }
        // A nameless object could be of any secret.
        self.assert_names()?;
        let Some(places) = self.index().get(path).cloned() else {
            return Ok(None);
        };
        // Another token in the same slot would be a surprise, and so would be none.
        self.token.info()?;
        self.token.assert_logged_in()?;
        let mut live = Vec::with_capacity(places.len());
        for place in &places {
            let Some(known) = self.objects.found.get(*place) else {
                return Ok(None);
            };
            match self.token.look(known.handle)? {
                Some(now) if now.label == known.label => live.push(now),
                _ => return Ok(None),
            }
        }
        let secret = Contents::of(&live).read(path)?;
        for (place, now) in places.into_iter().zip(live) {
            if let Some(known) = self.objects.found.get_mut(place) {
                *known = now;
            }
        }
        Ok(Some(secret))
    }

    /// Whether the token still has the objects that are known: those of a path and of these labels, and the generation, which
    /// every change of ours renews. Says no if that cannot be told without looking at all.
    pub(super) fn is_as_known(
        &mut self,
        path: &SecretPath,
        mut labels: BTreeSet<Label>,
    ) -> Result<bool, StoreError> {
        if self.doubtful {
            return Ok(false);
        }
        self.token.info()?;
        self.token.assert_logged_in()?;
        let contents = Contents::of(&self.objects.found);
        let generation: Vec<&Found<Handle>> = contents.generation_objects().collect();
        let of_path = contents.objects_of(path).into_iter().flatten();
        labels.extend(of_path.map(|found| found.label.clone()));
        let [generation] = generation.as_slice() else {
            return Ok(false);
        };
        let now = self.token.look(generation.handle)?;
        if now.as_ref() != Some(*generation) {
            return Ok(false);
        }
        for label in labels {
            let known = self.objects.found.iter().filter(|found| found.label == label);
            let known: Vec<Handle> = known.map(|found| found.handle).collect();
            let found = self.token.handles(Some(&label))?;
            if found.len() != known.len() || !found.iter().all(|handle| known.contains(handle)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn index(&mut self) -> &Index {
        let found = &self.objects.found;
        self.index.get_or_insert_with(|| {
            let places: HashMap<Handle, usize> = found.iter().map(|found| found.handle).zip(0..).collect();
            let contents = Contents::of(found);
            let of_path = |path: &SecretPath| {
                let objects = contents.objects_of(path)?;
                let places = objects.filter_map(|found| places.get(&found.handle).copied());
                Some((path.clone(), places.collect()))
            };
            contents.paths().filter_map(of_path).collect()
        })
    }
}
