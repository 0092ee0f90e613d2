//! Containers of a Pod. Of environment variables only the names are read.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::project::input::{Named, Text, names};
use crate::project::output::{Object, each};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    image: Option<Text<'a>>,
    resources: Option<Resources<'a>>,
    ports: Option<Vec<Port<'a>>>,
    volume_mounts: Option<Vec<Mount<'a>>>,
    env: Option<Vec<Named<'a>>>,
    security_context: Option<SecurityContext<'a>>,
}

#[derive(Default, Deserialize)]
struct Resources<'a> {
    #[serde(borrow)]
    requests: Option<Amounts<'a>>,
    limits: Option<Amounts<'a>>,
}

#[derive(Default, Deserialize)]
struct Amounts<'a> {
    #[serde(borrow)]
    cpu: Option<Text<'a>>,
    memory: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    container_port: Option<i64>,
    protocol: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mount<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    mount_path: Option<Text<'a>>,
    read_only: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SecurityContext<'a> {
    privileged: Option<bool>,
    run_as_user: Option<i64>,
    run_as_non_root: Option<bool>,
    #[serde(borrow)]
    capabilities: Option<Capabilities<'a>>,
}

#[derive(Deserialize)]
struct Capabilities<'a> {
    #[serde(borrow)]
    add: Option<Vec<Text<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStatus<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    ready: Option<bool>,
    restart_count: Option<i64>,
    state: Option<State>,
}

#[derive(Deserialize)]
struct State {
    running: Option<IgnoredAny>,
    waiting: Option<IgnoredAny>,
    terminated: Option<IgnoredAny>,
}

impl State {
    fn word(&self) -> Option<&'static str> {
        if self.running.is_some() {
            Some("running")
        } else if self.waiting.is_some() {
            Some("waiting")
        } else if self.terminated.is_some() {
            Some("terminated")
        } else {
            None
        }
    }
}

/// What is sent of containers, in the order of the spec; each with the status of its name.
pub(super) fn project<'a>(
    containers: Option<Vec<Container<'a>>>,
    statuses: Option<Vec<ContainerStatus<'a>>>,
) -> Vec<Object<'a>> {
    let statuses = statuses.unwrap_or_default();
    each(containers, |container| {
        let status = statuses.iter().find(|status| status.name == container.name);
        self::container(container, status)
    })
}

fn container<'a>(container: Container<'a>, status: Option<&ContainerStatus<'a>>) -> Object<'a> {
    Object::default()
        .always("name", container.name.unwrap_or_default())
        .always("image", container.image.unwrap_or_default())
        .optional(
            "state",
            status
                .and_then(|status| status.state.as_ref())
                .and_then(State::word),
        )
        .always(
            "ready",
            status.and_then(|status| status.ready).unwrap_or_default(),
        )
        .always(
            "restart_count",
            status.and_then(|status| status.restart_count).unwrap_or_default(),
        )
        .always("resources", resources(container.resources))
        .optional("ports", each(container.ports, port))
        .optional("volume_mounts", each(container.volume_mounts, mount))
        .optional("env_var_names", names(container.env))
        .given(
            "security_context",
            container.security_context.map(security_context),
        )
}

fn resources(resources: Option<Resources<'_>>) -> Object<'_> {
    let Resources { requests, limits } = resources.unwrap_or_default();
    let (requests, limits) = (requests.unwrap_or_default(), limits.unwrap_or_default());
    Object::default()
        .optional("cpu_request", requests.cpu)
        .optional("memory_request", requests.memory)
        .optional("cpu_limit", limits.cpu)
        .optional("memory_limit", limits.memory)
}

fn port(port: Port<'_>) -> Object<'_> {
    Object::default()
        .always("container_port", port.container_port.unwrap_or_default())
        .optional("protocol", port.protocol)
        .optional("name", port.name)
}

fn mount(mount: Mount<'_>) -> Object<'_> {
    Object::default()
        .always("name", mount.name.unwrap_or_default())
        .always("mount_path", mount.mount_path.unwrap_or_default())
        .always("read_only", mount.read_only.unwrap_or_default())
}

fn security_context(context: SecurityContext<'_>) -> Object<'_> {
    let runs_as_root = context.run_as_user == Some(0) || context.run_as_non_root == Some(false);
    Object::default()
        .optional("privileged", context.privileged)
        .optional("run_as_root", runs_as_root)
        .optional(
            "capabilities",
            context.capabilities.and_then(|capabilities| capabilities.add),
        )
}
