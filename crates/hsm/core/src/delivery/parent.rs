//! Decides which HSMSecrets an installation serves.

use std::collections::BTreeSet;

use trustplane_api::hsm::ParentRef;

/// This installation, as a `parentRef` can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// The names that mean this installation.
    pub names: BTreeSet<String>,
    /// The namespace of this installation.
    pub namespace: String,
    /// Whether HSMSecrets without `parentRef` are left alone, as by the original.
    pub requires_ref: bool,
}

impl Operator {
    /// Whether this installation serves an HSMSecret. A `parentRef` without a namespace means the namespace of the installation;
    /// group and kind decide nothing, as in the original.
    ///
    /// ```
    /// use trustplane_hsm_core::delivery::Operator;
    ///
    /// let us = Operator { names: ["trustplane-manager".to_owned()].into(), namespace: "home".to_owned(), requires_ref: false };
    /// assert!(us.serves(None));
    /// ```
    pub fn serves(&self, parent: Option<&ParentRef>) -> bool {
        let Some(parent) = parent else {
            return !self.requires_ref;
        };
        let namespace = parent.namespace.as_deref().filter(|name| !name.is_empty());
        self.names.contains(&parent.name) && namespace.is_none_or(|name| name == self.namespace)
    }
}
