use serde_json::{Value, json};
use trustplane_api::identity::OperandKind::{
    self, SpiffeCsiDriver, SpireAgent, SpireOidcDiscoveryProvider, SpireServer,
};

use super::*;
use crate::inherit::tests::settings;
use crate::inherit::{OperandView, World, ZtwimView};

mod operand;
mod properties;
mod ztwim;

fn object(spec: Value) -> Value {
    json!({"metadata": {"name": "cluster", "uid": "z1"}, "spec": spec})
}

fn full() -> Value {
    json!({
        "trustDomain": "a.io", "clusterName": "c", "bundleConfig": {"name": "b"}, "bundleConfigMap": "b",
    })
}

/// The full ZTWIM with these fields changed; null takes a field away.
fn full_but(changes: Value) -> Value {
    merged(full(), changes)
}

fn merged(mut spec: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => spec.as_object_mut().unwrap().remove(key),
            value => spec.as_object_mut().unwrap().insert(key.clone(), value.clone()),
        };
    }
    spec
}

fn server(spec: Value, record: Option<Value>) -> OperandView {
    let annotations = record.map(|record| ("ztwim.io/inherited".to_owned(), record.to_string()));
    OperandView::new(SpireServer, &spec, &annotations.into_iter().collect())
}

fn world(ztwim: Option<Value>, operands: impl IntoIterator<Item = OperandView>) -> World {
    World {
        ztwim: ztwim.map(|spec| ZtwimView::new("z1", &spec)),
        operands: operands.into_iter().collect(),
    }
}

/// A request with all that is beside it.
#[derive(Debug, Clone)]
struct Case {
    subject: Holder,
    old: Option<Value>,
    new: Value,
    world: World,
    bundle_exists: Option<bool>,
    old_defects: Vec<(String, String)>,
    defects: Vec<(String, String)>,
}

impl Case {
    fn new(subject: Holder, old: Option<Value>, new: Value, world: World) -> Self {
        let (old_defects, defects) = (vec![], vec![]);
        Self {
            subject,
            old,
            new,
            world,
            bundle_exists: None,
            old_defects,
            defects,
        }
    }

    fn ruling(&self, webhook: fn(&Review<'_>) -> Ruling) -> Ruling {
        webhook(&Review {
            subject: self.subject,
            old: self.old.as_ref(),
            new: &self.new,
            world: &self.world,
            settings: &settings(),
            bundle_exists: self.bundle_exists,
            old_defects: &self.old_defects,
            defects: &self.defects,
        })
    }

    /// The words of the denial, which both webhooks give.
    fn denial(&self) -> String {
        let (Ruling::Deny(first), Ruling::Deny(second)) = (self.ruling(mutate), self.ruling(validate)) else {
            panic!("expected a denial of {} in {:?}", self.new, self.world)
        };
        assert_eq!(first, second);
        first.to_string()
    }

    /// The object and the warnings, if the request passes. The validating webhook takes the result, and a second look changes nothing.
    fn passed(&self) -> (Value, Vec<String>) {
        let (object, warnings) = match self.ruling(mutate) {
            Ruling::Allow { warnings } => (self.new.clone(), warnings),
            Ruling::Fill { object, warnings } => (object, warnings),
            Ruling::Deny(denial) => panic!("{denial}"),
        };
        let again = Self {
            new: object.clone(),
            ..self.clone()
        };
        assert!(
            matches!(again.ruling(mutate), Ruling::Allow { .. }),
            "filled twice: {:?}",
            again.ruling(mutate)
        );
        assert_eq!(again.ruling(validate), Ruling::Allow { warnings: vec![] });
        (object, warnings)
    }
}

#[test]
fn match_conditions_name_the_annotation_and_the_placeholders() {
    use trustplane_api::identity::names::INHERITED;
    assert_eq!(MATCH_CONDITIONS[1].1.matches(INHERITED).count(), 2);
    assert!(MATCH_CONDITIONS[2].1.contains("$(NAMESPACE):$(PROCESS)"));
    assert!(
        MATCH_CONDITIONS
            .iter()
            .all(|(_, expression)| !expression.contains("  "))
    );
}

#[test]
fn a_new_defect_is_refused_and_an_old_one_is_not() {
    let defect = |field: &str| vec![(field.to_owned(), "must be more than nothing".to_owned())];
    let spec = |validity: &str| full_but(json!({"a": {"list": [{"validity": validity}]}}));
    let mut case = Case::new(Holder::Ztwim, None, object(spec("0s")), World::default());
    case.defects = defect("spec.a.list[0].validity");
    assert_eq!(
        case.denial(),
        "spec.a.list[0].validity: must be more than nothing (rule 1, creation of ZTWIM)"
    );
    case.old = Some(object(spec("1s")));
    assert!(
        case.denial().ends_with("(rule 2, update of ZTWIM)"),
        "it was right before"
    );
    case.old = Some(object(full_but(
        json!({"a": {"list": [{"validity": "0s", "x": 1}]}}),
    )));
    case.old_defects = defect("spec.a.list[0].validity");
    case.passed();
    case.old = Some(object(spec("00s")));
    case.denial();
}
