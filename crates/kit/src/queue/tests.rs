mod model;
mod rules;
mod waiting;

use super::*;

const DONE: Outcome = Outcome::Success { look_again: None };

fn failed(class: Class) -> Outcome {
    Outcome::Failed {
        class,
        retry_after: None,
        retry_in: None,
    }
}

fn key(name: &str) -> ObjectRef {
    ObjectRef::new(Some("ns"), name)
}
