//! The sample controller as a process, in the same frame as the product's manager. It lives here and not beside the sample,
//! so that the fault tests are built with it and find it.

use std::process::ExitCode;

use trustplane_kit::manager::{self, NoMore, Program};

const PROGRAM: Program = Program {
    name: "sample-manager",
    component: "sample",
    version: env!("CARGO_PKG_VERSION"),
};

fn main() -> ExitCode {
    manager::main(PROGRAM, |_: NoMore| vec![trustplane_sample::capability()])
}
