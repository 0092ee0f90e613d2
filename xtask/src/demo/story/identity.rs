//! The scenes of workload identity: SPIRE is switched on, configured in one place, used by a pod, and kept consistent.

use crate::demo::scene::{Scene, act};

pub const SWITCHED_ON: Scene = Scene {
    title: "The admin switches workload identity on",
    about: "It is off until now: no upgrade switches it on by itself. The values name the namespace in which SPIRE runs: there, \
            and nowhere else, the manager may make programs of SPIRE.",
    acts: &[
        act(
            "kubectl create namespace zero-trust-workload-identity-manager",
            "",
        ),
        act(
            "kubectl label namespace zero-trust-workload-identity-manager pod-security.kubernetes.io/enforce=privileged",
            "Agents and the CSI driver use directories of their node, so their namespace must permit that.",
        ),
        act(
            "helm upgrade trustplane charts/trustplane --namespace trustplane --reset-then-reuse-values \
             --values docs/guide/examples/identity-values.yaml --values docs/guide/examples/identity-images.yaml \
             --hide-notes --wait --timeout 5m",
            "No part of SPIRE runs yet: the manager waits for its configuration.",
        ),
    ],
    try_it: (
        "kubectl explain ztwim.spec",
        "what can be said once for all parts of SPIRE",
    ),
    at_home: true,
};

pub const SAID_ONCE: Scene = Scene {
    title: "The admin says the trust domain once",
    about: "The ZeroTrustWorkloadIdentityManager (ztwim) says the trust domain and the name of the cluster. Four operands follow it: the \
            server, the agents, the CSI driver and the OIDC discovery provider. Their specs are empty but for the URL of the issuer.",
    acts: &[
        act(
            "kubectl apply --filename docs/guide/examples/identity/quickstart.yaml",
            "",
        ),
        act(
            "kubectl wait ztwim/cluster --for=condition=Ready --timeout=120s",
            "",
        ),
        act(
            "kubectl get ztwim,spireservers,spireagents,spiffecsidrivers,spireoidcdiscoveryproviders",
            "",
        ),
        act(
            "kubectl get pods --namespace zero-trust-workload-identity-manager",
            "SPIRE runs. Nobody wrote its configuration files, its rights or its certificates.",
        ),
    ],
    try_it: (
        "kubectl get configmap spire-server --namespace zero-trust-workload-identity-manager -o jsonpath='{.data.server\\.conf}'",
        "the configuration that the manager has written for the server",
    ),
    at_home: true,
};

pub const READ_BY_A_POD: Scene = Scene {
    title: "A pod reads its identity",
    about: "The pod reader mounts the socket of the agent through the CSI driver. The agent finds out which pod asks, and gives it a \
            certificate for its service account: an SVID.",
    acts: &[
        act(
            "kubectl apply --filename docs/guide/examples/identity/workload.yaml",
            "",
        ),
        act(
            "kubectl wait pod/reader --namespace identity-shop --for=condition=Ready --timeout=60s",
            "",
        ),
        act(
            "kubectl exec reader --namespace identity-shop -- \
             /opt/spire/bin/spire-agent api fetch x509 -socketPath /spiffe-workload-api/spire-agent.sock",
            "The identity names trust domain, namespace and service account. The pod had to show no password for it.",
        ),
    ],
    try_it: (
        "kubectl logs reader --namespace identity-shop --follow",
        "the certificates of the pod: a new one comes before the old one ends",
    ),
    at_home: true,
};

pub const REFUSED: Scene = Scene {
    title: "Another value is refused",
    about: "An agent of another trust domain would find no server. The webhook reads what the other objects say, and refuses the change.",
    acts: &[act(
        r#"kubectl patch spireagent cluster --type merge --patch '{"spec": {"trustDomain": "other.example"}}' || true"#,
        "The answer names both values, who holds them, and the command that helps. Nothing was written.",
    )],
    try_it: (
        r#"kubectl patch ztwim cluster --type merge --patch '{"spec": {"clusterName": "renamed"}}'; kubectl get spireagent cluster -o jsonpath='{.spec.clusterName}'"#,
        "a change in the one place: the operands have it at once, and SPIRE restarts with it",
    ),
    at_home: true,
};
