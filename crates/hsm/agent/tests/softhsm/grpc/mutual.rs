//! Who is let in, and who is not.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tonic::Code;
use trustplane_api::hsm::v1::{HealthRequest, MANAGER};
use trustplane_process::ca::{Authority, Leaf};

use super::{Agent, authority, client, leaf, name};

fn config(
    versions: &[&'static SupportedProtocolVersion],
    trusts: &Authority,
    shows: Option<&Leaf>,
) -> Arc<ClientConfig> {
    trustplane_process::crypto::install();
    let roots: Arc<RootCertStore> = trusts.roots().unwrap();
    let builder = ClientConfig::builder_with_protocol_versions(versions).with_root_certificates(roots);
    let mut config = match shows {
        Some(leaf) => {
            let chain = CertificateDer::from_pem_slice(leaf.certificate_pem().as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(leaf.key_pem().expose()).unwrap();
            builder.with_client_auth_cert(vec![chain], key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

async fn outcome(agent: &Agent, config: Arc<ClientConfig>) -> Result<(), Code> {
    let mut client = client(agent.address, config);
    client
        .health(HealthRequest {})
        .await
        .map(drop)
        .map_err(|status| status.code())
}

#[tokio::test]
async fn only_the_manager_is_let_in_and_only_over_tls_13() {
    let agent = Agent::start().await;
    let (ours, other) = (&agent.ca, authority());
    let manager = leaf(ours, MANAGER);
    let newest: &[&'static SupportedProtocolVersion] = &[&TLS13];
    assert_eq!(
        outcome(&agent, config(newest, ours, Some(&manager))).await,
        Ok(())
    );
    assert_eq!(
        outcome(&agent, config(&[&TLS13, &TLS12], ours, Some(&manager))).await,
        Ok(())
    );

    let strangers = [
        ("no certificate", config(newest, ours, None)),
        (
            "another authority",
            config(newest, ours, Some(&leaf(&other, MANAGER))),
        ),
        ("another agent", config(newest, ours, Some(&leaf(ours, &name())))),
        (
            "a name below",
            config(newest, ours, Some(&leaf(ours, "x.hsm-manager"))),
        ),
        ("TLS 1.2", config(&[&TLS12], ours, Some(&manager))),
        ("does not trust the agent", config(newest, &other, Some(&manager))),
    ];
    for (what, config) in strangers {
        // In TLS 1.3 a client believes that it is in before the server has looked at it.
        let refused = outcome(&agent, config).await;
        assert!(
            matches!(refused, Err(Code::Unavailable | Code::Unknown)),
            "{what}: {refused:?}"
        );
    }
    assert_eq!(
        outcome(&agent, config(newest, ours, Some(&manager))).await,
        Ok(())
    );
    let counted = r#"requests_total{method="Health",code="OK"} 3"#;
    let metrics = agent.metrics.encode();
    assert!(metrics.contains(counted), "no other call came through: {metrics}");
}
