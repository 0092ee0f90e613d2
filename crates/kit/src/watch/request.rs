//! The requests of the list and watch protocol.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use http::{
    Request,
    header::{ACCEPT, ACCEPT_ENCODING},
};
use kube::client::Body;
use trustplane_plan::Kind;

use super::{Payload, machine::Ask, selector::selects};

/// Which objects a watch is about, as far as requests go.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    pub(super) kind: Kind,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    pub(super) payload: Payload,
}

impl Selection {
    /// Whether the selectors surely select an object with these labels.
    pub(super) fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.fields.is_none()
            && self
                .labels
                .as_deref()
                .is_none_or(|selector| selects(selector, labels))
    }

    /// The request that a machine asked for; a watch is to end after `timeout`.
    pub(super) fn request(
        &self,
        collection: &str,
        ask: &Ask,
        timeout: Duration,
    ) -> Result<Request<Body>, http::Error> {
        let namespace = Some(collection).filter(|name| !name.is_empty());
        let mut query = Query(self.kind.collection_path(namespace), '?');
        for (key, selector) in [("labelSelector", &self.labels), ("fieldSelector", &self.fields)] {
            if let Some(selector) = selector {
                query.add(key, selector);
            }
        }
        if self.payload == Payload::Table {
            query.add("includeObject", "Metadata");
        }
        if !matches!(ask, Ask::Page { .. }) {
            query.add("watch", "true");
            query.add("allowWatchBookmarks", "true");
            query.add("timeoutSeconds", &timeout.as_secs().max(1).to_string());
        }
        match ask {
            // Without a version the list is as fresh as a read from etcd.
            Ask::Stream => {
                query.add("sendInitialEvents", "true");
                query.add("resourceVersionMatch", "NotOlderThan");
            }
            Ask::Watch { from } => query.add("resourceVersion", from),
            Ask::Page { token, size } => {
                query.add("limit", &size.to_string());
                if let Some(token) = token {
                    query.add("continue", token);
                }
            }
        }
        let list = matches!(ask, Ask::Page { .. });
        Request::get(query.0)
            .header(ACCEPT, self.accept(list))
            // A compressed watch is delayed, and servers differ in how they frame it.
            .header(ACCEPT_ENCODING, "identity")
            .body(Body::empty())
    }

    fn accept(&self, list: bool) -> &'static str {
        match (self.payload, list) {
            (Payload::Full, _) => "application/json",
            (Payload::Metadata, false) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            (Payload::Table, _) => "application/json;as=Table;g=meta.k8s.io;v=v1",
            (Payload::Metadata, true) => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        }
    }
}

/// A path with its query so far, and the character before the next parameter.
struct Query(String, char);

impl Query {
    fn add(&mut self, key: &str, value: &str) {
        self.0.push(self.1);
        self.1 = '&';
        self.0 += key;
        self.0.push('=');
        for byte in value.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    self.0.push(byte.into());
                }
                // Writing to a string cannot fail.
                _ => drop(write!(self.0, "%{byte:02X}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use trustplane_plan::kinds::DEPLOYMENT;

    use super::*;

    fn request(payload: Payload, collection: &str, ask: &Ask) -> Request<Body> {
        let selection = Selection {
            kind: DEPLOYMENT,
            labels: Some("app in (a,b),x!=ü".into()),
            fields: None,
            payload,
        };
        selection
            .request(collection, ask, Duration::from_millis(1500))
            .unwrap()
    }

    fn uri(collection: &str, ask: &Ask) -> String {
        request(Payload::Metadata, collection, ask).uri().to_string()
    }

    #[test]
    fn every_request_for_a_table_asks_for_metadata_alone() {
        let page = Ask::Page {
            token: None,
            size: 50,
        };
        for ask in [page, Ask::Stream, Ask::Watch { from: "7".into() }] {
            let table = request(Payload::Table, "", &ask);
            let accept = table.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
            assert_eq!(
                accept,
                Some("application/json;as=Table;g=meta.k8s.io;v=v1"),
                "{ask:?}"
            );
            assert!(
                table.uri().to_string().contains("&includeObject=Metadata&"),
                "{ask:?}"
            );
            assert!(!uri("", &ask).contains("includeObject"), "{ask:?}");
        }
    }

    #[test]
    fn requests_carry_selectors_encoded() {
        let page = Ask::Page {
            token: Some("a/b=".into()),
            size: 50,
        };
        assert_eq!(
            uri("shop", &page),
            "/apis/apps/v1/namespaces/shop/deployments?labelSelector=app%20in%20%28a%2Cb%29%2Cx%21%3D%C3%BC&limit=50&continue=a%2Fb%3D"
        );
        assert!(uri("", &Ask::Stream).starts_with("/apis/apps/v1/deployments?labelSelector="));
    }

    #[test]
    fn a_watch_has_an_end_and_bookmarks() {
        let watch = uri("", &Ask::Watch { from: "77".into() });
        assert!(
            watch.ends_with("&watch=true&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion=77"),
            "{watch}"
        );
        let stream = uri("", &Ask::Stream);
        assert!(
            stream.ends_with("&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
            "{stream}"
        );
    }
}
