//! What to tell a pod about its annotation itself. Each thing is told once, not with every change of the pod.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use trustplane_plan::{ObjectRef, Plan, Step};

use crate::pod::Pod;
use crate::reason::Problem;

/// What this process remembers of what it told a pod, so that the pod is not told again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Memory {
    /// The pod was told this, as a hash with its uid.
    Told(ObjectRef, u64),
    /// Nothing else than this still holds.
    Only(ObjectRef, BTreeSet<u64>),
}

/// What to tell. `told` is what this process has told the pod already.
pub fn complain(pod: &Pod, told: &BTreeSet<u64>) -> Plan<Memory> {
    let problems = pod.asks.problems();
    let known = |problem: &Problem| {
        let mut hasher = DefaultHasher::new();
        (&pod.uid, problem.reason, &problem.text).hash(&mut hasher);
        hasher.finish()
    };
    let all: BTreeSet<u64> = problems.iter().map(|problem| known(problem)).collect();
    let mut plan = Plan::default();
    if !told.is_subset(&all) {
        plan.push(Step::Remember(Memory::Only(pod.object.clone(), all)));
    }
    for problem in problems {
        let id = known(problem);
        if !told.contains(&id) {
            let note = pod.note(problem.reason, &problem.text);
            plan.push(Step::TellOnce(note, Memory::Told(pod.object.clone(), id)));
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::grammar;
    use crate::pod::Asks;

    fn pod(annotation: &str) -> Pod {
        Pod {
            object: ObjectRef::new(Some("shop"), "web"),
            uid: Arc::from("u"),
            created: Timestamp::UNIX_EPOCH,
            workload: "Pod/web".into(),
            service_account: None,
            asks: Asks {
                annotation: Arc::new(grammar::parse(annotation, &["mock"])),
                force: None,
            },
        }
    }

    #[test]
    fn each_problem_is_told_once() {
        let bad = pod("{secrets: [{provider: mock, path: a, secretName: s}, {provider: x}, {}], color: red}");
        let plan = complain(&bad, &BTreeSet::new());
        let said: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "tell Pod shop/web: ProviderUnsupported secrets[1].provider: x is not supported; supported are mock",
                "tell Pod shop/web: AnnotationInvalid secrets[2].provider: is required",
                "tell Pod shop/web: AnnotationInvalid unknown fields are ignored: color",
            ]
        );
        let told: BTreeSet<u64> = plan.steps.iter().filter_map(remembered).collect();
        assert!(complain(&bad, &told).is_empty());
        let other = complain(&pod("{"), &told);
        assert_eq!(
            other.steps.len(),
            2,
            "another fault is news, and the old ones are over"
        );
        let good = pod("{provider: mock, path: a, secretName: s}");
        assert!(complain(&good, &BTreeSet::new()).is_empty());
        let over = Memory::Only(good.object.clone(), BTreeSet::new());
        assert_eq!(complain(&good, &told).steps, [Step::Remember(over)], "mended");
    }

    #[test]
    fn a_problem_that_could_not_be_told_is_told_at_the_next_look() {
        let bad = pod("{secrets: [{provider: x}, {}]}");
        let plan = complain(&bad, &BTreeSet::new());
        let first: BTreeSet<u64> = plan.steps.iter().take(1).filter_map(remembered).collect();
        assert_eq!(complain(&bad, &first).steps, plan.steps[1..]);
    }

    fn remembered(step: &Step<Memory>) -> Option<u64> {
        match step {
            Step::TellOnce(_, Memory::Told(_, id)) => Some(*id),
            _ => None,
        }
    }

    #[test]
    fn pod_with_a_bomb_of_aliases_is_told_the_rule() {
        let bomb = format!("x: [&a \"{}\"{}]", "CANARY".repeat(8900), ",*a".repeat(4000));
        assert!((65_000..=65_536).contains(&bomb.len()));
        let plan = complain(&pod(&bomb), &BTreeSet::new());
        assert_eq!(
            plan.steps[0].to_string(),
            "tell Pod shop/web: AnnotationInvalid the annotation must not have YAML anchors or aliases (line 1, column 8)"
        );
    }
}
