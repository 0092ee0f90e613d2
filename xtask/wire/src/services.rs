//! The gRPC services, and their wire code from their descriptions. No `protoc` is needed.

use std::path::Path;

use anyhow::{Context, Result};

/// Where descriptions are, below the root.
const DESCRIPTIONS: &str = "crates/api/proto";

/// One service: where its description is, and where its code goes.
struct Service {
    /// The file, below [`DESCRIPTIONS`].
    description: &'static str,
    /// What the file names as its package.
    package: &'static str,
    /// The code, below the root.
    code: &'static str,
    /// Messages that nobody may print by accident. The module beside the code says how they show themselves.
    hidden: &'static [&'static str],
}

/// Every service. A new one is a line here and a module round its code.
const SERVICES: &[Service] = &[
    Service {
        description: "hsm/v1/agent.proto",
        package: "hsm.v1",
        code: "crates/api/src/hsm/v1/generated.rs",
        hidden: &[".hsm.v1.SecretData", ".hsm.v1.ChangePINRequest"],
    },
    Service {
        description: "deviceplugin/v1beta1/api.proto",
        package: "v1beta1",
        code: "crates/api/src/deviceplugin/generated.rs",
        hidden: &[],
    },
];

/// The code of every service, by its path below the root.
pub fn generate(root: &Path) -> Result<Vec<(&'static str, String)>> {
    let descriptions = root.join(DESCRIPTIONS);
    let each = SERVICES.iter().map(|service| {
        let code =
            code(&descriptions, service).with_context(|| format!("generate from {}", service.description))?;
        Ok((service.code, code))
    });
    each.collect()
}

fn code(root: &Path, service: &Service) -> Result<String> {
    let descriptions = protox::compile([service.description], [root])?;
    let scratch = tempfile::tempdir()?;
    tonic_prost_build::configure()
        // Who calls or serves brings a connection; the wire code needs none.
        .build_transport(false)
        // A map in order has one encoding.
        .btree_map(".")
        .skip_debug(service.hidden)
        .emit_rerun_if_changed(false)
        .out_dir(scratch.path())
        .compile_fds(descriptions)?;
    let file = scratch.path().join(format!("{}.rs", service.package));
    std::fs::read_to_string(&file).with_context(|| format!("package {}", service.package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_generated_is_marked_and_hides_what_must_not_be_printed() {
        let root = tempfile::tempdir().unwrap();
        let description = "syntax = \"proto3\"; package a; message Pin { string pin = 1; }
            message Open { map<string, string> labels = 1; } service S { rpc Do(Pin) returns (Open); }";
        std::fs::write(root.path().join("a.proto"), description).unwrap();
        let service = Service {
            description: "a.proto",
            package: "a",
            code: "",
            hidden: &[".a.Pin"],
        };
        let code = code(root.path(), &service).unwrap();
        assert!(
            code.lines().next().unwrap().contains("@generated"),
            "the texts of it are nobody's fault"
        );
        assert!(
            code.contains("BTreeMap")
                && code.contains("pub mod s_client")
                && code.contains("pub mod s_server")
        );
        assert!(code.contains("skip_debug"));
    }
}
