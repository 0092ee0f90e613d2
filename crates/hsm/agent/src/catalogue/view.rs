//! A list of secrets, page by page.

use std::ops::Bound;

use aws_lc_rs::digest::{Context, SHA256};
use tokio::time::Instant;
use trustplane_hsm_core::generation::Generation;
use trustplane_hsm_core::path::SecretPath;
use trustplane_hsm_token::Capacity;

use super::Change;
use crate::error::AgentError;
use crate::host::{Listing, Survey};
use crate::wire::{Entry, Left};

/// What is on the token, as far as we know.
#[derive(Debug)]
pub(super) struct View {
    listing: Listing,
    pub capacity: Capacity,
    pub generation: Generation,
    /// Since when it is known to be what the token holds.
    as_of: Instant,
    /// Counted when it is asked for.
    revision: Option<String>,
}

/// What is to be listed.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// How paths begin.
    pub prefix: String,
    /// The path after which to go on.
    pub after: Option<String>,
    /// The most entries.
    pub most: Option<usize>,
    /// Whether those that were deleted are listed.
    pub deleted: bool,
    /// A revision that needs no list.
    pub unless: Option<String>,
}

/// A part of the list.
#[derive(Debug, Clone)]
pub struct Page {
    /// Secrets in the order of their paths; nothing if the revision needs no list.
    pub entries: Option<Vec<(SecretPath, Result<Entry, AgentError>)>>,
    /// Whether there are more.
    pub more: bool,
    /// How often we have changed the token.
    pub generation: Generation,
    /// Changes with anything in the list.
    pub revision: String,
    /// Since when the list is known to be what the token holds, but for our own changes.
    pub as_of: Instant,
}

impl View {
    pub fn of(survey: Survey, as_of: Instant) -> Self {
        Self {
            listing: survey.listing,
            capacity: survey.capacity,
            generation: survey.generation,
            as_of,
            revision: None,
        }
    }

    pub fn as_of(&self) -> Instant {
        self.as_of
    }

    /// The token was seen to hold the same at this time.
    pub fn confirm(&mut self, at: Instant) {
        self.as_of = self.as_of.max(at);
    }

    /// Takes a change into account that has left this. What it says of the token counts if no later change has spoken.
    pub fn apply(&mut self, left: Left, change: Change) {
        if left.generation >= self.generation {
            self.generation = left.generation;
            self.capacity = Capacity {
                memory: self.capacity.memory,
                ..left.capacity
            };
        }
        self.revision = None;
        match change {
            Change::Put(path, entry) => {
                self.listing.insert(path, Ok(*entry));
            }
            Change::Remove(path) => {
                self.listing.remove(&path);
            }
        }
    }

    pub fn page(&mut self, query: &Query) -> Page {
        let revision = self.revision();
        let mut more = false;
        let entries = (query.unless.as_ref() != Some(&revision)).then(|| {
            let most = query.most.unwrap_or(usize::MAX);
            let mut wanted = self.wanted(query);
            let entries: Vec<_> = wanted.by_ref().take(most).collect();
            more = wanted.next().is_some();
            entries
                .into_iter()
                .map(|(path, entry)| (path.clone(), entry.clone()))
                .collect()
        });
        Page {
            entries,
            more,
            generation: self.generation,
            revision,
            as_of: self.as_of,
        }
    }

    fn wanted<'a>(
        &'a self,
        query: &'a Query,
    ) -> impl Iterator<Item = (&'a SecretPath, &'a Result<Entry, AgentError>)> {
        let from = match query.after.as_deref() {
            Some(after) if after >= query.prefix.as_str() => Bound::Excluded(after),
            _ => Bound::Included(query.prefix.as_str()),
        };
        let lives = |entry: &Result<Entry, AgentError>| {
            !entry.as_ref().is_ok_and(|entry| entry.metadata.stamp.deleted)
        };
        self.listing
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(path, _)| path.as_str().starts_with(&query.prefix))
            .filter(move |(_, entry)| query.deleted || lives(entry))
    }

    fn revision(&mut self) -> String {
        if let Some(revision) = &self.revision {
            return revision.clone();
        }
        let mut digest = Context::new(&SHA256);
        let mut add = |text: &str| {
            digest.update(&(text.len() as u64).to_be_bytes());
            digest.update(text.as_bytes());
        };
        for (path, entry) in &self.listing {
            add(path.as_str());
            match entry {
                Ok(entry) => {
                    add(&entry.digest);
                    add(&entry.metadata.to_json());
                }
                Err(error) => {
                    add("");
                    add(&error.to_string());
                }
            }
        }
        let bytes = digest.finish();
        let revision: String = bytes
            .as_ref()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.revision = Some(revision.clone());
        revision
    }
}

