//! Data objects as PKCS#11 has them.

use cryptoki::object::{Attribute, AttributeType, ObjectClass};
use trustplane_hsm_core::label::Label;
use trustplane_hsm_core::object::{APPLICATION, MODIFIABLE, NewObject, PRIVATE, TOKEN};
use trustplane_hsm_core::secret::Value;
use zeroize::Zeroize;

/// What is read of an object.
pub(crate) const WHOLE: [AttributeType; 2] = [AttributeType::Label, AttributeType::Value];
/// What is read of an object whose value cannot be read.
pub(crate) const NAME: [AttributeType; 1] = [AttributeType::Label];

/// What an object is made from: as the original does, in its order.
pub(crate) fn template(object: &NewObject) -> Vec<Attribute> {
    vec![
        Attribute::Class(ObjectClass::DATA),
        Attribute::Token(TOKEN),
        Attribute::Private(PRIVATE),
        Attribute::Modifiable(MODIFIABLE),
        Attribute::Label(object.label.as_bytes().to_vec()),
        Attribute::Application(application()),
        Attribute::ObjectId(object.object_type().der().to_vec()),
        Attribute::Value(object.value.expose().to_vec()),
    ]
}

/// The application's name, of its very length, with a NUL behind it in memory: older OpenSC takes it for a C string and reads
/// on to the next NUL.
fn application() -> Vec<u8> {
    let mut application = APPLICATION.to_bytes_with_nul().to_vec();
    application.truncate(APPLICATION.count_bytes());
    application
}

/// Wipes values that were copied into attributes.
pub(crate) fn wipe(attributes: &mut [Attribute]) {
    for attribute in attributes {
        if let Attribute::Value(value) = attribute {
            value.zeroize();
        }
    }
}

/// The label and the value among what a token gave. The value's bytes are taken into custody as they are, without a copy.
pub(crate) fn label_and_value(attributes: Vec<Attribute>) -> (Option<Label>, Option<Value>) {
    let (mut label, mut value) = (None, None);
    for attribute in attributes {
        match attribute {
            Attribute::Label(bytes) => label = Some(Label::new(bytes)),
            Attribute::Value(bytes) => value = Some(Value::new(bytes)),
            _ => {}
        }
    }
    (label, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_stands_behind_the_application_and_does_not_count() {
        let application = application();
        assert_eq!(application, b"hsm-secrets-operator");
        // The memory behind it is its own: truncating gives nothing back.
        assert!(application.capacity() > application.len());
    }

    #[test]
    fn values_are_wiped_from_attributes() {
        let object = NewObject {
            label: Label::new("a/b"),
            value: Value::new("hunter2"),
        };
        let mut attributes = template(&object);
        assert!(attributes.contains(&Attribute::Value(b"hunter2".to_vec())));
        wipe(&mut attributes);
        assert!(attributes.contains(&Attribute::Value(Vec::new())));
    }
}
