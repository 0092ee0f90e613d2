//! The one crypto provider of the process: aws-lc-rs.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};

/// Makes aws-lc-rs the process's provider, so that libraries which build their own TLS configuration find it.
///
/// May be called any number of times. Without it rustls panics at the first handshake of such a library.
pub fn install() {
    // The error says that a provider is there already, which is what was asked for.
    let _ = aws_lc_rs::default_provider().install_default();
}

/// The provider for configurations that we build ourselves.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    install();
    CryptoProvider::get_default()
        .cloned()
        .unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn can_be_installed_twice() {
        install();
        install();
        assert!(CryptoProvider::get_default().is_some());
    }
}