#[cfg(test)]
mod tests {
    use trustplane_hsm_core::layout::Usage;
    use trustplane_hsm_core::limits::Limits;
    use trustplane_hsm_core::metadata::Metadata;
    use trustplane_hsm_core::version::Stamp;
    use trustplane_hsm_token::Memory;

    use super::*;

    fn entry(version: u64, deleted: bool) -> Entry {
        Entry {
            metadata: Metadata {
                stamp: Stamp {
                    version,
                    deleted,
                    ..Stamp::default()
                },
                ..Metadata::default()
            },
            checksum: "sha256:0".to_owned(),
            digest: "d".to_owned(),
            keys: 1,
        }
    }

    fn path(text: &str) -> SecretPath {
        SecretPath::parse(text).unwrap()
    }

    fn view(paths: &[(&str, bool)]) -> View {
        let usage = Usage::default();
        let listing = paths
            .iter()
            .map(|(text, deleted)| (path(text), Ok(entry(1, *deleted))));
        let survey = Survey {
            listing: listing.collect(),
            capacity: Capacity {
                usage,
                room: Limits::default().room(&usage),
                memory: Memory::default(),
            },
            generation: Generation::default(),
        };
        View::of(survey, Instant::now())
    }

    fn listed(view: &mut View, query: &Query) -> (Vec<String>, bool) {
        let page = view.page(query);
        let paths = page
            .entries
            .unwrap()
            .into_iter()
            .map(|(path, _)| path.to_string());
        (paths.collect(), page.more)
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repetition() {
        let mut view = view(&[
            ("a", false),
            ("ab", false),
            ("b/x", false),
            ("b/y", true),
            ("c", false),
        ]);
        for most in 1..=5 {
            let (mut all, mut after) = (Vec::new(), None);
            loop {
                let query = Query {
                    after: after.clone(),
                    most: Some(most),
                    ..Query::default()
                };
                let (paths, more) = listed(&mut view, &query);
                assert!(paths.len() <= most);
                after = paths.last().cloned();
                all.extend(paths);
                if !more {
                    break;
                }
            }
            assert_eq!(all, ["a", "ab", "b/x", "c"], "{most}");
        }
    }

    #[test]
    fn a_prefix_holds_on_every_page_whatever_the_client_says_of_where_to_go_on() {
        let mut view = view(&[
            ("a", false),
            ("b/x", false),
            ("b/y", true),
            ("b/z", false),
            ("c", false),
        ]);
        let query = |after: Option<&str>, deleted| Query {
            prefix: "b/".to_owned(),
            after: after.map(str::to_owned),
            deleted,
            ..Query::default()
        };
        assert_eq!(listed(&mut view, &query(None, true)).0, ["b/x", "b/y", "b/z"]);
        assert_eq!(listed(&mut view, &query(None, false)).0, ["b/x", "b/z"]);
        assert_eq!(listed(&mut view, &query(Some("b/x"), true)).0, ["b/y", "b/z"]);
        assert_eq!(listed(&mut view, &query(Some("a"), false)).0, ["b/x", "b/z"]);
        assert!(listed(&mut view, &query(Some("c"), true)).0.is_empty());
    }

    #[test]
    fn a_revision_changes_with_anything_in_the_list_and_comes_back_with_it() {
        let mut view = view(&[("a", false)]);
        let first = view.page(&Query::default()).revision;
        let next = Left {
            generation: Generation { counter: 1, epoch: 0 },
            capacity: view.capacity,
        };
        let mut seen = vec![first.clone()];
        let put = |version, deleted| Change::Put(path("a"), Box::new(entry(version, deleted)));
        let other = Change::Put(path("b"), Box::new(entry(1, false)));
        let mut described = entry(1, false);
        described.metadata.description = "d".to_owned();
        let described = Change::Put(path("a"), Box::new(described));
        for change in [
            put(2, false),
            put(1, true),
            described,
            other,
            Change::Remove(path("a")),
        ] {
            view.apply(next, change);
            let revision = view.page(&Query::default()).revision;
            assert!(!seen.contains(&revision));
            seen.push(revision);
        }
        view.apply(next, Change::Remove(path("b")));
        view.apply(next, put(1, false));
        let page = view.page(&Query {
            unless: Some(first.clone()),
            ..Query::default()
        });
        assert_eq!((page.revision, page.generation), (first, next.generation));
        assert!(page.entries.is_none());
    }
}
