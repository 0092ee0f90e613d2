//! The first words on a new machine: what is compiled and built before the task itself begins, and how long that takes.

/// Tasks whose first run takes long, with what they do in that time. Times are those of two cores and an empty cache.
const LONG: [(&str, &str); 4] = [
    (
        "demo",
        "it builds Kubernetes, etcd, CoreDNS and helm from pinned sources, makes the images of Trustplane, starts a cluster \
         with one node and plays the story: about 20 minutes the first time, a minute later",
    ),
    (
        "test",
        "it builds Kubernetes, etcd, CoreDNS, helm and the test tools from pinned sources, compiles everything and runs every \
         check and test: about 40 minutes the first time, a quarter of an hour later",
    ),
    (
        "cluster",
        "`up` builds Kubernetes and etcd from pinned sources: about 10 minutes the first time, seconds later",
    ),
    (
        "tools",
        "it builds the pinned tools: about 15 minutes the first time, nothing later",
    ),
];

/// What a user reads at once when the runner was never compiled here.
pub fn first_run(task: Option<&str>) -> String {
    let compile =
        "cargo xtask: first run here. Step 1: compile the task runner, about 3 minutes on two cores.";
    let long = LONG.iter().find(|(name, _)| Some(*name) == task);
    match long {
        Some((name, about)) => format!("{compile}\nStep 2, `{name}`: {about}."),
        None => compile.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_run_names_the_steps_of_a_long_task() {
        let said = first_run(Some("demo"));
        assert!(
            said.contains("compile the task runner") && said.contains("Kubernetes"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 2);
    }

    #[test]
    fn first_run_names_only_the_compilation_when_the_task_is_short() {
        for task in [None, Some("lint"), Some("demolish")] {
            assert_eq!(first_run(task).lines().count(), 1);
        }
    }
}
