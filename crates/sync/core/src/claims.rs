//! Who gets the Secret when several requests name it.
//!
//! Within one workload the newest template speaks: a rollout that changes the path works. Pods of one ReplicaSet, Job or revision
//! have one template, so the oldest of them speaks for it, and a pod that only claims to be one of them changes nothing. Between
//! workloads the one that the Secret was made for keeps it; if that one is gone, or there is no Secret yet, the oldest wins.
//! Requests that say `merge` share a Secret with others that say so too.
//!
//! **Caveat**: a pod may make up a ReplicaSet, or a revision, and so pass for a rollout. The garbage collector deletes a pod whose
//! owner does not exist. To tell at once would take the right to read ReplicaSets, Jobs and revisions.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::pod::Pod;
use crate::reason::{Problem, Reason};
use crate::request::{Request, Source};

/// A request of a pod for the Secret in question.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its place among the pod's requests.
    pub index: usize,
    /// The request.
    pub request: Arc<Request>,
}

/// What a pod asks for. The answer counts for this pod alone: a provider may give the service account of another pod something
/// else, or nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    source: Source,
    /// The uid of the pod, whose service account never changes.
    pod: Arc<str>,
}

impl Claim {
    /// What is asked of a provider because of this claim.
    pub fn asked(&self) -> Asked {
        Asked {
            source: self.request.source.clone(),
            pod: self.pod.uid.clone(),
        }
    }

    /// What is told when the request is denied: which request of the pod it is, and nothing of what exists.
    pub fn denied(&self, text: &str) -> Problem {
        let is_one_of_many = self.pod.asks.annotation.as_ref().as_ref();
        let is_one_of_many = is_one_of_many.is_ok_and(|annotation| annotation.requests.len() > 1);
        let place = match is_one_of_many {
            true => format!("secrets[{}], ", self.index),
            false => String::new(),
        };
        let text = format!("{place}secretName {}: {text}", self.request.secret_name);
        Problem::lasting(Reason::PolicyDenied, text)
    }
}

/// How a Secret is shared out.
#[derive(Debug, Default)]
pub struct Shares {
    /// What the Secret is made from: one request, or several that are put together, first come first.
    pub winners: Vec<Claim>,
    /// Every claim that the Secret serves: those that say the same as a winner, and older pods of a winner's workload.
    pub served: Vec<Claim>,
    /// Claims that come too late.
    pub losers: Vec<Claim>,
}

/// All claims of these pods on a Secret.
pub fn claims(pods: &[Arc<Pod>], secret: &str) -> Vec<Claim> {
    let mut found = Vec::new();
    for pod in pods {
        for (index, request) in pod.asks.numbered() {
            if request.secret_name.as_str() == secret {
                found.push(Claim {
                    pod: pod.clone(),
                    index,
                    request: request.clone(),
                });
            }
        }
    }
    found
}

/// Shares a Secret out. `incumbent` is the workload that the live Secret was made for.
pub fn share(claims: Vec<Claim>, incumbent: Option<&str>) -> Shares {
    let mut workloads: BTreeMap<String, Vec<Claim>> = BTreeMap::new();
    for claim in claims {
        workloads
            .entry(claim.pod.workload.identity())
            .or_default()
            .push(claim);
    }
    let mut ranked: Vec<Vec<Claim>> = workloads.into_values().collect();
    ranked.iter_mut().for_each(|of_one| rank(of_one));
    // The oldest pod of a workload is its age; the name decides between twins.
    ranked.sort_by_key(|of_one| {
        let is_incumbent = of_one
            .first()
            .is_some_and(|claim| Some(claim.pod.workload.identity().as_str()) == incumbent);
        (!is_incumbent, of_one.iter().map(age).min())
    });
    let mut shares = Shares::default();
    for of_one in ranked {
        // The first pod speaks for the workload, with all its requests for this Secret.
        let speaker = of_one.first().map(|claim| claim.pod.uid.clone());
        let joins =
            |claim: &Claim| claim.request.merge && shares.winners.iter().all(|winner| winner.request.merge);
        let says_the_same = |claim: &Claim| {
            shares
                .winners
                .iter()
                .any(|winner| winner.request == claim.request)
        };
        let spoken: Vec<Claim> = of_one
            .iter()
            .filter(|claim| Some(&claim.pod.uid) == speaker.as_ref())
            .cloned()
            .collect();
        let wins =
            shares.winners.is_empty() || spoken.iter().all(|claim| joins(claim) || says_the_same(claim));
        if !wins {
            shares.losers.extend(of_one);
            continue;
        }
        for claim in spoken {
            if !shares
                .winners
                .iter()
                .any(|winner| winner.request == claim.request)
            {
                shares.winners.push(claim);
            }
        }
        shares.served.extend(of_one);
    }
    shares
}

