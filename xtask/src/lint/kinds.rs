//! No kind is defined twice: a second definition would drift from the first one.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::texts::files;

/// Every second definition of a kind in the workspace, tests and examples in comments included.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let (mut known, mut faults) = (BTreeMap::new(), Vec::new());
    for file in files(root, &["*.rs"])? {
        let text = std::fs::read_to_string(root.join(&file))?;
        for kind in defined(&text) {
            if let Some(first) = known.insert(kind.clone(), file.clone()) {
                let (group, kind) = kind;
                faults.push(format!(
                    "{file}: defines the kind {kind:?} of the group {group:?} again, as {first}: \
                     use trustplane_plan::kinds or the constant of the API"
                ));
            }
        }
    }
    Ok(faults)
}

/// Groups and names of the kinds that a source defines by literals.
fn defined(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split("Kind::new(").skip(1).filter_map(|rest| {
        let mut arguments = rest
            .split(',')
            .map(|part| part.trim().strip_prefix('"')?.strip_suffix('"'));
        let (group, _, kind) = (arguments.next()??, arguments.next()??, arguments.next()??);
        Some((group.to_owned(), kind.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_found_in_every_layout() {
        let call = concat!("Kind::", "new(");
        for arguments in [
            r#""apps", "v1", "Deployment", "deployments", Scope::Namespaced)"#,
            "\n    \"apps\",\n    \"v1\",\n    \"Deployment\",\n    \"deployments\",\n)",
        ] {
            let found: Vec<_> = defined(&format!("const A: Kind = {call}{arguments};")).collect();
            assert_eq!(found, [("apps".to_owned(), "Deployment".to_owned())]);
        }
        assert_eq!(defined(&format!("{call}group, version, kind)")).count(), 0);
    }
}
