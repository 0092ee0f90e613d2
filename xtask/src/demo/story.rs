//! The story, as data: what is shown, why it is worth seeing, and the commands that show it. It grows with each
//! capability: a scene more in [`SCENES`].

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::stage::Stage;

/// One numbered part of the story.
#[derive(Debug)]
pub struct Scene {
    title: &'static str,
    about: &'static str,
    /// Shell lines, run as they stand here.
    commands: &'static [&'static str],
    /// Whether it needs what only a node of our own has.
    pub at_home: bool,
}

/// The story in its order.
pub const SCENES: &[Scene] = &[
    Scene {
        title: "A real cluster",
        about: "Kubernetes from source: an API server, etcd, and a node with containerd, in a network namespace of its own.",
        commands: &["kubectl get nodes -o wide", "kubectl get pods --all-namespaces"],
        at_home: false,
    },
    Scene {
        title: "Install the chart",
        about: "One manager process with two replicas. Its rights are generated from what the code declares.",
        commands: &[
            "kubectl create namespace tokens",
            "kubectl label namespace tokens pod-security.kubernetes.io/enforce=privileged",
            "helm upgrade --install trustplane charts/trustplane --namespace trustplane --create-namespace \
             --values docs/guide/examples/sync-values.yaml --values docs/guide/examples/hsm-values.yaml --wait --timeout 5m",
            "kubectl get deployments,pods,services --namespace trustplane",
        ],
        at_home: false,
    },
    Scene {
        title: "One leads, one is warm",
        about: "The holder of the Lease works; the other replica takes over within seconds when it goes.",
        commands: &["kubectl get lease trustplane-manager --namespace trustplane"],
        at_home: false,
    },
    Scene {
        title: "It runs with next to no power",
        about: "No root, no shell, nothing writable, and only the rights below; nothing is granted with a wildcard.",
        commands: &[
            "kubectl get pods --namespace trustplane -o jsonpath='{.items[0].spec.containers[0].securityContext}{\"\\n\"}'",
            "kubectl describe role trustplane-manager --namespace trustplane",
            "kubectl describe clusterrole --selector app.kubernetes.io/instance=trustplane",
        ],
        at_home: false,
    },
    Scene {
        title: "Is everything well?",
        about: "The plugin looks at the whole installation, and says what to do about what is not well.",
        commands: &[
            "kubectl trustplane version",
            "kubectl trustplane check --namespace trustplane",
        ],
        at_home: false,
    },
    Scene {
        title: "A pod asks for a secret",
        about: "The pod names it in an annotation, and cannot start before the Secret is there. It is there at once.",
        commands: &[
            "kubectl apply --filename docs/guide/examples/shop.yaml",
            "kubectl wait pod/web --namespace shop --for=jsonpath='{.status.phase}'=Succeeded --timeout=60s",
            "kubectl get secret db --namespace shop --show-labels",
            "kubectl get events --namespace shop --field-selector involvedObject.name=web,reason=SecretSyncSuccess \
             -o custom-columns=REASON:.reason,MESSAGE:.message",
        ],
        at_home: false,
    },
    Scene {
        title: "What nobody allowed is denied",
        about: "Without a policy a namespace may have what lies in the folder of its name. No provider was asked.",
        commands: &[
            "kubectl get events --namespace shop --field-selector involvedObject.name=nosy,reason=PolicyDenied \
             -o custom-columns=REASON:.reason,MESSAGE:.message",
            "kubectl get secret loot --namespace shop --ignore-not-found",
        ],
        at_home: false,
    },
    Scene {
        title: "Tokens, each with an agent",
        about: "Two tokens of SoftHSM on the node. Each gets an agent of its own, which sets it up and logs in: once.",
        commands: &[
            "kubectl apply --filename docs/guide/examples/softhsm.yaml",
            "kubectl wait deployment --namespace tokens --selector hsm.j5t.io/device=softhsm --for=create --timeout=60s",
            "kubectl rollout status deployment/hsm-agent-softhsm-a --namespace tokens --timeout=90s",
            "kubectl rollout status deployment/hsm-agent-softhsm-b --namespace tokens --timeout=90s",
            "kubectl get hsmdevices,hsmpools,pods --namespace tokens",
            "kubectl trustplane hsm test softhsm --namespace tokens --token a",
        ],
        at_home: true,
    },
    Scene {
        title: "A secret on a token",
        about: "Written and read back through the PKCS#11 module, in the agent's own pod.",
        commands: &[
            "kubectl trustplane hsm test softhsm --namespace tokens --token a -- write shop/db --from-literal password=correct-horse",
            "kubectl trustplane hsm test softhsm --namespace tokens --token a -- list",
            "kubectl trustplane hsm test softhsm --namespace tokens --token a -- read shop/db --show",
        ],
        at_home: true,
    },
];

/// What a person may want to try afterwards.
pub const FURTHER: &[&str] = &[
    "kubectl logs --namespace trustplane deployment/trustplane-manager --follow",
    "kubectl port-forward --namespace trustplane service/trustplane-manager 8080 &",
    "curl http://127.0.0.1:8080/metrics",
    "kubectl delete pod --namespace trustplane --selector app.kubernetes.io/name=trustplane --wait=false",
    "kubectl trustplane check",
    "kubectl delete secret db --namespace shop; kubectl replace --force --filename docs/guide/examples/shop.yaml",
];

impl Scene {
    /// Prints the scene, runs its commands and shows what they say.
    pub fn play(&self, number: usize, stage: &Stage) -> Result<()> {
        println!("\n{number}. {}\n   {}", self.title, self.about);
        for line in self.commands {
            println!("\n   $ {line}");
            let shown = say(stage.dress(Command::new("sh").args(["-c", line])))
                .with_context(|| format!("in scene {number}, {:?}: {line}", self.title))?;
            for line in shown.lines() {
                println!("   {line}");
            }
        }
        Ok(())
    }
}

/// What a command prints, both streams in the order of a pipe; its last words when it fails.
fn say(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().context("start a shell")?;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if !output.status.success() {
        bail!("{}\n{said}", output.status);
    }
    Ok(said)
}
