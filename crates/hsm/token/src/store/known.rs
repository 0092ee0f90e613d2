//! What can be done without looking at every object of a token.

use std::collections::{BTreeSet, HashMap};

use trustplane_hsm_core::change::Change;
use trustplane_hsm_core::label::Label;
use trustplane_hsm_core::layout::{Contents, objects};
use trustplane_hsm_core::object::{Found, NewObject};
use trustplane_hsm_core::path::SecretPath;
use trustplane_hsm_core::secret::Secret;

use super::{Store, StoreError};
use crate::token::Handle;

/// The objects of each path, by their places among all.
pub(super) type Index = HashMap<SecretPath, Vec<usize>>;

/// What a change of a secret counts on being as it is known.
#[derive(Default)]
pub(super) struct Basis {
    /// Labels that it is about, beside those that the secret has.
    labels: BTreeSet<Label>,
    /// What it would have; of that what is there already stays.
    wanted: Vec<NewObject>,
    /// Whether all values count.
    values: bool,
    /// Whether the metadata counts.
    metadata: bool,
}

impl Basis {
    /// What this change counts on. It may depend on what there is.
    pub fn of(path: &SecretPath, change: &Change<'_>, depends: bool) -> Self {
        let wanted = match change {
            Change::Put(secret) => objects(path, secret),
            Change::Delete(_) | Change::DeleteKey(..) => Vec::new(),
        };
        let mut labels: BTreeSet<Label> = wanted.iter().map(|object| object.label.clone()).collect();
        labels.insert(Label::of_metadata(path));
        Self {
            labels,
            wanted,
            values: matches!(change, Change::DeleteKey(..)),
            metadata: depends,
        }
    }

    /// Nothing but what the metadata says.
    pub fn metadata() -> Self {
        Self {
            metadata: true,
            ..Self::default()
        }
    }

    /// Whether the value of an object with such a label counts.
    fn counts(&self, found: &Found<Handle>, metadata: &Label) -> bool {
        match found.label == *metadata {
            true if self.metadata => true,
            false if self.values => true,
            _ => self.wanted.iter().any(|object| found.is(object)),
        }
    }
}

impl Store<'_> {
    /// Reads the objects of a secret from the token, if it is known which they are; nothing if all have to be looked at.
    pub(super) fn read_known(&mut self, path: &SecretPath) -> Result<Option<Secret>, StoreError> {
        if self.doubtful {
            return Ok(None);
        }
        self.assert_whole()?;
        let Some(places) = self.index().get(path).cloned() else {
            return Ok(None);
        };
        self.ask()?;
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

    /// Whether the token still has the objects that are known: those of a path and of the labels that count, and the generation,
    /// which every change of ours renews. Values that count are read again. Says no if that cannot be told without looking at
    /// all.
    pub(super) fn is_as_known(&mut self, path: &SecretPath, mut basis: Basis) -> Result<bool, StoreError> {
        if self.doubtful {
            return Ok(false);
        }
        self.ask()?;
        self.token.assert_logged_in()?;
        let contents = Contents::of(&self.objects.found);
        let of_path = contents.objects_of(path).into_iter().flatten();
        basis.labels.extend(of_path.map(|found| found.label.clone()));
        let (generation, metadata) = (Label::of_generation(), Label::of_metadata(path));
        let [generation] = self.places(&generation)[..] else {
            return Ok(false);
        };
        if !self.is_same(generation)? {
            return Ok(false);
        }
        let mut counting = Vec::new();
        for label in &basis.labels {
            let places = self.places(label);
            let known: Vec<&Found<Handle>> = places
                .iter()
                .filter_map(|place| self.objects.found.get(*place))
                .collect();
            let found = self.token.handles(Some(label), known.len())?;
            let is_known = |handle: &Handle| known.iter().any(|known| known.handle == *handle);
            // What could not be read is tried again.
            let readable = known.iter().all(|known| known.value.is_some());
            if found.len() != known.len() || !found.iter().all(is_known) || !readable {
                return Ok(false);
            }
            let known = places.iter().zip(known);
            let counts = known.filter(|(_, known)| basis.counts(known, &metadata));
            counting.extend(counts.map(|(place, _)| *place));
        }
        for place in counting {
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
