//! A session with one token: log in, read every data object, create, destroy.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;

use cryptoki::context::Function;
use cryptoki::error::{Error, RvError};
use cryptoki::object::{Attribute, AttributeType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, SessionState, UserType};
use cryptoki::slot::Slot;
use trustplane_hsm_core::label::Label;
use trustplane_hsm_core::object::{Found, NewObject};
use trustplane_hsm_core::secret::Value;

use crate::attributes::{self, NAME, WHOLE};
use crate::inventory::TokenInfo;
use crate::provision::slot;
use crate::{Attempt, Module, Pin, TokenError};

/// How often the objects are read anew when others change them meanwhile.
const PASSES: usize = 3;

/// No module that we know of cuts labels of so many bytes.
const CERTAIN_LABEL: usize = 127;

/// How many objects are asked for at once where nobody knows how many there are.
pub(crate) const SOME: usize = 128;

/// An object on a token. It means something only to the session that gave it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Handle(ObjectHandle);

impl Hash for Handle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.handle().hash(state);
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({self})")
    }
}

/// All data objects of a token.
#[derive(Debug, Default)]
pub struct Objects {
    /// Those whose label could be read.
    pub found: Vec<Found<Handle>>,
    /// Those whose label or value could not.
    pub unreadable: Vec<Unreadable>,
    /// How many objects of other classes are beside them, if that was asked for.
    pub others: usize,
}

/// An object that is there and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read object {handle} ({}): {reason}", name(label))]
pub struct Unreadable {
    /// The object.
    pub handle: Handle,
    /// Its label, if at least that could be read.
    pub label: Option<Label>,
    /// Why.
    pub reason: String,
}

fn name(label: &Option<Label>) -> String {
    label
        .as_ref()
        .map_or("of no name".to_owned(), ToString::to_string)
}

/// What is left of an object that was destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remains {
    /// Nothing, as it should be.
    Nothing,
    /// An object with the [label](Label::of_husk) of a husk, and no value.
    Husk,
}

/// What became of reading attributes.
enum Attributes {
    Read(Option<Label>, Option<Value>),
    /// The object has changed or gone.
    Changed,
    /// The token refuses, for this reason.
    Failed(String),
}

/// A session with a token that was chosen by what it is, not by where it is.
pub struct Token<'module> {
    module: &'module Module,
    slot: Slot,
    chosen: TokenInfo,
    session: Session,
}

impl<'module> Token<'module> {
    pub(crate) fn open(module: &'module Module, chosen: &TokenInfo) -> Result<Self, TokenError> {
        let slot = slot(chosen.slot)?;
        let token = Self {
            module,
            slot,
            chosen: chosen.clone(),
            session: session(module, slot)?,
        };
        // The token that was chosen may have left its slot to another one.
        token.info()?;
        Ok(token)
    }

    /// What the token says of itself now.
    pub fn info(&self) -> Result<TokenInfo, TokenError> {
        let now = self.module.info(self.slot)?;
        match now.is(&self.chosen) {
            true => Ok(now),
            false => Err(TokenError::AnotherToken { slot: now.slot }),
        }
    }

    /// Tries the PIN, once. Without an order it does not when a wrong PIN was tried before, so that no loop can lock a token.
    pub fn log_in(&self, pin: &Pin, attempt: Attempt) -> Result<(), TokenError> {
        self.may_try(attempt)?;
        self.session
            .login(UserType::User, Some(&pin.to_auth()))
            .map_err(|error| TokenError::of("C_Login", error))
    }

    /// Ends the login of every session that this process has with the token.
    pub fn log_out(&self) -> Result<(), TokenError> {
        self.session
            .logout()
            .map_err(|error| TokenError::of("C_Logout", error))
    }

    /// Changes the user PIN. The old one is tried by that, as by a login.
    pub fn change_pin(&self, old: &Pin, new: &Pin, attempt: Attempt) -> Result<(), TokenError> {
        self.may_try(attempt)?;
        self.session
            .set_pin(&old.to_auth(), &new.to_auth())
            .map_err(|error| TokenError::of("C_SetPIN", error))
    }

    fn may_try(&self, attempt: Attempt) -> Result<(), TokenError> {
        let token = self.info()?;
        if !token.has_user_pin {
            return Err(TokenError::PinNotSet);
        }
        match attempt.may(token.pin_tries) {
            true => Ok(()),
            false => Err(TokenError::PinTriesLow(token.pin_tries)),
        }
    }

