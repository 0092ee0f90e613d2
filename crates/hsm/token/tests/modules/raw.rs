//! A token as any other tool sees it: the module's own functions, past everything that is tested. It shares process and login with
//! the module under test.

use cryptoki::context::Pkcs11;
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use trustplane_hsm_token::TokenInfo;

use crate::stage::Stage;

/// An object as the original makes it; seeds of it have no application and no identifier.
#[derive(Debug, Clone)]
pub struct Object {
    pub label: Vec<u8>,
    pub value: Vec<u8>,
    pub application: Option<Vec<u8>>,
    pub identifier: Option<Vec<u8>>,
    pub private: bool,
}

impl Object {
    pub fn new(label: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self {
            label: label.into(),
            value: value.into(),
            application: Some(b"hsm-secrets-operator".to_vec()),
            identifier: Some(b"\x06\x0a\x2b\x06\x01\x04\x01\x86\x8d\x1f\x01\x01".to_vec()),
            private: true,
        }
    }

    pub fn of_a_seed(label: &str, value: &str) -> Self {
        Self {
            application: None,
            identifier: None,
            ..Self::new(label, value)
        }
    }
}

/// A session of another tool.
pub struct Raw(Session);

impl Raw {
    /// The token must be logged in by the module under test.
    pub fn new(token: &TokenInfo) -> Self {
        let bench = Stage::inherited().unwrap().bench;
        let module = Pkcs11::new(bench.library()).unwrap();
        // It is never unloaded.
        std::mem::forget(module.clone());
        Self(module.open_rw_session(token.slot.try_into().unwrap()).unwrap())
    }

    pub fn create(&self, object: &Object) -> ObjectHandle {
        let mut template = vec![
            Attribute::Class(ObjectClass::DATA),
            Attribute::Token(true),
            Attribute::Private(object.private),
            Attribute::Modifiable(true),
            Attribute::Label(object.label.clone()),
            Attribute::Value(object.value.clone()),
        ];
        template.extend(object.application.clone().map(Attribute::Application));
        template.extend(object.identifier.clone().map(Attribute::ObjectId));
        self.0.create_object(&template).unwrap()
    }

    /// Makes an object that nobody can destroy.
    pub fn create_for_ever(&self, label: &str, value: &str) -> ObjectHandle {
        let template = [
            Attribute::Class(ObjectClass::DATA),
            Attribute::Token(true),
            Attribute::Private(true),
            Attribute::Destroyable(false),
            Attribute::Label(label.into()),
            Attribute::Value(value.into()),
        ];
        self.0.create_object(&template).unwrap()
    }

    /// Makes an object of another class.
    pub fn create_key(&self) -> ObjectHandle {
        let template = [
            Attribute::Class(ObjectClass::SECRET_KEY),
            Attribute::KeyType(KeyType::GENERIC_SECRET),
            Attribute::Token(true),
            Attribute::Private(true),
            Attribute::Label(b"a key".to_vec()),
            Attribute::Value(vec![7; 16]),
        ];
        self.0.create_object(&template).unwrap()
    }

    pub fn destroy(&self, label: &str) {
        for handle in self.find(label.as_bytes()) {
            self.0.destroy_object(handle).unwrap();
        }
    }

    /// Changes a label where it is.
    pub fn rename(&self, label: &str, new: &str) {
        for handle in self.find(label.as_bytes()) {
            let label = Attribute::Label(new.as_bytes().to_vec());
            self.0.update_attributes(handle, &[label]).unwrap();
        }
    }

    /// Changes a value where it is.
    pub fn set_value(&self, label: &str, value: &[u8]) {
        for handle in self.find(label.as_bytes()) {
            let value = Attribute::Value(value.to_vec());
            self.0.update_attributes(handle, &[value]).unwrap();
        }
    }

    fn find(&self, label: &[u8]) -> Vec<ObjectHandle> {
        self.0.find_objects(&[Attribute::Label(label.to_vec())]).unwrap()
    }

    /// All attributes that matter, of the one object with a label.
    pub fn attributes(&self, label: &[u8]) -> Vec<Attribute> {
        let found = self.find(label);
        assert_eq!(found.len(), 1, "{}", label.escape_ascii());
        let wanted = [
            AttributeType::Class,
            AttributeType::Token,
            AttributeType::Private,
            AttributeType::Modifiable,
            AttributeType::Label,
            AttributeType::Application,
            AttributeType::ObjectId,
            AttributeType::Value,
        ];
        self.0.get_attributes(found[0], &wanted).unwrap()
    }

    /// Labels and values of all data objects, sorted.
    pub fn all(&self) -> Vec<(String, Vec<u8>)> {
        let data = [Attribute::Class(ObjectClass::DATA)];
        let mut all: Vec<_> = self
            .0
            .find_objects(&data)
            .unwrap()
            .into_iter()
            .map(|h| self.pair(h))
            .collect();
        all.sort();
        all
    }

    fn pair(&self, handle: ObjectHandle) -> (String, Vec<u8>) {
        let wanted = [AttributeType::Label, AttributeType::Value];
        match &self.0.get_attributes(handle, &wanted).unwrap()[..] {
            [Attribute::Label(label), Attribute::Value(value)] => {
                (label.escape_ascii().to_string(), value.clone())
            }
            other => panic!("{} attributes", other.len()),
        }
    }
}
