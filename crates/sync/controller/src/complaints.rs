//! The controller of annotations: it tells pods what is wrong with what they ask for. It writes nothing but events.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use trustplane_kit::controller::{Controller, Fault, Look};
use trustplane_plan::{Class, Classified, ObjectRef, Plan};
use trustplane_sync_core::complain::{Memory, complain};
use trustplane_sync_core::pod::Pod;

use crate::asks::PodRequests;
use crate::problems::log_problems;

/// Tells pods what is wrong with their annotation.
pub(crate) struct Complaints {
    pub pods: Arc<PodRequests>,
    pub told: Mutex<HashMap<ObjectRef, BTreeSet<u64>>>,
}

/// Nothing can go wrong: all is in memory.
#[derive(Debug)]
pub(crate) struct Never(Infallible);

impl fmt::Display for Never {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

impl std::error::Error for Never {}

impl Classified for Never {
    fn class(&self) -> Class {
        match self.0 {}
    }

    fn reason(&self) -> &'static str {
        match self.0 {}
    }
}

impl Controller for Complaints {
    type Key = ObjectRef;
    type Input = (Pod, BTreeSet<u64>);
    type Action = Memory;
    type Error = Never;
    type Held = ();

    fn name(&self) -> &'static str {
        "sync-annotations"
    }

    async fn gather(&self, key: &ObjectRef, _look: &mut Look<()>) -> Result<Option<Self::Input>, Never> {
        let pod = self.pods.get(key);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match pod {
            Some(pod) => Some((pod, told.get(key).cloned().unwrap_or_default())),
            None => {
                told.remove(key);
                None
            }
        })
    }

    fn decide(&self, (pod, told): &Self::Input, _now: Timestamp) -> Plan<Memory> {
        let plan = complain(pod, told);
        log_problems(&plan);
        plan
    }

    async fn perform(&self, memory: Memory) -> Result<(), Fault<Never>> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match memory {
            Memory::Told(pod, what) => drop(told.entry(pod).or_default().insert(what)),
            Memory::Only(pod, what) => {
                if let Some(known) = told.get_mut(&pod) {
                    known.retain(|id| what.contains(id));
                }
            }
        }
        Ok(())
    }
}
