//! What to tell a pod about its annotation itself. Each thing is told once, not with every change of the pod.

use std::hash::{DefaultHasher, Hash, Hasher};

use trustplane_plan::{ObjectRef, Plan, Step};

use crate::pod::Pod;

/// What was told to a pod, so that it is not told again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The pod.
    pub pod: ObjectRef,
    /// What was told, as a hash with the uid of the pod.
    pub what: u64,
}

/// What to tell. `told` is what this process has told the pod already.
pub fn complain(pod: &Pod, told: Option<u64>) -> Plan<Told> {
    let problems = pod.asks.problems();
    let mut hasher = DefaultHasher::new();
    pod.uid.hash(&mut hasher);
    for problem in &problems {
        (problem.reason, &problem.text).hash(&mut hasher);
    }
    let what = hasher.finish();
    let mut plan = Plan::default();
    if told == Some(what) || (told.is_none() && problems.is_empty()) {
        return plan;
    }
    for problem in problems {
        plan.push(Step::Tell(pod.note(problem.reason, &problem.text)));
    }
    let pod = pod.object.clone();
    plan.push(Step::Call(Told { pod, what }));
    plan
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::pod::Asks;

    fn pod(annotation: &str) -> Pod {
        Pod {
            object: ObjectRef::new(Some("shop"), "web"),
            uid: Arc::from("u"),
            created: Timestamp::UNIX_EPOCH,
            workload: "Pod/web".into(),
            service_account: None,
            asks: Asks::read(annotation, None, &["mock"]),
        }
    }

    #[test]
    fn each_problem_is_told_once() {
        let bad = pod("{secrets: [{provider: mock, path: a, secretName: s}, {provider: x}, {}], color: red}");
        let plan = complain(&bad, None);
        let told: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
        assert_eq!(
            told[..3],
            [
                "tell Pod shop/web: ProviderUnsupported secrets[1].provider: x is not supported; supported are mock",
                "tell Pod shop/web: AnnotationInvalid secrets[2].provider: is required",
                "tell Pod shop/web: AnnotationInvalid unknown fields are ignored: color",
            ]
        );
        let Some(Step::Call(Told { what, .. })) = plan.steps.last() else {
            panic!("{plan}")
        };
        assert!(complain(&bad, Some(*what)).is_empty());
        assert_eq!(
            complain(&pod("{"), Some(*what)).steps.len(),
            2,
            "another fault is news"
        );
        let good = pod("{provider: mock, path: a, secretName: s}");
        assert!(complain(&good, None).is_empty());
        assert_eq!(
            complain(&good, Some(*what)).steps.len(),
            1,
            "mended: nothing to tell, but to remember"
        );
    }
}
