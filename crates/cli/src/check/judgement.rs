//! From what was seen to what it means. Pure: the same observation gives the same report.

use jiff::Timestamp;

use super::identity;
use super::observation::{CrdView, LeaseView, Observation, PodView, ProcessView};
use super::report::{Finding, Report};
use super::tokens;
use super::webhooks::{Answer, Webhook};
use crate::cluster::{Obstacle, Seen};

const INSTALL: &str =
    "install it: helm install trustplane charts/trustplane --namespace trustplane --create-namespace";

/// Judges everything.
pub fn judge(seen: &Observation) -> Report {
    let mut findings = vec![match &seen.server {
        Ok(version) => Finding::good("cluster", format!("answers, Kubernetes {version}")),
        Err(obstacle) => Finding::unseen(
            "cluster",
            obstacle,
            "look at --kubeconfig and --context: kubectl version",
        ),
    }];
    match &seen.processes {
        Err(obstacle) => findings.push(Finding::unseen(
            "installation",
            obstacle,
            "name a namespace that you may look at: --namespace",
        )),
        Ok(processes) if processes.is_empty() => {
            findings.push(Finding::bad(
                "installation",
                "no Deployment of Trustplane was found",
                INSTALL,
            ));
        }
        Ok(processes) => {
            for view in processes {
                findings.extend(process(view, &seen.now));
            }
        }
    }
    for (name, view) in &seen.crds {
        findings.extend(crd(name, view));
    }
    findings.extend(seen.tokens.iter().flat_map(tokens::judge));
    let identity = seen.identity.iter();
    findings.extend(identity.flat_map(|identity| identity::judge(identity, &seen.now)));
    Report::new(findings)
}

fn process(view: &ProcessView, now: &Seen<Timestamp>) -> Vec<Finding> {
    let mut findings = vec![deployment(view), version(view)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    if let Some(lease) = &view.lease {
        findings.push(leader(view, lease, now));
    }
    findings.extend(
        view.webhooks
            .iter()
            .flat_map(|(name, seen)| webhook(view, name, seen)),
    );
    findings
}

fn deployment(view: &ProcessView) -> Option<Finding> {
    let process = &view.process;
    let (ready, desired) = (process.ready, process.desired);
    let told = format!("{ready} of {desired} replicas are available");
    Some(if desired == 0 {
        let advice = format!(
            "kubectl scale --namespace {} {} --replicas=2",
            process.namespace,
            process.path()
        );
        Finding::bad(process.path(), "is scaled to zero", advice)
    } else if ready >= desired && process.current {
        Finding::good(process.path(), told)
    } else {
        let (told, advice) = match stuck(view) {
            Some((pod, reason, message)) => {
                let told = format!("{told}; pod {} waits: {reason}", pod.name);
                (told, remedy(view, pod, reason, message))
            }
            None if ready >= desired => (
                format!("{told}, but the newest version is not rolled out yet"),
                format!(
                    "kubectl rollout status --namespace {} {}",
                    process.namespace,
                    process.path()
                ),
            ),
            None => (
                told,
                format!(
                    "kubectl describe pods --namespace {} --selector {}",
                    process.namespace, process.selector
                ),
            ),
        };
        Finding::bad(process.path(), told, advice)
    })
}

fn stuck(view: &ProcessView) -> Option<(&PodView, &str, &str)> {
    let pods = view.pods.as_ref().ok()?;
    pods.iter().find_map(|pod| {
        let (reason, message) = pod.waiting.as_ref()?;
        Some((pod, reason.as_str(), message.as_str()))
    })
}

fn remedy(view: &ProcessView, pod: &PodView, reason: &str, message: &str) -> String {
    let namespace = &view.process.namespace;
    match reason {
        "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" => {
            format!(
                "make the image {} available to the node, or set image.registry",
                view.process.image
            )
        }
        "CrashLoopBackOff" => format!("kubectl logs --namespace {namespace} {} --previous", pod.name),
        _ if message.is_empty() => format!("kubectl describe pod --namespace {namespace} {}", pod.name),
        _ => message.to_owned(),
    }
}

fn version(view: &ProcessView) -> Option<Finding> {
    let ours = env!("CARGO_PKG_VERSION");
    let theirs = &view.process.version;
    (minor(theirs) != minor(ours)).then(|| {
        let told = format!("runs version {theirs:?}; this program is {ours}");
        Finding::warning(
            view.process.path(),
            told,
            "use the plugin of the version that runs",
        )
    })
}

fn minor(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(minor, _)| minor)
}

