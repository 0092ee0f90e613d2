//! A token in memory that can be full, can be lost after any step, and can destroy in halves. What the tests of this crate stand on.

use crate::change::{Change, change};
use crate::examples;
pub use crate::examples::{path, stamp};
use crate::label::{Label, Meaning};
use crate::layout::Contents;
use crate::limits::Limits;
use crate::object::{Found, NewObject};
use crate::op::{Objects, Op, carry_out};
use crate::path::SecretPath;
use crate::recover::{End, recover};
use crate::replace::WriteError;
use crate::secret::{Data, Secret, Value};
use crate::version::Expected;

fn bytes<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a [u8])> {
    pairs.iter().map(|(key, text)| (*key, text.as_bytes())).collect()
}

pub fn data(pairs: &[(&str, &str)]) -> Data {
    examples::data(&bytes(pairs))
}

pub fn secret(version: u64, pairs: &[(&str, &str)]) -> Secret {
    examples::secret(version, &bytes(pairs))
}

pub fn tombstone(version: u64) -> Secret {
    Secret::tombstone(stamp(version))
}

/// Plans that a path holds this secret, whose version is given.
pub fn replace<H: Clone>(
    contents: &Contents<'_, H>,
    path: &SecretPath,
    secret: &Secret,
    expected: Expected,
    limits: &Limits,
) -> Result<Vec<Op<H>>, WriteError> {
    let planned = change(contents, path, &Change::Put(secret), expected.into(), limits);
    planned.map(|(ops, _)| ops)
}

/// Why a step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process is gone, or the token is.
    Crash,
    /// There is no room.
    Full,
}

/// The labels and values of objects, sorted.
pub type Snapshot = Vec<(Label, Option<Vec<u8>>)>;

#[derive(Debug, Clone, Default)]
pub struct Token {
    pub objects: Vec<Found<u64>>,
    pub next: u64,
    /// Moves the order in which objects are found.
    pub order: u64,
    /// How many objects there is room for.
    pub capacity: Option<usize>,
    /// How many steps are left before the crash.
    pub steps: Option<usize>,
    /// How many objects can be made before one cannot.
    pub creates: Option<usize>,
    /// An object is destroyed in two steps, as on a card: its value goes, then its label. Of what has no value the label cannot
    /// be destroyed any more, but changed.
    pub halves: bool,
}

impl Token {
    /// Adds an object as any tool would.
    pub fn add(&mut self, label: &str, value: Option<&str>) {
        self.put(Label::new(label), value.map(Value::new));
    }

    fn put(&mut self, label: Label, value: Option<Value>) -> u64 {
        self.next += 1;
        self.objects.push(Found {
            handle: self.next,
            label,
            value,
        });
        self.next
    }

    /// Adds an object that this crate made.
    pub fn add_object(&mut self, object: &NewObject) {
        self.put(object.label.clone(), Some(object.value.clone()));
    }

    /// Writes a secret without a journal, as one finds it.
    pub fn with(mut self, at: &str, secret: &Secret) -> Self {
        for object in crate::layout::objects(&path(at), secret) {
            self.add_object(&object);
        }
        self
    }

    pub fn with_object(mut self, label: &str, value: Option<&str>) -> Self {
        self.add(label, value);
        self
    }

    /// Takes away all objects with this label, as any tool would.
    pub fn remove(&mut self, label: &str) {
        self.objects.retain(|found| found.label != Label::new(label));
    }

    /// Takes away all objects whose label begins so, as the original does.
    pub fn remove_prefix(&mut self, prefix: &str) {
        self.objects
            .retain(|found| !found.label.as_bytes().starts_with(prefix.as_bytes()));
    }

    /// All objects, in an order that nobody can rely on.
    pub fn list(&self) -> Vec<Found<u64>> {
        let mut all = self.objects.clone();
        all.sort_by_key(|found| (found.handle ^ self.order).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        all
    }

    /// All objects but the generation and husks.
    pub fn snapshot(&self) -> Snapshot {
        let ours = [Label::of_generation(), Label::of_husk()];
        let objects = self.objects.iter().filter(|found| !ours.contains(&found.label));
        let pair = |found: &Found<u64>| {
            (
                found.label.clone(),
                found.value.as_ref().map(|v| v.expose().to_vec()),
            )
        };
        let mut all: Snapshot = objects.map(pair).collect();
        all.sort();
        all
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// The values of all journals.
    pub fn journals(&self) -> Vec<(Label, Value)> {
        let is_journal = |found: &&Found<u64>| matches!(found.label.meaning(), Meaning::Journal(_));
        let pair = |found: &Found<u64>| Some((found.label.clone(), found.value.clone()?));
        self.objects.iter().filter(is_journal).filter_map(pair).collect()
    }

    /// How many generation objects there are, and what they say.
    pub fn generation(&self) -> (usize, u64) {
        let list = self.list();
        let contents = Contents::of(&list);
        (contents.generations().len(), contents.generation().counter)
    }

    pub fn read(&self, at: &str) -> Result<Secret, crate::layout::ReadError> {
        Contents::of(&self.list()).read(&path(at))
    }

    /// Carries out so many steps; all of them if there is no number.
    pub fn run(&mut self, ops: &[Op<u64>], steps: Option<usize>) -> Result<(), Fault> {
        self.steps = steps;
        let result = carry_out(self, ops);
        self.steps = None;
        result
    }

    /// Carries out what recovery plans, and says what became of each change.
    pub fn recover(&mut self) -> Result<Vec<End>, Fault> {
        let list = self.list();
        let recovery = recover(&Contents::of(&list));
        self.run(&recovery.ops, None)?;
        Ok(recovery.ended.into_iter().map(|ended| ended.end).collect())
    }

    fn step(&mut self) -> Result<(), Fault> {
        match &mut self.steps {
            Some(0) => Err(Fault::Crash),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Objects for Token {
    type Handle = u64;
    type Error = Fault;

    fn create(&mut self, object: &NewObject) -> Result<u64, Fault> {
        self.step()?;
        if self
            .capacity
            .is_some_and(|capacity| self.objects.len() >= capacity)
        {
            return Err(Fault::Full);
        }
        match &mut self.creates {
            Some(0) => return Err(Fault::Full),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(self.put(object.label.clone(), Some(object.value.clone())))
    }

    fn destroy(&mut self, handle: &u64) -> Result<(), Fault> {
        self.step()?;
        let at = self.objects.iter().position(|found| found.handle == *handle);
        let at = at.unwrap_or_else(|| panic!("object {handle} was destroyed twice"));
        if self.halves {
            let found = &mut self.objects[at];
            if found.value.take().is_none() {
                found.label = Label::of_husk();
                return Ok(());
            }
            self.step()?;
        }
        self.objects.remove(at);
        Ok(())
    }
}
