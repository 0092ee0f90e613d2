//! What a request asks for.

use serde_json::Value;

use super::{Denial, Rule};
use crate::Settings;
use crate::inherit::{Holder, World};

/// A request to create or update an object, and what it is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Review<'a> {
    /// Which object it is about.
    pub subject: Holder,
    /// The object as it is; `None` if it is to be created.
    pub old: Option<&'a Value>,
    /// The object as it should be.
    pub new: &'a Value,
    /// All objects, read just now rather than from a store. What it says of the subject itself does not matter.
    pub world: &'a World,
    /// What the admin chose.
    pub settings: &'a Settings,
    /// Whether the ConfigMap of [`super::bundle_to_look_up`] exists.
    pub bundle_exists: Option<bool>,
    /// What is wrong with the old spec: field and rule.
    pub old_defects: &'a [(String, String)],
    /// What is wrong with the new spec: field and rule.
    pub defects: &'a [(String, String)],
}

impl Review<'_> {
    /// Whether the request changes what is at this path, or creates the object.
    pub(super) fn changes(&self, pointer: &str) -> bool {
        self.old
            .is_none_or(|old| old.pointer(pointer) != self.new.pointer(pointer))
    }

    /// Refuses what is wrong with the spec, unless it was wrong in the same way before.
    pub(super) fn check_defects(&self, rule: Rule) -> Result<(), Denial> {
        let is_new = |defect: &&(String, String)| {
            let pointer = format!("/{}", defect.0.replace(['.', '['], "/").replace(']', ""));
            !self.old_defects.contains(defect) || self.changes(&pointer)
        };
        match self.defects.iter().find(is_new) {
            Some((field, text)) => Err(Denial::new(rule, field, text)),
            None => Ok(()),
        }
    }
}
