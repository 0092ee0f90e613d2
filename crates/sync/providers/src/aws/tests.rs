//! The provider against a small Secrets Manager that fails on order and counts.

use std::collections::VecDeque;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use serde_json::{Value as Json, json};
use trustplane_sync_core::data::{Payload, Value};

use super::*;

/// A Secrets Manager in memory.
#[derive(Clone, Default)]
struct Stub(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    secrets: BTreeMap<String, Json>,
    /// Answers to the next calls: a status and a code.
    failures: VecDeque<(u16, &'static str)>,
    /// Operations that are always refused.
    denied: Vec<&'static str>,
    calls: Vec<String>,
}

impl Stub {
    async fn start(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/", post(answer)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        address
    }

    fn with<T>(&self, act: impl FnOnce(&mut Content) -> T) -> T {
        act(&mut self.0.lock().unwrap())
    }

    fn calls(&self) -> Vec<String> {
        self.with(|stub| stub.calls.clone())
    }

    async fn provider(&self) -> Aws {
        let endpoint = format!("http://{}", self.start().await);
        let variables: BTreeMap<&str, String> = BTreeMap::from([
            ("AWS_ACCESS_KEY_ID", "AK".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "sk".to_owned()),
            ("AWS_REGION", "eu-west-1".to_owned()),
            ("AWS_ENDPOINT_URL", endpoint),
        ]);
        Aws::from_variables(move |name| variables.get(name).cloned(), &Metrics::new()).unwrap()
    }
}

async fn answer(State(stub): State<Stub>, headers: HeaderMap, body: String) -> impl IntoResponse {
    let target = headers["x-amz-target"].to_str().unwrap();
    let operation = target.strip_prefix("secretsmanager.").unwrap().to_owned();
    let proof = headers["authorization"].to_str().unwrap();
    assert!(
        proof.contains("Credential=AK/") && proof.contains("/eu-west-1/secretsmanager/aws4_request"),
        "{proof}"
    );
    let body: Json = serde_json::from_str(&body).unwrap();
    stub.with(|stub| {
        stub.calls.push(operation.clone());
        let refuse = |status: u16, code: &str| {
            let text = json!({ "__type": code, "Message": "words that differ: 4711" }).to_string();
            (StatusCode::from_u16(status).unwrap(), text)
        };
        if let Some((status, code)) = stub.failures.pop_front() {
            return refuse(status, code);
        }
        if stub.denied.iter().any(|denied| *denied == operation) {
            return refuse(400, "AccessDeniedException");
        }
        if operation == "BatchGetSecretValue" {
            let ids = body["SecretIdList"].as_array().unwrap();
            assert!(ids.len() <= 20);
            let (mut values, mut errors) = (Vec::new(), Vec::new());
            for id in ids {
                match stub.secrets.get(id.as_str().unwrap()) {
                    Some(value) => values.push(value.clone()),
                    None => errors.push(
                        json!({"SecretId": id, "ErrorCode": "ResourceNotFoundException", "Message": ""}),
                    ),
                }
            }
            return (
                StatusCode::OK,
                json!({ "SecretValues": values, "Errors": errors }).to_string(),
            );
        }
        match stub.secrets.get(body["SecretId"].as_str().unwrap()) {
            Some(value) => (StatusCode::OK, value.to_string()),
            None => refuse(400, "ResourceNotFoundException"),
        }
    })
}

fn locators(count: usize) -> Vec<Locator> {
    (0..count).map(|n| locator(&format!("p{n}"), None)).collect()
}

fn locator(path: &str, version: Option<&str>) -> Locator {
    Locator {
        path: path.to_owned(),
        version: version.map(str::to_owned),
        on_behalf_of: crate::Principal::Process,
    }
}

fn stub(count: usize) -> Stub {
    let stub = Stub::default();
    stub.with(|stub| {
        for n in 0..count {
            let value = json!({ "Name": format!("p{n}"), "ARN": format!("arn:p{n}"), "VersionId": "v", "SecretString": n.to_string() });
            stub.secrets.insert(format!("p{n}"), value);
        }
    });
    stub
}

fn missing() -> FetchError {
    FetchError::NotFound.with_code("ResourceNotFoundException")
}

#[tokio::test]
async fn many_secrets_are_fetched_in_twenties() {
    let stub = stub(45);
    let aws = stub.provider().await;
    let mut wanted = locators(45);
    wanted.push(locator("missing", None));
    let answers = aws.fetch(&wanted).await;
    for (n, answer) in answers[..45].iter().enumerate() {
        let fetched = answer.as_ref().unwrap();
        assert_eq!(fetched.payload, Payload::Bytes(Value::new(n.to_string())));
        assert_eq!(fetched.version.as_deref(), Some("v"));
    }
    assert_eq!(answers[45].as_ref().err(), Some(&missing()));
    assert_eq!(stub.calls(), ["BatchGetSecretValue"; 3]);
}

#[tokio::test]
async fn one_secret_or_a_version_is_a_single_call() {
    let stub = stub(2);
    let aws = stub.provider().await;
    assert!(aws.fetch(&locators(1)).await[0].is_ok());
    assert!(
        aws.fetch(&[locator("p0", Some("AWSPREVIOUS")), locator("p1", None)])
            .await
            .iter()
            .all(Result::is_ok)
    );
    assert_eq!(stub.calls(), ["GetSecretValue"; 3]);
}

#[tokio::test]
async fn a_refused_batch_is_remembered() {
    let stub = stub(3);
    stub.with(|stub| stub.denied.push("BatchGetSecretValue"));
    let aws = stub.provider().await;
    for _ in 0..2 {
        assert!(aws.fetch(&locators(3)).await.iter().all(Result::is_ok));
    }
    let batches = stub
        .calls()
        .iter()
        .filter(|call| *call == "BatchGetSecretValue")
        .count();
    assert_eq!((batches, stub.calls().len()), (1, 7));
}

#[tokio::test]
async fn a_denial_names_the_permission() {
    let stub = stub(1);
    stub.with(|stub| stub.denied.push("GetSecretValue"));
    let answers = stub.provider().await.fetch(&locators(1)).await;
    let told = answers[0].as_ref().unwrap_err().to_string();
    assert_eq!(
        told,
        "access was denied; needed is secretsmanager:GetSecretValue (AccessDeniedException)"
    );
    assert_eq!(stub.calls().len(), 1, "it is not tried again");
}

#[tokio::test]
async fn throttles_and_faults_are_tried_again_five_times_at_most() {
    let stub = stub(1);
    stub.with(|stub| {
        stub.failures.extend([
            (400, "ThrottlingException"),
            (500, "InternalServiceError"),
            (503, ""),
        ]);
    });
    let aws = stub.provider().await;
    assert!(aws.fetch(&locators(1)).await[0].is_ok());
    assert_eq!(stub.calls().len(), 4);
    stub.with(|stub| stub.failures.extend([(400, "ThrottlingException"); 9]));
    let answers = aws.fetch(&locators(1)).await;
    assert_eq!(
        answers[0].as_ref().err(),
        Some(&FetchError::Throttled { retry_after: None }.with_code("ThrottlingException"))
    );
    assert_eq!(stub.calls().len(), 9);
}

#[tokio::test]
async fn an_arn_chooses_its_region_and_nothing_else() {
    assert_eq!(
        region_of("arn:aws:secretsmanager:us-east-2:1:secret:a").as_deref(),
        Some("us-east-2")
    );
    for odd in [
        "arn:aws:secretsmanager:evil.example/:1:secret:a",
        "arn:aws:secretsmanager::1:secret:a",
        "arn:x",
        "a",
    ] {
        assert_eq!(region_of(odd), None, "{odd}");
    }
}
