//! The description of the API, from which the types of the console are made.

use utoipa::OpenApi;

/// The API as OpenAPI.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Trustplane hub",
        description = "What clusters run. Every path below /api/v1 needs the session cookie that a sign-in link sets. Lists carry an ETag.",
        version = "1",
        license(name = "Apache-2.0")
    ),
    paths(
        super::clusters::list,
        super::clusters::one,
        super::clusters::counts,
        super::clusters::namespaces,
        super::clusters::agents,
        super::objects::list,
        super::objects::one,
        super::related::list,
        super::events::list,
        super::stream::live,
        super::pages::sign_out,
        super::pages::health,
    ),
    tags(
        (name = "clusters", description = "Clusters and what they have"),
        (name = "objects", description = "Objects of all clusters"),
        (name = "hub", description = "The hub itself"),
    )
)]
pub struct HubApi;

/// The description as JSON, with a line end.
pub fn text() -> String {
    // The description consists of texts and maps, which always serialise.
    let text = HubApi::openapi().to_pretty_json().unwrap_or_default();
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    /// `UPDATE_OPENAPI=1 cargo test -p trustplane-inventory-hub openapi` rewrites the file.
    #[test]
    fn the_committed_openapi_file_is_current() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        let text = super::text();
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(file, &text).unwrap();
        }
        let committed = std::fs::read_to_string(file).unwrap_or_default();
        assert!(
            committed == text,
            "openapi.json is out of date: run this test with UPDATE_OPENAPI=1"
        );
    }
}
