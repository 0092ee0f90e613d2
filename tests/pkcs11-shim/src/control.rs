//! What a test can have go wrong.

use cryptoki_sys::CK_RV;
use serde::{Deserialize, Serialize};

/// Everything that is wrong with the module. By default nothing is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Control {
    /// What happens at which call.
    pub fault: Option<Fault>,
    /// From which call since the control was set everything below holds; the first is 1, and 0 is always.
    pub since: u64,
    /// The tries that the token says are left for the user PIN.
    pub pin_tries: Option<PinTries>,
    /// A search shows no more objects than these, as OpenSC's table of objects does.
    pub view: Option<usize>,
    /// One call of a search gives no more objects than these, even if there are more.
    pub batch: Option<usize>,
    /// Labels are cut to so many bytes without a word, as OpenSC does.
    pub longest_label: Option<usize>,
    /// The value of the object with this label cannot be read.
    pub unreadable: Option<String>,
    /// Larger values do not fit.
    pub largest_value: Option<usize>,
    /// The application of a new object is read up to its first NUL, whatever its length, as older OpenSC does.
    pub application_as_c_string: bool,
    /// The reader's name, which SoftHSM does not let one choose.
    pub reader: Option<String>,
}

impl Control {
    /// What holds at the call of this number, but for the fault.
    pub(crate) fn at(self, number: u64) -> Self {
        match number < self.since {
            true => Self::default(),
            false => self,
        }
    }

    /// Nothing is wrong but this.
    pub fn fault(fault: Fault) -> Self {
        Self {
            fault: Some(fault),
            ..Self::default()
        }
    }
}

/// Something that happens at one call, or from that call on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// At which call since the control was set; the first is 1.
    pub at: u64,
    /// Only calls of this function count, such as `C_Login`; all if none is named.
    pub function: Option<String>,
    /// Whether the real module is called.
    pub moment: Moment,
    /// What happens.
    pub action: Action,
    /// How long it goes on.
    pub lasts: Duration,
}

impl Fault {
    /// This, once, instead of the `at`-th call.
    pub fn before(at: u64, action: Action) -> Self {
        Self {
            at,
            function: None,
            moment: Moment::Before,
            action,
            lasts: Duration::Once,
        }
    }

    /// This, once, after the `at`-th call has done its work.
    pub fn after(at: u64, action: Action) -> Self {
        Self {
            moment: Moment::After,
            ..Self::before(at, action)
        }
    }

    /// The same, but only calls of this function count.
    pub fn of(self, function: &str) -> Self {
        Self {
            function: Some(function.to_owned()),
            ..self
        }
    }

    /// The same, but it goes on.
    pub fn lasting(self, lasts: Duration) -> Self {
        Self { lasts, ..self }
    }
}

/// Whether the real module is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// It is not.
    Before,
    /// It is, and its answer is lost.
    After,
}

/// What a fault does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Answers with this code.
    Answer(CK_RV),
    /// Never answers.
    Freeze,
    /// Ends the process, without any clean-up.
    Abort,
}

/// How long a fault goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Duration {
    /// One call.
    Once,
    /// Every call of any function, until the module is initialised again: an unplugged device.
    UntilInitialised,
    /// Every call that counts, until the control is set anew: a full device.
    Always,
}

/// How many tries a token says are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PinTries {
    /// Fewer than at first.
    Low,
    /// One.
    Final,
    /// None.
    Locked,
}