    /// Every data object, whoever wrote it. What cannot be read is told, never left out.
    pub fn objects(&mut self) -> Result<Objects, TokenError> {
        self.objects_beside(Objects::default(), SOME)
    }

    /// Every data object; so many are expected. Those that are known already are not read again, unless they could not be read.
    pub(crate) fn objects_beside(&mut self, known: Objects, expected: usize) -> Result<Objects, TokenError> {
        let mut known = readable(known);
        for _ in 0..PASSES {
            if let Some(objects) = self.pass(&mut known, expected)? {
                return Ok(objects);
            }
        }
        Err(TokenError::Unsteady)
    }

    /// Looks at every object once: `None` if one has changed or gone while it was read.
    fn pass(
        &mut self,
        known: &mut HashMap<Handle, Found<Handle>>,
        expected: usize,
    ) -> Result<Option<Objects>, TokenError> {
        let mut objects = Objects::default();
        let handles = self.handles(None, expected)?;
        for handle in handles {
            match known.remove(&handle) {
                Some(found) => objects.found.push(found),
                None if self.read(handle, &mut objects)? => {}
                None => {
                    known.extend(readable(objects));
                    return Ok(None);
                }
            }
        }
        // Without a login private objects do not fail to be read: they are not there.
        self.assert_logged_in()?;
        Ok(Some(objects))
    }

    /// Reads one object; says no if it has changed or gone meanwhile.
    fn read(&self, handle: Handle, objects: &mut Objects) -> Result<bool, TokenError> {
        let (label, value, reason) = match self.attributes(handle, &WHOLE)? {
            Attributes::Changed => return Ok(false),
            Attributes::Read(label, value) => (label, value, "the token does not give it".to_owned()),
            // Whose it is can be told all the same.
            Attributes::Failed(reason) => match self.attributes(handle, &NAME)? {
                Attributes::Changed => return Ok(false),
                Attributes::Read(label, _) => (label, None, reason),
                Attributes::Failed(_) => (None, None, reason),
            },
        };
        if label.is_none() || value.is_none() {
            objects.unreadable.push(Unreadable {
                handle,
                label: label.clone(),
                reason,
            });
        }
        if let Some(label) = label {
            objects.found.push(Found { handle, label, value });
        }
        Ok(true)
    }

    /// An object as it is now; nothing if it is gone, is changing, or cannot be read.
    pub(crate) fn look(&self, handle: Handle) -> Result<Option<Found<Handle>>, TokenError> {
        Ok(match self.attributes(handle, &WHOLE)? {
            Attributes::Read(Some(label), Some(value)) => Some(Found {
                handle,
                label,
                value: Some(value),
            }),
            _ => None,
        })
    }

    fn attributes(&self, handle: Handle, wanted: &[AttributeType]) -> Result<Attributes, TokenError> {
        match self.session.get_attributes(handle.0, wanted) {
            Ok(attributes) => {
                let (label, value) = attributes::label_and_value(attributes);
                Ok(Attributes::Read(label, value))
            }
            Err(Error::Pkcs11(RvError::ObjectHandleInvalid | RvError::BufferTooSmall, _)) => {
                Ok(Attributes::Changed)
            }
            Err(error) => {
                let error = TokenError::of("C_GetAttributeValue", error);
                match error.is_vague() {
                    // If the token is there, and we with it, it is about this object.
                    true => self.assert_here()?,
                    false if error.needs_initialisation() => return Err(error),
                    false => {}
                }
                Ok(Attributes::Failed(error.to_string()))
            }
        }
    }

    /// Data objects with this label; with none given, all of them. So many are expected.
    pub(crate) fn handles(
        &mut self,
        label: Option<&Label>,
        expected: usize,
    ) -> Result<Vec<Handle>, TokenError> {
        let mut template = vec![Attribute::Class(ObjectClass::DATA)];
        template.extend(label.map(|label| Attribute::Label(label.as_bytes().to_vec())));
        self.find(&template, expected)
    }

    /// How many keys and certificates there are.
    pub(crate) fn others(&mut self) -> Result<usize, TokenError> {
        let mut others = 0;
        for class in [
            ObjectClass::CERTIFICATE,
            ObjectClass::PUBLIC_KEY,
            ObjectClass::PRIVATE_KEY,
            ObjectClass::SECRET_KEY,
        ] {
            others += self.find(&[Attribute::Class(class)], 1)?.len();
        }
        Ok(others)
    }

