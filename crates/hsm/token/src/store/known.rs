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
            match self.look_again(*place)? {
                Some(now) => live.push(now),
                None => return Ok(None),
            }
        }
        let secret = Contents::of(&live).read(path);
        for (place, now) in places.into_iter().zip(live) {
            if let Some(known) = self.objects.found.get_mut(place) {
                *known = now;
            }
        }
        Ok(Some(secret?))
    }

    /// Whether the token still has the objects that are known: those of a path and of these labels, and the generation, which
    /// every change of ours renews. If the metadata counts, it is read again. Says no if that cannot be told without looking
    /// at all.
    pub(super) fn is_as_known(
        &mut self,
        path: &SecretPath,
        mut labels: BTreeSet<Label>,
        metadata_counts: bool,
    ) -> Result<bool, StoreError> {
        if self.doubtful {
            return Ok(false);
        }
        self.token.info()?;
        self.token.assert_logged_in()?;
        let contents = Contents::of(&self.objects.found);
        let of_path = contents.objects_of(path).into_iter().flatten();
        labels.extend(of_path.map(|found| found.label.clone()));
        let (generation, metadata) = (Label::of_generation(), Label::of_metadata(path));
        let [generation] = self.places(&generation)[..] else {
            return Ok(false);
        };
        if !self.is_same(generation)? {
            return Ok(false);
        }
        for label in labels {
            let found = self.token.handles(Some(&label))?;
            let known = self.objects.found.iter().filter(|found| found.label == label);
            let known: Vec<&Found<Handle>> = known.collect();
            let is_known = |handle: &Handle| known.iter().any(|known| known.handle == *handle);
            // What could not be read is tried again.
            let readable = known.iter().all(|known| known.value.is_some());
            if found.len() != known.len() || !found.iter().all(is_known) || !readable {
                return Ok(false);
            }
        }
        let places = self.places(&metadata).into_iter().filter(|_| metadata_counts);
        for place in places {
            let Some(now) = self.look_again(place)? else {
                return Ok(false);
            };
            if let Some(known) = self.objects.found.get_mut(place) {
                *known = now;
            }
        }
        Ok(true)
    }

    /// Whether an object is what it was.
    fn is_same(&mut self, place: usize) -> Result<bool, StoreError> {
        let now = self.look_again(place)?;
        let known = self.objects.found.get_mut(place);
        let changed = known.filter(|known| now.as_ref() != Some(*known));
        let same = changed.is_none();
        if let Some(changed) = changed {
            changed.value = None;
        }
        Ok(same)
    }

    fn places(&self, label: &Label) -> Vec<usize> {
        let all = self.objects.found.iter().enumerate();
        all.filter(|(_, found)| found.label == *label)
            .map(|(place, _)| place)
            .collect()
    }

    /// A known object as it is now. If it is gone, has another label or cannot be read, there is nothing, and what is known of it
    /// does not count any more.
    fn look_again(&mut self, place: usize) -> Result<Option<Found<Handle>>, StoreError> {
        let Some(known) = self.objects.found.get_mut(place) else {
            return Ok(None);
        };
        let now = self.token.look(known.handle)?;
        let now = now.filter(|now| now.label == known.label);
        if now.is_none() {
            known.value = None;
        }
        Ok(now)
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
