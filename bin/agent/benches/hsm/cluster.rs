//! What an agent finds in its cluster: the Secret with the PIN and the record of its tries. An agent that is tied to a cluster
//! has a client, a watch and certificates to hold, which one that reads its PIN from a file has not.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use trustplane_cluster::cache::Cache;

use crate::stage::{PIN, Stage, flag};

/// Tells the testkit on which cluster it stands.
pub const VARIABLE: &str = "TRUSTPLANE_TEST_CLUSTER";

const NAMESPACE: &str = "default";
const SECRET: &str = "bench-pin";
const RECORD: &str = "hsm-agent-bench";
/// The key of the digests in the record.
const KEY: &str = "record.key";

/// Makes both in the cluster that `KUBECONFIG` names.
pub fn prepare(stage: &Stage) {
    std::fs::write(stage.file(KEY), [7; 32]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::try_default()
            .await
            .expect("KUBECONFIG names an API server: `cargo xtask bench hsm` starts one");
        let secret: Secret = serde_json::from_value(json!({
            "metadata": { "name": SECRET }, "stringData": { "pin": PIN },
        }))
        .unwrap();
        let record: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": RECORD } })).unwrap();
        let (secrets, records) = (
            Api::<Secret>::namespaced(client.clone(), NAMESPACE),
            Api::<ConfigMap>::namespaced(client, NAMESPACE),
        );
        secrets.create(&PostParams::default(), &secret).await.unwrap();
        records.create(&PostParams::default(), &record).await.unwrap();
    });
}

/// The arguments by which an agent finds them.
pub fn arguments(stage: &Stage) -> [String; 3] {
    [
        format!("--pin-secret={NAMESPACE}/{SECRET}/pin"),
        format!("--record={NAMESPACE}/{RECORD}"),
        flag("record-key-file", &stage.file(KEY)),
    ]
}

/// The name of the cluster that `KUBECONFIG` names, if it is one of `cargo xtask`.
pub fn name() -> Option<OsString> {
    let kubeconfig = PathBuf::from(env::var_os("KUBECONFIG")?);
    let clusters = Cache::locate().ok()?.clusters();
    let below = kubeconfig.strip_prefix(clusters).ok()?;
    Some(below.components().next()?.as_os_str().to_owned())
}