fn leader(view: &ProcessView, lease: &Seen<Option<LeaseView>>, now: &Seen<Timestamp>) -> Finding {
    let namespace = &view.process.namespace;
    let subject = format!("lease/{}", view.process.lease.as_deref().unwrap_or_default());
    let logs = format!(
        "kubectl logs --namespace {namespace} {} --all-pods",
        view.process.path()
    );
    let lease = match lease {
        Err(obstacle) => {
            return Finding::unseen(
                &subject,
                obstacle,
                format!("ask for the right to get leases in {namespace}"),
            );
        }
        Ok(None) => return Finding::bad(subject, "does not exist", "install the chart again: helm upgrade"),
        Ok(Some(lease)) => lease,
    };
    if lease.holder.is_empty() {
        return Finding::bad(subject, "nobody leads, so nothing is reconciled", logs);
    }
    let age = match (now, lease.renewed) {
        (Ok(now), Some(renewed)) => now.duration_since(renewed).as_secs(),
        _ => 0,
    };
    if age > lease.seconds {
        let told = format!("{} has led, but was last heard of {age} s ago", lease.holder);
        return Finding::bad(subject, told, logs);
    }
    Finding::good(subject, format!("{} leads", lease.holder))
}

fn webhook(view: &ProcessView, name: &str, seen: &Seen<Option<Webhook>>) -> Vec<Finding> {
    let subject = format!("webhook/{name}");
    let logs = format!(
        "kubectl logs --namespace {} {}",
        view.process.namespace,
        view.process.path()
    );
    let webhook = match seen {
        Err(obstacle) => {
            return vec![Finding::unseen(
                &subject,
                obstacle,
                "ask for the right to list webhook configurations",
            )];
        }
        Ok(None) => {
            return vec![Finding::bad(
                subject,
                "is configured nowhere",
                "install the chart again: helm upgrade",
            )];
        }
        Ok(Some(webhook)) => webhook,
    };
    if !webhook.has_authority {
        return vec![Finding::bad(
            subject,
            "has no caBundle: the manager has not written it",
            logs,
        )];
    }
    vec![match &webhook.answer {
        Ok(Answer::Answered) => Finding::good(subject, "has a caBundle and answers"),
        Ok(Answer::UnknownPath) => Finding::bad(
            subject,
            "has a caBundle, but the manager does not serve its path",
            logs,
        ),
        Ok(Answer::Nobody(why)) => Finding::bad(
            subject,
            format!("has a caBundle, but nobody answers: {why}"),
            logs,
        ),
        // It is configured and has its CA; that the user may not try is no fault of it.
        Err(Obstacle::Forbidden) => Finding::warning(
            subject,
            "has a caBundle; you may not try whether it answers",
            format!(
                "ask for the right to get services/proxy in {}",
                view.process.namespace
            ),
        ),
        Err(Obstacle::Failed(why)) => Finding::bad(
            subject,
            format!("has a caBundle, but could not be tried: {why}"),
            logs,
        ),
    }]
}

fn crd(name: &str, view: &CrdView) -> Vec<Finding> {
    let subject = format!("crd/{name}");
    let mut findings = vec![match &view.established {
        Ok(Some(true)) => Finding::good(&subject, "is established"),
        Ok(Some(false)) => Finding::bad(
            &subject,
            "is not established",
            format!("kubectl describe crd {name}"),
        ),
        Ok(None) => Finding::bad(
            &subject,
            "does not exist",
            "install it: helm upgrade with crds.install=true",
        ),
        Err(obstacle) => Finding::unseen(
            &subject,
            obstacle,
            "ask for the right to get customresourcedefinitions",
        ),
    }];
    match (&view.may_read, &view.may_write) {
        (Err(obstacle), _) | (_, Err(obstacle)) => {
            findings.push(Finding::unseen(
                format!("rights/{name}"),
                obstacle,
                "look again later",
            ));
        }
        (Ok(false), _) => findings.push(Finding::warning(
            format!("rights/{name}"),
            "you may not read it",
            format!("ask for the right to get and list {name}"),
        )),
        (Ok(true), Ok(false)) => findings.push(Finding::warning(
            format!("rights/{name}"),
            "you may read it, but not write it",
            format!("ask for the right to create, update and delete {name}"),
        )),
        (Ok(true), Ok(true)) => findings.push(Finding::good(
            format!("rights/{name}"),
            "you may read and write it",
        )),
    }
    findings
}

#[cfg(test)]
mod tests;