    fn find(&mut self, template: &[Attribute], expected: usize) -> Result<Vec<Handle>, TokenError> {
        match self.search(template, expected) {
            // A search whose end failed is still open. It is left behind with its session; the login is the token's.
            Err(Error::Pkcs11(RvError::OperationActive, Function::FindObjectsInit)) => {
                self.session = session(self.module, self.slot)?;
                self.search(template, expected)
            }
            answer => answer,
        }
        .map_err(|error| TokenError::of("C_FindObjects", error))
    }

    /// A short answer does not mean that it was the last, only an empty one does; but the library takes it so. Hence as many
    /// are asked for at once as are expected: where so many came, or a multiple of it, an empty answer has followed. If it was
    /// another number, that one is expected, and at last one at a time.
    fn search(&self, template: &[Attribute], expected: usize) -> Result<Vec<Handle>, Error> {
        let mut next = NonZeroUsize::new(expected);
        loop {
            let at_once = next.take().unwrap_or(NonZeroUsize::MIN);
            let found = self.session.iter_objects_with_cache_size(template, at_once)?;
            let found: Vec<Handle> = found.map(|handle| handle.map(Handle)).collect::<Result<_, _>>()?;
            if found.len().is_multiple_of(at_once.get()) {
                return Ok(found);
            }
            if at_once.get() == expected {
                next = NonZeroUsize::new(found.len());
            }
        }
    }

    /// Sees that the token is there, and that we are logged in.
    pub(crate) fn assert_here(&self) -> Result<(), TokenError> {
        self.info()?;
        self.assert_logged_in()
    }

    pub(crate) fn assert_logged_in(&self) -> Result<(), TokenError> {
        let info = self
            .session
            .get_session_info()
            .map_err(|error| TokenError::of("C_GetSessionInfo", error))?;
        match info.session_state() {
            SessionState::RwUser => Ok(()),
            _ => Err(TokenError::LoggedOut),
        }
    }

    /// Creates an object. It is private, and stays when the session ends.
    pub fn create(&self, object: &NewObject) -> Result<Handle, TokenError> {
        let mut attributes = attributes::template(object);
        let created = self.session.create_object(&attributes);
        attributes::wipe(&mut attributes);
        let handle = created
            .map(Handle)
            .map_err(|error| TokenError::of("C_CreateObject", error))?;
        if object.label.as_bytes().len() > CERTAIN_LABEL {
            self.assert_label(handle, &object.label)?;
        }
        Ok(handle)
    }

    /// Looks at the label of a new object, and destroys it if it was cut: that would be the label of another object.
    fn assert_label(&self, handle: Handle, label: &Label) -> Result<(), TokenError> {
        match self.attributes(handle, &NAME)? {
            Attributes::Read(Some(found), _) if found == *label => Ok(()),
            _ => {
                self.destroy(handle)?;
                Err(TokenError::Cut { label: label.clone() })
            }
        }
    }

    /// Destroys an object.
    ///
    /// A card does that in two steps, the value first, and may be pulled in between. OpenSC cannot destroy the label that is
    /// left, because there is no value to begin with. It can be given another label, one that is nobody's.
    pub fn destroy(&self, handle: Handle) -> Result<Remains, TokenError> {
        let error = match self.session.destroy_object(handle.0) {
            Ok(()) => return Ok(Remains::Nothing),
            Err(error) => TokenError::of("C_DestroyObject", error),
        };
        if !error.is_vague() {
            return Err(error);
        }
        self.assert_here()?;
        let Attributes::Failed(_) = self.attributes(handle, &WHOLE)? else {
            return Err(error);
        };
        let label = Attribute::Label(Label::of_husk().as_bytes().to_vec());
        match self.session.update_attributes(handle.0, &[label]) {
            Ok(()) => Ok(Remains::Husk),
            Err(_) => Err(error),
        }
    }
}

/// Those that need not be read again.
fn readable(objects: Objects) -> HashMap<Handle, Found<Handle>> {
    let readable = objects.found.into_iter().filter(|found| found.value.is_some());
    readable.map(|found| (found.handle, found)).collect()
}

fn session(module: &Module, slot: Slot) -> Result<Session, TokenError> {
    module
        .library()
        .open_rw_session(slot)
        .map_err(|error| TokenError::of("C_OpenSession", error))
}
