//! The peer: PKCS#11 as one uses it without thinking of crashes, other secrets or other processes.

use std::collections::HashMap;
use std::path::Path;

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::object::{Attribute, AttributeType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::types::AuthPin;
use trustplane_hsm_core::object::{APPLICATION, MODIFIABLE, NewObject, PRIVATE, TOKEN};

use crate::secrets::{FIRST, SECRETS, objects_of};
use crate::stage::{LABEL, PIN};

/// A session with the token, logged in.
pub struct Raw(Session);

impl Raw {
    /// Opens the token of the stage.
    pub fn open(library: &Path) -> Self {
        let module = Pkcs11::new(library).unwrap();
        let arguments = CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK);
        module.initialize(arguments).unwrap();
        let is_ours = |slot: &_| module.get_token_info(*slot).unwrap().label() == LABEL;
        let slots = module.get_slots_with_initialized_token().unwrap();
        let slot = slots.into_iter().find(is_ours).unwrap();
        let session = module.open_rw_session(slot).unwrap();
        let pin = AuthPin::new(PIN.into());
        session.login(UserType::User, Some(&pin)).unwrap();
        // Many modules do not survive being unloaded.
        std::mem::forget(module);
        Self(session)
    }

    /// Puts all secrets on the token.
    pub fn fill(&self) {
        for number in 0..SECRETS {
            for object in objects_of(number, FIRST) {
                self.create(&object);
            }
        }
    }

    /// Reads the values of objects, by their labels.
    pub fn read(&self, objects: &[NewObject]) -> Vec<Vec<u8>> {
        let handles = objects.iter().map(|object| self.find(object));
        handles.map(|handle| self.value(handle)).collect()
    }

    /// Reads the values of objects that were found before.
    pub fn read_found(&self, handles: &[ObjectHandle]) -> Vec<Vec<u8>> {
        handles.iter().map(|handle| self.value(*handle)).collect()
    }

    /// Destroys the objects that have the labels of these, and makes these.
    pub fn replace(&self, objects: &[NewObject]) {
        for object in objects {
            self.0.destroy_object(self.find(object)).unwrap();
        }
        for object in objects {
            self.create(object);
        }
    }

    /// Labels and values of all data objects.
    pub fn enumerate(&self) -> Vec<Vec<Attribute>> {
        let all = self
            .0
            .find_objects(&[Attribute::Class(ObjectClass::DATA)])
            .unwrap();
        let wanted = [AttributeType::Label, AttributeType::Value];
        all.into_iter()
            .map(|handle| self.0.get_attributes(handle, &wanted).unwrap())
            .collect()
    }

    /// Every data object by its label.
    pub fn handles(&self) -> HashMap<Vec<u8>, ObjectHandle> {
        let all = self
            .0
            .find_objects(&[Attribute::Class(ObjectClass::DATA)])
            .unwrap();
        let label = |handle| match self
            .0
            .get_attributes(handle, &[AttributeType::Label])
            .unwrap()
            .pop()
        {
            Some(Attribute::Label(label)) => (label, handle),
            _ => panic!("an object without a label"),
        };
        all.into_iter().map(label).collect()
    }

    /// The one object with a label.
    fn find(&self, object: &NewObject) -> ObjectHandle {
        let label = Attribute::Label(object.label.as_bytes().to_vec());
        let found = self
            .0
            .find_objects(&[Attribute::Class(ObjectClass::DATA), label])
            .unwrap();
        assert_eq!(found.len(), 1, "{}", object.label);
        found[0]
    }

    fn value(&self, handle: ObjectHandle) -> Vec<u8> {
        let attributes = self.0.get_attributes(handle, &[AttributeType::Value]).unwrap();
        match attributes.into_iter().next() {
            Some(Attribute::Value(value)) => value,
            _ => panic!("an object without a value"),
        }
    }

    fn create(&self, object: &NewObject) {
        let template = [
            Attribute::Class(ObjectClass::DATA),
            Attribute::Token(TOKEN),
            Attribute::Private(PRIVATE),
            Attribute::Modifiable(MODIFIABLE),
            Attribute::Label(object.label.as_bytes().to_vec()),
            Attribute::Application(APPLICATION.to_bytes().to_vec()),
            Attribute::ObjectId(object.object_type().der().to_vec()),
            Attribute::Value(object.value.expose().to_vec()),
        ];
        self.0.create_object(&template).unwrap();
    }
}
