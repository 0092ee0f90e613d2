//! Kubeconfig files that hold all they need, so that they can be copied anywhere.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::pki::{CertificateFiles, write_private};

/// Writes a kubeconfig for one user of one cluster. JSON is YAML, so every client reads it.
pub fn write(
    path: &Path,
    cluster: &str,
    server: &str,
    authority: &Path,
    user: &CertificateFiles,
) -> Result<()> {
    let embedded = |file: &Path| -> Result<String> {
        let bytes = fs::read(file).with_context(|| format!("read {}", file.display()))?;
        Ok(STANDARD.encode(bytes))
    };
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": cluster,
        "clusters": [{
            "name": cluster,
            "cluster": { "server": server, "certificate-authority-data": embedded(authority)? },
        }],
        "users": [{
            "name": cluster,
            "user": {
                "client-certificate-data": embedded(&user.certificate)?,
                "client-key-data": embedded(&user.key)?,
            },
        }],
        "contexts": [{ "name": cluster, "context": { "cluster": cluster, "user": cluster } }],
    });
    write_private(path, &serde_json::to_string_pretty(&content)?)
}
