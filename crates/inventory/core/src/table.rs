//! Rows of the tables that the API server prints for ConfigMaps and Secrets.
//!
//! A row is `{"cells": […], "object": {"metadata": {…}}}`. Which fields an object has is told by `metadata.managedFields`: the
//! children of `f:data` are the names of its keys. How many keys there are is told by a cell.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::kind::InventoryKind;
use crate::project::{Metadata, ProjectionError, Text};

/// The cell that repeats the name of the object.
const NAME: usize = 0;

/// A row of a table.
pub(crate) struct Row<'a> {
    /// The metadata of the object.
    pub(crate) metadata: Metadata<'a>,
    /// The fields that a field manager owns.
    pub(crate) keys: KeyNames<'a>,
    cells: Vec<Text<'a>>,
    kind: InventoryKind,
}

/// The names of the keys that field managers own.
#[derive(Default)]
pub(crate) struct KeyNames<'a> {
    /// Keys in `data`.
    pub(crate) data: BTreeSet<Text<'a>>,
    /// Keys in `binaryData`.
    pub(crate) binary: BTreeSet<Text<'a>>,
    /// Keys that a client has written by `stringData`. The API server does not take a name back when its key goes.
    pub(crate) string: BTreeSet<Text<'a>>,
    /// Whether `immutable` is set. An explicit `false` counts as set, because its value is not told.
    pub(crate) immutable: bool,
}

#[derive(serde::Deserialize)]
struct RawRow<'a> {
    #[serde(borrow)]
    cells: Vec<Text<'a>>,
    object: RawObject<'a>,
}

#[derive(serde::Deserialize)]
struct RawObject<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedMetadata<'a> {
    #[serde(borrow)]
    managed_fields: Option<Vec<Managed<'a>>>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Managed<'a> {
    #[serde(borrow)]
    fields_v1: Option<Fields<'a>>,
}

#[derive(serde::Deserialize)]
struct Fields<'a> {
    #[serde(borrow, rename = "f:data")]
    data: Option<Children<'a>>,
    #[serde(rename = "f:binaryData")]
    binary: Option<Children<'a>>,
    #[serde(rename = "f:stringData")]
    string: Option<Children<'a>>,
    #[serde(rename = "f:immutable")]
    immutable: Option<IgnoredAny>,
}

impl<'a> Row<'a> {
    /// Reads a row of a table of this kind.
    pub(crate) fn read(kind: InventoryKind, json: &'a str) -> Result<Self, ProjectionError> {
        let RawRow { cells, object } = serde_json::from_str(json)?;
        let metadata: Metadata<'a> = serde_json::from_str(object.metadata.get())?;
        let managed: ManagedMetadata<'a> = serde_json::from_str(object.metadata.get())?;
        // Columns have no names in a row: another order would show here first.
        if cells.get(NAME) != metadata.name.as_ref() {
            return Err(ProjectionError::Cells(kind.name()));
        }
        Ok(Self {
            metadata,
            keys: KeyNames::of(managed.managed_fields.unwrap_or_default()),
            cells,
            kind,
        })
    }

    /// The number that a cell shows.
    pub(crate) fn number(&self, cell: usize) -> Result<usize, ProjectionError> {
        self.cells
            .get(cell)
            .and_then(|text| text.as_str().parse().ok())
            .ok_or(ProjectionError::Cells(self.kind.name()))
    }

    /// The text of a cell, once.
    pub(crate) fn take(&mut self, cell: usize) -> Result<Text<'a>, ProjectionError> {
        self.cells
            .get_mut(cell)
            .map(std::mem::take)
            .ok_or(ProjectionError::Cells(self.kind.name()))
    }
}

impl<'a> KeyNames<'a> {
    fn of(entries: Vec<Managed<'a>>) -> Self {
        let mut names = Self::default();
        for fields in entries.into_iter().filter_map(|entry| entry.fields_v1) {
            names.data.extend(fields.data.into_iter().flat_map(|keys| keys.0));
            names
                .binary
                .extend(fields.binary.into_iter().flat_map(|keys| keys.0));
            names
                .string
                .extend(fields.string.into_iter().flat_map(|keys| keys.0));
            names.immutable |= fields.immutable.is_some();
        }
        names
    }

    /// Takes the keys of a Secret that has this many of them, and tells whether these are all.
    ///
    /// | names in `data` | with those in `stringData` | keys | complete |
    /// |---|---|---|---|
    /// | as many as printed | not looked at | `data` | yes |
    /// | fewer | as many as printed | both | yes |
    /// | fewer | still fewer | both | no |
    /// | fewer | more: some of them are stale | `data` | no |
    /// | more | not looked at | `data` | no |
    pub(crate) fn of_secret(&mut self, count: usize) -> (BTreeSet<Text<'a>>, bool) {
        let data = std::mem::take(&mut self.data);
        if data.len() >= count {
            let is_complete = data.len() == count;
            return (data, is_complete);
        }
        let both: BTreeSet<Text<'a>> = data
            .iter()
            .cloned()
            .chain(std::mem::take(&mut self.string))
            .collect();
        let found = both.len();
        (if found <= count { both } else { data }, found == count)
    }
}

/// The names of the fields of a map, from a tree of managed fields: `{"f:name": {…}, ".": {}}`.
struct Children<'a>(BTreeSet<Text<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Children<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ChildrenVisitor).map(Self)
    }
}

struct ChildrenVisitor;

impl<'de> Visitor<'de> for ChildrenVisitor {
    type Value = BTreeSet<Text<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tree of managed fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut names = BTreeSet::new();
        while let Some(key) = access.next_key::<Text<'de>>()? {
            access.next_value::<IgnoredAny>()?;
            names.extend(key.strip_prefix("f:"));
        }
        Ok(names)
    }
}
