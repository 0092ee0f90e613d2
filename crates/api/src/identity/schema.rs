//! The schemas of the kinds. A derived schema would require `spec`, and would take null for every optional field.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value, json};

/// A rule of CEL on a whole object, and the message for an object that breaks the rule.
type Rule = (&'static str, &'static str);

/// There is one object of each kind.
const SINGLETON: Rule = (
    "self.metadata.name == 'cluster'",
    "metadata.name: must be 'cluster', there is one of each kind",
);

/// The rule of a field of the volume. A value that is absent counts as the default. Once there is a volume object, the schema has
/// filled in its fields.
macro_rules! fixed {
    ($field:literal, $default:literal) => {
        (
            concat!(
                "has(self.spec) && has(self.spec.persistence) ? ",
                "(has(oldSelf.spec) && has(oldSelf.spec.persistence) ? ",
                "self.spec.persistence.",
                $field,
                " == oldSelf.spec.persistence.",
                $field,
                " : self.spec.persistence.",
                $field,
                " == '",
                $default,
                "') : (!has(oldSelf.spec) || !has(oldSelf.spec.persistence) || oldSelf.spec.persistence.",
                $field,
                " == '",
                $default,
                "')",
            ),
            concat!(
                "spec.persistence.",
                $field,
                ": cannot change once the SpireServer exists"
            ),
        )
    };
}

/// The volume of the server cannot change, since the volume claims of its StatefulSet cannot.
const SERVER_RULES: [Rule; 4] = [
    fixed!("size", "1Gi"),
    fixed!("accessMode", "ReadWriteOnce"),
    fixed!("storageClass", ""),
    (
        "!has(oldSelf.spec) || !has(oldSelf.spec.federation) || (has(self.spec) && has(self.spec.federation))",
        "spec.federation: cannot be removed once it is set",
    ),
];

/// The schema of a kind with one object, which may be without a spec.
fn singleton<Spec: JsonSchema, Status: JsonSchema>(rules: &[Rule]) -> Schema {
    let rules: Vec<Value> = [&[SINGLETON], rules]
        .concat()
        .into_iter()
        .map(|(rule, message)| json!({"rule": rule, "message": message}))
        .collect();
    let mut schema = root::<Spec, Status>(&[]);
    schema.insert("x-kubernetes-validations".to_owned(), Value::Array(rules));
    schema
}

/// The schema of a kind whose objects have these fields at least.
fn root<Spec: JsonSchema, Status: JsonSchema>(required: &[&str]) -> Schema {
    let spec = of::<Spec>();
    let mut schema = json_schema!({
        "type": "object",
        "description": spec.get("description"),
        "properties": {"spec": spec, "status": of::<Status>()},
    });
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

fn of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .with_transform(NeverNull)
        .with_transform(kube::core::schema::StructuralSchemaRewriter)
        .into_generator()
        .into_root_schema_for::<T>();
    schema.remove("title");
    schema
}

/// Makes an optional field one that may be absent, and not null: the API server would store a null, and a rule of CEL would take the
/// field for present.
#[derive(Debug, Clone)]
struct NeverNull;

impl Transform for NeverNull {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(schema) = schema.as_object_mut() else {
            return;
        };
        schema.remove("nullable");
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|type_| type_ != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                schema.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(words)) = schema.get_mut("enum") {
            words.retain(|word| !word.is_null());
        }
        if let Some(something) = only_alternative(schema) {
            schema.remove("anyOf");
            // The description of a field wins over the description of its type.
            for (key, value) in something {
                schema.entry(key).or_insert(value);
            }
        }
    }
}

/// The schema of `T`, given `anyOf` of `T` and null.
fn only_alternative(schema: &Map<String, Value>) -> Option<Map<String, Value>> {
    let [one, other] = schema.get("anyOf")?.as_array()?.as_slice() else {
        return None;
    };
    let null = |schema: &Value| schema["type"] == "null" || schema["enum"] == json!([]);
    let something = match (null(one), null(other)) {
        (false, true) => one,
        (true, false) => other,
        _ => return None,
    };
    something.as_object().cloned()
}

/// Implements the schema of a kind by an expression.
macro_rules! kind {
    ($kind:ident, $schema:expr) => {
        impl schemars::JsonSchema for super::$kind {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
}

kind!(
    ZeroTrustWorkloadIdentityManager,
    singleton::<super::ZtwimSpec, super::ZtwimStatus>(&[])
);
kind!(
    SpireServer,
    singleton::<super::SpireServerSpec, super::OperandCrStatus>(&SERVER_RULES)
);
kind!(
    SpireAgent,
    singleton::<super::SpireAgentSpec, super::OperandCrStatus>(&[])
);
kind!(
    SpiffeCsiDriver,
    singleton::<super::SpiffeCsiDriverSpec, super::OperandCrStatus>(&[])
);
kind!(
    SpireOidcDiscoveryProvider,
    singleton::<super::SpireOidcDiscoveryProviderSpec, super::OperandCrStatus>(&[])
);
kind!(
    ClusterSpiffeId,
    root::<super::ClusterSpiffeIdSpec, super::ClusterSpiffeIdStatus>(&["spec"])
);
kind!(
    ClusterFederatedTrustDomain,
    root::<super::ClusterFederatedTrustDomainSpec, super::ClusterFederatedTrustDomainStatus>(&["spec"])
);
kind!(
    ClusterStaticEntry,
    root::<super::ClusterStaticEntrySpec, super::ClusterStaticEntryStatus>(&["spec"])
);