/// Puts the newest template of a workload first, and within it the oldest pod.
fn rank(of_one: &mut [Claim]) {
    let mut ages: BTreeMap<Arc<str>, (Timestamp, Arc<str>)> = BTreeMap::new();
    for claim in of_one.iter() {
        let oldest = ages.entry(template(claim)).or_insert_with(|| age(claim));
        *oldest = age(claim).min(oldest.clone());
    }
    let of_template = |claim: &Claim| ages.get(&template(claim)).cloned();
    of_one.sort_by_key(|claim| (std::cmp::Reverse(of_template(claim)), age(claim), claim.index));
}

/// What all pods of one template share. A pod whose template is unknown counts as a template of its own.
fn template(claim: &Claim) -> Arc<str> {
    let Pod { workload, uid, .. } = &*claim.pod;
    workload.template.clone().unwrap_or_else(|| uid.clone())
}

fn age(claim: &Claim) -> (Timestamp, Arc<str>) {
    (claim.pod.created, claim.pod.uid.clone())
}

#[cfg(test)]
mod tests {
    use trustplane_plan::ObjectRef;

    use super::*;
    use crate::grammar;
    use crate::pod::{Asks, Workload};

    fn pod(name: &str, workload: &str, second: i64, request: &str) -> Arc<Pod> {
        Arc::new(Pod {
            object: ObjectRef::new(Some("shop"), name),
            uid: name.into(),
            created: Timestamp::from_second(second).unwrap(),
            workload: workload.into(),
            service_account: None,
            asks: Asks {
                annotation: Arc::new(grammar::parse(
                    &format!("{{provider: mock, secretName: s, {request}}}"),
                    &["mock"],
                )),
                force: None,
            },
        })
    }

    fn shared(pods: &[Arc<Pod>], incumbent: Option<&str>) -> (Vec<String>, Vec<String>) {
        let shares = share(claims(pods, "s"), incumbent);
        let winners = shares
            .winners
            .iter()
            .map(|claim| claim.request.source.path.clone())
            .collect();
        let losers = shares
            .losers
            .iter()
            .map(|claim| claim.pod.object.name().to_owned())
            .collect();
        assert_eq!(
            shares.served.len() + shares.losers.len(),
            claims(pods, "s").len(),
            "everybody is somewhere"
        );
        (winners, losers)
    }

    fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
        texts.map(str::to_owned).into()
    }

    #[test]
    fn within_a_workload_the_newest_speaks_and_nobody_loses() {
        let pods = [
            pod("new", "Deployment/a", 20, "path: new"),
            pod("old", "Deployment/a", 10, "path: old"),
        ];
        assert_eq!(shared(&pods, None), (texts(["new"]), vec![]));
        assert_eq!(shared(&pods[1..], None), (texts(["old"]), vec![]));
    }

    fn of(workload: Workload, pod: Arc<Pod>) -> Arc<Pod> {
        Arc::new(Pod {
            workload,
            ..(*pod).clone()
        })
    }

    fn template(name: &str, uid: &str) -> Workload {
        Workload {
            template: Some(uid.into()),
            ..name.into()
        }
    }

    #[test]
    fn a_pod_that_copies_a_replica_set_changes_nothing() {
        let real = of(template("Deployment/a", "rs1"), pod("real", "", 10, "path: real"));
        let forged = of(
            template("Deployment/a", "rs1"),
            pod("forged", "", 20, "path: forged"),
        );
        let pods = [forged, real.clone()];
        assert_eq!(shared(&pods, Some("Deployment/a")).0, ["real"]);
        // A rollout has another ReplicaSet, and speaks at once.
        let next = of(template("Deployment/a", "rs2"), pod("next", "", 30, "path: next"));
        assert_eq!(
            shared(&[real.clone(), next], Some("Deployment/a")),
            (texts(["next"]), vec![])
        );
    }

    #[test]
    fn a_controller_of_the_same_name_with_another_uid_is_another_workload() {
        let controlled = |uid: &str| Workload {
            uid: Some(uid.into()),
            ..Workload::from("StatefulSet/db")
        };
        let pods = [
            of(controlled("real"), pod("real", "", 30, "path: real")),
            of(controlled("forged"), pod("forged", "", 10, "path: forged")),
        ];
        let (winners, losers) = shared(&pods, Some("StatefulSet/db real"));
        assert_eq!((winners, losers), (texts(["real"]), texts(["forged"])));
        // A rollout of a StatefulSet keeps the uid: the newest pod speaks.
        let pods = [
            of(controlled("real"), pod("old", "", 10, "path: old")),
            of(controlled("real"), pod("new", "", 20, "path: new")),
        ];
        assert_eq!(
            shared(&pods, Some("StatefulSet/db real")),
            (texts(["new"]), vec![])
        );
    }

    #[test]
    fn between_workloads_the_oldest_wins_and_the_other_is_told() {
        let mut pods = vec![
            pod("b", "Deployment/b", 10, "path: b"),
            pod("a", "Deployment/a", 5, "path: a"),
        ];
        assert_eq!(shared(&pods, None), (texts(["a"]), texts(["b"])));
        // A rollout of the winner makes its pods the youngest: it keeps the Secret all the same.
        pods[1] = pod("a2", "Deployment/a", 50, "path: a2");
        assert_eq!(shared(&pods, Some("Deployment/a")), (texts(["a2"]), texts(["b"])));
        // Once it has gone, the next one gets it.
        assert_eq!(shared(&pods[..1], Some("Deployment/a")), (texts(["b"]), vec![]));
        // Twins are told apart by their uid, whatever the order.
        let twins = [pod("x", "Pod/x", 1, "path: x"), pod("w", "Pod/w", 1, "path: w")];
        assert_eq!(shared(&twins, None).0, ["w"]);
    }

    #[test]
    fn who_says_the_same_is_served() {
        let pods = [
            pod("a", "Deployment/a", 1, "path: p"),
            pod("b", "Deployment/b", 2, "path: p"),
        ];
        assert_eq!(shared(&pods, None), (texts(["p"]), vec![]));
        let pods = [
            pod("a", "Deployment/a", 1, "path: p"),
            pod("b", "Deployment/b", 2, "path: p, keys: [x]"),
        ];
        assert_eq!(shared(&pods, None), (texts(["p"]), texts(["b"])));
    }

    #[test]
    fn an_answer_for_one_pod_is_none_for_another() {
        let pods = [
            pod("a", "Deployment/a", 1, "path: p, keys: [x], merge: true"),
            pod("b", "Deployment/b", 2, "path: p, keys: [y], merge: true"),
        ];
        let asked = |pods: &[Arc<Pod>]| -> Vec<Asked> {
            let shares = share(claims(pods, "s"), None);
            shares.winners.iter().map(Claim::asked).collect()
        };
        let both = asked(&pods);
        assert_eq!(both.len(), 2);
        assert_ne!(both[0], both[1], "their service accounts may differ");
        assert_eq!(asked(&pods[..1]), both[..1], "the next look asks the same");
    }

    #[test]
    fn merge_needs_all_to_agree() {
        let pods = [
            pod("a", "Deployment/a", 1, "path: a, merge: true"),
            pod("b", "Deployment/b", 2, "path: b, merge: true"),
            pod("c", "Deployment/c", 3, "path: c"),
        ];
        assert_eq!(shared(&pods, None), (texts(["a", "b"]), texts(["c"])));
        assert_eq!(
            shared(&pods[1..], Some("Deployment/c")),
            (texts(["c"]), texts(["b"]))
        );
    }

    #[test]
    fn other_secrets_and_bad_requests_are_no_claims() {
        let pods = [pod("a", "Pod/a", 1, "path: [x]"), pod("b", "Pod/b", 1, "path: b")];
        assert_eq!(claims(&pods, "s").len(), 1);
        assert_eq!(claims(&pods, "t").len(), 0);
    }
}
