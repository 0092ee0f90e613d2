//! End to end: the chart, the images, the plugin and the demo on a real node.
//!
//! The product's chart is put together for the sample manager of the tests, which has a capability with a CRD, rights
//! and a webhook; so everything that the chart can do is proved on something that works. What a user gets is shown with the
//! product itself. Tests use the same commands as a person: `helm`, `kubectl`, `kubectl trustplane`.
//!
//! It is not for the behaviour of controllers, which component and fault tests show faster and deeper.

mod arena;
mod census;
pub mod chart;
mod program;
mod release;
pub mod scenario;

pub use arena::{Arena, borrowed};
pub use program::{Said, program, say, try_say, xtask};
pub use release::Release;
