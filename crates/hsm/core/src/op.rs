//! What is done to a token: objects are made and destroyed, one after the other. An object is never modified, because no token
//! promises that a modification is done wholly or not at all.

use std::fmt;

use crate::object::NewObject;

/// One step. Of a list of steps each is done after the one before it has succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op<H> {
    /// Makes an object.
    Create(NewObject),
    /// Destroys an object that was found.
    Destroy(H),
    /// Destroys what an earlier step of the same list made: the step with this number, counted from nought.
    DestroyCreated(usize),
}

/// Shows what it does, and no value.
impl<H> fmt::Display for Op<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(object) => write!(f, "create {}", object.label),
            Self::Destroy(_) => f.write_str("destroy an object"),
            Self::DestroyCreated(step) => write!(f, "destroy what step {step} made"),
        }
    }
}

/// Who carries steps out.
pub trait Objects {
    /// How the token calls an object.
    type Handle: Clone;
    /// Why a step failed.
    type Error;

    /// Makes an object.
    fn create(&mut self, object: &NewObject) -> Result<Self::Handle, Self::Error>;
    /// Destroys an object.
    fn destroy(&mut self, handle: &Self::Handle) -> Result<(), Self::Error>;
}

/// Carries out steps, up to the first that fails.
///
/// After a failure the token is neither as it was nor as it should be: all objects are to be listed again and
/// [`recover`](crate::recover::recover) is to be asked, before anything else is done.
pub fn carry_out<T: Objects>(token: &mut T, ops: &[Op<T::Handle>]) -> Result<(), T::Error> {
    let mut made: Vec<Option<T::Handle>> = Vec::with_capacity(ops.len());
    for op in ops {
        let handle = match op {
            Op::Create(object) => Some(token.create(object)?),
            Op::Destroy(handle) => {
                token.destroy(handle)?;
                None
            }
            Op::DestroyCreated(step) => {
                if let Some(handle) = made.get(*step).cloned().flatten() {
                    token.destroy(&handle)?;
                }
                None
            }
        };
        made.push(handle);
    }
    Ok(())
}
