//! A kubelet that only takes registrations, and asks plugins what the real one asks.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::unfold;
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};
use trustplane_api::deviceplugin::device_plugin_client::DevicePluginClient;
use trustplane_api::deviceplugin::registration_server::{Registration, RegistrationServer};
use trustplane_api::deviceplugin::{
    AllocateRequest, AllocateResponse, ContainerAllocateRequest, Empty, KUBELET_SOCKET, ListAndWatchResponse,
    RegisterRequest,
};

/// How long a test waits for something that should happen at once. The original tells each half minute.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// A running kubelet. It ends when it is dropped; its socket stays, as that of a kubelet that was killed.
pub struct Kubelet {
    dir: PathBuf,
    registrations: mpsc::UnboundedReceiver<RegisterRequest>,
    server: JoinHandle<()>,
}

struct Desk(mpsc::UnboundedSender<RegisterRequest>);

#[tonic::async_trait]
impl Registration for Desk {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let told = self.0.send(request.into_inner());
        told.map_err(|_| Status::unavailable("it has ended"))?;
        Ok(Response::new(Empty {}))
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Kubelet {
    /// Starts in a directory, without touching what is there but its own socket.
    pub fn start(dir: &Path) -> Result<Self> {
        let socket = dir.join(KUBELET_SOCKET);
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).context("listen as kubelet")?;
        let streams = unfold(listener, |listener| async move {
            let stream = listener.accept().await.map(|(stream, _)| stream);
            Some((stream, listener))
        });
        let (desk, registrations) = mpsc::unbounded_channel();
        let server = Server::builder().add_service(RegistrationServer::new(Desk(desk)));
        let server = tokio::spawn(async move {
            let _ = server.serve_with_incoming(streams).await;
        });
        Ok(Self {
            dir: dir.to_owned(),
            registrations,
            server,
        })
    }

    /// Starts as the real one does: all sockets in its directory are cleared away before.
    pub fn start_clean(dir: &Path) -> Result<Self> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_socket() {
                fs::remove_file(entry.path())?;
            }
        }
        Self::start(dir)
    }

    /// The next registration.
    pub async fn registration(&mut self) -> Result<RegisterRequest> {
        let next = timeout(DEADLINE, self.registrations.recv()).await;
        next.context("nobody registers")?.context("the kubelet has ended")
    }

    /// Waits for the registration of a resource, and asks for its devices from then on. Others are passed over.
    pub async fn resource(&mut self, resource: &str) -> Result<Resource> {
        loop {
            let request = self.registration().await?;
            assert_eq!(request.version, "v1beta1");
            if request.resource_name == resource {
                return Resource::reach(&self.dir, &request.endpoint).await;
            }
        }
    }

    /// What has come and was not looked at.
    pub fn pending(&mut self) -> Vec<String> {
        let next = || self.registrations.try_recv().ok();
        std::iter::from_fn(next)
            .map(|request| request.resource_name)
            .collect()
    }
}

/// A resource, as kubelet sees it.
pub struct Resource {
    client: DevicePluginClient<Channel>,
    lists: Streaming<ListAndWatchResponse>,
}

impl Resource {
    /// Reaches the plugin behind a socket.
    pub async fn reach(dir: &Path, endpoint: &str) -> Result<Self> {
        let socket = dir.join(endpoint);
        let connector = tower::service_fn(move |_: tonic::transport::Uri| {
            let socket = socket.clone();
            async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
        });
        let channel = Channel::from_static("http://plugin.local");
        let channel = channel.connect_with_connector(connector).await?;
        let mut client = DevicePluginClient::new(channel);
        let options = client.get_device_plugin_options(Empty {}).await?.into_inner();
        assert!(!options.pre_start_required);
        let lists = client.list_and_watch(Empty {}).await?.into_inner();
        Ok(Self { client, lists })
    }

    /// Waits for a list that holds exactly this: names and health.
    pub async fn lists(&mut self, wanted: &[(&str, &str)]) -> Result<()> {
        let mut last = None;
        let waited = timeout(DEADLINE, async {
            loop {
                let list = self.lists.message().await?.context("the plugin ended the list")?;
                let devices = list.devices.into_iter().map(|device| (device.id, device.health));
                let devices: Vec<_> = devices.collect();
                let same = devices.len() == wanted.len()
                    && wanted
                        .iter()
                        .all(|(id, health)| devices.contains(&((*id).to_owned(), (*health).to_owned())));
                last = Some(devices);
                if same {
                    return anyhow::Ok(());
                }
            }
        });
        waited.await.with_context(|| format!("the list is {last:?}"))?
    }

    /// Waits until the plugin has ended the list.
    pub async fn ended(mut self) -> Result<()> {
        let ended = async { while let Ok(Some(_)) = self.lists.message().await {} };
        timeout(DEADLINE, ended).await.context("the list does not end")
    }

    /// Asks for devices for one container.
    pub async fn allocate(&mut self, ids: &[&str]) -> Result<AllocateResponse, Status> {
        let container = ContainerAllocateRequest {
            devices_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        };
        let request = AllocateRequest {
            container_requests: vec![container],
        };
        self.client.allocate(request).await.map(Response::into_inner)
    }
}
