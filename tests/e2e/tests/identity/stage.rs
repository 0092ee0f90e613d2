//! The cluster as the test sees it, by the commands of a person.

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use trustplane_cluster::node::{Claim, Cluster};
use trustplane_cluster::wait;
use trustplane_e2e::{Arena, say};

use crate::NAME;
use crate::workload::{SHOP, Workload};

/// The namespace in which SPIRE runs.
pub const SPIRE: &str = "zero-trust-workload-identity-manager";
/// The kinds that people write.
const KINDS: &str = "ztwim,spireservers,spireagents,spiffecsidrivers,spireoidcdiscoveryproviders";
/// How children are known.
const MARK: &str = "--selector=app.kubernetes.io/managed-by=zero-trust-workload-identity-manager";
/// Children without a namespace, of kinds that every cluster has.
const CLUSTER_CHILDREN: &str = "clusterrolebindings,validatingwebhookconfigurations,csidrivers";
/// The volume of spire-server, and its user.
const DATA: Claim<'_> = Claim {
    namespace: SPIRE,
    name: "spire-data-spire-server-0",
    user: 1000,
};
/// How long SPIRE may take to get somewhere.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster in which SPIRE may run.
pub struct Stage<'a> {
    arena: &'a Arena,
    pub cluster: &'a Cluster,
    last_seen: RefCell<Vec<String>>,
}

/// A pod of SPIRE.
#[derive(Debug)]
pub struct Pod {
    /// What runs in it.
    pub part: String,
    pub uid: String,
    pub ready: bool,
}

impl<'a> Stage<'a> {
    /// Makes the namespace of SPIRE and the volume of its server, in the place of what an interrupted test left.
    pub fn set(arena: &'a Arena, cluster: &'a Cluster) -> Self {
        let stage = Self {
            arena,
            cluster,
            last_seen: RefCell::default(),
        };
        stage.clear();
        say(&mut stage.kubectl(&["create", "namespace", SPIRE])).unwrap();
        let privileged = "pod-security.kubernetes.io/enforce=privileged";
        say(&mut stage.kubectl(&["label", "namespace", SPIRE, privileged])).unwrap();
        cluster.make_volume(&DATA).unwrap();
        stage
    }

    /// Removes everything but the release.
    pub fn clear(&self) {
        say(&mut self.kubectl(&["delete", CLUSTER_CHILDREN, MARK])).unwrap();
        // The driver unmounts the volumes of the shop and of the OIDC discovery provider, so it goes last.
        let delete = |namespace| {
            let delete = [
                "delete",
                "namespace",
                namespace,
                "--ignore-not-found",
                "--timeout=120s",
            ];
            say(&mut self.kubectl(&delete)).unwrap();
        };
        delete(SHOP);
        let provider = ["delete", "deployment", "spire-spiffe-oidc-discovery-provider"];
        let patiently = ["--ignore-not-found", "--cascade=foreground", "--timeout=60s"];
        say(self.kubectl(&provider).args(patiently)).unwrap();
        delete(SPIRE);
        self.cluster.remove_volume(DATA.name).unwrap();
    }

    /// `kubectl` in the namespace of SPIRE.
    pub fn kubectl(&self, arguments: &[&str]) -> Command {
        self.arena.kubectl(&[&["--namespace", SPIRE], arguments].concat())
    }

    /// What `kubectl` answers there, as JSON.
    pub fn read(&self, arguments: &[&str]) -> Value {
        self.arena
            .read(&[&["--namespace", SPIRE], arguments].concat())
            .unwrap()
    }

    /// Makes the objects of an example of the guide.
    pub fn apply_example(&self, file: &str) {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/examples/identity");
        let mut apply = self.arena.kubectl(&["apply", "--filename"]);
        say(apply.arg(examples.join(file))).unwrap();
    }

    /// Waits until the ZeroTrustWorkloadIdentityManager says that all is well.
    pub fn is_ready(&self) {
        let limit = format!("--timeout={}s", PATIENCE.as_secs());
        let ready = ["wait", "ztwim/cluster", "--for=condition=Ready", &limit];
        say(&mut self.kubectl(&ready))
            .inspect_err(|_| self.explain())
            .unwrap();
    }

    /// Waits, and says what the cluster says if it was in vain.
    pub fn until<T>(&self, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
        wait::until(what, PATIENCE, || Ok(condition()))
            .inspect_err(|_| self.explain())
            .unwrap()
    }

    /// Remembers what was seen last, for whoever reads the log of the test.
    pub fn note(&self, seen: &[String]) {
        *self.last_seen.borrow_mut() = seen.to_vec();
    }

    /// The pod that uses SPIRE.
    pub fn workload(&self) -> Workload<'_> {
        Workload {
            arena: self.arena,
            stage: self,
        }
    }

    /// The versions of the five objects.
    pub fn versions(&self) -> Vec<String> {
        let found = self.read(&["get", KINDS]);
        let objects = found["items"].as_array().unwrap().iter();
        objects
            .map(|object| format!("{}/{}", object["kind"], object["metadata"]["resourceVersion"]))
            .collect()
    }

    /// The pods of SPIRE, also those that are about to go.
    pub fn pods_of_spire(&self) -> Vec<Pod> {
        let found = self.read(&["get", "pods", MARK]);
        let pods = found["items"].as_array().unwrap().iter();
        pods.map(Pod::of).collect()
    }

    /// The operands, and every object that was made for them.
    pub fn children(&self) -> Vec<String> {
        let parts = "statefulsets,daemonsets,deployments,services,configmaps,secrets,serviceaccounts,roles,rolebindings,\
                     poddisruptionbudgets,pods";
        let mut left = String::new();
        for question in [
            &["get", KINDS, "--output=name"][..],
            &["get", parts, MARK, "--output=name"],
            &["get", CLUSTER_CHILDREN, MARK, "--output=name"],
            &["get", "clusterspiffeids", MARK, "--output=name"],
        ] {
            left.push_str(&say(&mut self.kubectl(question)).unwrap());
        }
        left.lines().map(str::to_owned).collect()
    }

    pub fn explain(&self) {
        eprintln!("seen last: {:?}", self.last_seen.borrow());
        let home = ["--namespace", NAME];
        let shop = ["--namespace", SHOP];
        let all = "--selector=app.kubernetes.io/part-of=zero-trust-workload-identity-manager";
        let manager = "--selector=app.kubernetes.io/part-of=trustplane";
        for question in [
            &["get", "pods", "--all-namespaces", "--output=wide"][..],
            &["get", KINDS, "--output=yaml"],
            &["get", "events", "--sort-by=.lastTimestamp"],
            &["get", "clusterspiffeids", "--output=yaml"],
            &["logs", all, "--all-containers", "--tail=40", "--prefix"],
            &[&shop[..], &["get", "events", "--sort-by=.lastTimestamp"]].concat(),
            &[&shop[..], &["logs", "reader", "--tail=20"]].concat(),
            &[&home[..], &["logs", manager, "--tail=60", "--prefix"]].concat(),
        ] {
            let answer = say(&mut self.kubectl(question)).unwrap_or_else(|error| format!("{error:#}"));
            eprintln!("$ kubectl {}\n{answer}", question.join(" "));
        }
    }
}

impl Pod {
    fn of(pod: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
        Self {
            part: text(&pod["metadata"]["labels"]["app.kubernetes.io/name"]),
            uid: text(&pod["metadata"]["uid"]),
            ready: ready.any(|condition| condition["status"] == "True"),
        }
    }
}
