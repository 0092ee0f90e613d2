//! Tells cargo that the migrations are part of the program: a file that is added there must be compiled in.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
