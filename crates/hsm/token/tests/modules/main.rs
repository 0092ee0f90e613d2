//! Tokens for real: one suite for Debian's SoftHSM and for kryoptic, by themselves and behind the shim that makes them fail;
//! and OpenSC's module with cards.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its output tells how much was tried"
)]

/// Makes tests of functions: each runs on a stage of its own, with every module that makes tokens by itself, with SoftHSM
/// alone, or with OpenSC. One that is named in no such list is dead code, which the compiler does not let pass.
macro_rules! suite {
    (on every module: $($every:ident),*; on softhsm: $($softhsm:ident),*;) => {
        mod softhsm {
            $(suite!(SoftHsm $every);)*
            $(suite!(SoftHsm $softhsm);)*
        }
        mod kryoptic {
            $(suite!(Kryoptic $every);)*
        }
    };
    (on every module: $($every:ident),*;) => {
        suite! { on every module: $($every),*; on softhsm: ; }
    };
    (on softhsm: $($softhsm:ident),*;) => {
        mod softhsm {
            $(suite!(SoftHsm $softhsm);)*
        }
    };
    (on cards: $($cards:ident),*;) => {
        mod cards {
            $(suite!(OpenSc $cards);)*
        }
    };
    ($bench:ident $test:ident) => {
        #[test]
        fn $test() {
            let name = concat!(module_path!(), "::", stringify!($test));
            crate::stage::run(crate::bench::Bench::$bench, name, super::$test);
        }
    };
}

mod bench;
mod card;
mod change;
mod choosing;
mod crashes;
mod faults;
mod opensc;
mod pins;
mod power;
mod raw;
mod reader;
mod reading;
mod replug;
mod secrets;
mod sequences;
mod stage;
mod stuck;
mod tool;
mod writing;
