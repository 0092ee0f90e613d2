//! Keeps the memory of a process to itself: processes of ours hold secret values, PINs and keys.

use std::io;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, dumpable_behavior, getrlimit, set_dumpable_behavior, setrlimit,
};

/// Forbids other processes of the same user to read this process's memory or to trace it, and the kernel to leave a core dump.
///
/// **Caveats.** The core limit is inherited by child processes; the rest is not, so a child calls this itself. Root with
/// `CAP_SYS_PTRACE` can still look.
pub fn protect() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    Ok(setrlimit(Resource::Core, none)?)
}

/// Whether [`protect`] holds, as the kernel tells it.
pub fn is_protected() -> bool {
    let dumpable = dumpable_behavior();
    matches!(dumpable, Ok(DumpableBehavior::NotDumpable)) && getrlimit(Resource::Core).maximum == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test: what it changes holds for the whole process.
    #[test]
    fn a_protected_process_is_not_dumpable_and_leaves_no_core() {
        assert!(!is_protected(), "a test process begins unprotected");
        protect().unwrap();
        assert!(matches!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable)));
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert!(is_protected());
    }
}
