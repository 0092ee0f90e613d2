//! What is known of each object: enough to tell a change from a repetition, and to name the object when it is gone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// The uid of an object: sixteen bytes where it is a UUID, as every uid of an API server is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Uid {
    /// A UUID in its usual form.
    Uuid([u8; 16]),
    /// Any other text.
    Text(Box<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        match parse(text) {
            Some(bytes) => Self::Uuid(bytes),
            None => Self::Text(text.into()),
        }
    }
}

/// Reads a UUID in lower case with four hyphens, so that [`Uid`] prints exactly the text that it was made from.
fn parse(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != 36 || [8, 13, 18, 23].iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let mut digits = text.iter().filter(|byte| **byte != b'-').map(|byte| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    });
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    digits.next().is_none().then_some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Uuid(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

/// What an object is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Its namespace; `None` for kinds without one.
    pub namespace: Option<Arc<str>>,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// What is kept of an object.
#[derive(Debug)]
struct Entry {
    name: Name,
    digest: u64,
    version: u64,
    /// The list that named it last.
    list: u32,
    /// Whether it was seen since in a state that could not be read.
    is_stale: bool,
}

/// What the index makes of a sighting of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sighted {
    /// The object was not known.
    New,
    /// What is sent of it has changed.
    Changed,
    /// What is sent of it is as before.
    Same,
    /// It is older than what is known.
    Older,
}

/// An object that a list or an event showed.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// Its namespace, if its kind has one.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// The digest of what is sent of it.
    pub digest: u64,
    /// Its resourceVersion; 0 if that is no number.
    pub version: u64,
}

/// The objects of one kind.
#[derive(Debug, Default)]
pub struct Index {
    entries: HashMap<Uid, Entry>,
    /// The number of the running or last list.
    list: u32,
    /// Whether the running list showed an object that is older than what is known.
    rewound: bool,
}

impl Index {
    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The digest of what is sent of an object.
    pub fn digest(&self, uid: &Uid) -> Option<u64> {
        self.entries.get(uid).map(|entry| entry.digest)
    }

    /// A list begins.
    pub fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
        self.rewound = false;
    }

    /// Whether the running list has named this object already.
    pub fn is_listed(&self, uid: &Uid) -> bool {
        self.entries.get(uid).is_some_and(|entry| entry.list == self.list)
    }

    /// Takes note of an object.
    pub fn see(&mut self, uid: &Uid, sight: &Sight<'_>, names: &mut Names) -> Sighted {
        let list = self.list;
        let Some(entry) = self.entries.get_mut(uid) else {
            let entry = Entry {
                name: names.name(sight.namespace, sight.name),
                digest: sight.digest,
                version: sight.version,
                list,
                is_stale: false,
            };
            self.entries.insert(uid.clone(), entry);
            return Sighted::New;
        };
        entry.list = list;
        if sight.version < entry.version {
            self.rewound = true;
            return Sighted::Older;
        }
        entry.version = sight.version;
        let was_stale = std::mem::take(&mut entry.is_stale);
        let is_same = std::mem::replace(&mut entry.digest, sight.digest) == sight.digest;
        match is_same && !was_stale {
            true => Sighted::Same,
            false => Sighted::Changed,
        }
    }

    /// Forgets an object; answers with its name if it was known.
    pub fn remove(&mut self, uid: &Uid) -> Option<Name> {
        self.entries.remove(uid).map(|entry| entry.name)
    }

    /// The list is complete: the objects that it did not name are gone. The second answer says that the list is from before
    /// what was seen, as after a restore from a backup: the kind has to be listed once more.
    pub fn end_list(&mut self) -> (Vec<(Uid, Name)>, bool) {
        let list = self.list;
        let mut gone: Vec<_> = self
            .entries
            .extract_if(|_, entry| entry.list != list)
            .map(|(uid, entry)| (uid, entry.name))
            .collect();
        gone.sort_by(|one, other| one.0.cmp(&other.0));
        if self.rewound {
            self.entries.values_mut().for_each(|entry| entry.version = 0);
        }
        (gone, self.rewound)
    }

    /// An object exists, but its state is not known now. The running list has named it, and its next state is a change.
    pub fn keep(&mut self, uid: &Uid) {
        let list = self.list;
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.list = list;
            entry.is_stale = true;
        }
    }

    /// The number of the running or last list.
    pub fn list(&self) -> u32 {
        self.list
    }

    /// Any object may exist: the running list counts as having named them all.
    pub fn keep_all(&mut self) {
        let list = self.list;
        self.entries.values_mut().for_each(|entry| entry.list = list);
    }

    /// The name of an object.
    pub fn name(&self, uid: &Uid) -> Option<&Name> {
        self.entries.get(uid).map(|entry| &entry.name)
    }
}

