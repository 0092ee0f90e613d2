//! What is counted about certificates of our own.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    name: String,
}

#[derive(Debug, Clone)]
struct Families {
    expiry: Family<Labels, Gauge>,
    failures: Family<Labels, Counter>,
}

/// The metrics of one certificate.
#[derive(Debug, Clone)]
pub(super) struct LeafMeters {
    expiry: Gauge,
    failures: Counter,
}

impl LeafMeters {
    pub(super) fn new(metrics: &Metrics, name: &str) -> Self {
        let families = metrics.shared(|registry| {
            let families = Families {
                expiry: Family::default(),
                failures: Family::default(),
            };
            let help = "when the certificate in use ends";
            registry.register(
                "certificate_expiry_timestamp_seconds",
                help,
                families.expiry.clone(),
            );
            let help = "renewals of a certificate that failed";
            registry.register("certificate_renewal_failures", help, families.failures.clone());
            families
        });
        let labels = Labels {
            name: name.to_owned(),
        };
        let expiry = families.expiry.get_or_create(&labels).clone();
        let failures = families.failures.get_or_create(&labels).clone();
        Self { expiry, failures }
    }

    pub(super) fn expires(&self, at: Timestamp) {
        self.expiry.set(at.as_second());
    }

    pub(super) fn failed(&self) {
        self.failures.inc();
    }
}
