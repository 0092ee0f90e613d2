//! Where the Deployment of an agent is made: never beside a pod that may still have the token.

use trustplane_api::hsm::conditions::event;
use trustplane_plan::kinds::DEPLOYMENT;
use trustplane_plan::{Delete, Manifest, Meta, ObjectRef, Severity, Step};

use super::{Round, shown};
use crate::agents::Agent;
use crate::objects::{NODE_ANNOTATION, mark};
use crate::pool::bounded;

impl Round<'_> {
    /// Wishes the Deployment of an agent, as soon as it can be where its token is.
    pub(super) fn deploy(&mut self, agent: &Agent<'_>, wish: Manifest) {
        let live = self.live(&DEPLOYMENT, &agent.name).cloned();
        let moved = live.as_ref().filter(|live| has_moved(agent, live));
        if let Some(live) = moved {
            self.follow(agent, live);
        }
        let leaves = live.as_ref().is_none_or(Meta::is_terminating);
        let waits = leaves && agent.fixed.is_some() && self.waits(agent);
        match moved.is_some() || waits {
            true => self.keep(&DEPLOYMENT, &agent.name),
            false => self.wishes.push(wish),
        }
    }

    /// The pod of a node that has died never ends, and a Deployment waits for it before it makes another. So the Deployment goes,
    /// and comes back at the new place: at once if the token is on a bus, as its old node has then reported it as lost. A static
    /// token may be there from both nodes, so the old pod has to end first.
    fn follow(&mut self, agent: &Agent<'_>, live: &Meta) {
        let Some(delete) = Delete::seen(&DEPLOYMENT, live) else {
            return;
        };
        self.plan.push(Step::Delete(match agent.fixed {
            Some(_) => delete.children_first(),
            None => delete,
        }));
        // Behind the write, so that a move is told once: whoever comes too late to remove the Deployment does not tell of it.
        let named = |node: Option<&str>| match node {
            Some(node) if !node.is_empty() => format!("node {}", bounded(node, 253)),
            _ => "any node".to_owned(),
        };
        let text = format!(
            "the agent of the token {} follows it from {} to {}",
            shown(&agent.serial),
            named(live.annotations.get(NODE_ANNOTATION).map(String::as_str)),
            named(agent.node.as_deref()),
        );
        self.tell(Severity::Normal, event::TOKEN_MOVED, &text);
    }

    /// Whether a pod of the agent is left. If its node is dead, only a person can tell, and only they can say that it has ended.
    fn waits(&mut self, agent: &Agent<'_>) -> bool {
        let its = ObjectRef::new(Some(&self.device.namespace), &agent.name);
        let mut pods = self.input.pods.iter();
        let Some(pod) = pods.find(|pod| pod.may_run(&its)) else {
            return false;
        };
        let name = pod.meta.object.name();
        let text = format!(
            "the token {} has no agent until the pod {name} on node {} has ended; if that node is dead: kubectl delete pod \
             --namespace {} {name} --force",
            shown(&agent.serial),
            bounded(pod.node.as_deref().unwrap_or("none"), 253),
            self.device.namespace,
        );
        self.tell(Severity::Warning, event::AGENT_WAITS, &text);
        true
    }
}

/// Whether a Deployment is one of ours, for another node.
fn has_moved(agent: &Agent<'_>, live: &Meta) -> bool {
    let node = live.annotations.get(NODE_ANNOTATION);
    mark().is_on(live) && node.is_some_and(|node| *node != *agent.node.as_deref().unwrap_or_default())
}
