//! Nothing: what counts is the shared object of the dependency.
