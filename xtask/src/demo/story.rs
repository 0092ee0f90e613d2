//! The story, as data: who does what, the commands that show it, and what to look at in their output. It grows with each
//! capability: a scene more in [`SCENES`].

mod identity;

use super::scene::{Act, Page, Scene, act};

/// The story in its order.
pub const SCENES: &[Scene] = &[
    Scene {
        title: "A cluster",
        about: "Everything below happens on this cluster, by the commands that you see. You could type them yourself.",
        acts: &[act("kubectl get nodes", "")],
        try_it: ("kubectl get pods --all-namespaces", "what runs on it"),
        at_home: false,
    },
    Scene {
        title: "The admin installs Trustplane",
        about: "One Helm chart. The values allow sync from the manager's own environment and HSM devices in one namespace.",
        acts: &[
            act("kubectl create namespace tokens", ""),
            act(
                "kubectl label namespace tokens pod-security.kubernetes.io/enforce=privileged",
                "Agents open devices of the node, so their namespace must permit that; no other namespace has to.",
            ),
            act(
                "helm upgrade --install trustplane charts/trustplane --namespace trustplane --create-namespace \
                 --values docs/guide/examples/sync-values.yaml --values docs/guide/examples/hsm-values.yaml \
                 --hide-notes --wait --timeout 5m",
                "",
            ),
            act(
                "kubectl get deployments,pods --namespace trustplane",
                "One manager with two replicas runs all controllers.",
            ),
        ],
        try_it: (
            "kubectl logs --namespace trustplane deployment/trustplane-manager --follow",
            "what the manager does, while you go on",
        ),
        at_home: false,
    },
    Scene {
        title: "One replica works, the other is ready",
        about: "The replica that holds the Lease writes. The other one watches, and takes over within seconds.",
        acts: &[act(
            "kubectl get lease trustplane-manager --namespace trustplane",
            "HOLDER is the pod that works.",
        )],
        try_it: (
            "kubectl delete pod --namespace trustplane --selector app.kubernetes.io/name=trustplane --wait=false",
            "a new holder, and no Secret changed",
        ),
        at_home: false,
    },
    Scene {
        title: "The manager can do little else",
        about: "Its rights are generated from what the code declares. It reads and writes Secrets: that is its work. It runs \
                without root and without a shell.",
        acts: &[
            act(
                "kubectl auth can-i get secrets --all-namespaces --as system:serviceaccount:trustplane:trustplane-manager",
                "",
            ),
            act(
                "kubectl auth can-i create pods --as system:serviceaccount:trustplane:trustplane-manager || true",
                "",
            ),
            act(
                "kubectl auth can-i create clusterroles --all-namespaces --as system:serviceaccount:trustplane:trustplane-manager || true",
                "A stolen manager token starts no pod and grants no cluster-wide right.",
            ),
        ],
        try_it: (
            "kubectl describe clusterrole --selector app.kubernetes.io/instance=trustplane",
            "every right, none by wildcard",
        ),
        at_home: false,
    },
    Scene {
        title: "The admin asks whether all is well",
        about: "The kubectl plugin looks at the whole installation, and says what to do about a part that is not well.",
        acts: &[act("kubectl trustplane check --namespace trustplane", "")],
        try_it: (
            "kubectl scale deployment trustplane-manager --namespace trustplane --replicas 0; kubectl trustplane check",
            "the same check when the manager is gone (scale it back to 2)",
        ),
        at_home: false,
    },
    Scene {
        title: "A developer asks for a secret",
        about: "The pod web names the secret in an annotation. The manager fetches the value and writes the Secret db; kubelet \
                starts the container as soon as the Secret is there.",
        acts: &[
            act("kubectl apply --filename docs/guide/examples/shop.yaml", ""),
            act(
                "kubectl wait pod/web --namespace shop --for=jsonpath='{.status.phase}'=Succeeded --timeout=60s",
                "The pod has run to its end, so it had its Secret. The developer created none.",
            ),
            act("kubectl get secret db --namespace shop", ""),
            act(
                "kubectl get events --namespace shop --field-selector involvedObject.name=web,reason=SecretSyncSuccess \
                 -o custom-columns=REASON:.reason,MESSAGE:.message",
                "The event says where the value came from, never the value.",
            ),
        ],
        try_it: (
            "kubectl delete secret db --namespace shop; kubectl replace --force --filename docs/guide/examples/shop.yaml",
            "the Secret comes back with the pod",
        ),
        at_home: false,
    },
    Scene {
        title: "Another pod asks for too much",
        about: "The pod nosy asks for a path of the bank. No policy allows that to the namespace shop, so no provider is asked.",
        acts: &[
            act(
                "kubectl get events --namespace shop --field-selector involvedObject.name=nosy,reason=PolicyDenied \
                 -o custom-columns=REASON:.reason,MESSAGE:.message",
                "",
            ),
            act(
                "kubectl get secret loot --namespace shop --ignore-not-found",
                "No Secret was written: the pod waits.",
            ),
        ],
        try_it: (
            "kubectl explain secretsyncpolicies.spec --recursive",
            "how an admin would allow it",
        ),
        at_home: false,
    },
    Scene {
        title: "The admin adds two hardware tokens",
        about: "SoftHSM stands in for the hardware. An HSMDevice describes the tokens; the manager starts an agent for each, on \
                the node that has the token. The agent sets the token up and logs in once.",
        acts: &[
            act("kubectl apply --filename docs/guide/examples/softhsm.yaml", ""),
            act(
                "kubectl wait deployment --namespace tokens --selector hsm.j5t.io/device=softhsm --for=create --timeout=60s",
                "",
            ),
            act(
                "kubectl rollout status deployment/hsm-agent-softhsm-a --namespace tokens --timeout=90s",
                "",
            ),
            act(
                "kubectl rollout status deployment/hsm-agent-softhsm-b --namespace tokens --timeout=90s",
                "",
            ),
            act(
                "kubectl get hsmdevices,hsmpools,pods --namespace tokens",
                "Two tokens, two agents.",
            ),
        ],
        try_it: (
            "kubectl trustplane hsm test softhsm --namespace tokens --token a",
            "the token and its module, seen from the agent",
        ),
        at_home: true,
    },
    Scene {
        title: "A person puts a secret on the tokens",
        about: "The plugin asks the agents, and they write through the PKCS#11 module: the secret is on every token of the namespace, \
                and nowhere else.",
        acts: &[
            act(
                "kubectl trustplane hsm create shop/db --namespace tokens --from-literal password=correct-horse",
                "",
            ),
            act(
                "kubectl trustplane hsm list --namespace tokens",
                "The list has no values, only where they are.",
            ),
        ],
        try_it: (
            "kubectl trustplane hsm test softhsm --namespace tokens --token b -- list",
            "the same secret, seen from the agent of the other token",
        ),
        at_home: true,
    },
    Scene {
        title: "A developer gets it as a Secret",
        about: "An HSMSecret in the namespace vault-shop names the path on the tokens. The manager makes the Secret db-credentials of \
                it, and the pod reader mounts that.",
        acts: &[
            act("kubectl apply --filename docs/guide/examples/hsm-secret.yaml", ""),
            act(
                "kubectl wait hsmsecret/db pod/reader --namespace vault-shop --for=condition=Ready --timeout=60s",
                "",
            ),
            act("kubectl get hsmsecret --namespace vault-shop", ""),
            act(
                "kubectl get events --namespace vault-shop --field-selector involvedObject.kind=HSMSecret \
                 -o custom-columns=REASON:.reason,MESSAGE:.message",
                "",
            ),
            act(
                "kubectl logs reader --namespace vault-shop",
                "The pod prints what it reads. The value is a demo's; a real pod keeps it to itself.",
            ),
        ],
        try_it: (
            "kubectl delete secret db-credentials --namespace vault-shop; kubectl get secret --namespace vault-shop",
            "the Secret, made again from the tokens",
        ),
        at_home: true,
    },
    Scene {
        title: "The value changes on the tokens",
        about: "The manager compares the tokens with the Secret every five seconds, as the HSMSecret asks, and kubelet refreshes the \
                file in the pod.",
        acts: &[
            act(
                "kubectl trustplane hsm update shop/db --namespace tokens --from-literal password=battery-staple",
                "",
            ),
            act(
                "timeout 60 sh -c 'until kubectl logs reader --namespace vault-shop | grep battery-staple; do sleep 1; done'",
                "The pod has read the new value.",
            ),
            act("kubectl get pods --namespace vault-shop", "It was not restarted."),
        ],
        try_it: (
            "kubectl trustplane hsm delete shop/db --namespace tokens --force; kubectl get hsmsecret --namespace vault-shop",
            "an error within five seconds, and the Secret as it was: no pod loses what it has",
        ),
        at_home: true,
    },
    identity::SWITCHED_ON,
    identity::SAID_ONCE,
    identity::READ_BY_A_POD,
    identity::REFUSED,
    Scene {
        title: "The admin switches the inventory on",
        about: "It is off until now: no upgrade switches it on by itself. The values ask for the capability, and for a hub, which \
                keeps the inventories of many clusters and shows them.",
        acts: &[
            act(
                "helm upgrade trustplane charts/trustplane --namespace trustplane --reset-then-reuse-values \
                 --values docs/guide/examples/inventory-values.yaml --hide-notes --wait --timeout 5m",
                "",
            ),
            act(
                "kubectl auth can-i get secrets --all-namespaces --as system:serviceaccount:trustplane:trustplane-hub || true",
                "The hub may do nothing in the cluster: the manager sends, and the hub receives.",
            ),
        ],
        try_it: (
            "kubectl get deployments,services,networkpolicies --namespace trustplane",
            "what the values have added",
        ),
        at_home: false,
    },
    Scene {
        title: "The admin enrols the cluster",
        about: "The plugin makes a key pair, registers the public key in the hub's pod, and writes the private key into a Secret and \
                nowhere else. An ObsykAgent says where the inventory goes.",
        acts: &[
            act(
                "kubectl trustplane inventory enroll --namespace trustplane --name demo",
                "",
            ),
            act(
                "kubectl wait obsykagent/inventory --namespace trustplane --for=condition=Syncing --timeout=90s",
                "",
            ),
            act(
                "kubectl get obsykagents --namespace trustplane",
                "The hub has the whole cluster, and hears of every change.",
            ),
        ],
        try_it: (
            "kubectl get obsykagent inventory --namespace trustplane -o jsonpath='{.status.resourceCounts}'",
            "how many objects of each kind were sent",
        ),
        at_home: false,
    },
    Scene {
        title: "A person looks at the cluster",
        about: "The console listens on loopback in the hub's pod. The plugin forwards a local port to it, and prints a link that \
                is good once.",
        acts: &[
            Act::Link {
                run: "kubectl trustplane inventory open --namespace trustplane --port 0 --no-browser",
                see: "",
            },
            Act::Page(&Page {
                about: "Open the link in a browser, within ten minutes: the cluster demo, its namespaces, and the workloads that the \
                        scenes before have made. The command above gives another link.",
                cluster: "demo",
                namespace: "shop",
                pod: "visitor",
                create: "kubectl run visitor --namespace shop --image localhost/trustplane/manager:0.1.0 --restart=Never -- describe",
                delete: "kubectl delete pod visitor --namespace shop",
            }),
        ],
        try_it: (
            "kubectl run visitor --namespace shop --image localhost/trustplane/manager:0.1.0 --restart=Never -- describe; \
             kubectl delete pod visitor --namespace shop",
            "a pod that comes and goes on the page of the namespace shop, without a reload",
        ),
        at_home: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_tell_who_acts_and_what_to_try() {
        for scene in SCENES {
            assert!(
                scene.about.ends_with('.') && !scene.acts.is_empty(),
                "{}",
                scene.title
            );
            assert!(
                !scene.try_it.0.is_empty() && !scene.try_it.1.is_empty(),
                "{}",
                scene.title
            );
            let lines = scene.acts.iter().filter_map(Act::line);
            let dumped = lines.into_iter().find(|line| line.contains("kubectl describe"));
            assert!(
                dumped.is_none(),
                "{}: a dump is no story: {dumped:?}",
                scene.title
            );
        }
    }

    #[test]
    fn pages_come_after_a_link_and_lines_that_stay_are_one_command() {
        for scene in SCENES {
            let mut has_link = false;
            for act in scene.acts {
                match act {
                    Act::Link { run, .. } => {
                        has_link = true;
                        assert!(!run.contains([';', '|', '&']), "{run}");
                    }
                    Act::Page(_) => assert!(has_link, "{}", scene.title),
                    Act::Line { .. } => {}
                }
            }
        }
    }
}
