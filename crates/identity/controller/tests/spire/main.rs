//! What is rendered, on real SPIRE, without a node.
//!
//! SPIRE checks every file of the matrix of specs. Then server, agent, controller-manager and OIDC discovery provider run as the pods of the
//! operands say, on a real API server with the roles that ship; the test does what kubelet, the controllers of workloads and the CSI driver
//! would do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod container;
mod http;
mod kubelet;
mod network;
mod node;
mod oidc;
mod pod;
mod program;
mod run;
mod server;
mod stage;
mod validate;
mod volume;
