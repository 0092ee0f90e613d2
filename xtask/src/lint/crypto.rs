//! One crypto provider in everything that is built: aws-lc-rs.

use anyhow::Result;

use crate::run;

/// Crypto providers and TLS stacks other than aws-lc-rs.
const FOREIGN: [&str; 5] = ["ring", "openssl", "openssl-sys", "native-tls", "boring"];

/// Every foreign provider that is built. The lock file is no witness: it also lists what optional features would need.
pub fn check() -> Result<Vec<String>> {
    let mut tree = run::cargo();
    tree.args([
        "tree",
        "--workspace",
        "--locked",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    tree.args(["--target", "x86_64-unknown-linux-gnu"]);
    Ok(foreign(&run::output(&mut tree)?))
}

fn foreign(tree: &str) -> Vec<String> {
    let built = |provider: &&str| tree.lines().any(|line| line.split(' ').next() == Some(*provider));
    let fault = |provider| {
        format!("{provider} is built: aws-lc-rs is the one crypto provider (cargo tree -i {provider})")
    };
    FOREIGN.into_iter().filter(built).map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_provider_is_found() {
        assert_eq!(
            foreign("aws-lc-rs v1.19.0\nspring v1.0.0\n"),
            Vec::<String>::new()
        );
        assert_eq!(foreign("aws-lc-rs v1.19.0\nring v0.17.0 (*)\n").len(), 1);
    }
}
