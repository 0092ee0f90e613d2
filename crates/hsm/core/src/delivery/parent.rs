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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_has_to_be_this_installation_in_its_namespace() {
        let us = |requires_ref| Operator {
            names: ["us".to_owned(), "manager".to_owned()].into(),
            namespace: "home".to_owned(),
            requires_ref,
        };
        let parent = |name: &str, namespace: Option<&str>| -> ParentRef {
            let parent = serde_json::json!({ "name": name, "namespace": namespace });
            serde_json::from_value(parent).unwrap()
        };
        for (parent, served) in [
            (parent("us", None), true),
            (parent("manager", Some("home")), true),
            (parent("us", Some("")), true),
            (parent("us", Some("elsewhere")), false),
            (parent("them", Some("home")), false),
        ] {
            assert_eq!(us(false).serves(Some(&parent)), served, "{parent:?}");
            assert_eq!(us(true).serves(Some(&parent)), served, "{parent:?}");
        }
        assert!(us(false).serves(None));
        assert!(!us(true).serves(None));
    }
}
