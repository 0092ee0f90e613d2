//! SPIRE's own check of every file that is rendered.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use trustplane_api::identity::{SpireAgentSpec, SpireServerSpec};
use trustplane_identity_core::examples;
use trustplane_identity_core::render::{self, paths};

use crate::http;
use crate::node::Images;

/// A root directory with what SPIRE reads while it checks a file.
struct Root {
    dir: tempfile::TempDir,
}

impl Root {
    fn new(images: &Images) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let root = Self { dir };
        for program in ["spire-server", "spire-agent"] {
            let (from, to) = (images.program(program), root.dir.path().join(program));
            // A link where that is possible: one of them has 160 MB.
            if fs::hard_link(&from, &to).is_err() {
                fs::copy(&from, &to)?;
            }
        }
        let (certificate, key) = http::certificate(&["federation.example.org".to_owned()])?;
        let certificates = root
            .dir
            .path()
            .join(paths::FEDERATION_CERTS.trim_start_matches('/'));
        fs::create_dir_all(&certificates)?;
        fs::write(certificates.join("tls.crt"), certificate)?;
        fs::write(certificates.join("tls.key"), key)?;
        Ok(root)
    }

    /// Whether a program takes a file, and what it says of it.
    fn check(&self, program: &str, text: &str) -> Result<(bool, String)> {
        let name = "checked.conf";
        fs::write(self.dir.path().join(name), text)?;
        let mut command = Command::new("chroot");
        command.arg(self.dir.path()).arg(format!("/{program}"));
        let checked = command
            .args(["validate", "-config", &format!("/{name}"), "-expandEnv"])
            .output();
        let checked = checked.with_context(|| format!("run {program}"))?;
        let words = [checked.stdout, checked.stderr].concat();
        Ok((
            checked.status.success(),
            String::from_utf8_lossy(&words).into_owned(),
        ))
    }

    fn takes(&self, program: &str, name: &str, text: &str) -> Result<()> {
        let (is_taken, words) = self.check(program, text)?;
        ensure!(
            is_taken && words.contains("file is valid"),
            "{name}: {words}\n{text}"
        );
        Ok(())
    }

    fn refuses(&self, program: &str, file: &Value, why: &str) -> Result<()> {
        let (is_taken, words) = self.check(program, &file.to_string())?;
        ensure!(!is_taken && words.contains(why), "{why}: {words}\n{file:#}");
        Ok(())
    }
}

#[tokio::test]
async fn spire_takes_every_file_of_the_matrix() -> Result<()> {
    let root = Root::new(&Images::built().await?)?;
    let checks = examples::matrix().into_iter().flat_map(|it| {
        [
            (
                "spire-server",
                it.name,
                render::server_conf(&it.server, &it.shared),
            ),
            ("spire-agent", it.name, render::agent_conf(&it.agent, &it.shared)),
        ]
    });
    for (program, name, text) in checks {
        root.takes(program, name, &text)?;
    }
    Ok(())
}

#[tokio::test]
async fn spire_refuses_files_with_a_defect() -> Result<()> {
    let root = Root::new(&Images::built().await?)?;
    let shared = examples::shared();
    let server: Value = serde_json::from_str(&render::server_conf(&SpireServerSpec::default(), &shared))?;
    let agent: Value = serde_json::from_str(&render::agent_conf(&SpireAgentSpec::default(), &shared))?;
    let with = |file: &Value, pointer: &str, key: &str, value: Value| {
        let mut file = file.clone();
        file.pointer_mut(pointer).unwrap()[key] = value;
        file
    };
    let unknown = "unknown configuration detected";
    root.refuses(
        "spire-server",
        &with(&server, "/server", "retry_bootstrap", true.into()),
        unknown,
    )?;
    root.refuses(
        "spire-agent",
        &with(&agent, "/agent", "retry_bootstrap", true.into()),
        unknown,
    )?;
    let nowhere = with(&server, "/server", "trust_domain", "".into());
    root.refuses("spire-server", &nowhere, "trust_domain must be configured")?;
    // The section of a plugin of the server is checked by the plugin.
    let keys = with(&server, "/plugins/KeyManager/0/disk", "plugin_data", json!({}));
    root.refuses("spire-server", &keys, "keys_path is required")
}

#[test]
fn controller_manager_rests_between_two_collections() -> Result<()> {
    let conf: Value = serde_json::from_str(&render::controller_manager_conf(&examples::shared()))?;
    let interval = conf["gcInterval"].as_u64().context("a number of nanoseconds")?;
    assert!(
        Duration::from_nanos(interval) >= Duration::from_secs(5),
        "{interval}"
    );
    Ok(())
}

/// A plugin passes over a key that it does not know, so its own check proves nothing: the program has to have the name of each key.
#[tokio::test]
async fn spire_knows_every_key_of_a_plugin() -> Result<()> {
    let images = Images::built().await?;
    let server = keys_known_to(&images.program("spire-server"))?;
    let agent = keys_known_to(&images.program("spire-agent"))?;
    for example in examples::matrix() {
        for (known, text) in [
            (&server, render::server_conf(&example.server, &example.shared)),
            (&agent, render::agent_conf(&example.agent, &example.shared)),
        ] {
            let unknown: Vec<_> = plugin_keys(&text)?.difference(known).cloned().collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", example.name);
        }
    }
    // A key that both had once.
    assert!(!server.contains("retry_bootstrap") && !agent.contains("retry_bootstrap"));
    Ok(())
}

/// The names by which a program reads its configuration: Go keeps the tags of fields, such as `hcl:"keys_path"`.
fn keys_known_to(program: &Path) -> Result<BTreeSet<String>> {
    let mut grep = Command::new("grep");
    grep.args([
        "--text",
        "--only-matching",
        "--extended-regexp",
        "hcl:\"[A-Za-z0-9_]+",
    ])
    .arg(program);
    let found = grep.env("LC_ALL", "C").output().context("run grep")?;
    let found = String::from_utf8(found.stdout)?;
    Ok(found
        .lines()
        .filter_map(|tag| Some(tag.split_once('"')?.1.to_owned()))
        .collect())
}

/// The keys that a file gives to plugins.
fn plugin_keys(text: &str) -> Result<BTreeSet<String>> {
    let conf: Value = serde_json::from_str(text)?;
    let plugins = conf["plugins"].as_object().context("plugins")?.values();
    let plugins = plugins
        .filter_map(Value::as_array)
        .flatten()
        .filter_map(Value::as_object);
    let data = plugins
        .flat_map(Map::values)
        .filter_map(|plugin| plugin["plugin_data"].as_object());
    let mut keys = BTreeSet::new();
    for (key, value) in data.flatten() {
        keys.insert(key.clone());
        // A list of blocks, each under a name of ours.
        let blocks = value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_object);
        let inner = blocks.flat_map(Map::values).filter_map(Value::as_object);
        keys.extend(inner.flat_map(Map::keys).cloned());
    }
    Ok(keys)
}
