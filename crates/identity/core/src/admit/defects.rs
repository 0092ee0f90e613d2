//! What is wrong with a spec itself, and what had better be said in another way.

use serde::de::DeserializeOwned;
use serde_json::Value;
use trustplane_api::identity::{CommonConfig, OperandKind, ZtwimSpec};

use crate::check::{self, Defect};
use crate::inherit::Holder;

/// The defects of a spec that its schema takes: field and rule. A spec that cannot be read has none: the schema refuses it.
pub fn defects(subject: Holder, object: &Value) -> Vec<(String, String)> {
    let defects = |own: Vec<Defect>, common: &CommonConfig| {
        let all = own.into_iter().chain(check::common(common));
        all.map(|Defect { field, rule, .. }| (field, rule)).collect()
    };
    match subject {
        Holder::Ztwim => read::<ZtwimSpec>(object).map(|spec| defects(Vec::new(), &spec.common)),
        Holder::Operand(OperandKind::SpireServer) => {
            read(object).map(|spec| defects(check::server_spec(&spec), &spec.common))
        }
        Holder::Operand(OperandKind::SpireAgent) => {
            read(object).map(|spec| defects(check::agent_spec(&spec), &spec.common))
        }
        Holder::Operand(OperandKind::SpiffeCsiDriver) => {
            read(object).map(|spec| defects(check::csi(&spec), &spec.common))
        }
        Holder::Operand(OperandKind::SpireOidcDiscoveryProvider) => {
            read(object).map(|spec| defects(check::oidc_spec(&spec), &spec.common))
        }
    }
    .unwrap_or_default()
}

/// Lines for whoever writes a spec: what works, but hardly as its author means it.
pub fn advice(subject: Holder, object: &Value) -> Vec<String> {
    match subject {
        Holder::Operand(OperandKind::SpireServer) => read(object).map(|spec| check::server_advice(&spec)),
        Holder::Operand(OperandKind::SpiffeCsiDriver) => read(object).map(|spec| check::csi_advice(&spec)),
        Holder::Operand(OperandKind::SpireOidcDiscoveryProvider) => {
            read(object).map(|spec| check::oidc_advice(&spec))
        }
        Holder::Ztwim | Holder::Operand(OperandKind::SpireAgent) => None,
    }
    .unwrap_or_default()
}

fn read<T: DeserializeOwned + Default>(object: &Value) -> Option<T> {
    match object.get("spec") {
        None | Some(Value::Null) => Some(T::default()),
        Some(spec) => serde_json::from_value(spec.clone()).ok(),
    }
}
