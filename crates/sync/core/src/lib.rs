//! Secret sync, the pure part: what a pod may ask for, whether somebody has to be asked for it, and what becomes of the
//! answer.
//!
//! A pod asks in an annotation ([`grammar`]); several pods may name one Secret, and [`claims`] says who gets it. Before any
//! provider is asked, [`situation::assess`] judges the requests by [`policy`] and finds the cause to ask, if there is one.
//! What providers answer becomes the content of a Secret in [`shape`], and [`decide`](decide::decide) turns all of that into a
//! plan. What a Secret was made for stands in its own metadata ([`state`]), so that a restart asks nobody and writes nothing.
//!
//! There is no clock, no client and no provider here; they are parameters.
//!
//! ```
//! use trustplane_sync_core::grammar;
//!
//! let text = "provider: aws-secretsmanager\npath: /prod/db\nsecretName: db-credentials\n";
//! let annotation = grammar::parse(text, &["aws-secretsmanager"]).unwrap();
//! let request = annotation.requests[0].as_ref().unwrap();
//! assert_eq!(request.secret_name.as_str(), "db-credentials");
//!
//! let problem = grammar::parse("secrets: []", &[]).unwrap_err();
//! assert_eq!(problem.text, "secrets: must have at least one item");
//! ```

pub mod adopt;
mod beat;
pub mod claims;
pub mod complain;
pub mod data;
pub mod decide;
pub mod document;
pub mod fetch;
mod formats;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod grammar;
pub mod key_pattern;
pub mod name;
pub mod namespace;
pub mod path;
pub mod pod;
pub mod policy;
pub mod quota;
pub mod reason;
pub mod request;
pub mod shape;
pub mod situation;
pub mod state;
