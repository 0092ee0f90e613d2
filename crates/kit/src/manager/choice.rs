//! Which capabilities run: those that were asked for, or those that can.

use std::collections::BTreeSet;

use super::Capability;

/// A choice that cannot be met.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ChoiceError {
    /// A name that this build does not know.
    #[error("--capabilities: {name:?} does not exist; this build has {valid}")]
    Unknown {
        /// The name.
        name: String,
        /// The valid ones, as a list for people.
        valid: String,
    },
}

/// What a capability lacks in this cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lack {
    /// CRDs that are not served, as `plural.group`.
    pub crds: BTreeSet<String>,
    /// Rights that are not granted, as `verb group/resource`.
    pub rights: BTreeSet<String>,
}

impl Lack {
    /// Whether nothing is lacking.
    pub fn is_nothing(&self) -> bool {
        self.crds.is_empty() && self.rights.is_empty()
    }
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
        match (self.crds.is_empty(), self.rights.is_empty()) {
            (true, true) => f.write_str("nothing is lacking"),
            (false, true) => write!(f, "not served: {}", list(&self.crds)),
            (true, false) => write!(f, "not permitted: {}", list(&self.rights)),
            (false, false) => write!(
                f,
                "not served: {}; not permitted: {}",
                list(&self.crds),
                list(&self.rights)
            ),
        }
    }
}

/// The capabilities that were asked for by name, in the order in which the build knows them.
pub fn named(names: &[String], known: &[Capability]) -> Result<Vec<Capability>, ChoiceError> {
    let names: BTreeSet<&str> = names
        .iter()
        .map(|name| name.trim())
        .filter(|name| !name.is_empty())
        .collect();
    if let Some(name) = names
        .iter()
        .find(|name| !known.iter().any(|capability| capability.name == **name))
    {
        let valid: Vec<_> = known.iter().map(|capability| capability.name).collect();
        let valid = if valid.is_empty() {
            "none".to_owned()
        } else {
            valid.join(", ")
        };
        return Err(ChoiceError::Unknown {
            name: (*name).to_owned(),
            valid,
        });
    }
    Ok(known
        .iter()
        .filter(|capability| names.contains(capability.name))
        .cloned()
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::Rights;

    fn known(names: &[&'static str]) -> Vec<Capability> {
        let capability = |name: &&'static str| Capability {
            name,
            about: "",
            crds: Vec::new,
            namespaces: Vec::new(),
            tenants: Vec::new(),
            rights: Rights::none,
            parts: Vec::new(),
            policies: Vec::new,
            at_home: false,
            opt_in: false,
            roles: Vec::new,
            lease_before: None,
            secrets: None,
            webhooks: Vec::new,
            start: std::sync::Arc::new(|_| Box::pin(async { Ok(()) })),
        };
        names.iter().map(capability).collect()
    }

    fn choose(names: &[&str], of: &[&'static str]) -> Result<Vec<&'static str>, ChoiceError> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(named(&names, &known(of))?
            .into_iter()
            .map(|capability| capability.name)
            .collect())
    }

    #[test]
    fn any_set_can_be_chosen() {
        assert_eq!(
            choose(&["hsm", " sync", "hsm"], &["sync", "hsm", "identity"]),
            Ok(vec!["sync", "hsm"])
        );
        assert_eq!(choose(&[""], &["sync"]), Ok(vec![]));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_valid_ones() {
        let told = choose(&["sinc"], &["sync", "hsm"]).unwrap_err().to_string();
        assert_eq!(
            told,
            "--capabilities: \"sinc\" does not exist; this build has sync, hsm"
        );
        let told = choose(&["sync"], &[]).unwrap_err().to_string();
        assert_eq!(
            told,
            "--capabilities: \"sync\" does not exist; this build has none"
        );
    }

    #[test]
    fn a_lack_tells_both_kinds() {
        let lack = Lack {
            crds: ["mirrors.x".to_owned()].into(),
            rights: ["get core/pods".to_owned()].into(),
        };
        assert_eq!(
            lack.to_string(),
            "not served: mirrors.x; not permitted: get core/pods"
        );
    }
}
