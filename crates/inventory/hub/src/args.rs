//! What the process is told.

use std::path::PathBuf;

use http::Uri;
use trustplane_process::args::{BindAddress, CommonArgs};

use crate::app::IngestLimits;
use crate::ingest::snapshot::MAX_OBJECTS;
use crate::store::apply::ClusterLimits;

/// Receive the inventories of clusters, keep them, and show them in a console
///
/// Without arguments it serves on this machine alone: agents at https://localhost:8443, the console at http://localhost:8480, its data in
/// the user's data directory.
#[derive(Debug, clap::Parser)]
#[command(
    name = "trustplane-hub",
    after_help = "Every flag is also an environment variable, and a key of the file that --config names. A flag beats \
                  the environment, and the environment beats the file.\n\n\
                  Example:\n  trustplane-hub --agents-bind-address=:8443 --url=https://hub.example.org:8443",
    mut_arg("admin_bind_address", |arg| arg.default_value("127.0.0.1:8481"))
)]
pub struct Arguments {
    /// What the hub takes
    #[command(flatten)]
    pub hub: HubArgs,
    /// What every process takes
    #[command(flatten)]
    pub common: CommonArgs,
    /// What to do instead of serving
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl AsRef<CommonArgs> for Arguments {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

/// What the hub takes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Hub")]
pub struct HubArgs {
    /// Where the database and the keys are; by default $XDG_DATA_HOME/trustplane-hub or ~/.local/share/trustplane-hub
    #[arg(long, value_name = "DIR", global = true)]
    pub data_dir: Option<PathBuf>,
    /// Where agents are served, with TLS; `0` turns it off
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8443")]
    pub agents_bind_address: BindAddress,
    /// Where the console is served; must be loopback. `0` turns it off
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8480", value_parser = loopback)]
    pub console_bind_address: BindAddress,
    /// A URL under which agents reach the hub; may be repeated. By default https://localhost with the port for agents
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = url)]
    pub url: Vec<String>,
    /// A further name or address in the hub's own certificate, besides localhost and those of --url; may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = name)]
    pub host: Vec<String>,
    /// A certificate chain instead of one of the hub's own CA; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_key_file: Option<PathBuf>,
    /// The largest snapshot, also when inflated, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 512 * 1024 * 1024, value_parser = clap::value_parser!(u64).range(1024..))]
    pub max_snapshot_bytes: u64,
    /// The largest change, and the largest object of a snapshot, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024 * 1024, value_parser = clap::value_parser!(u64).range(1024..=64 * 1024 * 1024))]
    pub max_event_bytes: u64,
}

impl HubArgs {
    /// What agents may send.
    pub fn limits(&self) -> IngestLimits {
        IngestLimits {
            snapshot_bytes: self.max_snapshot_bytes,
            event_bytes: self.max_event_bytes,
            snapshot_objects: MAX_OBJECTS,
            cluster: ClusterLimits::default(),
        }
    }
}

/// What to do instead of serving.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Command {
    /// Print a link that signs in to the console once, within ten minutes
    SignIn {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Clients: the agents that may send inventories
    #[command(subcommand)]
    Client(ClientCommand),
}