/// Keeps each namespace once.
#[derive(Debug, Default)]
pub struct Names {
    namespaces: BTreeSet<Arc<str>>,
    /// How many there were when those without objects were last dropped.
    pruned: usize,
}

impl Names {
    fn name(&mut self, namespace: Option<&str>, name: &str) -> Name {
        Name {
            namespace: namespace.map(|namespace| self.namespace(namespace)),
            name: name.into(),
        }
    }

    fn namespace(&mut self, namespace: &str) -> Arc<str> {
        if let Some(known) = self.namespaces.get(namespace) {
            return known.clone();
        }
        if self.namespaces.len() > 2 * self.pruned + 64 {
            self.namespaces.retain(|known| Arc::strong_count(known) > 1);
            self.pruned = self.namespaces.len();
        }
        let new: Arc<str> = namespace.into();
        self.namespaces.insert(new.clone());
        new
    }
}

/// Namespaces whose objects are not sent.
pub type Excluded = HashSet<Box<str>>;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sight(digest: u64, version: u64) -> Sight<'static> {
        Sight {
            namespace: Some("shop"),
            name: "web",
            digest,
            version,
        }
    }

    fn uid(number: u8) -> Uid {
        Uid::Uuid([number; 16])
    }

    #[test]
    fn see_tells_changes_from_repetitions() {
        let (mut index, mut names) = (Index::default(), Names::default());
        assert_eq!(index.see(&uid(1), &sight(7, 1), &mut names), Sighted::New);
        assert_eq!(index.see(&uid(1), &sight(7, 2), &mut names), Sighted::Same);
        assert_eq!(index.see(&uid(1), &sight(8, 3), &mut names), Sighted::Changed);
        assert_eq!(index.see(&uid(1), &sight(7, 2), &mut names), Sighted::Older);
        assert_eq!(index.digest(&uid(1)), Some(8));
        assert_eq!(index.remove(&uid(1)).unwrap().to_string(), "shop/web");
        assert_eq!(index.remove(&uid(1)), None);
    }

    #[test]
    fn end_list_names_what_the_list_did_not() {
        let (mut index, mut names) = (Index::default(), Names::default());
        index.begin_list();
        for number in 1..=3 {
            index.see(&uid(number), &sight(1, 1), &mut names);
        }
        assert_eq!(index.end_list(), (vec![], false));
        index.begin_list();
        assert!(!index.is_listed(&uid(2)));
        index.see(&uid(2), &sight(1, 1), &mut names);
        assert!(index.is_listed(&uid(2)));
        let (gone, again) = index.end_list();
        assert_eq!(
            gone.iter().map(|(uid, _)| uid.clone()).collect::<Vec<_>>(),
            [uid(1), uid(3)]
        );
        assert!(!again);
    }

    #[test]
    fn end_list_asks_for_another_list_after_a_rewind() {
        let (mut index, mut names) = (Index::default(), Names::default());
        index.begin_list();
        index.see(&uid(1), &sight(1, 9), &mut names);
        index.end_list();
        index.begin_list();
        assert_eq!(index.see(&uid(1), &sight(2, 3), &mut names), Sighted::Older);
        assert_eq!(index.end_list(), (vec![], true));
        index.begin_list();
        assert_eq!(index.see(&uid(1), &sight(2, 3), &mut names), Sighted::Changed);
        assert_eq!(index.end_list(), (vec![], false));
    }

    #[test]
    fn names_of_empty_namespaces_are_dropped() {
        let (mut index, mut names) = (Index::default(), Names::default());
        for number in 0..1000 {
            let namespace = format!("n{number}");
            let sight = Sight {
                namespace: Some(&namespace),
                ..sight(1, 1)
            };
            index.see(&uid(1), &sight, &mut names);
            index.remove(&uid(1));
        }
        assert!(names.namespaces.len() < 200, "{}", names.namespaces.len());
    }

    proptest! {
        #[test]
        fn a_uid_prints_what_it_was_made_from(text in "([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})|[0-9a-fA-F-]{36}|[a-zé-]{0,40}") {
            prop_assert_eq!(Uid::from(text.as_str()).to_string(), text);
        }
    }
}
