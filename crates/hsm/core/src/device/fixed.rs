//! Tokens that no bus shows.

use std::collections::{BTreeMap, BTreeSet};

use trustplane_api::hsm::{FixedToken, HostDirectory, Variable};

use super::{Reader, is_name, shown};
use crate::rules::parts;

/// A token that is named, and how it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixed {
    /// What we call it.
    pub name: String,
    /// The node that its agent runs on.
    pub node: Option<String>,
    /// Its label.
    pub token_label: Option<String>,
    /// Its serial number.
    pub token_serial: Option<String>,
    /// The PKCS#11 module.
    pub library: Option<String>,
    /// What the module finds in its environment.
    pub environment: BTreeMap<String, String>,
    /// Directories of the node that the module needs.
    pub host_directories: Vec<HostDirectory>,
}

/// Variables that the agent itself is told.
const OURS: [&str; 4] = ["POD_NAME", "POD_NAMESPACE", "POD_UID", "NODE_NAME"];
/// What other variables begin with that the agent itself would heed.
const THEIRS: [&str; 5] = ["TRUSTPLANE_", "KUBE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
/// What a variable has in its name that makes a module print what it is told, PINs too: `OPENSC_DEBUG`, `YUBIHSM_PKCS11_DBG`,
/// `PKCS11SPY`, `TPM2_PKCS11_LOG_LEVEL`.
const LOUD: [&str; 4] = ["DEBUG", "DBG", "PKCS11SPY", "LOG_LEVEL"];
/// Directories of the agent's own: a directory of the node must be neither above nor below one of them.
const RESERVED: [&str; 8] = [
    "/dev",
    "/etc/hsm",
    "/proc",
    "/run/pcscd",
    "/run/secrets",
    "/sys",
    "/var/lock/pcsc",
    "/var/run",
];
/// One that may have others in it.
const SHARED: &str = "/tmp";

impl Reader<'_> {
    pub(super) fn fixed(&mut self, tokens: &[FixedToken], library: Option<&str>) -> Vec<Fixed> {
        let field = "spec.discovery.static";
        if tokens.is_empty() || tokens.len() > 64 {
            self.faults.add(field, "must have 1 to 64 tokens");
        }
        let mut names = BTreeSet::new();
        let mut fixed = Vec::new();
        for (n, token) in tokens.iter().take(64).enumerate() {
            let field = format!("{field}[{n}]");
            let name = &token.name;
            if !is_name(name) || name.contains('.') || name.len() > 32 {
                let rule = "must have 1 to 32 lower case letters, digits and dashes inside";
                self.faults.add(&format!("{field}.name"), rule);
            }
            if !names.insert(name) {
                self.faults.add(&format!("{field}.name"), "must be there once");
            }
            fixed.push(self.token(&field, token, library));
        }
        fixed
    }

    fn token(&mut self, field: &str, token: &FixedToken, library: Option<&str>) -> Fixed {
        let (label, serial) = (text(&token.token_label), text(&token.token_serial));
        if label.is_none() && serial.is_none() {
            let rule = "must have tokenLabel or tokenSerial: a token is never chosen by its slot";
            self.faults.add(field, rule);
        }
        if label.as_ref().is_some_and(|label| label.len() > 32) {
            self.faults
                .add(&format!("{field}.tokenLabel"), "must have at most 32 bytes");
        }
        let own = text(&token.library_path);
        if let Some(own) = &own {
            self.path(&format!("{field}.libraryPath"), own);
        }
        let library = own.or_else(|| library.map(str::to_owned));
        if library.is_none() {
            let rule = "must be given, here or as spec.pkcs11.libraryPath";
            self.faults.add(&format!("{field}.libraryPath"), rule);
        }
        if token.node_name.as_ref().is_some_and(|node| !is_name(node)) {
            self.faults
                .add(&format!("{field}.nodeName"), "must be the name of a node");
        }
        Fixed {
            name: token.name.clone(),
            node: text(&token.node_name),
            token_label: label,
            token_serial: serial,
            library,
            environment: self.environment(field, &token.environment),
            host_directories: self.directories(field, &token.host_directories),
        }
    }

    pub(super) fn environment(&mut self, field: &str, variables: &[Variable]) -> BTreeMap<String, String> {
        let mut environment = BTreeMap::new();
        for (n, variable) in variables.iter().enumerate() {
            let (field, name) = (format!("{field}.environment[{n}]"), &variable.name);
            let first = name.chars().next();
            let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !letters || first.is_none_or(|c| c.is_ascii_digit()) || name.len() > 128 {
                let rule = "must have letters, digits and underscores, and begin with no digit";
                self.faults.add(&format!("{field}.name"), rule);
            }
            if name.starts_with("LD_") || name.starts_with("GLIBC_") || name == "PATH" {
                self.faults.add(
                    &format!("{field}.name"),
                    "must not change how programs are loaded",
                );
            }
            if THEIRS
                .iter()
                .any(|prefix| name.to_ascii_uppercase().starts_with(prefix))
            {
                self.faults
                    .add(&format!("{field}.name"), "must not change how the agent works");
            }
            if LOUD.iter().any(|loud| name.to_ascii_uppercase().contains(loud)) {
                let rule = "must not make the module print what it is told, which may be a PIN";
                self.faults.add(&format!("{field}.name"), rule);
            }
            if OURS.contains(&name.as_str()) || environment.contains_key(name) {
                self.faults
                    .add(&format!("{field}.name"), "must not be one that is set already");
            }
            if variable.value.contains('\0') || variable.value.len() > 4096 {
                self.faults.add(
                    &format!("{field}.value"),
                    "must have at most 4096 bytes, and no NUL",
                );
            }
            environment.insert(name.clone(), variable.value.clone());
        }
        environment
    }

    pub(super) fn directories(&mut self, field: &str, directories: &[HostDirectory]) -> Vec<HostDirectory> {
        let mut kept: Vec<HostDirectory> = Vec::new();
        for (n, directory) in directories.iter().enumerate() {
            let field = format!("{field}.hostDirectories[{n}].path");
            let path = directory.path.trim_end_matches('/');
            match parts(path) {
                Some(parts) if !parts.is_empty() => {}
                _ => {
                    let rule = "must be a path from the root without '.' and '..'";
                    self.faults.add(&field, rule);
                    continue;
                }
            }
            if !self.rules.allows(path) {
                let rule = format!("the admin has not allowed {}", shown(path));
                self.faults.add(&field, rule);
            }
            if RESERVED.iter().any(|reserved| overlap(reserved, path)) || is_within(SHARED, path) {
                let rule = "must not be in the way of directories of the agent";
                self.faults.add(&field, rule);
            }
            if kept.iter().any(|other| parts(&other.path) == parts(path)) {
                self.faults.add(&field, "must be there once");
            }
            kept.push(HostDirectory {
                path: path.to_owned(),
                read_only: directory.read_only,
            });
        }
        kept
    }
}

/// Whether one path is the other, or is below or above it.
fn overlap(one: &str, other: &str) -> bool {
    is_within(one, other) || is_within(other, one)
}

/// Whether a path is another one, or is below it.
fn is_within(path: &str, above: &str) -> bool {
    match (parts(path), parts(above)) {
        (Some(path), Some(above)) => path.starts_with(&above),
        _ => true,
    }
}

fn text(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.is_empty())
}