/// What to do with clients.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum ClientCommand {
    /// Add a client, or a key to a client; the public key comes on stdin as PEM
    Add {
        /// Its name, for people
        #[arg(long, value_parser = name)]
        name: String,
        /// Its id; by default a new one. With the id of a client that is there, the key is added to it
        #[arg(long, value_parser = client_id)]
        id: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove every key of a client but the newest; run it after the agent has the newest key
    RetireKeys {
        /// The id of the client
        #[arg(value_name = "ID", value_parser = client_id)]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List clients
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The names under which a browser may reach the console: `Host` is checked against the same list.
const CONSOLE_HOSTS: [&str; 3] = ["127.0.0.1", "::1", "localhost"];

/// An address that only this machine reaches.
fn loopback(text: &str) -> Result<BindAddress, String> {
    let address: BindAddress = text.parse().map_err(|error| format!("{error}"))?;
    let is_served = match &address {
        BindAddress::Off => true,
        BindAddress::Every { .. } => false,
        BindAddress::Host { host, .. } => CONSOLE_HOSTS.iter().any(|known| host.eq_ignore_ascii_case(known)),
    };
    if is_served {
        Ok(address)
    } else {
        Err(
            "the console speaks plain HTTP and must be on loopback: the host must be 127.0.0.1, [::1] or localhost, such as \
             127.0.0.1:8480; to reach it from elsewhere, forward a port (kubectl port-forward, ssh -L)"
                .to_owned(),
        )
    }
}

/// A URL without a path of its own.
fn url(text: &str) -> Result<String, String> {
    let wrong =
        || "must be a URL with http or https and a host, such as https://hub.example.org:8443".to_owned();
    let parsed: Uri = text.parse().map_err(|_| wrong())?;
    let scheme = parsed
        .scheme_str()
        .is_some_and(|scheme| scheme == "https" || scheme == "http");
    if !scheme || parsed.host().is_none_or(str::is_empty) {
        return Err(wrong());
    }
    if parsed.query().is_some() || !matches!(parsed.path(), "" | "/") {
        return Err(
            "must have no path and no query: agents append their own paths, such as /oauth/token".to_owned(),
        );
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn name(text: &str) -> Result<String, String> {
    let fits = (1..=253).contains(&text.len()) && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
        .ok_or_else(|| "must have 1 to 253 bytes and no control characters".to_owned())
}

fn client_id(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = (1..=128).contains(&text.len()) && text.chars().all(plain);
    fits.then(|| text.to_owned())
        .ok_or_else(|| "must have 1 to 128 letters, digits, dashes, dots and underscores".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use trustplane_process::args::parse_from;

    use super::*;

    fn parse(more: &[&str]) -> Result<Arguments, String> {
        let argv = [&["trustplane-hub"], more].concat();
        parse_from(argv, |_| None).map_err(|error| error.to_string())
    }

    #[test]
    fn without_arguments_everything_is_on_loopback() {
        Arguments::command().debug_assert();
        let arguments = parse(&[]).unwrap();
        assert!(arguments.command.is_none());
        assert_eq!(arguments.hub.agents_bind_address.to_string(), "127.0.0.1:8443");
        assert_eq!(arguments.hub.console_bind_address.to_string(), "127.0.0.1:8480");
        assert_eq!(arguments.common.admin_bind_address.to_string(), "127.0.0.1:8481");
        assert_eq!(arguments.hub.limits().snapshot_bytes, 512 << 20);
    }

    #[test]
    fn a_console_that_others_reach_is_refused() {
        for address in [
            "0.0.0.0:8480",
            ":8480",
            "[::]:8480",
            "192.0.2.1:80",
            "127.0.0.2:8480",
            "hub.example:80",
        ] {
            let error = parse(&[&format!("--console-bind-address={address}")]).unwrap_err();
            assert!(
                error.contains("the host must be 127.0.0.1, [::1] or localhost"),
                "{error}"
            );
        }
        for address in ["localhost:1", "LOCALHOST:1", "[::1]:0", "127.0.0.1:0", "0"] {
            parse(&[&format!("--console-bind-address={address}")]).unwrap();
        }
    }

    #[test]
    fn commands_take_the_data_directory_behind_them() {
        let arguments = parse(&["client", "add", "--name", "prod", "--data-dir", "/x"]).unwrap();
        assert_eq!(arguments.hub.data_dir, Some(PathBuf::from("/x")));
        let arguments = parse(&["--data-dir=/y", "sign-in", "--json"]).unwrap();
        assert_eq!(arguments.hub.data_dir, Some(PathBuf::from("/y")));
        assert!(matches!(arguments.command, Some(Command::SignIn { json: true })));
        let env = |name: &str| (name == "TRUSTPLANE_DATA_DIR").then(|| "/z".to_owned());
        let arguments: Arguments = parse_from(["trustplane-hub", "client", "list"], env).unwrap();
        assert_eq!(arguments.hub.data_dir, Some(PathBuf::from("/z")));
    }

    #[test]
    fn urls_lose_their_last_slash_and_must_be_urls() {
        let arguments = parse(&["--url=https://a:1/", "--url=https://b,http://c"]).unwrap();
        assert_eq!(arguments.hub.url, ["https://a:1", "https://b", "http://c"]);
        for path in ["https://a/b", "https://a/b/", "https://a?b", "https://a/?b"] {
            let error = parse(&[&format!("--url={path}")]).unwrap_err();
            assert!(error.contains("must have no path and no query"), "{error}");
        }
        for wrong in ["hub", "ftp://a", "https://"] {
            assert!(parse(&[&format!("--url={wrong}")]).is_err(), "{wrong}");
        }
        assert!(parse(&["client", "add", "--name=x", "--id=a/b"]).is_err());
        assert!(
            parse(&["--tls-cert-file=/x"]).is_err(),
            "a certificate needs its key"
        );
    }
}
